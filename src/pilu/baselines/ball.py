"""Projected gradient steps on a ball, for methods that need a bound on gradients.

On the ball |theta| <= radius the scores of a row are at most |x| radius from zero. So its gradient
is at most

    |x| min( sup |dl/dz|, |dl/dz at 0| + smoothness |x| radius ),

whatever the other rows are: |x| (|y| + |x| radius) for squares. A loss with a bound on |dl/dz|
itself needs no ball.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real, complaint
from pilu.baselines.interface import Task, row_norms
from pilu.baselines.objective import Objective
from pilu.certify.accountant import VISIBLE_ULPS
from pilu.chains.chain import langevin_steps
from pilu.chains.problem import GaussianSource
from pilu.chains.schedule import Segment
from pilu.chains.sensitivities import contraction_between
from pilu.losses.loss import Huber, Logistic, Softmax, Squared

__all__ = [
    "check_radius",
    "describe_radius",
    "largest_gradients",
    "projected_walk",
    "radius_of",
    "radius_option",
    "reach",
    "steps_together",
    "visible_noise",
]

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_NEVER_NEGATIVE = (Huber, Logistic, Softmax, Squared)


def check_radius(radius: float | str) -> None:
    """Refuse a radius that is neither a number > 0 nor "auto"."""
    if isinstance(radius, str):
        if radius != "auto":
            raise complaint("radius", "a number > 0 or 'auto'", radius)
    else:
        check_real("radius", radius, above=0.0)


def radius_option(radius: float | str) -> str:
    """The radius in a method's name; "auto" is not mentioned."""
    return "" if isinstance(radius, str) else f"radius {radius:g}"


def radius_of(radius: float | str, task: Task) -> float:
    """The radius in use.

    "auto" is twice the norm of the minimiser for ridge, and no ball (inf) for a loss with bounded
    gradients.
    """
    if not isinstance(radius, str):
        return float(radius)
    if task.closed_forms is not None:
        return 2 * float(np.linalg.norm(task.closed_forms.minimiser())) or 1.0
    if math.isinf(task.gradient_bound):
        raise complaint(
            "radius",
            f"a number for the {task.loss.name} loss",
            radius,
            "Its gradients have no bound outside of a ball: pass a radius that was fixed "
            "beforehand.",
        )
    return math.inf


def describe_radius(radius: float | str, in_use: float) -> str:
    """The constants that a claim rests on, in words."""
    if math.isinf(in_use):
        return "given the norm of the longest row"
    read = ", which was read off the data" if radius == "auto" else ""
    return f"given the radius {in_use:.4g}{read}"


def largest_gradients(task: Task, radius: float, n_rows: int) -> float:
    """A bound on the norm of the summed gradients of any `n_rows` rows on the ball."""
    x = row_norms(task.X)
    slopes = np.full(len(x), task.gradient_bound)
    if math.isfinite(radius):
        slopes = np.minimum(slopes, task.loss.smoothness * (x * radius) + _slopes_at_zero(task))
    each = np.sort(x * slopes)
    return float(np.sum(each[-n_rows:])) * _UP


def _slopes_at_zero(task: Task) -> Array:
    """|dl/dz| of every row at theta = 0."""
    return row_norms(task.loss.gradient(np.zeros_like(task.Y), task.Y))


def steps_together(task: Task, n_steps: int) -> float:
    """eta (1 + c + ... + c^(n-1)), which is (1 - c^n) / m for c = 1 - eta m."""
    c = contraction_between(task.alpha, task.largest, task.step_size)
    steps = -math.expm1(n_steps * math.log(c)) / (1 - c) if c < 1 else n_steps
    return task.step_size * steps


def reach(task: Task, radius: float, n_steps: int) -> float:
    """A bound on |theta| after noiseless steps from zero, without any rows.

    A step is c-Lipschitz and takes zero to -eta grad f(0). If losses are never negative, the
    minimiser is within sqrt(2 f(0) / alpha) of zero, and the steps within c^n of that from it.
    """
    if math.isfinite(radius):
        return radius
    first = float(np.sum(row_norms(task.X) * _slopes_at_zero(task)))
    by_steps = steps_together(task, n_steps) * first * _UP
    if type(task.loss) not in _NEVER_NEGATIVE:
        return by_steps
    c = contraction_between(task.alpha, task.largest, task.step_size)
    at_zero = float(np.sum(task.loss.value(np.zeros_like(task.Y), task.Y)))
    return min(by_steps, (1 + c**n_steps) * math.sqrt(2 * at_zero / task.alpha) * _UP)


def visible_noise(task: Task, noise: float, step: float, radius: float) -> float:
    """The noise, raised if the rounding of parameters on the ball would hide it.

    `step` is what a step adds for each unit of noise.
    """
    size = reach(task, radius, task.n_steps + task.n_unlearn_steps)
    return max(noise, VISIBLE_ULPS * float(np.spacing(size)) / step)


def projected_walk(
    state: Array,
    objective: Objective,
    step_size: float,
    segment: Segment,
    radius: float,
    gaussian: GaussianSource,
) -> Array:
    """A segment of Langevin steps on an objective's states, each projected to the ball."""
    one = Segment(1, segment.noise)
    for _ in range(segment.steps):
        (state,) = langevin_steps(state, objective.gradient, step_size, one, gaussian)
        norm = float(np.linalg.norm(state))
        if norm > radius:
            state *= radius / norm
    return state
