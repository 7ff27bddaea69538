"""A running chain: the problem it walks on, the steps taken so far, and where it stands."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Schedule, Segment
from pilu.exceptions import NoiseBelowPrecision
from pilu.losses.problem import SmoothProblem
from pilu.losses.steps import walk_smooth
from pilu.minibatch.problem import MinibatchProblem
from pilu.minibatch.steps import walk_batches
from pilu.ridge.gradient import walk
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectral import draw_after

__all__ = ["SOLVERS", "Chain", "Problem"]

Array = NDArray[np.float64]

Problem = RidgeProblem | MinibatchProblem | SmoothProblem
Solver = Callable[[Array, RidgeProblem, float, Segment, GaussianSource], Array]


def _spectral(
    theta: Array,
    problem: RidgeProblem,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
) -> Array:
    return draw_after(theta, problem.corrected_spectrum, step_size, segment, gaussian)


def _gradient(
    theta: Array,
    problem: RidgeProblem,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
) -> Array:
    return walk(theta, problem.source, problem.alpha, step_size, segment, gaussian)


SOLVERS: dict[str, Solver] = {"spectral": _spectral, "gradient": _gradient}  # of a full batch

_LEAST_ULPS = 64  # one step's noise, in units of the parameters' rounding


@dataclass(frozen=True, eq=False)
class Chain:
    """An immutable chain; learning, forgetting and redrawing each give a new one.

    The solver is for ridge in a full batch; all else is walked through step by step.
    """

    problem: Problem
    step_size: float
    solver: str
    start: Array
    schedule: Schedule
    theta: Array
    private: bool  # whether all noise so far came from the operating system

    @classmethod
    def learn(
        cls,
        problem: Problem,
        *,
        step_size: float,
        solver: str,
        start: Array,
        segment: Segment,
        gaussian: GaussianSource,
    ) -> "Chain":
        """Algorithm A: one segment of steps from a fixed start."""
        nothing = cls(problem, step_size, solver, start, Schedule(()), start, private=True)
        return nothing._walked(problem, segment, gaussian)

    def forgetting(self, problem: Problem, segment: Segment, gaussian: GaussianSource) -> "Chain":
        """Algorithm U: one more segment, on the problem without the forgotten rows."""
        return self._walked(problem, segment, gaussian)

    def _walked(self, problem: Problem, segment: Segment, gaussian: GaussianSource) -> "Chain":
        done = self.schedule.n_steps
        if isinstance(problem, MinibatchProblem):
            theta = walk_batches(self.theta, problem, self.step_size, segment, done, gaussian)
        elif isinstance(problem, SmoothProblem):
            theta = walk_smooth(self.theta, problem, self.step_size, segment, done, gaussian)
        else:
            theta = SOLVERS[self.solver](self.theta, problem, self.step_size, segment, gaussian)
        _check_precision(theta, self.step_size, segment)
        schedule = self.schedule.then(segment)
        private = self.private and gaussian.private
        return replace(self, problem=problem, schedule=schedule, theta=theta, private=private)

    def redrawn(self, problem: Problem, gaussian: GaussianSource) -> "Chain":
        """Algorithm A again, on the problem without the forgotten rows."""
        problem.consolidate()  # T steps at once, and nothing kept of the rows
        return self.learn(
            problem,
            step_size=self.step_size,
            solver=self.solver,
            start=self.start,
            segment=self.schedule.segments[0],
            gaussian=gaussian,
        )


def _check_precision(theta: Array, step_size: float, segment: Segment) -> None:
    if not np.isfinite(theta).all():
        raise NoiseBelowPrecision(
            "the parameters overflowed. Scale the features or the targets down, or mend the "
            "gradient of a loss of your own."
        )
    one_step = math.sqrt(2 * step_size) * segment.noise
    unit = float(np.spacing(np.max(np.abs(theta), initial=0.0)))
    if 0 < one_step < _LEAST_ULPS * unit:
        raise NoiseBelowPrecision(
            f"one step's noise, {one_step:.3g}, must be at least {_LEAST_ULPS} rounding units of "
            f"the parameters ({unit:.3g} each): it would be lost in their rounding. Use a larger "
            "noise, or scale the features or the targets down."
        )
