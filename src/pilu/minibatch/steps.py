"""Langevin steps on mini-batches in their fixed order   [PILU, app. mini-batch]."""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment
from pilu.minibatch.problem import MinibatchProblem

__all__ = ["walk_batches"]

Array = NDArray[np.float64]


def walk_batches(
    theta: Array,
    problem: MinibatchProblem,
    step_size: float,
    segment: Segment,
    first_step: int,
    gaussian: GaussianSource,
) -> Array:
    """All steps of a segment that begins at step `first_step` of the chain."""
    unit = math.sqrt(2 * step_size) * segment.noise
    steps = range(first_step, first_step + segment.steps)
    with progress_bar(segment.steps, what="Langevin steps", unit="step") as bar:
        for _, batch in problem.turns(steps):
            gradient = batch.back(batch.times(theta) - batch.targets) + problem.alpha * theta
            theta = theta - step_size * gradient
            if segment.noise > 0:
                theta += unit * gaussian.normal(theta.shape)
            bar.update()
    return theta
