"""Sensitivities along the learning trajectory: runs, and their high-probability bounds.

python -m experiments.linear.compute.sensitivities --study depth --size full
"""

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine, repeated
from pilu.data.rows import Request
from pilu.ridge.sensitivities import RidgeSensitivities

N_SHOWN = 120


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    rows, T = engine.rows(), engine.study.n_steps
    request = Request(engine.data.X[rows], engine.targets[rows], np.array(rows))
    bounds = RidgeSensitivities(engine.law()).of_each(request, slack=engine.delta / 2)
    sensitivities = trajectories(engine, request)
    shown = np.unique(np.round(np.geomspace(1, T, N_SHOWN)).astype(int)) - 1
    lines = []
    for i, row in enumerate(rows):
        for k in shown:
            line = {"row": row, "step": k, "bound": bounds[i, k]}
            lines.append(
                line | {f"run{r}": sensitivities[r, i, k] for r in range(len(sensitivities))}
            )
    # The first iterate is fixed: there the bound is the sensitivity itself, up to rounding.
    shares = (sensitivities / bounds)[:, :, 1:]
    margins = [
        {"row": row, "largest_share": shares[:, i].max(), "exceeded": (shares[:, i] > 1).sum()}
        for i, row in enumerate(rows)
    ]
    return {"sensitivities": pd.DataFrame(lines), "margins": pd.DataFrame(margins)}


def trajectories(engine: Engine, request: Request) -> np.ndarray:
    """eta |x_i| |x_i'theta_k - y_i| of every run, row and step: one step after the other."""
    study, spectrum, eta = engine.study, engine.spectrum, engine.step_size
    R, d, T = study.n_runs, engine.n_outputs, study.n_steps
    rng = np.random.default_rng([study.seed, 1])
    step = 1 - eta * spectrum.eigenvalues[:, None]
    push = eta * repeated(spectrum, R).cross
    rows = request.X @ spectrum.basis  # training rows lie in the span of the basis
    scale = np.sqrt(2 * eta) * study.noise
    state = np.zeros(push.shape)
    norms = np.linalg.norm(request.X, axis=1)[:, None]
    sensitivities = np.empty((R, len(rows), T))
    for k in range(T):
        residuals = (rows @ state).reshape(len(rows), R, d) - request.Y[:, None]
        sensitivities[:, :, k] = (eta * norms * np.linalg.norm(residuals, axis=2)).T
        state = step * state + push + scale * rng.standard_normal(state.shape)
    return sensitivities


if __name__ == "__main__":
    compute_script(__doc__, "sensitivities", compute)
