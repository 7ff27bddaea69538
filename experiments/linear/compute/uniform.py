"""One level of noise for all rows: what the hardest row needs, for everybody.

    python -m experiments.linear.compute.uniform --study depth --size full

The hardest row is looked for among the rows with the largest bounds and gradients, in two steps: at
epsilon = 1 among all of these, at other epsilon among the hardest of them.
"""

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import ACCOUNTANTS, Engine

N_CANDIDATES, N_HARDEST = 100, 5


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, law, K = engine.study, engine.law(), engine.study.n_unlearn_steps
    rows = engine.rows()
    middle = rows[len(rows) // 2]
    prospect = engine.prospects(law, [middle], [K])[middle, K]
    candidates = candidates_of(engine)
    lines = []
    for accountant in ACCOUNTANTS:
        at_one = noises(engine, candidates, accountant, 1.0)
        hardest = [candidates[k] for k in np.argsort(-at_one)[:N_HARDEST]]
        for epsilon in study.epsilons:
            found = noises(engine, hardest, accountant, epsilon)
            level = float(found.max())
            lines.append(
                {
                    "accountant": accountant,
                    "epsilon": epsilon,
                    "row": hardest[int(found.argmax())],
                    "noise": level,
                    "expected": engine.expected(prospect, level),
                }
            )
    return {"uniform": pd.DataFrame(lines)}


def candidates_of(engine: Engine) -> list[int]:
    """The rows with the largest gradients after learning, and those with the largest norms."""
    norms = np.linalg.norm(engine.data.X, axis=1)
    sizes = (engine.gradient_norms, norms, norms * np.linalg.norm(engine.targets, axis=1))
    largest = (np.argsort(-size, kind="stable")[:N_CANDIDATES] for size in sizes)
    return [int(row) for row in np.unique(np.concatenate(list(largest)))]


def noises(engine: Engine, rows: list[int], accountant: str, epsilon: float) -> np.ndarray:
    """sigma_unlearn of rows; `quote` prices many at once."""
    quote = engine.model.quote(
        rows,
        epsilon=epsilon,
        delta=engine.delta,
        n_unlearn_steps=engine.study.n_unlearn_steps,
        accountant=accountant,
    )
    return np.asarray(quote.noise)


if __name__ == "__main__":
    compute_script(__doc__, "uniform", compute)
