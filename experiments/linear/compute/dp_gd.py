"""DP-GD against epsilon: one curve for all rows, many runs side by side.

    python -m experiments.linear.compute.dp_gd --study depth --size full

T steps on all rows and K without the middle one, with noise from the first step on. Single
precision: a pass over the rows is what a step costs.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from tqdm import trange

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine, summary
from pilu.accounting import gaussian_noise, renyi_noise

QUANTILE = 0.75  # of the gradient norms after T steps: the threshold C
ACCOUNTINGS = {"renyi": renyi_noise, "gdp": gaussian_noise}
WIDEST = 512  # columns of theta at a time


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study = engine.study
    n_steps = study.n_steps + study.n_unlearn_steps
    C = float(np.quantile(engine.gradient_norms, QUANTILE))
    settings = [(name, epsilon) for name in ACCOUNTINGS for epsilon in study.epsilons]
    sigmas = [C * ACCOUNTINGS[name](epsilon, engine.delta, n_steps) for name, epsilon in settings]
    rows = engine.rows()
    scores = clipped_runs(engine, C, np.repeat(sigmas, study.n_runs), rows[len(rows) // 2])
    lines = [
        {
            "accounting": name,
            "epsilon": epsilon,
            "clipping": C,
            "noise": sigma,
            **summary(runs),
        }
        for (name, epsilon), sigma, runs in zip(
            settings, sigmas, scores.reshape(len(settings), -1), strict=True
        )
    ]
    return {"dp_gd": pd.DataFrame(lines)}


def clipped_runs(
    engine: Engine,
    C: ArrayLike,
    sigmas: np.ndarray,
    forgotten: int,
    factors: ArrayLike = 1.0,
    stream: int = 5,
) -> np.ndarray:
    """The score of one run for every sigma; C and the steps' factors may differ between runs."""
    width = max(WIDEST // engine.n_outputs, 1)
    seeds = np.random.SeedSequence([engine.study.seed, stream]).spawn(-(-len(sigmas) // width))
    C, factors = np.broadcast_to(C, sigmas.shape), np.broadcast_to(factors, sigmas.shape)
    scores = []
    for k, seed in enumerate(seeds):
        here, rng = slice(k * width, (k + 1) * width), np.random.default_rng(seed)
        theta = walk(engine, C[here], sigmas[here], forgotten, rng, factors[here])
        scores.append(engine.scores(theta.astype(np.float64), len(sigmas[here])))
    return np.concatenate(scores)


def walk(
    engine: Engine,
    C: ArrayLike,
    sigmas: np.ndarray,
    forgotten: int,
    rng: np.random.Generator,
    factors: ArrayLike = 1.0,
) -> np.ndarray:
    """theta, p x (R d), after T steps on all rows and K steps without one.

    A run's steps are `factors` times the study's step size.
    """
    X, Y = engine.data.X.astype(np.float32), engine.targets.astype(np.float32)
    study, (n, d), R = engine.study, Y.shape, len(sigmas)
    norms = np.linalg.norm(X, axis=1).astype(np.float32)[:, None, None]
    C = np.broadcast_to(np.asarray(C, dtype=np.float32), R)[:, None]
    factors = np.broadcast_to(np.asarray(factors, dtype=np.float32), R)
    eta, alpha = np.repeat(np.float32(engine.step_size) * factors, d), np.float32(study.alpha)
    scale = np.repeat(sigmas, d).astype(np.float32) * eta
    theta = np.zeros((X.shape[1], R * d), dtype=np.float32)
    for k in trange(study.n_steps + study.n_unlearn_steps, leave=False, disable=None):
        residuals = (X @ theta).reshape(n, R, d)
        residuals -= Y[:, None]
        sizes = np.sqrt(np.sum(np.square(residuals), axis=2, keepdims=True)) * norms
        residuals *= np.minimum(np.float32(1), C / np.maximum(sizes, np.float32(1e-30)))
        if k >= study.n_steps:
            residuals[forgotten] = 0
        gradient = X.T @ residuals.reshape(n, R * d) + alpha * theta
        theta -= eta * gradient
        theta += scale * rng.standard_normal(theta.shape, dtype=np.float32)
    return theta


if __name__ == "__main__":
    compute_script(__doc__, "dp_gd", compute)
