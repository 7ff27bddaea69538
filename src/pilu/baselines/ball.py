"""Projected gradient steps on a ball, for methods that need a bound on gradients.

On the ball |theta| <= radius a row's scores are at most |x| radius from zero, and so its gradient

    |x| min( sup |dl/dz|, |dl/dz at 0| + smoothness |x| radius )

at most, whatever the data of the others: |x| (|y| + |x| radius) for squares. A loss that bounds
|dl/dz| itself needs no ball.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real, complaint
from pilu.baselines.interface import Task, row_norms
from pilu.baselines.objective import Objective
from pilu.baselines.quadratic import minimiser
from pilu.certify.floor import VISIBLE_ULPS
from pilu.chains.contraction import contraction_between
from pilu.chains.entropy import GaussianSource
from pilu.losses.loss import Huber, Logistic, Softmax, Squared

__all__ = [
    "check_radius",
    "given",
    "largest_gradients",
    "projected_walk",
    "radius_of",
    "reach",
    "steps_together",
    "visible_noise",
]

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_NEVER_NEGATIVE = (Huber, Logistic, Softmax, Squared)


def check_radius(radius: float | str) -> None:
    """A number > 0 or "auto"."""
    if isinstance(radius, str):
        if radius != "auto":
            raise complaint("radius", "a number > 0 or 'auto'", radius)
    else:
        check_real("radius", radius, above=0.0)


def radius_of(radius: float | str, task: Task) -> float:
    """The radius; "auto" is none (inf) for a loss with bounded gradients.

    For ridge it is twice the norm of the minimiser on all rows.
    """
    if not isinstance(radius, str):
        return float(radius)
    if task.is_ridge:
        theta = minimiser(task.spectrum, task.spectrum.cross)
        return 2 * float(np.linalg.norm(theta)) or 1.0
    if math.isinf(task.gradient_bound):
        raise complaint(
            "radius",
            f"a number for the {task.loss.name} loss",
            radius,
            "Its gradients have no bound outside of a ball: pass a radius that was fixed "
            "beforehand.",
        )
    return math.inf


def given(radius: float | str, found: float) -> str:
    """What a claim takes for granted, in words; `found` is the radius in use."""
    if math.isinf(found):
        return "given the norm of the longest row"
    read = ", which was read off the data" if radius == "auto" else ""
    return f"given the radius {found:.4g}{read}"


def largest_gradients(task: Task, radius: float, n_rows: int) -> float:
    """Most that any `n_rows` rows' summed gradient can measure on the ball."""
    x = row_norms(task.X)
    slopes = np.full(len(x), task.gradient_bound)
    if math.isfinite(radius):
        slopes = np.minimum(slopes, task.loss.smoothness * (x * radius) + _at_zero(task))
    each = np.sort(x * slopes)
    return float(np.sum(each[-n_rows:])) * _UP


def _at_zero(task: Task) -> Array:
    """|dl/dz| of every row at theta = 0."""
    return row_norms(task.loss.gradient(np.zeros_like(task.Y), task.Y))


def steps_together(task: Task, n_steps: int) -> float:
    """eta (1 + c + ... + c^(n-1)), which is (1 - c^n) / m for c = 1 - eta m."""
    c = contraction_between(task.alpha, task.largest, task.step_size)
    steps = -math.expm1(n_steps * math.log(c)) / (1 - c) if c < 1 else n_steps
    return task.step_size * steps


def reach(task: Task, radius: float, n_steps: int) -> float:
    """Most that noiseless steps from zero, with any rows left out, end up from there.

    A step is c-Lipschitz and takes zero to -eta grad f(0). And the minimiser is within
    sqrt(2 f(0) / alpha) of zero where losses are never negative, the steps within c^n of that from
    it.
    """
    if math.isfinite(radius):
        return radius
    first = float(np.sum(row_norms(task.X) * _at_zero(task)))
    by_steps = steps_together(task, n_steps) * first * _UP
    if type(task.loss) not in _NEVER_NEGATIVE:
        return by_steps
    c = contraction_between(task.alpha, task.largest, task.step_size)
    at_zero = float(np.sum(task.loss.value(np.zeros_like(task.Y), task.Y)))
    return min(by_steps, (1 + c**n_steps) * math.sqrt(2 * at_zero / task.alpha) * _UP)


def visible_noise(task: Task, noise: float, step: float, radius: float) -> float:
    """The noise, or as much more as its rounding on the ball needs to leave it visible.

    `step` is what a step adds for each unit of noise.
    """
    size = reach(task, radius, task.n_steps + task.n_unlearn_steps)
    return max(noise, VISIBLE_ULPS * float(np.spacing(size)) / step)


def projected_walk(
    state: Array,
    objective: Objective,
    step_size: float,
    n_steps: int,
    radius: float,
    noise: float = 0.0,
    gaussian: GaussianSource | None = None,
) -> Array:
    """Steps on an objective's states, put back into the ball after each of them."""
    for _ in range(n_steps):
        state = state - step_size * objective.gradient(state)
        if gaussian is not None:
            state += math.sqrt(2 * step_size) * noise * gaussian.normal(state.shape)
        norm = float(np.linalg.norm(state))
        if norm > radius:
            state *= radius / norm
    return state
