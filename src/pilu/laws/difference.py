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
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.dynamics.schedule import Schedule
from pilu.dynamics.spectral import decay, spread
from pilu.laws.iterates import IterateLaw
from pilu.laws.powers import Powers

__all__ = [
    "NOISY_STEPS",
    "UNIT",
    "ChainDifference",
    "ChainLaw",
    "Enclosure",
    "LaterSteps",
    "Whitened",
    "dense_difference",
    "mean_difference",
    "mean_rounding",
    "steps_along",
]

Array = NDArray[np.float64]

UNIT = 1e-15
NOISY_STEPS = 200  # steps whose rounding shows as one more unit

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
    ) -> "ChainDifference":
        """Reduce Delta (m x d) and C (m x m)."""
        sizes, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        # Below this C is what rounding made of it, in directions that mean nothing.
        kept = np.abs(sizes) > UNIT * (4 + law.schedule.n_steps / NOISY_STEPS) * largest
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
        )

    def later_variances(self, noise: float, n_steps: int) -> Array:
        """Eigenvalues of R: what K steps with this noise add, seen from before them."""
        if noise == 0.0:
            return np.zeros_like(self.variances)
        asked = (noise, n_steps)
        if asked not in self._kept:
            shrunk, wider = self.later_steps(n_steps)
            with np.errstate(divide="ignore", over="ignore"):  # infinite: it leaves no trace
                self._kept[asked] = noise**2 * (wider / shrunk**2)
        return self._kept[asked]

    @cached_property
    def _kept(self) -> dict[tuple[float, int], Array]:
        return {}

    @cached_property
    def _squared_means(self) -> Array:
        return np.asarray(np.sum(np.square(self.span @ self.mean), axis=1))

    def total_squared_shift(self, noise: float, n_steps: int) -> float:
        """|F Delta|^2, the sum of all squared shifts, without solving for the directions."""
        variances = self.variances + self.later_variances(noise, n_steps)
        return float(np.sum(self._squared_means / variances))

    def least_variance(self, noise: float, n_steps: int) -> float:
        """Of the retained run and what follows, seen from before K steps with this noise."""
        return float(np.min(self.variances + self.later_variances(noise, n_steps)))

    def rounding_error(self, noise: float, n_steps: int) -> float:
        """What rounding of C, and of Delta relative to itself, may amount to once whitened."""
        least = self.least_variance(noise, n_steps)
        if least == 0.0:
            return np.inf
        # An eigenvalue that is off by an ulp of the largest moves (1 - eta a)^N by N ulps.
        return UNIT * (self.largest / least + self.law.schedule.n_steps)

    def shift_rounding(self, noise: float, n_steps: int) -> float:
        """What rounding of Delta may amount to in the whitened shift."""
        least = self.least_variance(noise, n_steps)
        return self.mean_rounding / float(np.sqrt(least)) if least > 0 else np.inf

    def whitened(self, noise: float, n_steps: int) -> Whitened:
        """The difference that is left once K steps with this noise have followed."""
        root = np.sqrt(self.variances + self.later_variances(noise, n_steps))
        scale = np.asarray(np.linalg.qr(self.span / root[:, None], mode="r"))
        return Whitened(scale, (scale * self.sizes) @ scale.T, scale @ self.mean)


def mean_rounding(law: IterateLaw, powers: Powers, source: Array, targets: Array) -> float:
    """What rounding may do to Delta_N: relative to its terms, not to what is left of them.

    The k-th is (1 - eta A')^{N-1-k} X_f' (X_f m_k - Y_f), and X_f m_k a sum of k others.
    """
    N, eta, size = law.schedule.n_steps, law.step_size, float(np.linalg.norm(source))
    energies = np.sum(np.square(source), axis=1, keepdims=True)
    reach = np.sqrt(powers.squared().series(energies, N)[0])[::-1]
    terms = size * law.mean_bounds + float(np.linalg.norm(targets))
    return UNIT * (1 + N / NOISY_STEPS) * eta * float(reach @ terms)


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
        before, turn = scipy.linalg.eigh(full, check_finite=False)
        before = np.maximum(before, law.spectrum.alpha)  # X'X has no negative eigenvalue
    values, basis = scipy.linalg.eigh(full - Z.T @ Z, check_finite=False)
    values = np.maximum(values, law.spectrum.alpha)
    turned = basis if turn is None else turn.T @ basis
    variances, variances_with_rows = law.final_variances(np.stack([values, before]))
    covariance = turned.T @ (variances_with_rows[:, None] * turned) - np.diag(variances)
    source = basis.T @ Z.T
    powers = Powers(values, law.step_size)
    mean = mean_difference(law, powers, source, means)
    rounding = mean_rounding(law, powers, source, targets)
    return ChainDifference.of(
        law,
        variances,
        steps_along(values, law.step_size),
        mean,
        covariance,
        float(np.max(variances)),
        rounding,
    )


def steps_along(eigenvalues: Array, step_size: float) -> LaterSteps:
    """Steps along an eigenbasis of A'."""

    @cache
    def later(n_steps: int) -> tuple[Array, Array]:
        return decay(eigenvalues, step_size, n_steps), spread(eigenvalues, step_size, n_steps)

    return later
