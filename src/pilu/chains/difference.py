"""How the run with some rows differs in law from the run without them.

After the N steps of the schedule both are Gaussian. With A' = A - X_f'X_f the retained problem,

    Delta = m_N - m'_N:          Delta_{k+1} = (1 - eta A') Delta_k - eta X_f' u_k,
    C = Sigma_N - Sigma'_N = h(A) - h(A'),

u_k the residual means of the rows and h the schedule's variance as a function of the eigenvalue.
K steps with noise sigma on A' follow for both. Seen from step N they add the covariance
R = sigma^2 spread_K(A') / (1 - eta A')^{2K} to both, so the whitened difference is

    x = eig(F C F),  shift = F Delta,  F = (h(A') + R)^{-1/2},

which stays well conditioned however small sigma or (1 - eta a)^K become. C is of low rank up to
rounding: with [C, Delta] in the span of few columns U and F U = W L, all of it happens in W.

Less noise is never safer, so R is taken as small as the errors of `chains.rounding` allow: with s
what K steps leave of a direction in units of their noise, for any w > 0,

    R^-1  <=  ((1 + w) (1 + zeta)^2 s^2 + (1 + 1/w) e_K^2) / sigma^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.chains.rounding import UNIT, StepRounding
from pilu.chains.schedule import Schedule

__all__ = ["ChainDifference", "ChainLaw", "Enclosure", "LaterSteps", "Whitened"]

Array = NDArray[np.float64]

_STEPS_TO_A_UNIT = 200  # in the size below which what is left of C is not looked at

# What K steps do to each direction: how much is left of what was, and the variance that they add
# with noise 1.
LaterSteps = Callable[[int], tuple[Array, Array]]


class ChainLaw(Protocol):
    """What a comparison of two runs needs to know of them."""

    @property
    def schedule(self) -> Schedule:
        """All steps so far."""
        ...

    @property
    def step_size(self) -> float:
        """Eta."""
        ...

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        ...


@dataclass(frozen=True, eq=False)
class Whitened:
    """The difference in units of the retained run's noise, within the span W."""

    scale: Array  # L: F U = W L
    core: Array  # F C F
    shift: Array  # F Delta, d columns

    def principal(self) -> tuple[Array, Array]:
        """Excesses x, and the squared shifts a^2 along their directions."""
        x, directions = np.linalg.eigh(self.core)
        return x, np.sum(np.square(directions.T @ self.shift), axis=1)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A whitened difference that is never too small, up to a shift and a covariance stated apart.

    The true laws differ from those described by at most `shift_error` in the mean and
    `covariance_error` (Frobenius) in the covariance, in units of the retained run's noise.
    """

    excesses: Array
    squared_shifts: Array
    shift_error: float
    covariance_error: float
    inflation: float = 0.0  # of the squared shifts, relative to their sum
    excess_inflation: float = 0.0  # of the excesses, in Frobenius norm


@dataclass(frozen=True, eq=False)
class ChainDifference:
    """Delta and C in directions in which the retained run is uncorrelated, now and later.

    For a full batch these are the eigenbasis of the retained problem, or of a projection of it.
    C = span diag(sizes) span' and Delta = span mean, up to a rest of rounding size.
    """

    law: ChainLaw
    variances: Array  # of the retained run after the schedule, m of them
    later_steps: LaterSteps
    span: Array  # U, m x q
    sizes: Array  # q
    mean: Array  # q x d
    covariance_rest: float  # Frobenius norm
    mean_rest: float
    largest: float  # variance, in units in which rounding is relative to it
    mean_rounding: float  # of Delta, which may be small because large terms cancel
    rounding: StepRounding
    is_whole: bool  # whether there are no other directions

    @classmethod
    def of(
        cls,
        law: ChainLaw,
        variances: Array,
        later_steps: LaterSteps,
        mean: Array,
        covariance: Array,
        largest: float,
        mean_rounding: float,
        rounding: StepRounding,
        *,
        is_whole: bool = True,
    ) -> "ChainDifference":
        """Reduce Delta (m x d) and C (m x m)."""
        sizes, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        # Below this C is what rounding made of it, in directions that mean nothing.
        kept = np.abs(sizes) > UNIT * (4 + law.schedule.n_steps / _STEPS_TO_A_UNIT) * largest
        kept[np.argmax(np.abs(sizes))] = True  # never none at all
        span = vectors[:, kept]
        left, lengths, _ = np.linalg.svd(mean - span @ (span.T @ mean), full_matrices=False)
        fresh = left[:, lengths > UNIT * float(np.linalg.norm(mean))]
        fresh = fresh - span @ (span.T @ fresh)
        fresh = fresh[:, np.linalg.norm(fresh, axis=0) > 0.5]  # else it was rounding of the span
        if fresh.size:
            span = np.hstack([span, np.linalg.qr(fresh)[0]])
        return cls(
            law,
            variances,
            later_steps,
            span,
            np.concatenate([sizes[kept], np.zeros(fresh.shape[1])]),
            span.T @ mean,
            float(np.linalg.norm(sizes[~kept])),
            float(np.linalg.norm(mean - span @ (span.T @ mean))),
            largest,
            mean_rounding,
            rounding,
            is_whole,
        )

    def later_variances(self, noise: float, n_steps: int) -> Array:
        """Eigenvalues of R, never too large: what K steps add, seen from before them."""
        if n_steps not in self._kept:
            self._kept[n_steps] = self._later_variances(n_steps)
        return noise**2 * self._kept[n_steps]

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    def _later_variances(self, n_steps: int) -> Array:
        """With noise 1."""
        shrunk, wider = self.later_steps(n_steps)
        left, (relative, absolute) = shrunk**2 / wider, self.rounding.of_later_steps(n_steps)
        # Any w will do. This one is best where all that matters is how much is left of C and Delta.
        sizes = self._squared_means + np.square(self.span) @ np.abs(self.sizes)
        seen, total = float(np.sum(left * sizes)), float(np.sum(sizes))
        w = min(absolute * math.sqrt(total / seen), 1.0) if seen > 0 else 1.0
        w = max(w, UNIT)
        return np.asarray(1 / ((1 + w) * (1 + relative) ** 2 * left + (1 + 1 / w) * absolute**2))

    @cached_property
    def _squared_means(self) -> Array:
        return np.asarray(np.sum(np.square(self.span @ self.mean), axis=1))

    def total_squared_shift(self, noise: float, n_steps: int) -> float:
        """|F Delta|^2, the sum of all squared shifts, without solving for the directions."""
        variances = self.variances + self.later_variances(noise, n_steps)
        return float(np.sum(self._squared_means / variances))

    def least_variance(self, noise: float, n_steps: int) -> float:
        """Of the retained run and what follows, seen from before K steps with this noise."""
        least = float(np.min(self.variances + self.later_variances(noise, n_steps)))
        if self.is_whole:
            return least
        # In any direction h(A') is at least the last step's variance, and R K times a step's.
        last = self.law.schedule.segments[-1].noise
        return min(least, 2 * self.law.step_size * (last**2 + n_steps * noise**2))

    def rounding_error(self, noise: float, n_steps: int) -> float:
        """What rounding of C as a sum of products may amount to once whitened."""
        least = self.least_variance(noise, n_steps)
        return UNIT * self.largest / least if least > 0 else math.inf

    def shift_rounding(self, noise: float, n_steps: int) -> float:
        """What rounding of Delta may amount to in the whitened shift."""
        least = self.least_variance(noise, n_steps)
        return self.mean_rounding / math.sqrt(least) if least > 0 else math.inf

    def whitened(self, noise: float, n_steps: int) -> Whitened:
        """The difference that is left once K steps with this noise have followed."""
        root = np.sqrt(self.variances + self.later_variances(noise, n_steps))
        scale = np.asarray(np.linalg.qr(self.span / root[:, None], mode="r"))
        return Whitened(scale, (scale * self.sizes) @ scale.T, scale @ self.mean)
