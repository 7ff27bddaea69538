"""A running chain: the problem it walks on, the steps taken so far, and where it is."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.chains.entropy import GaussianSource
from pilu.chains.law import Law
from pilu.chains.problem import Problem, Run
from pilu.chains.schedule import Schedule, Segment
from pilu.exceptions import NoiseBelowPrecision

__all__ = ["Chain"]

Array = NDArray[np.float64]

_LEAST_ULPS = 64  # one step's noise, in units of the parameters' rounding


@dataclass(frozen=True, eq=False)
class Chain:
    """An immutable chain; learning, forgetting and redrawing each give a new one."""

    problem: Problem
    step_size: float
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
        start: Array,
        segment: Segment,
        gaussian: GaussianSource,
    ) -> "Chain":
        """Algorithm A: one segment of steps from a fixed start."""
        nothing = cls(problem, step_size, start, Schedule(()), start, private=True)
        return nothing.forgetting(problem, segment, gaussian)

    def forgetting(self, problem: Problem, segment: Segment, gaussian: GaussianSource) -> "Chain":
        """Algorithm U: one more segment, on the problem without the forgotten rows."""
        done = self.schedule.n_steps
        if gaussian.private:
            problem = problem.drawing_privately()
        theta = problem.walk(self.theta, self.step_size, segment, done, gaussian)
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
            start=self.start,
            segment=self.schedule.segments[0],
            gaussian=gaussian,
        )

    def law(self, *, corrected: bool = False) -> Law:
        """The law of the run without any forgotten row (docs/guarantee.md, "Repeated requests").

        `corrected` allows the cheap form that not all accountants take (`Problem.law`).
        """
        if self.problem.keeps_law:
            return self._kept_law
        run = Run(self.step_size, self.schedule, self.start)
        return self.problem.law(run, corrected=corrected)

    @cached_property
    def _kept_law(self) -> Law:
        return self.problem.law(Run(self.step_size, self.schedule, self.start))

    def __getstate__(self) -> dict[str, Any]:
        # What the law has computed from the rows stays in this process.
        return {name: value for name, value in self.__dict__.items() if name != "_kept_law"}


def _check_precision(theta: Array, step_size: float, segment: Segment) -> None:
    if not np.isfinite(theta).all():
        raise NoiseBelowPrecision(
            "the parameters overflowed. Scale the features or the targets down, or correct the "
            "gradient of your own loss."
        )
    one_step = math.sqrt(2 * step_size) * segment.noise
    unit = float(np.spacing(np.max(np.abs(theta), initial=0.0)))
    if 0 < one_step < _LEAST_ULPS * unit:
        raise NoiseBelowPrecision(
            f"one step's noise, {one_step:.3g}, must be at least {_LEAST_ULPS} rounding units of "
            f"the parameters ({unit:.3g} each): it would be lost in their rounding. Use a larger "
            "noise, or scale the features or the targets down."
        )
