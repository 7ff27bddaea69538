"""What the two ablations share: every row and accountant at some T and several K."""

from collections.abc import Sequence

import pandas as pd

from experiments.linear.engine import ACCOUNTANTS, Engine, summary
from pilu.chains.schedule import Segment
from pilu.ridge.law import RidgeLaw

EPSILON = 1.0


def horizon_lines(
    engine: Engine, law: RidgeLaw, unlearn_steps: Sequence[int], stream: int
) -> pd.DataFrame:
    study, rows, T = engine.study, engine.rows(), law.schedule.n_steps
    prospects = engine.prospects(law, rows, unlearn_steps)
    lines = []
    for row in rows:
        for a, accountant in enumerate(ACCOUNTANTS):
            for K in unlearn_steps:
                noise = engine.calibrated(law, row, accountant, EPSILON, K)
                seed = [study.seed, stream, row, a, T, K]
                scores = engine.run(law, row, Segment(K, noise), study.n_runs, seed)
                lines.append(
                    {
                        "row": row,
                        "accountant": accountant,
                        "learning_steps": T,
                        "unlearning_steps": K,
                        "noise": noise,
                        **summary(scores),
                        "expected": engine.expected(prospects[row, K], noise),
                    }
                )
    return pd.DataFrame(lines)
