"""Projected gradient steps on a ball, for methods that need a bound on gradients.

On the ball |theta| <= radius the scores of a row are at most |x| radius from zero. So its gradient
is at most

    |x| min( sup |dl/dz|, |dl/dz at 0| + smoothness |x| radius ),

whatever the other rows are: |x| (|y| + |x| radius) for squares. A loss with a bound on |dl/dz|
itself needs no ball.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.baselines.interface import Task, row_norms
from pilu.baselines.objective import Objective
from pilu.certify.accountant import VISIBLE_ULPS
from pilu.chains.chain import langevin_steps
from pilu.chains.schedule import Segment
from pilu.losses.loss import Huber, Logistic, Softmax, Squared

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_NEVER_NEGATIVE = (Huber, Logistic, Softmax, Squared)


def radius_option(radius: float | str) -> str:
    """The radius in a method's name; "auto" is not mentioned."""
    return "" if isinstance(radius, str) else f"radius {radius:g}"


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball that a task's steps project to, of a radius that was given or "auto"."""

    task: Task
    given: float | str

    @cached_property
    def radius(self) -> float:
        """The radius in use.

        "auto" is twice the norm of the minimiser for ridge, and no ball (inf) for a loss with
        bounded gradients.
        """
        if not isinstance(self.given, str):
            return float(self.given)
        if self.task.closed_forms is not None:
            return 2 * float(np.linalg.norm(self.task.closed_forms.minimiser())) or 1.0
        if math.isinf(self.task.gradient_bound):
            raise complaint(
                "radius",
                f"a number for the {self.task.loss.name} loss",
                self.given,
                "Its gradients have no bound outside of a ball: pass a radius that was fixed "
                "beforehand.",
            )
        return math.inf

    def describe(self) -> str:
        """The constants that a claim rests on, in words."""
        if math.isinf(self.radius):
            return "given the norm of the longest row"
        read = ", which was read off the data" if self.given == "auto" else ""
        return f"given the radius {self.radius:.4g}{read}"

    def largest_gradients(self, n_rows: int) -> float:
        """A bound on the norm of the summed gradients of any `n_rows` rows on the ball."""
        task, x = self.task, row_norms(self.task.X)
        slopes = np.full(len(x), task.gradient_bound)
        if math.isfinite(self.radius):
            on_ball = task.loss.smoothness * (x * self.radius) + self._slopes_at_zero
            slopes = np.minimum(slopes, on_ball)
        each = np.sort(x * slopes)
        return float(np.sum(each[-n_rows:])) * _UP

    @property
    def _slopes_at_zero(self) -> Array:
        """|dl/dz| of every row at theta = 0."""
        return row_norms(self.task.loss.gradient(np.zeros_like(self.task.Y), self.task.Y))

    def reach(self, n_steps: int) -> float:
        """A bound on |theta| after noiseless steps from zero, without any rows.

        A step is c-Lipschitz and takes zero to -eta grad f(0). If losses are never negative, the
        minimiser is within sqrt(2 f(0) / alpha) of zero, and the steps within c^n of that from it.
        """
        if math.isfinite(self.radius):
            return self.radius
        task = self.task
        first = float(np.sum(row_norms(task.X) * self._slopes_at_zero))
        by_steps = steps_together(task, n_steps) * first * _UP
        if type(task.loss) not in _NEVER_NEGATIVE:
            return by_steps
        at_zero = float(np.sum(task.loss.value(np.zeros_like(task.Y), task.Y)))
        to_minimiser = (1 + task.contraction**n_steps) * math.sqrt(2 * at_zero / task.alpha)
        return min(by_steps, to_minimiser * _UP)

    def visible(self, noise: float, step: float) -> float:
        """The noise, raised if the rounding of parameters on the ball would hide it.

        `step` is what a step adds for each unit of noise.
        """
        size = self.reach(self.task.n_steps + self.task.n_unlearn_steps)
        return max(noise, VISIBLE_ULPS * float(np.spacing(size)) / step)

    def walk(self, state: Array, objective: Objective, segment: Segment, stream: int) -> Array:
        """A segment of Langevin steps on an objective's states, each projected to the ball."""
        one, gaussian = Segment(1, segment.noise), self.task.gaussian(stream)
        for _ in range(segment.steps):
            steps = langevin_steps(state, objective.gradient, self.task.step_size, one, gaussian)
            (state,) = steps
            norm = float(np.linalg.norm(state))
            if norm > self.radius:
                state *= self.radius / norm
        return state


def steps_together(task: Task, n_steps: int) -> float:
    """eta (1 + c + ... + c^(n-1)), which is (1 - c^n) / m for c = 1 - eta m."""
    c = task.contraction
    steps = -math.expm1(n_steps * math.log(c)) / (1 - c) if c < 1 else n_steps
    return task.step_size * steps
