"""Score after unlearning against epsilon, row by row: runs, and their expectation.

python -m experiments.linear.compute.privacy_utility --study depth --size full
"""

import time

import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import ACCOUNTANTS, Engine, summary
from pilu.chains.schedule import Segment


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    parts, seconds = [], []
    for number, kind in enumerate(engine.study.row_sets):
        started = time.perf_counter()
        parts.append(sweep(engine, kind, number))
        taken = time.perf_counter() - started
        seconds.append({"set": kind, "runs": int(parts[-1]["runs"].sum()), "seconds": taken})
    return {"privacy_utility": pd.concat(parts), "sweep_seconds": pd.DataFrame(seconds)}


def sweep(engine: Engine, kind: str, number: int) -> pd.DataFrame:
    study, law, K = engine.study, engine.law(), engine.study.n_unlearn_steps
    rows = engine.rows(kind)
    prospects = engine.prospects(law, rows, [K])
    lines = []
    for row in rows:
        for a, accountant in enumerate(ACCOUNTANTS):
            for e, epsilon in enumerate(study.epsilons):
                noise = engine.calibrated(law, row, accountant, epsilon, K)
                seed = [study.seed, 2, number, row, a, e]
                scores = engine.run(law, row, Segment(K, noise), study.n_runs, seed)
                lines.append(
                    {
                        "set": kind,
                        "row": row,
                        "accountant": accountant,
                        "epsilon": epsilon,
                        "noise": noise,
                        **summary(scores),
                        "expected": engine.expected(prospects[row, K], noise),
                        "runs": len(scores),
                    }
                )
    return pd.DataFrame(lines)


if __name__ == "__main__":
    compute_script(__doc__, "privacy_utility", compute)
