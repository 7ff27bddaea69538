"""The Langevin step   [PILU, eq. langevin-learn].

theta_{k+1} = theta_k - eta grad f_k(theta_k) + sqrt(2 eta) sigma xi_k,   xi_k ~ N(0, I)
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment

__all__ = ["Gradient", "langevin_steps", "walk"]

Array = NDArray[np.float64]
Gradient = Callable[[Array, int], Array]  # of the objective at theta, for step k


def langevin_steps(
    theta: Array,
    gradient: Gradient,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
    first_step: int = 0,
) -> Iterator[Array]:
    """Theta after each step of a segment that begins at step `first_step` of the chain."""
    deviation = math.sqrt(2 * step_size) * segment.noise
    for k in range(first_step, first_step + segment.steps):
        theta = theta - step_size * gradient(theta, k)
        if segment.noise > 0:
            theta += deviation * gaussian.normal(theta.shape)
        yield theta


def walk(
    theta: Array,
    gradient: Gradient,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
    first_step: int = 0,
) -> Array:
    """Theta after all of them, with a progress bar."""
    steps = langevin_steps(theta, gradient, step_size, segment, gaussian, first_step)
    with progress_bar(segment.steps, what="Langevin steps", unit="step") as bar:
        for moved in steps:
            theta = moved
            bar.update()
    return theta
