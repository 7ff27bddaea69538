"""What double precision leaves unknown of a chain.

A law is computed for steps M^ = 1 - eta A^ that are not quite the true ones, M = 1 - eta A: the
statistics, the eigenvalues and 1 - eta a itself are rounded. All of this is one number,

    |M - M^| <= e   in the operator norm, with rows and without them,

an absolute error: where 1 - eta a is small, few of its digits may be right. docs/exact.md,
"Rounding", proves what follows from e. With |M|, |M^| <= rho <= 1, steps of noise variance var_k
and covariances Sigma_k = G_k G_k':

    |m_k - m^_k|          <=  e sum_{j<k} |m^_j| + k |eta (B - B^)|
    |G_k'x| - |G^_k'x|    <=  e |x| sqrt(sum_{j<k} var_j (k-1-j)^2)
    Sigma_N                =  G^ (I + E)(I + E)' G^',   |E|_F <= tau (`covariance_error`)
    |M^K c|_{S_K^-1/2}    <=  (1 + zeta) |M^^K c|_{S^_K^-1/2} + e_K |c|   (`LaterError`)

S_K = 2 eta sum_{j<K} M^2j the covariance that K steps add with noise 1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.chains.schedule import Schedule

__all__ = [
    "UNIT",
    "LaterError",
    "StepRounding",
    "deviation_errors",
    "mean_errors",
    "mean_size",
    "summed_before",
]

Array = NDArray[np.float64]

UNIT = 1e-15  # a few rounding units, for sums whose terms are of one size
_LEAST = 1e-140  # an error whose square, and its inverse, are still doubles


class LaterError(NamedTuple):
    """How much more than computed K steps may leave of a vector, in units of their noise."""

    relative: float  # zeta
    absolute: float  # e_K


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

    def of_later_steps(self, n_steps: int) -> LaterError:
        """For K more steps."""
        # M^K - M^^K = sum_i M^(K-1-i) (M - M^) M^^i
        with np.errstate(under="ignore"):
            kept = float(np.power(self.contraction, n_steps - 1.0))
        absolute = self.error * n_steps * kept / math.sqrt(2 * self.step_size)
        return LaterError(self.error * n_steps**1.5, max(absolute * self.length, _LEAST))

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
