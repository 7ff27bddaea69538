"""A running Langevin chain: its noise, its step, and where it is   [PILU, eq. langevin-learn].

theta_{k+1} = theta_k - eta grad f_k(theta_k) + sqrt(2 eta) sigma xi_k,   xi_k ~ N(0, I)

The noise comes from the operating system's entropy, or from a seed for experiments.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pilu._progress import progress_bar
from pilu.chains.problem import GaussianSource, Law, Problem, Run
from pilu.chains.schedule import Schedule, Segment
from pilu.exceptions import NoiseBelowPrecision

Array = NDArray[np.float64]
Gradient = Callable[[Array, int], Array]  # of the objective at theta, for step k

_LEAST_ULPS = 64  # one step's noise, in units of the parameters' rounding


class SystemGaussian:
    """Standard normals from `os.urandom` by the inverse CDF. There is no state to share in a fork.

    One bit is the sign and 63 bits are the lower tail. Small tail probabilities keep full relative
    precision, so draws reach beyond nine standard deviations.
    """

    private = True

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        count = int(np.prod(shape))
        bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64  # in (0, 1/2]
        sign = 1.0 - 2.0 * (bits & np.uint64(1)).astype(np.float64)
        draws: Array = sign * ndtri(tail)
        return draws.reshape(shape)


class SeededGaussian:
    """Reproducible standard normals; each request of a model has its own `stream`."""

    private = False

    def __init__(self, seed: int, stream: int) -> None:
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        return self._rng.standard_normal(shape)


class SimulatedGaussian(SeededGaussian):
    """Fast standard normals for simulations, not for privacy."""

    def __init__(self, seed: tuple[int, ...]) -> None:
        self._rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))


def gaussian_source(random_state: int | None, stream: int) -> GaussianSource:
    """Noise for learning (stream 0) or for the stream-th request; private without a seed."""
    return SystemGaussian() if random_state is None else SeededGaussian(int(random_state), stream)


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
        return self.problem.law(self._run, corrected=corrected)

    @cached_property
    def _kept_law(self) -> Law:
        return self.problem.law(self._run)

    @property
    def _run(self) -> Run:
        return Run(self.step_size, self.schedule, self.start)

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
