"""Projected gradient steps on a ball, for methods that need a bound on theta.

On the ball |theta| <= radius a row's gradient is at most |x| (|x| radius + |y|), whatever the data
of the others: that is what makes a loss that grows like a square Lipschitz.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real, complaint
from pilu.baselines.interface import Task, row_norms
from pilu.baselines.quadratic import minimiser
from pilu.certify.floor import VISIBLE_ULPS
from pilu.dynamics.entropy import GaussianSource
from pilu.ridge.spectrum import Spectrum

__all__ = ["check_radius", "largest_gradients", "projected_walk", "radius_of", "visible_noise"]

Array = NDArray[np.float64]


def check_radius(radius: float | str) -> None:
    """A number > 0 or "auto"."""
    if isinstance(radius, str):
        if radius != "auto":
            raise complaint("radius", "a number > 0 or 'auto'", radius)
    else:
        check_real("radius", radius, above=0.0)


def radius_of(radius: float | str, task: Task) -> float:
    """The radius; "auto" is twice the norm of the minimiser on all rows."""
    if isinstance(radius, str):
        theta = minimiser(task.spectrum, task.spectrum.cross)
        return 2 * float(np.linalg.norm(theta)) or 1.0
    return float(radius)


def largest_gradients(task: Task, radius: float, n_rows: int) -> float:
    """Most that any `n_rows` rows' summed gradient can measure on the ball."""
    x, y = row_norms(task.X), row_norms(task.Y)
    each = np.sort(x * (x * radius + y))
    return float(np.sum(each[-n_rows:])) * (1 + 1e-12)


def visible_noise(noise: float, step: float, radius: float) -> float:
    """The noise, or as much more as its rounding on the ball needs to leave it visible.

    `step` is what a step adds for each unit of noise.
    """
    return max(noise, VISIBLE_ULPS * float(np.spacing(radius)) / step)


def projected_walk(
    state: Array,
    spectrum: Spectrum,
    step_size: float,
    n_steps: int,
    radius: float,
    noise: float = 0.0,
    gaussian: GaussianSource | None = None,
) -> Array:
    """Steps on coordinates in the spectrum's basis; a ball looks the same in any of them."""
    push = step_size * spectrum.cross
    for _ in range(n_steps):
        state = state - step_size * spectrum.times(state) + push
        if gaussian is not None:
            state += math.sqrt(2 * step_size) * noise * gaussian.normal(state.shape)
        norm = float(np.linalg.norm(state))
        if norm > radius:
            state *= radius / norm
    return state
