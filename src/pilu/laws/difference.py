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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.dynamics.spectral import decay, spread
from pilu.laws.iterates import IterateLaw
from pilu.laws.powers import Powers

__all__ = ["ChainDifference", "Whitened", "dense_difference", "mean_difference", "mean_rounding"]

Array = NDArray[np.float64]

_UNIT = 1e-15
_NOISY_STEPS = 200  # steps whose rounding shows as one more unit


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
class ChainDifference:
    """Delta and C in an eigenbasis of the retained problem, or of a projection of it.

    C = span diag(sizes) span' and Delta = span mean, up to a rest of rounding size.
    """

    law: IterateLaw
    eigenvalues: Array  # of A', m of them
    variances: Array  # h of them: of the retained run's covariance after the schedule
    span: Array  # U, m x q
    sizes: Array  # q
    mean: Array  # q x d
    covariance_rest: float  # Frobenius norm
    mean_rest: float
    mean_rounding: float  # of Delta, which may be small because large terms cancel

    @classmethod
    def of(
        cls,
        law: IterateLaw,
        eigenvalues: Array,
        variances: Array,
        mean: Array,
        with_rows: Array,
        mean_rounding: float,
    ) -> "ChainDifference":
        """Reduce Delta (m x d) and C, given h(A') (m) and h(A) (m x m), in the eigenbasis of A'."""
        covariance = (with_rows + with_rows.T) / 2 - np.diag(variances)
        largest = float(np.max(variances))
        sizes, vectors = np.linalg.eigh(covariance)
        # Below this C is what rounding made of it, in directions that mean nothing.
        kept = np.abs(sizes) > _UNIT * (4 + law.schedule.n_steps / _NOISY_STEPS) * largest
        kept[np.argmax(np.abs(sizes))] = True  # never none at all
        span = vectors[:, kept]
        left, lengths, _ = np.linalg.svd(mean - span @ (span.T @ mean), full_matrices=False)
        fresh = left[:, lengths > _UNIT * float(np.linalg.norm(mean))]
        fresh = fresh - span @ (span.T @ fresh)
        fresh = fresh[:, np.linalg.norm(fresh, axis=0) > 0.5]  # else it was rounding of the span
        if fresh.size:
            span = np.hstack([span, np.linalg.qr(fresh)[0]])
        return cls(
            law,
            eigenvalues,
            variances,
            span,
            np.concatenate([sizes[kept], np.zeros(fresh.shape[1])]),
            span.T @ mean,
            float(np.linalg.norm(sizes[~kept])),
            float(np.linalg.norm(mean - span @ (span.T @ mean))),
            mean_rounding,
        )

    def later_variances(self, noise: float, n_steps: int) -> Array:
        """Eigenvalues of R: what K steps with this noise add, seen from before them."""
        if noise == 0.0:
            return np.zeros_like(self.eigenvalues)
        asked = (noise, n_steps)
        if asked not in self._kept:
            shrunk, wider = self.later_steps(n_steps)
            with np.errstate(divide="ignore", over="ignore"):  # infinite: it leaves no trace
                self._kept[asked] = noise**2 * (wider / shrunk**2)
        return self._kept[asked]

    def later_steps(self, n_steps: int) -> tuple[Array, Array]:
        """(1 - eta A')^K, and the variance that K steps of noise 1 add."""
        if n_steps not in self._steps:
            a, eta = self.eigenvalues, self.law.step_size
            self._steps[n_steps] = decay(a, eta, n_steps), spread(a, eta, n_steps)
        return self._steps[n_steps]

    @cached_property
    def _kept(self) -> dict[tuple[float, int], Array]:
        return {}

    @cached_property
    def _steps(self) -> dict[int, tuple[Array, Array]]:
        return {}

    @cached_property
    def _squared_means(self) -> Array:
        return np.asarray(np.sum(np.square(self.span @ self.mean), axis=1))

    def total_squared_shift(self, noise: float, n_steps: int) -> float:
        """|F Delta|^2, the sum of all squared shifts, without solving for the directions."""
        variances = self.variances + self.later_variances(noise, n_steps)
        return float(np.sum(self._squared_means / variances))

    def rounding_error(self, noise: float, n_steps: int) -> float:
        """What rounding of C, and of Delta relative to itself, may amount to once whitened."""
        least = float(np.min(self.variances + self.later_variances(noise, n_steps)))
        if least == 0.0:
            return np.inf
        # An eigenvalue that is off by an ulp of the largest moves (1 - eta a)^N by N ulps.
        return _UNIT * (float(np.max(self.variances)) / least + self.law.schedule.n_steps)

    def shift_rounding(self, noise: float, n_steps: int) -> float:
        """What rounding of Delta may amount to in the whitened shift."""
        least = float(np.min(self.variances + self.later_variances(noise, n_steps)))
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
    return _UNIT * (1 + N / _NOISY_STEPS) * eta * float(reach @ terms)


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
    with_rows = turned.T @ (variances_with_rows[:, None] * turned)
    source = basis.T @ Z.T
    powers = Powers(values, law.step_size)
    mean = mean_difference(law, powers, source, means)
    rounding = mean_rounding(law, powers, source, targets)
    return ChainDifference.of(law, values, variances, mean, with_rows, rounding)
