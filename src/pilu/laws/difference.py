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

Less noise is never safer, so R is taken as small as the errors of `laws.rounding` allow: with s
what K steps leave of a direction in units of their noise, for any w > 0,

    R^-1  <=  ((1 + w) (1 + zeta)^2 s^2 + (1 + 1/w) e_K^2) / sigma^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.dynamics.schedule import Schedule
from pilu.dynamics.spectral import decay, spread
from pilu.laws.iterates import IterateLaw
from pilu.laws.powers import Powers
from pilu.laws.rounding import UNIT, StepRounding

__all__ = [
    "ChainDifference",
    "ChainLaw",
    "Enclosure",
    "LaterSteps",
    "Reach",
    "Whitened",
    "dense_difference",
    "mean_difference",
    "mean_rounding",
    "steps_along",
]

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


class Reach(NamedTuple):
    """|M^i X_f'|_F for i < N, of the run without the rows and of the run with them."""

    without: Array
    with_rows: Array

    @classmethod
    def of(cls, without: Powers, source: Array, with_rows: Powers, rows: Array, N: int) -> "Reach":
        """From X_f' in the two eigenbases."""
        return cls(_lengths(without, source, N), _lengths(with_rows, rows, N))


def _lengths(powers: Powers, columns: Array, count: int) -> Array:
    energies = np.sum(np.square(columns), axis=1, keepdims=True)
    return np.asarray(np.sqrt(powers.squared().series(energies, count)[0]))


def mean_rounding(
    law: IterateLaw, reach: Reach, residuals: Array, targets: Array, error: float
) -> float:
    """What rounding may do to Delta_N: relative to its terms, not to what is left of them.

    The k-th is (1 - eta A')^{N-1-k} X_f' (X_f m_k - Y_f), and X_f m_k a sum of k others.
    `residuals` are the computed u (R x d x N), `error` that of a step (docs/exact.md, "Rounding").
    """
    lengths = np.sqrt(np.sum(np.square(residuals), axis=(0, 1)))
    terms = reach.with_rows[0] * law.mean_bounds + float(np.linalg.norm(targets))
    unsure = _sums_before(reach.with_rows) * (error * law.mean_bounds + law.push_error)
    unsure += (2 * UNIT + 2.0**-53 * np.arange(len(terms))) * terms  # running sums, too
    moved = error * _sums_before(reach.without)[::-1] * lengths
    return law.step_size * float(reach.without[::-1] @ unsure + np.sum(moved))


def _sums_before(lengths: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(lengths[:-1])])


def mean_difference(law: IterateLaw, powers: Powers, source: Array, means: Array) -> Array:
    """Delta_N = -eta sum_k (1 - eta A')^{N-1-k} X_f' u_k, where A' is diagonal.

    `powers` are those of 1 - eta A', `source` is X_f' in that basis (m x R), `means` are the
    residual means u (R x d x N).
    """
    total = np.zeros((len(source), means.shape[1]))
    for row, u in enumerate(means):
        total -= law.step_size * source[:, row, None] * powers.weighted(u.T[::-1])
    return total


def dense_difference(law: IterateLaw, Z: Array, targets: Array) -> ChainDifference:
    """The difference in the full eigenbasis of A': exact up to rounding, O(p^3)."""
    means = law.residual_means(Z, targets)
    full = law.spectrum.matrix()
    before, turn = law.spectrum.eigenvalues, None
    if not law.spectrum.is_diagonal:
        before, turn = scipy.linalg.eigh(full, check_finite=False, driver="evd")
        before = np.maximum(before, law.spectrum.alpha)  # X'X has no negative eigenvalue
    # Divide and conquer: other drivers' vectors are less orthogonal than a step's error allows for.
    values, basis = scipy.linalg.eigh(full - Z.T @ Z, check_finite=False, driver="evd")
    values = np.maximum(values, law.spectrum.alpha)
    turned = basis if turn is None else turn.T @ basis
    variances, variances_with_rows = law.final_variances(np.stack([values, before]))
    covariance = turned.T @ (variances_with_rows[:, None] * turned) - np.diag(variances)
    source, rounding = basis.T @ Z.T, law.rounding(len(Z))
    powers = Powers(values, law.step_size)
    with_rows = Powers(before, law.step_size), (Z if turn is None else Z @ turn).T
    reach = Reach.of(powers, source, *with_rows, law.schedule.n_steps)
    return ChainDifference.of(
        law,
        variances,
        steps_along(values, law.step_size),
        mean_difference(law, powers, source, means),
        covariance,
        float(max(np.max(variances), np.max(variances_with_rows))),
        mean_rounding(law, reach, means, targets, rounding.error),
        rounding,
    )


def steps_along(eigenvalues: Array, step_size: float) -> LaterSteps:
    """Steps along an eigenbasis of A'."""

    @cache
    def later(n_steps: int) -> tuple[Array, Array]:
        return decay(eigenvalues, step_size, n_steps), spread(eigenvalues, step_size, n_steps)

    return later
