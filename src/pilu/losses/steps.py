"""Langevin steps with a smooth loss, of one run or of several side by side."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment
from pilu.losses.problem import SmoothProblem, Spectator

__all__ = ["smooth_iterates", "walk_smooth"]

Array = NDArray[np.float64]


def walk_smooth(
    theta: Array,
    problem: SmoothProblem,
    step_size: float,
    segment: Segment,
    first_step: int,
    gaussian: GaussianSource,
) -> Array:
    """All steps of a segment that begins at step `first_step` of the chain."""
    problem.check_rows(range(first_step, first_step + segment.steps))
    with progress_bar(segment.steps, what="Langevin steps", unit="step") as bar:
        for moved in smooth_iterates(theta, problem, step_size, segment, first_step, gaussian):
            theta = moved
            bar.update()
    return theta


def smooth_iterates(
    theta: Array,
    problem: SmoothProblem,
    step_size: float,
    segment: Segment,
    first_step: int,
    gaussian: GaussianSource,
    n_runs: int = 1,
    see: Spectator | None = None,
) -> Iterator[Array]:
    """theta after each step; columns of `n_runs` runs stand side by side, p x (R C).

    Rows are not compared with their digests: that is for those who begin a run.
    """
    unit = math.sqrt(2 * step_size) * segment.noise
    for k in range(first_step, first_step + segment.steps):
        theta = theta - step_size * problem.gradient(theta, k, n_runs, see)
        if segment.noise > 0:
            theta += unit * gaussian.normal(theta.shape)
        yield theta
