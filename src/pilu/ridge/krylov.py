"""The difference of two chains from a small Krylov space, with a proved error.

Delta and C of `ridge.difference` are made of vectors (1 - eta A)^i X_f' and (1 - eta A')^i X_f', so
block Lanczos from X_f' captures them in few dimensions: A Q = Q T + Q_+ B E_last',
A' Q = Q T' + Q_+ B E_last', T' = T - R_1 R_1' in the first block. What is neglected enters only
through the coupling B. With

    g_i = |B E_last' (1 - eta T)^i E_1 R_1|_F   (g'_i with T'),   r_i = eta sum_{l<i} g_l:

    |u_k - u^_k|     <=  eta^2 sum_{j<k} sum_{l<j} g_l |(1 - eta A)^{j-1-l} B| + |theta_0| r_k
    |Delta - Q D|    <=  eta^2 sum_j |u^_j| sum_{i < N-1-j} g'_i + eta |X_f| sum_k |u_k - u^_k|
    |C - Q C_m Q'|_F <=  eta |X_f| sum_n var_n sum_{i < 2n} (r_i + r'_i),

u^_k the residual means as the space sees them, var_n the noise variance of the step that n others
follow. docs/exact.md derives these, and the whitening error of `_energy_errors`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from pilu.chains.difference import ChainDifference, Enclosure
from pilu.chains.schedule import Schedule
from pilu.ridge.difference import Reach, mean_difference, mean_rounding, steps_along
from pilu.ridge.iterates import RidgeIterates
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.powers import Powers

__all__ = ["KrylovDifference", "krylov_difference"]

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-13  # least whitened size of a direction that is not just counted as an error
_SMALL_REST = 1e-12  # whitened covariance left out that is not worth a second look
_SPARED = 1e-10  # by which important directions may be inflated


@dataclass(frozen=True, eq=False)
class KrylovDifference:
    """A projected difference and what the projection neglects."""

    projected: ChainDifference
    coupling: Array  # B E_last' in the eigenbasis of T', k x m
    powers: Powers  # of 1 - eta T' in that basis
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
        least = self.projected.least_variance(noise, n_steps)
        return (mean / math.sqrt(least), covariance / least) if least else (math.inf, math.inf)

    def _errors(self, noise: float, n_steps: int) -> tuple[float, float]:
        (mean, covariance), rest = (
            self.relative_errors(noise, n_steps),
            self.span_errors(noise, n_steps),
        )
        return mean + rest[0], covariance + rest[1]

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The whitened difference, inflated by what whitening in the projection may miss.

        Directions are taken in order of importance, as left singular vectors of [X, shift]; each is
        a combination of the columns of C and Delta, so that its error can be followed back. A
        direction's noise is made smaller by the factor w (docs/exact.md), which is never safer.
        """
        shown = self.projected
        white = shown.whitened(noise, n_steps)
        least = shown.least_variance(noise, n_steps)
        if least == 0.0:
            return Enclosure(*white.principal(), math.inf, math.inf, math.inf, math.inf)
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
        energies = np.linalg.norm(axes, axis=0) / np.sqrt(least)
        if _left_over(lost, energies)[1] > _SMALL_REST:  # else the plain bound will do
            more = self._energy_errors(noise, n_steps, shown.span @ axes)
            more += np.linalg.norm(white.scale @ axes, axis=0)
            energies = np.minimum(energies, more)
        errors = self._energy_errors(noise, n_steps, shown.span @ vectors)
        factors = _shrinking_factors(errors, sizes)
        x, turn = np.linalg.eigh(factors[:, None] * core * factors)
        a2 = np.sum(np.square(turn.T @ (factors[:, None] * shift)), axis=1)
        total = float(np.sum(np.square(white.shift)))
        shift_error, covariance_error = np.add(
            self._errors(noise, n_steps), _left_over(lost, energies)
        )
        return Enclosure(
            x,
            a2,
            float(shift_error),
            float(covariance_error),
            float(np.sum(a2)) / total - 1 if total > 0 else 0.0,
            float(np.linalg.norm(x)) - float(np.linalg.norm(white.core)),
        )

    def _energy_errors(self, noise: float, n_steps: int, vectors: Array) -> Array:
        """For every column c: how much more than |F c| the least noise moving Q c may cost.

        The noise that moves the projected chain by c is fed to the real one; what it misses is
        corrected at the last step of a phase that is still to come, at a cost that the coupling
        bounds.
        """
        eta = self.projected.law.step_size
        h, extra = self.projected.variances, self.projected.later_variances(noise, n_steps)
        unit = np.sqrt(2 * eta) * noise
        share = 1 / (h + extra)
        error = eta * self._sums(share[:, None] * vectors, self._costs(unit**2))
        if noise > 0:
            shrunk, wider = self.projected.later_steps(n_steps)
            moved = (extra * share)[:, None] * vectors
            dual = (shrunk / (noise**2 * wider))[:, None] * moved
            s = np.arange(2 * n_steps)
            pairs = np.maximum(np.minimum(s, n_steps - 1) - s // 2, 0)
            # R is taken smaller than it was computed, at the most by half: energies grow by 2^1/2.
            error += 1.5 * eta * unit * self._sums(dual, pairs)
            error += 1.5 * eta * self._sums(moved, np.ones(n_steps)) / unit
        return np.asarray(error)

    def _costs(self, later: float) -> Array:
        """What each v_s = |B E_last' (1 - eta T')^s y|, s < 2N, adds to the error, over eta.

        The step that n others follow misses M'^e times v_{2n-1-e} for every e < n, var_n times. A
        miss with M'^e can be put right at any step that at most e others follow, or while
        unlearning, at 1 / (that step's deviation): the noisiest of them is taken.
        """
        law = self.projected.law
        costs = np.zeros(2 * law.schedule.n_steps)
        for start, end, best in self._noisiest_to_come(later):
            reach = _noise_reached(law.schedule, law.step_size, start, end)
            costs += reach / np.sqrt(best) if best > 0 else np.where(reach > 0, np.inf, 0.0)
        return costs

    def _noisiest_to_come(self, later: float) -> list[tuple[int, int, float]]:
        """(start, end, variance): the noisiest step that at most start <= e < end others follow."""
        pieces: list[tuple[int, int, float]] = []
        best, start, law = later, 0, self.projected.law
        for steps, noise in reversed(law.schedule.segments):
            best = max(best, 2 * law.step_size * noise**2)
            if pieces and pieces[-1][2] == best:
                pieces[-1] = (pieces[-1][0], start + steps, best)
            else:
                pieces.append((start, start + steps, best))
            start += steps
        return pieces

    def _sums(self, vectors: Array, weights: Array) -> Array:
        """sum_s weights_s |B E_last' (1 - eta T')^s v| for every column v."""
        return self.powers.norm_sums(self.coupling, vectors, weights)


@lru_cache(maxsize=64)  # the same for every row of a problem
def _noise_reached(schedule: Schedule, step_size: float, start: int, end: int) -> Array:
    """For every s < 2N: the var_n that v_s meets with start <= e < end, summed."""
    N, s = schedule.n_steps, np.arange(2 * schedule.n_steps)
    ahead = np.concatenate([[0.0], np.cumsum(schedule.variances(step_size)[::-1])])
    # n from (s + start)//2 + 1 to (s + end)//2
    first = np.minimum((s + start) // 2 + 1, N)
    last = np.minimum(np.minimum(s, (s + end) // 2) + 1, N)
    return np.asarray(np.maximum(ahead[last] - ahead[first], 0.0))


def _left_over(lost: Array, energies: Array) -> tuple[float, float]:
    """Shift and covariance of what was left out, given the energies of its directions."""
    return (
        float(np.linalg.norm(energies[len(lost) :])),
        float(np.abs(lost) @ energies[: len(lost)] ** 2),
    )


def _shrinking_factors(errors: Array, sizes: Array) -> Array:
    """How much less noise, in deviation, covers energies that are off by `errors`.

    Any weights w >= 1 will do. These keep kappa at `_SPARED` and spend as little as they can, each
    direction counted at its size.
    """
    total = float(np.sum(errors * np.sqrt(sizes)))
    weights = np.maximum(1.0, total / _SPARED**2 * errors / np.sqrt(sizes))
    kappa = float(np.sqrt(np.sum(np.square(errors) / weights)))
    return np.asarray(np.sqrt((1 + kappa) * (1 + kappa * weights)))


def krylov_difference(
    law: RidgeIterates, lanczos: BlockLanczos, targets: Array
) -> KrylovDifference:
    """Project on the Lanczos space as it stands; `targets` are those of the rows (R x d)."""
    eta, N, T = law.step_size, law.schedule.n_steps, lanczos.projected
    m, k = len(T), len(lanczos.first)
    retained = T.copy()
    retained[:k, :k] -= lanczos.first @ lanczos.first.T
    with_rows, vectors = _eigh(T, k)
    values, basis = _eigh(retained, k)
    values = np.maximum(values, law.spectrum.alpha)  # X'X has no negative eigenvalue
    powers, powers_with_rows = Powers(values, eta), Powers(with_rows, eta)
    turned = vectors.T @ basis
    variances, variances_with_rows = law.final_variances(np.stack([values, with_rows]))
    covariance = turned.T @ (variances_with_rows[:, None] * turned)
    rows, source = vectors[:k].T @ lanczos.first, basis[:k].T @ lanczos.first
    # What was deflated is a step's error, and one of X_f' itself.
    rounding = law.rounding(k, eta * lanczos.deflated * law.spectrum.largest)
    cross, start = vectors.T @ (lanczos.basis.T @ law.spectrum.cross), None
    if law.start_coordinates.any():
        start = vectors.T @ (lanczos.basis.T @ law.start_coordinates)
    residuals = _residual_means(eta, N, powers_with_rows, rows, cross, start) - targets[:, :, None]
    lengths = np.sqrt(np.sum(np.square(residuals), axis=(0, 1)))
    reach = Reach.of(powers, source, powers_with_rows, rows, N)
    unsure = mean_rounding(law, reach, residuals, targets, rounding.error)
    projected = ChainDifference.of(
        law,
        variances,
        steps_along(values, eta),
        mean_difference(law, powers, source, residuals),
        covariance - np.diag(variances),
        float(max(np.max(variances), np.max(variances_with_rows))),
        unsure + eta * lanczos.deflated * reach.without[0] * float(np.sum(lengths)),
        rounding,
        is_whole=False,
    )
    if lanczos.exhausted:
        return KrylovDifference(projected, np.zeros((0, m)), powers, 0.0, 0.0)
    width = lanczos.coupling.shape[1]
    coupling = lanczos.coupling @ basis[m - width :]
    g = powers_with_rows.norms(lanczos.coupling @ vectors[m - width :], rows, 2 * N)
    r = _leaked(eta, g)
    g_retained = powers.norms(coupling, source, 2 * N)
    size = float(np.linalg.norm(lanczos.first))  # Frobenius: at least |X_f|
    leaking = np.concatenate([[0.0], np.cumsum(g_retained)])
    mean_error = eta**2 * float(lengths @ leaking[N - 1 - np.arange(N)])
    unsure = eta**2 * float(g[:N] @ law.gradient_sums[::-1])  # of the residual means themselves
    unsure += float(np.linalg.norm(law.start_coordinates)) * float(np.sum(r[:N]))
    mean_error += eta * size * unsure
    doubled = _leaked(1.0, r + _leaked(eta, g_retained))[2 * np.arange(N)]
    covariance_error = eta * size * float(law.schedule.variances(eta)[::-1] @ doubled)
    return KrylovDifference(projected, coupling, powers, mean_error, covariance_error)


def _eigh(matrix: Array, bandwidth: int) -> tuple[Array, Array]:
    if bandwidth > 1 or len(matrix) == 1:
        values, vectors = np.linalg.eigh(matrix)
    else:
        values, vectors = eigh_tridiagonal(np.diag(matrix), np.diag(matrix, 1), check_finite=False)
    return values, vectors


def _residual_means(
    eta: float, count: int, powers: Powers, rows: Array, cross: Array, start: Array | None
) -> Array:
    """X_f m_k for k < count, m_k = eta sum_{j<k} (1 - eta A)^j B + (1 - eta A)^k theta_0."""
    m, (R, d) = len(rows), (rows.shape[1], cross.shape[1])
    gradients = powers.series((rows[:, :, None] * cross[:, None, :]).reshape(m, R * d), count)
    means = np.zeros((R * d, count))
    np.cumsum(eta * gradients[:, :-1], axis=1, out=means[:, 1:])
    if start is not None:
        means += powers.series((rows[:, :, None] * start[:, None, :]).reshape(m, R * d), count)
    return means.reshape(R, d, count)


def _leaked(eta: float, lengths: Array) -> Array:
    # eta times the sum of all lengths before each
    return eta * np.concatenate([[0.0], np.cumsum(lengths[:-1])])
