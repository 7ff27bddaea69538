"""A chain with a smooth loss: a bound on its spread, and its means by simulation.

With eta < 2/L a step contracts distances by c = max(|1 - eta m|, |1 - eta L|). So theta_k is a
Lipschitz function of the earlier noise, with constant

    tau_k,   tau_0 = 0,   tau_{k+1}^2 = c^2 tau_k^2 + 2 eta sigma_k^2.

A statistic of row i is lipschitz |x_i|-Lipschitz in theta. By Gaussian concentration it exceeds its
mean by lipschitz |x_i| tau_k q with probability at most exp(-q^2 / 2). The same holds for the mean
over R independent runs, with tau_k / sqrt(R)   [docs/concentration.md]. Means are estimated by R
auxiliary runs, whose noise is independent of the chain's.
"""

import hashlib
import math
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_memory
from pilu._progress import progress_bar
from pilu.chains.chain import SimulatedGaussian
from pilu.chains.schedule import Schedule
from pilu.chains.sensitivities import contraction_between
from pilu.losses.objective import SmoothObjective

__all__ = ["AuxiliaryRuns", "SmoothIterates"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class AuxiliaryRuns(NamedTuple):
    """The number of runs that estimate the means, and the seed of their own noise."""

    n_runs: int
    seed: tuple[int, ...]
    private: bool  # whether the seed came from the operating system

    @classmethod
    def drawn(cls, n_runs: int, random_state: int | None) -> "AuxiliaryRuns":
        """Runs for a new fit; an integer makes them reproducible."""
        if random_state is None:
            return cls(n_runs, (secrets.randbits(128),), private=True)
        return cls(n_runs, (int(random_state), 1), private=False)

    def renewed(self) -> "AuxiliaryRuns":
        """New runs after a request. The old seed cannot be recovered from the new one."""
        fresh = secrets.randbits(128) if self.private else None
        mixed = hashlib.sha256(repr((self.seed, fresh)).encode()).digest()
        return self._replace(seed=(int.from_bytes(mixed[:16]),))

    def made_private(self) -> "AuxiliaryRuns":
        """Runs that no chosen seed determines."""
        return self if self.private else self._replace(private=True).renewed()


class _Simulated(NamedTuple):
    means: Array  # of the statistic over the runs, at each row's visits: n x cycles
    largest_norm: float  # bounds |theta_k| in every run


@dataclass(frozen=True, eq=False)
class SmoothIterates:
    """The chain of a smooth problem, from a fixed start (p x C)."""

    problem: SmoothObjective
    step_size: float
    schedule: Schedule
    start: Array
    auxiliary: AuxiliaryRuns

    @property
    def n_outputs(self) -> int:
        """Columns of theta, C."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.problem.alpha

    @property
    def contraction(self) -> float:
        """c of every step, whichever rows remain; rounded up."""
        return contraction_between(self.alpha, self.problem.largest, self.step_size)

    @cached_property
    def spreads(self) -> Array:
        """tau_k for every step, rounded up."""
        c2, squares = self.contraction**2, np.zeros(self.schedule.n_steps)
        for k, variance in enumerate(self.schedule.variances(self.step_size)[:-1]):
            squares[k + 1] = (c2 * squares[k] + variance) * (1 + 2.0**-50)
        return np.asarray(np.sqrt(squares) * (1 + 2.0**-50))

    @property
    def least_final_variance(self) -> float:
        """Least variance of theta_N in any direction, estimated with the strongest contraction."""
        kept, least = max(1.0 - self.step_size * self.problem.largest, 0.0) ** 2, 0.0
        for variance in self.schedule.variances(self.step_size):
            least = kept * least + variance
        return float(least)

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta| up to a deviation, in this run and in every run without some of its rows.

        Without noise |theta_{k+1} - theta_0| <= c |theta_k - theta_0| + eta |grad f_t(theta_0)|.
        A batch's gradient is at most the sum of its rows' gradient norms.
        """
        problem, start = self.problem, float(np.linalg.norm(self.start))
        cycles = -(-(self.schedule.n_steps + n_more_steps) // problem.n_batches)
        gradients = self._gradients_at_the_start + self.alpha * start
        away = cycles * float(np.sum(gradients))
        if self.contraction < 1.0:
            away = min(away, float(np.max(gradients)) / (1.0 - self.contraction))
        noise = math.sqrt(float(np.sum(self.schedule.variances(self.step_size))))
        return start + self.step_size * away + noise

    @cached_property
    def _gradients_at_the_start(self) -> Array:
        problem, batches = self.problem, range(self.problem.n_batches)
        problem.check_rows(batches)  # the result is kept, so it must not rest on other rows
        return np.array([problem.summed_gradient_norms(self.start, t) for t in batches])

    def n_visits(self, rows: Rows) -> int:
        """Visits of the rows' batches, summed over the rows."""
        return self.problem.n_visits(rows, self.schedule.n_steps)

    @cached_property
    def n_visits_of_all(self) -> int:
        """The same for all remaining rows."""
        return self.n_visits(np.flatnonzero(self.problem.source.live))

    @property
    def largest_norm(self) -> float:
        """Bounds |theta_k| in every auxiliary run."""
        return self._simulated.largest_norm

    def prepare(self) -> None:
        """Simulate the auxiliary runs, which all requests share."""
        _ = self._simulated

    def mean_statistics(self, rows: Rows, n_visits: int) -> Array:
        """Means over the auxiliary runs at the rows' first visits: (R x n_visits)."""
        return np.asarray(self._simulated.means[rows, :n_visits])

    @cached_property
    def _simulated(self) -> _Simulated:
        problem, (R, seed, _) = self.problem, self.auxiliary
        N, M = self.schedule.n_steps, problem.n_batches
        n, visits = problem.source.n_rows, -(-N // M)
        check_memory(
            8 * n * visits,
            f"means of {n:,} rows at {visits:,} visits each",
            "Use a smaller batch_size or fewer steps, so that rows are visited less often.",
        )
        means = np.zeros((n, visits))

        def see(step: int, rows: Rows, scores: Array, targets: Array) -> None:
            means[rows, step // M] = np.mean(problem.loss.statistic(scores, targets), axis=1)

        problem.check_rows(range(N))
        theta, gaussian = np.tile(self.start, (1, R)), SimulatedGaussian(seed)
        largest, done = float(np.linalg.norm(theta)), 0
        with progress_bar(N, what=f"{R} auxiliary runs", unit="step") as bar:
            for segment in self.schedule.segments:
                for moved in problem.steps(theta, self.step_size, segment, done, gaussian, R, see):
                    theta, largest = moved, max(largest, float(np.linalg.norm(moved)))
                    bar.update()
                done += segment.steps
        return _Simulated(means, largest)
