"""The same study with shorter and longer learning: does the gap to the uniform level come from T?

Beside it the minimum of the objective, which tells how far learning has come.

python -m experiments.smooth.compute.horizons --study mnist38 --size full
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from experiments.smooth.command import compute_script
from experiments.smooth.config import EPSILON
from experiments.smooth.engine import Engine

TIMES = (0.2, 1.0, 4.0)  # the study's T
N_AUXILIARY_RUNS = 4  # a little looser than in the other tables


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, data = engine.study, engine.data
    exact = LogisticRegression(C=1 / study.alpha, fit_intercept=False, max_iter=5000, tol=1e-6)
    exact.fit(data.X, data.y)
    least = objective(engine, exact.coef_.T)
    lines = []
    for times in TIMES:
        steps = round(times * study.n_steps)
        other = Engine(replace(study, n_steps=steps, n_auxiliary_runs=N_AUXILIARY_RUNS), data)
        lines.append(
            {
                "learning_steps": steps,
                "median": np.median(other.noises),
                "most": other.noises.max(),
                "uniform": other.uniform_noise(EPSILON),
                "uniform_half_delta": other.uniform_noise(EPSILON, 0.5),
                "median_margin": np.median(other.margins()),
                "wrong": np.mean(other.scores.argmax(axis=1) != other.places),
                "objective": objective(other, other.model.fitted_.theta),
                "least_objective": least,
                "wrong_at_least": np.mean(exact.predict(data.X) != data.y),
            }
        )
    return {"horizons": pd.DataFrame(lines)}


def objective(engine: Engine, theta: np.ndarray) -> float:
    """Sum of losses and penalty, for each row."""
    problem = engine.problem
    targets = engine.model.read_rows(engine.data.X, engine.data.y)[1]
    losses = problem.loss.value(engine.data.X @ theta, targets)
    return float((losses.sum() + engine.study.alpha / 2 * np.sum(theta**2)) / len(losses))


if __name__ == "__main__":
    compute_script(__doc__, "horizons", compute)
