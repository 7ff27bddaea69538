"""The difference of two chains from a small Krylov space, with a proved error.

Delta and C of `laws.difference` are made of vectors (1 - eta A)^i X_f' and (1 - eta A')^i X_f', so
block Lanczos from X_f' captures them in few dimensions: A Q = Q T + Q_+ B E_last',
A' Q = Q T' + Q_+ B E_last', T' = T - R_1 R_1' in the first block. What is neglected enters only
through the coupling B. With

    g_i = |B E_last' (1 - eta T)^i E_1 R_1|_F   (g'_i with T'),   r_i = eta sum_{l<i} g_l:

    |Delta - Q D|    <=  eta^2 sum_j |u_j| sum_{i < N-1-j} g'_i
    |C - Q C_m Q'|_F <=  eta |X_f| sum_n var_n sum_{i < 2n} (r_i + r'_i),

var_n the noise variance of the step that n others follow. docs/exact.md derives both, and the
whitening error of `_energy_errors`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.dynamics.spectral import decay, decays, spread
from pilu.laws.difference import ChainDifference, mean_difference
from pilu.laws.iterates import IterateLaw
from pilu.laws.lanczos import BlockLanczos

__all__ = ["Enclosure", "KrylovDifference", "krylov_difference"]

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-13  # least whitened size of a direction that is not just counted as an error
_SPARED = 1e-10  # by which important directions may be inflated


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
class KrylovDifference:
    """A projected difference and what the projection neglects."""

    projected: ChainDifference
    coupling: Array  # B E_last' in the eigenbasis of T', k x m
    powers: Array  # of 1 - eta T' in that basis, m x 2N
    mean_error: float
    covariance_error: float

    def relative_errors(self, noise: float, n_steps: int) -> tuple[float, float]:
        """Errors of mean and covariance by the projection, in units of the retained run's noise."""
        return self._whitened_errors(self.mean_error, self.covariance_error, noise, n_steps)

    def span_errors(self, noise: float, n_steps: int) -> tuple[float, float]:
        """The same for what rounding left outside of the span."""
        shown = self.projected
        return self._whitened_errors(shown.mean_rest, shown.covariance_rest, noise, n_steps)

    def _whitened_errors(
        self, mean: float, covariance: float, noise: float, n_steps: int
    ) -> tuple[float, float]:
        least = self._least_variance(noise, n_steps)
        return (mean / math.sqrt(least), covariance / least) if least else (math.inf, math.inf)

    def _errors(self, noise: float, n_steps: int) -> tuple[float, float]:
        (mean, covariance), rest = (
            self.relative_errors(noise, n_steps),
            self.span_errors(noise, n_steps),
        )
        return mean + rest[0], covariance + rest[1]

    def _least_variance(self, noise: float, n_steps: int) -> float:
        # h(A') is at least the last step's variance, R at least K times that of an unlearning step.
        law = self.projected.law
        last = law.schedule.segments[-1].noise
        return 2 * law.step_size * (last**2 + n_steps * noise**2)

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The whitened difference, inflated by what whitening in the projection may miss.

        Directions are taken in order of importance, as left singular vectors of [X, shift]; each is
        a combination of the columns of C and Delta, so that its error can be followed back. A
        direction's noise is made smaller by the factor w (docs/exact.md), which is never safer.
        """
        shown = self.projected
        white = shown.whitened(noise, n_steps)
        if self.coupling.size == 0 or not (white.core.any() or white.shift.any()):
            return Enclosure(*white.principal(), *self._errors(noise, n_steps))
        left, sizes, right = np.linalg.svd(
            np.hstack([white.core, white.shift]), full_matrices=False
        )
        cut = max(_NEGLIGIBLE, max(self.span_errors(noise, n_steps)) / 10)
        kept = sizes > min(cut, sizes[0] / 2)
        left, sizes, right = left[:, kept], sizes[kept], right[kept]
        core, shift = left.T @ white.core @ left, left.T @ white.shift
        # U vectors = F^-1 W left = U [S L', mean] right' / sizes: no division by a tiny F
        columns = np.hstack([shown.sizes[:, None] * white.scale.T, shown.mean])
        vectors = columns @ right.T / sizes
        # What these directions leave of C and Delta, rounding included
        lost, axes = np.linalg.eigh(np.diag(shown.sizes) - vectors @ core @ vectors.T)
        axes = np.hstack([axes, shown.mean - vectors @ shift])
        errors = self._energy_errors(noise, n_steps, shown.span @ np.hstack([vectors, axes]))
        least = self._least_variance(noise, n_steps)
        energies = np.linalg.norm(white.scale @ axes, axis=0) + errors[len(sizes) :]
        energies = np.minimum(energies, np.linalg.norm(axes, axis=0) / np.sqrt(least))
        factors = _shrinking_factors(errors[: len(sizes)], sizes)
        x, turn = np.linalg.eigh(factors[:, None] * core * factors)
        a2 = np.sum(np.square(turn.T @ (factors[:, None] * shift)), axis=1)
        total = float(np.sum(np.square(white.shift)))
        shift_error, covariance_error = self._errors(noise, n_steps)
        return Enclosure(
            x,
            a2,
            shift_error + float(np.linalg.norm(energies[len(lost) :])),
            covariance_error + float(np.abs(lost) @ energies[: len(lost)] ** 2),
            float(np.sum(a2)) / total - 1 if total > 0 else 0.0,
            float(np.linalg.norm(x)) - float(np.linalg.norm(white.core)),
        )

    def _energy_errors(self, noise: float, n_steps: int, vectors: Array) -> Array:
        """For every column c: how much more than |F c| the least noise moving Q c may cost.

        The noise that moves the projected chain by c is fed to the real one; what it misses is
        corrected at the last step of a phase that is still to come, at a cost that the coupling
        bounds.
        """
        law, a = self.projected.law, self.projected.eigenvalues
        eta, N = law.step_size, law.schedule.n_steps
        h, extra = self.projected.variances, self.projected.later_variances(noise, n_steps)
        unit = np.sqrt(2 * eta) * noise
        share = 1 / (h + extra)
        error = eta * (self._norms(share[:, None] * vectors, 2 * N) @ self._costs(unit**2))
        if noise > 0:
            shrunk = decay(a, eta, n_steps)
            dual = shrunk / (shrunk**2 * h + noise**2 * spread(a, eta, n_steps))
            s = np.arange(2 * n_steps)
            pairs = np.maximum(np.minimum(s, n_steps - 1) - s // 2, 0)
            error += eta * unit * (self._norms(dual[:, None] * vectors, 2 * n_steps) @ pairs)
            with np.errstate(invalid="ignore"):
                moved = np.where(np.isinf(extra), 1.0, extra * share)
            error += eta * self._norms(moved[:, None] * vectors, n_steps).sum(axis=1) / unit
        return np.asarray(error)

    def _costs(self, later: float) -> Array:
        """What each v_s = |B E_last' (1 - eta T')^s y|, s < 2N, adds to the error, over eta.

        The step that n others follow misses M'^e times v_{2n-1-e} for every e < n, var_n times. A
        miss with M'^e can be put right at any step that at most e others follow, or while
        unlearning, at 1 / (that step's deviation): the noisiest of them is taken.
        """
        law = self.projected.law
        N = law.schedule.n_steps
        ahead = np.concatenate([[0.0], np.cumsum(law.schedule.variances(law.step_size)[::-1])])
        s = np.arange(2 * N)
        costs, best, start = np.zeros(2 * N), later, 0
        for steps, noise in reversed(law.schedule.segments):
            variance = 2 * law.step_size * noise**2
            best = max(best, variance)
            # e in [start, start + steps): n from (s + start)//2 + 1 to (s + start + steps)//2
            first = np.minimum((s + start) // 2 + 1, N)
            last = np.minimum(np.minimum(s, (s + start + steps) // 2) + 1, N)
            reach = np.maximum(ahead[last] - ahead[first], 0.0)
            costs += reach / np.sqrt(best) if best > 0 else np.where(reach > 0, np.inf, 0.0)
            start += steps
        return costs

    def _norms(self, vectors: Array, count: int) -> Array:
        """|B E_last' (1 - eta T')^s v| for every column v and s < count."""
        powers = self.powers
        if count > powers.shape[1]:
            powers = decays(self.projected.eigenvalues, self.projected.law.step_size, count)
        return _coupled_norms(self.coupling, vectors, powers[:, :count])


def _shrinking_factors(errors: Array, sizes: Array) -> Array:
    """How much less noise, in deviation, covers energies that are off by `errors`.

    Any weights w >= 1 will do. These keep kappa at `_SPARED` and spend as little as they can, each
    direction counted at its size.
    """
    total = float(np.sum(errors * np.sqrt(sizes)))
    weights = np.maximum(1.0, total / _SPARED**2 * errors / np.sqrt(sizes))
    kappa = float(np.sqrt(np.sum(np.square(errors) / weights)))
    return np.asarray(np.sqrt((1 + kappa) * (1 + kappa * weights)))


def krylov_difference(law: IterateLaw, lanczos: BlockLanczos, means: Array) -> KrylovDifference:
    """Project on the Lanczos space as it stands; `means` are the residual means (R x d x N)."""
    eta, N, T = law.step_size, law.schedule.n_steps, lanczos.projected
    m, k = len(T), len(lanczos.first)
    retained = T.copy()
    retained[:k, :k] -= lanczos.first @ lanczos.first.T
    with_rows, vectors = np.linalg.eigh(T)
    values, basis = np.linalg.eigh(retained)
    values = np.maximum(values, law.spectrum.alpha)  # X'X has no negative eigenvalue
    turned = vectors.T @ basis
    covariance = turned.T @ (law.final_variances(with_rows)[:, None] * turned)
    covariance[np.diag_indices_from(covariance)] -= law.final_variances(values)
    source = basis[:k].T @ lanczos.first
    powers = decays(values, eta, 2 * N)
    mean = mean_difference(law, powers, source, means)
    projected = ChainDifference.of(law, values, mean, (covariance + covariance.T) / 2)
    if lanczos.exhausted:
        return KrylovDifference(projected, np.zeros((0, m)), powers, 0.0, 0.0)
    width = lanczos.coupling.shape[1]
    coupling = lanczos.coupling @ basis[m - width :]
    g_retained = _total_norms(coupling, source, powers)
    g_all = _total_norms(
        lanczos.coupling @ vectors[m - width :],
        vectors[:k].T @ lanczos.first,
        decays(with_rows, eta, 2 * N),
    )
    reach = np.concatenate([[0.0], np.cumsum(g_retained)])
    sizes = np.linalg.norm(means, axis=(0, 1))
    mean_error = eta**2 * float(sizes @ reach[N - 1 - np.arange(N)])
    r = eta * np.concatenate([[0.0], np.cumsum(g_retained + g_all)])
    doubled = np.concatenate([[0.0], np.cumsum(r)])[2 * np.arange(N)]
    size = float(np.linalg.norm(lanczos.first, 2))
    covariance_error = eta * size * float(law.schedule.variances(eta)[::-1] @ doubled)
    return KrylovDifference(projected, coupling, powers, mean_error, covariance_error)


def _coupled_norms(coupling: Array, vectors: Array, powers: Array) -> Array:
    # |coupling diag(powers_s) v| for every column v and every s: (columns x steps)
    total = np.zeros((vectors.shape[1], powers.shape[1]))
    for row in coupling:
        total += np.square((row[:, None] * vectors).T @ powers)
    return np.sqrt(total)


def _total_norms(coupling: Array, block: Array, powers: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(np.square(_coupled_norms(coupling, block, powers)), axis=0)))
