"""The steps and the noise of a chain, and what double precision leaves unknown of them.

A chain is a list of (steps, noise) segments: learning first, then one for each request. Learning
may be at stationarity: a draw from the law that its steps converge to. It takes no steps, and
a record of it has None in their place.

A law is computed for steps M^ = 1 - eta A^ that are not quite the true ones, M = 1 - eta A: the
statistics, the eigenvalues and 1 - eta a itself are rounded. All of this is one number,

    |M - M^| <= e   in the operator norm, with rows and without them,

an absolute error: where 1 - eta a is small, few of its digits may be right. docs/exact.md,
"Rounding", proves what follows from e. With |M|, |M^| <= rho <= 1, steps of noise variance var_k
and covariances Sigma_k = G_k G_k':

    |m_k - m^_k|          <=  e sum_{j<k} |m^_j| + k |eta (B - B^)|
    |G_k'x| - |G^_k'x|    <=  e |x| sqrt(sum_{j<k} var_j (k-1-j)^2)
    Sigma_N                =  G^ (I + E)(I + E)' G^',   |E|_F <= tau (`covariance_error`)
    |M^K c|_{S_K^-1/2}    <=  (1 + zeta) |M^^K c|_{S^_K^-1/2} + e_K |c|   (`of_later_steps`)

S_K = 2 eta sum_{j<K} M^2j the covariance that K steps add with noise 1.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

Array = NDArray[np.float64]

UNIT = 1e-15  # a few rounding units, for sums whose terms are of one size
_LEAST = 1e-140  # an error whose square, and its inverse, are still doubles


class Segment(NamedTuple):
    """A run of steps with one noise level sigma; one step adds sqrt(2 eta) sigma N(0, I)."""

    steps: int  # 0 is for learning at stationarity
    noise: float

    @property
    def is_stationary(self) -> bool:
        """Whether it stands for infinitely many steps."""
        return self.steps == 0

    @property
    def duration(self) -> float:
        """The number of steps, infinite at stationarity."""
        return math.inf if self.is_stationary else float(self.steps)


@dataclass(frozen=True)
class Schedule:
    """All steps since the start of learning, or since the last redraw."""

    segments: tuple[Segment, ...]
    n_steps: int = field(init=False)  # those that were taken: none for learning at stationarity
    duration: float = field(init=False)  # the same, infinite if learning was at stationarity
    durations: tuple[float, ...] = field(init=False)  # of each segment
    is_stationary: bool = field(init=False)  # whether learning was

    def __post_init__(self) -> None:
        taken = sum(segment.steps for segment in self.segments)
        object.__setattr__(self, "n_steps", taken)
        each = tuple(segment.duration for segment in self.segments)
        at_rest = bool(each) and math.isinf(each[0])
        object.__setattr__(self, "durations", each)
        object.__setattr__(self, "duration", sum(each))
        object.__setattr__(self, "is_stationary", at_rest)

    @classmethod
    def from_record(cls, record: Iterable[Sequence[Any]]) -> "Schedule":
        """The schedule that `record` gave, as certificates and stores hold it."""
        segments = []
        for place, (k, noise) in enumerate(record):
            if (k is None and place > 0) or (k is not None and int(k) < 1):
                raise WrongInput(f"a schedule must have steps >= 1 in each segment, got {k!r}.")
            segments.append(Segment(0 if k is None else int(k), float(noise)))
        return cls(tuple(segments))

    def record(self) -> tuple[tuple[int | None, float], ...]:
        """(steps, noise) of every segment, with None for learning at stationarity."""
        return tuple((None if s.is_stationary else s.steps, s.noise) for s in self.segments)

    def variances(self, step_size: float) -> Array:
        """Noise variance 2 eta sigma_k^2 of every step."""
        return np.concatenate([np.full(s.steps, 2 * step_size * s.noise**2) for s in self.segments])

    def then(self, segment: Segment) -> "Schedule":
        """The schedule with one more segment."""
        return Schedule((*self.segments, segment))


@dataclass(frozen=True)
class StepRounding:
    """e, and what else the proofs need to know of a chain.

    Parameters
    ----------
    error : float
        e.
    contraction : float
        rho: no step, true or computed, makes a vector longer by more than this factor.
    memory : float
        Bound on the trace of any Sigma_k over the largest noise variance of a step before k.
    length : float
        Largest length of a vector whose coordinates, as computed, have norm 1.
    learned : float
        tau of the law after learning, if that was at stationarity: its steps are not counted.
    """

    error: float
    contraction: float
    memory: float
    step_size: float
    schedule: Schedule
    length: float = 1.0
    learned: float = 0.0

    def of_later_steps(self, n_steps: int) -> tuple[float, float]:
        """zeta and e_K: how much more than computed K steps leave, in units of their noise."""
        # M^K - M^^K = sum_i M^(K-1-i) (M - M^) M^^i
        with np.errstate(under="ignore"):
            kept = float(np.power(self.contraction, n_steps - 1.0))
        absolute = self.error * n_steps * kept / math.sqrt(2 * self.step_size)
        return self.error * n_steps**1.5, max(absolute * self.length, _LEAST)

    def covariance_error(self, noise: float, n_steps: int) -> float:
        """tau, once n_steps more with this noise follow.

        The true chain is the computed one with (M - M^) theta_k added to the noise of step k, or
        of a noisier step after it. Errors that are corrected at their own step add up in squares.
        """
        variances = [2 * self.step_size * sigma**2 for _, sigma in self.schedule.segments]
        later = 2 * self.step_size * noise**2 if n_steps else 0.0
        own_step = deferred = largest = 0.0
        for i, (steps, _) in enumerate(self.schedule.segments):
            largest = max(largest, variances[i])
            if steps == 0:
                continue
            best = max([*variances[i + 1 :], later])
            trace = largest * self.memory
            own = steps * trace / variances[i] if variances[i] > 0 else math.inf
            later_cost = steps * math.sqrt(trace / best) if best > 0 else math.inf
            if math.sqrt(own) <= later_cost:
                own_step += own
            else:
                deferred += later_cost
        return self.error * (math.sqrt(own_step) + deferred) + self.learned


def mean_errors(error: float, norms: Array, push_error: float = 0.0) -> Array:
    """Bounds on |m_k - m^_k| for every k, given |m^_k| and the error of eta B."""
    return summed_before(error * norms + push_error)


def deviation_errors(error: float, variances: Array) -> Array:
    """Bounds on |G_k'x| - |G^_k'x| for every k < N, for |x| = 1."""
    # sum_{j<k} var_j (k-1-j)^2: with v_i = i^2, summed up from v_{i+1} - v_i = 2i + 1
    counts = summed_before(variances)  # sum_{j<k} var_j
    firsts = summed_before(counts)  # sum_{j<k} var_j (k-1-j)
    return np.asarray(error * np.sqrt(summed_before(2 * firsts + counts)))


def summed_before(values: Array) -> Array:
    """For every k, the sum of all values before it."""
    return np.concatenate([[0.0], np.cumsum(values[:-1])])


def mean_size(step_size: float, largest: float, start: float, squares: float, sums: float) -> float:
    """A bound on |m| after ridge steps on batches with targets Y_k, whichever rows are in them.

    `squares` and `sums` are those of |Y_k| over all steps, and `largest` is L of every batch:

        |m_{k+1}|^2 <= |m_k|^2 + eta |Y_k|^2 / (2 - eta L),   |m_{k+1}| <= |m_k| + eta L^1/2 |Y_k|
    """
    gap = 2 - step_size * largest
    energy = math.hypot(start, math.sqrt(step_size * squares / gap)) if gap > 0 else math.inf
    return min(energy, start + step_size * math.sqrt(largest) * sums)
