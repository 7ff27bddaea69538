"""Algorithm 1, taken literally: full-batch Langevin steps on the rows."""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource

__all__ = ["langevin_step", "walk"]

Array = NDArray[np.float64]


def langevin_step(
    theta: Array,
    source: RowSource,
    alpha: float,
    step_size: float,
    noise: float,
    gaussian: GaussianSource,
) -> Array:
    """theta - eta grad f(theta) + sqrt(2 eta) sigma xi   [PILU, eq. langevin-learn]."""
    gradient = alpha * theta
    for x, y in source.features(check=False):
        p = x.shape[1]
        residuals = x @ theta[:p] + (theta[p:].sum(axis=0) - y)  # the intercept's ones are not in x
        gradient[:p] += x.T @ residuals
        gradient[p:] += residuals.sum(axis=0)
    moved = theta - step_size * gradient
    if noise > 0:
        moved += math.sqrt(2 * step_size) * noise * gaussian.normal(theta.shape)
    return moved


def walk(
    theta: Array,
    source: RowSource,
    alpha: float,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
) -> Array:
    """All steps of a segment, one after the other; the rows are checked once, before the first."""
    for _ in source.blocks():
        pass
    with progress_bar(segment.steps, what="Langevin steps", unit="step") as bar:
        for _ in range(segment.steps):
            theta = langevin_step(theta, source, alpha, step_size, segment.noise, gaussian)
            bar.update()
    return theta
