"""The difference of two chains from a small Krylov space, with a proved error.

Delta and C of `laws.difference` are made of vectors (1 - eta A)^i X_f' and (1 - eta A')^i X_f', so
block Lanczos from X_f' captures them in few dimensions: A Q = Q T + Q_+ B E_last',
A' Q = Q T' + Q_+ B E_last', T' = T - R_1 R_1' in the first block. What is neglected enters only
through the coupling B. With

    g_i = |B E_last' (1 - eta T)^i E_1 R_1|_F   (g'_i with T'),   r_i = eta sum_{l<i} g_l:

    |Delta - Q D|    <=  eta^2 sum_j |u_j| sum_{i < N-1-j} g'_i
    |C - Q C_m Q'|_F <=  eta |X_f| sum_n var_n sum_{i < 2n} (r_i + r'_i),

var_n the noise variance of the step that n others follow. docs/exact.md derives both, and the
whitening error of `whitening_error`.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.dynamics.spectral import decay, spread
from pilu.laws.difference import ChainDifference, mean_difference
from pilu.laws.iterates import IterateLaw

__all__ = ["BlockLanczos", "Enclosure", "KrylovDifference", "krylov_difference"]

Array = NDArray[np.float64]

_DEFLATE = 1e-14  # relative size below which a direction is rounding
_NEGLIGIBLE = 1e-14  # relative size of what is not followed through the whitening


class BlockLanczos:
    """Lanczos on diag(w) from a block of vectors, fully reorthogonalised, extended on demand."""

    def __init__(self, w: Array, block: Array) -> None:
        self.w = w
        self.size = float(np.max(w, initial=0.0))
        left, singular, _ = scipy.linalg.svd(block, full_matrices=False, check_finite=False)
        kept = singular > _DEFLATE * max(float(singular[0]), 1e-300)
        self.basis = np.ascontiguousarray(left[:, kept])
        self.first = self.basis.T @ block  # R_1
        self.projected = np.zeros((0, 0))
        self.last = self.basis  # the block that the next step starts from
        self.coupling = np.zeros((0, self.basis.shape[1]))  # B

    @property
    def width(self) -> int:
        """Independent vectors in the first block."""
        return len(self.first)

    @property
    def exhausted(self) -> bool:
        """Whether the space is invariant: nothing is neglected."""
        return bool(self.last.shape[1] == 0)

    def extend(self, n_columns: int) -> None:
        """Grow the space to at least `n_columns` dimensions, or until it is invariant."""
        while self.projected.shape[1] < n_columns and not self.exhausted:
            self._step()

    def _step(self) -> None:
        old, width = self.projected.shape[0], self.last.shape[1]
        image = self.w[:, None] * self.last
        inner = self.basis.T @ image
        image -= self.basis @ inner
        again = self.basis.T @ image  # the second pass keeps the basis orthogonal
        image -= self.basis @ again
        inner += again
        grown = np.zeros((old + width, old + width))
        grown[:old, :old] = self.projected
        grown[:, old:] = inner
        grown[old:, :] = inner.T
        self.projected = grown
        left, singular, right = scipy.linalg.svd(image, full_matrices=False, check_finite=False)
        kept = singular > _DEFLATE * self.size
        kept[len(self.w) - self.basis.shape[1] :] = False  # no more directions than there are
        self.coupling = singular[kept, None] * right[kept]
        self.last = left[:, kept]
        # A direction that is barely there is orthogonalised once more before it is trusted.
        self.last = self.last - self.basis @ (self.basis.T @ self.last)
        if self.last.shape[1]:
            self.last = np.linalg.qr(self.last)[0] if width > 1 else _unit(self.last)
        self.basis = np.hstack([self.basis, self.last])


def _unit(column: Array) -> Array:
    return np.asarray(column / np.linalg.norm(column))


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


@dataclass(frozen=True, eq=False)
class KrylovDifference:
    """A projected difference and what the projection neglects."""

    projected: ChainDifference
    coupling: Array  # B E_last' in the eigenbasis of T', k x m
    mean_error: float
    covariance_error: float
    least_variance: float  # a lower bound on the eigenvalues of Sigma'_N

    @property
    def relative_error(self) -> float:
        """The larger of both errors, in units of the retained run's noise."""
        root = float(np.sqrt(self.least_variance))
        return max(self.mean_error / root, self.covariance_error / root**2)

    def whitened(self, noise: float, n_steps: int) -> "Enclosure":
        """The whitened difference, inflated by what whitening in the projection may miss.

        Directions are taken in order of importance, as left singular vectors of [X, shift]; each is
        a combination of the columns of C and Delta, so that its error can be followed back. A
        direction's noise is made smaller by the factor w (docs/exact.md), which is never safer.
        """
        plain = self.projected.whitened(noise, n_steps)
        if self.coupling.size == 0:
            return Enclosure(plain.excesses, plain.squared_shifts, 0.0, 0.0)
        U, F = plain.directions, plain.scale
        X = (U * plain.excesses) @ U.T
        shift = U @ plain.shifts
        left, sizes, right = scipy.linalg.svd(np.hstack([X, shift]), full_matrices=False)
        kept = sizes > _NEGLIGIBLE * sizes[0]
        left, sizes, right = left[:, kept], sizes[kept], right[kept]
        C, mean = self.projected.covariance, self.projected.mean
        # F^-1 left = [C F, Delta] right' / sizes, free of the division by a tiny F
        vectors = np.hstack([C * F, mean]) @ right.T / sizes
        errors = self._energy_errors(noise, n_steps, vectors)
        floor = max(float(np.linalg.norm(errors * sizes)), 1e-15)
        weights = np.maximum(1.0, np.square(errors / floor))
        kappa = float(np.sqrt(np.sum(np.square(errors) / weights)))
        factors = np.sqrt((1 + kappa) * (1 + kappa * weights))
        core, core_shift = left.T @ X @ left, left.T @ shift
        x, turn = scipy.linalg.eigh(factors[:, None] * core * factors, check_finite=False)
        a2 = np.sum(np.square(turn.T @ (factors[:, None] * core_shift)), axis=1)
        # What the kept directions leave of C and Delta, rounding included, at its own energy.
        sizes, rest = scipy.linalg.eigh(C - vectors @ core @ vectors.T, check_finite=False)
        lost = np.hstack([rest, mean - vectors @ core_shift])
        energies = np.linalg.norm(F[:, None] * lost, axis=0)
        energies += self._energy_errors(noise, n_steps, lost)
        root = float(np.sqrt(self.least_variance))
        return Enclosure(
            x,
            a2,
            self.mean_error / root + float(np.linalg.norm(energies[len(C) :])),
            self.covariance_error / root**2 + float(np.abs(sizes) @ energies[: len(C)] ** 2),
        )

    def _energy_errors(self, noise: float, n_steps: int, vectors: Array) -> Array:
        """For every column c: how much more than |F c| the least noise moving Q c may cost.

        The noise that moves the projected chain by c is fed to the real one; what it misses is
        corrected at the last step of each phase, at a cost that the coupling bounds.
        """
        law, a = self.projected.law, self.projected.eigenvalues
        eta, N = law.step_size, law.schedule.n_steps
        h, extra = self.projected.variances, self.projected.later_variances(noise, n_steps)
        variances = law.schedule.variances(eta)[::-1]  # n steps follow
        share = 1 / (h + extra)
        learn = self._norms(share[:, None] * vectors, 2 * N)
        # sum_n var_n sum_{i<n} v_{n+i}: v_s counts for n with n <= s < 2n
        ahead = np.concatenate([[0.0], np.cumsum(variances)])
        s = np.arange(2 * N)
        weights = ahead[np.minimum(s + 1, N)] - ahead[np.minimum(s // 2 + 1, N)]
        error = eta * (learn @ np.maximum(weights, 0.0)) / np.sqrt(self.least_variance)
        if noise > 0:
            unit = np.sqrt(2 * eta) * noise
            shrunk = decay(a, eta, n_steps)
            dual = shrunk / (shrunk**2 * h + noise**2 * spread(a, eta, n_steps))
            s = np.arange(2 * n_steps)
            pairs = np.maximum(np.minimum(s, n_steps - 1) - s // 2, 0)
            error += eta * unit * (self._norms(dual[:, None] * vectors, 2 * n_steps) @ pairs)
            with np.errstate(invalid="ignore"):
                moved = np.where(np.isinf(extra), 1.0, extra * share)
            error += eta * self._norms(moved[:, None] * vectors, n_steps).sum(axis=1) / unit
        return np.asarray(error)

    def _norms(self, vectors: Array, count: int) -> Array:
        """|B E_last' (1 - eta T')^s v| for every column v and s < count."""
        a, eta = self.projected.eigenvalues, self.projected.law.step_size
        powers = decay(a[:, None], eta, np.arange(count))
        return _coupled_norms(self.coupling, vectors, powers)


def krylov_difference(law: IterateLaw, lanczos: BlockLanczos, means: Array) -> KrylovDifference:
    """Project on the Lanczos space as it stands; `means` are the residual means (R x d x N)."""
    eta, N, T = law.step_size, law.schedule.n_steps, lanczos.projected
    m, k = len(T), len(lanczos.first)
    retained = T.copy()
    retained[:k, :k] -= lanczos.first @ lanczos.first.T
    with_rows, vectors = scipy.linalg.eigh(T, check_finite=False)
    values, basis = scipy.linalg.eigh(retained, check_finite=False)
    values = np.maximum(values, law.spectrum.alpha)  # X'X has no negative eigenvalue
    turned = vectors.T @ basis
    covariance = turned.T @ (law.final_variances(with_rows)[:, None] * turned)
    covariance[np.diag_indices_from(covariance)] -= law.final_variances(values)
    source = basis[:k].T @ lanczos.first
    mean = mean_difference(law, values, source, means)
    projected = ChainDifference(law, values, mean, (covariance + covariance.T) / 2)
    variances = law.schedule.variances(eta)[::-1]
    width = lanczos.coupling.shape[1]
    if lanczos.exhausted:
        return KrylovDifference(projected, np.zeros((0, m)), 0.0, 0.0, float(variances[0]))
    coupling = lanczos.coupling @ basis[m - width :]
    steps = np.arange(2 * N)
    g_retained = _total_norms(coupling, source, decay(values[:, None], eta, steps))
    g_all = _total_norms(
        lanczos.coupling @ vectors[m - width :],
        vectors[:k].T @ lanczos.first,
        decay(with_rows[:, None], eta, steps),
    )
    reach = np.concatenate([[0.0], np.cumsum(g_retained)])
    sizes = np.linalg.norm(means, axis=(0, 1))
    mean_error = eta**2 * float(sizes @ reach[N - 1 - np.arange(N)])
    r = eta * np.concatenate([[0.0], np.cumsum(g_retained + g_all)])
    doubled = np.concatenate([[0.0], np.cumsum(r)])[2 * np.arange(N)]
    size = float(np.linalg.norm(lanczos.first, 2))
    covariance_error = eta * size * float(variances @ doubled)
    return KrylovDifference(projected, coupling, mean_error, covariance_error, float(variances[0]))


def _coupled_norms(coupling: Array, vectors: Array, powers: Array) -> Array:
    # |coupling diag(powers_s) v| for every column v and every s: (columns x steps)
    total = np.zeros((vectors.shape[1], powers.shape[1]))
    for row in coupling:
        total += np.square((row[:, None] * vectors).T @ powers)
    return np.sqrt(total)


def _total_norms(coupling: Array, block: Array, powers: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(np.square(_coupled_norms(coupling, block, powers)), axis=0)))
