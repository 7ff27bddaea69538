"""What a Krylov space misses of the difference of two chains, with proof.

Delta and C of `chains.comparison` are made of vectors (1 - eta A)^i X_f' and (1 - eta A')^i X_f',
so block Lanczos from X_f' captures them in few dimensions: A Q = Q T + Q_+ B E_last',
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
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.comparison import ROUNDING_LIMIT, ChainDifference, Enclosure, View
from pilu.chains.schedule import Schedule, summed_before
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.spectral import Diagonal, RequestSpace

if TYPE_CHECKING:
    from pilu.ridge.law import RidgeLaw

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-13  # a whitened direction that is smaller is counted as an error
_SMALL_REST = 1e-12  # whitened covariance left out for which the plain bound is good enough
_SPARED = 1e-10  # by which important directions may be inflated
_GUESS_ERROR = 1e-5  # of the projection, beyond which it does not guide a guess
_PROJECTION_ERROR = 2e-14  # for each step, beyond which a finer view is taken
_INFLATION = 2e-8  # of the squared shifts by whitening in the projection, for the same purpose
_EXCESS_INFLATION = 1e-4  # of the excesses, which matter to second order
_DENSE_IS_SLOW = 1000  # parameters
_COARSE = 3e-4  # inflation, and ten times the other errors, acceptable in place of a slow view


class KrylovView(View):
    """The difference in a Krylov space, and what that neglects.

    Parameters
    ----------
    law : RidgeLaw
    lanczos : BlockLanczos
        From X_f', as far as it has been extended.
    targets : array
        Those of the rows, R x d.
    is_finest : bool
        Whether no larger space will be tried.
    """

    def __init__(
        self, law: "RidgeLaw", lanczos: BlockLanczos, targets: Array, *, is_finest: bool = False
    ) -> None:
        space, N = reached_space(law, lanczos), law.schedule.n_steps
        residuals = _residual_means(law, space, N) - targets[:, :, None]
        # What was deflated is a step's error, and one of X_f' itself.
        more = law.step_size * lanczos.deflated * law.spectrum.largest
        rounding = law.rounding(lanczos.width, more)
        super().__init__(law.difference_in(space, residuals, targets, rounding, lanczos.deflated))
        self.size, self._is_finest = len(space.own.values), is_finest
        self._next_is_slow = is_finest and len(law.spectrum.eigenvalues) > _DENSE_IS_SLOW
        self._powers = space.retained.powers
        self._coupling = np.zeros((0, self.size))  # B E_last' in the eigenbasis of T', k x m
        self.mean_error = self.covariance_error = 0.0
        if not lanczos.exhausted:
            B, size = lanczos.coupling, float(np.linalg.norm(lanczos.first))  # size >= |X_f|
            self._coupling = B @ space.retained.last(B.shape[1])
            leaks, retained_leaks = space.own.leaks(B, 2 * N), space.retained.leaks(B, 2 * N)
            lengths = np.linalg.norm(residuals, axis=(0, 1))
            errors = projection_errors(law, leaks, retained_leaks, lengths, size)
            self.mean_error, self.covariance_error = errors

    def is_guide(self, n_steps: int, noise: float) -> bool:
        """Whether it is fine enough to guess a noise near this one, or the finest there is."""
        if self._is_finest:
            return True
        return max(self._relative_errors(self.before(n_steps), noise)) <= _GUESS_ERROR

    def errors(self, n_steps: int, noise: float) -> tuple[float, float]:
        """Bounds on the errors of Delta and C as this view sees them, whitened."""
        seen = self.before(n_steps)
        relative, rests = self._relative_errors(seen, noise), seen.rest_errors(noise)
        return relative[0] + rests[0], relative[1] + rests[1]

    def enclosure(self, n_steps: int, noise: float) -> Enclosure | None:
        """The whitened difference, never too small; None where a finer view is worth its cost."""
        seen = self.before(n_steps)
        enclosed = self.inflated(seen, noise)
        acceptable = (
            self._next_is_slow
            and max(enclosed.shift_error, enclosed.covariance_error) <= _COARSE / 10
            and max(enclosed.inflation, enclosed.excess_inflation) <= _COARSE
        )
        return enclosed if acceptable or self._is_tight(enclosed, seen, noise) else None

    def _is_tight(self, enclosed: Enclosure, seen: ChainDifference, noise: float) -> bool:
        # There is no point in being surer of the projection than of the arithmetic.
        rounding = max(seen.rounding_errors(noise)[1], *seen.rest_errors(noise))
        rounding = min(rounding, ROUNDING_LIMIT)
        limit = _PROJECTION_ERROR * seen.rounding.schedule.n_steps
        size = float(np.linalg.norm(enclosed.excesses))
        return (
            max(self._relative_errors(seen, noise)) <= max(limit, rounding)
            and enclosed.inflation <= max(_INFLATION, rounding)
            and enclosed.excess_inflation <= size * _EXCESS_INFLATION + max(1e-9, rounding)
        )

    def _relative_errors(self, seen: ChainDifference, noise: float) -> tuple[float, float]:
        return seen.whitened_errors(self.mean_error, self.covariance_error, noise)

    def inflated(self, seen: ChainDifference, noise: float) -> Enclosure:
        """The whitened difference, inflated by what whitening in the projection may miss.

        Directions are taken in order of importance, as left singular vectors of [X, shift]; each is
        a combination of the columns of C and Delta, so that its error can be followed back. A
        direction's noise is made smaller by the factor w (docs/exact.md), which is never safer.
        """
        white, least, reduced = seen.whitened(noise), seen.least_variance(noise), seen.reduced
        shift_error, covariance_error = self.errors(seen.n_steps, noise)
        rests = seen.rest_errors(noise)
        if least == 0.0:
            return Enclosure(*white.principal(), shift_error, covariance_error, math.inf, math.inf)
        if self._coupling.size == 0 or not (white.core.any() or white.shift.any()):
            return Enclosure(*white.principal(), shift_error, covariance_error)
        left, sizes, right = np.linalg.svd(
            np.hstack([white.core, white.shift]), full_matrices=False
        )
        cut = max(_NEGLIGIBLE, max(rests) / 10)
        kept = sizes > min(cut, sizes[0] / 2)
        left, sizes, right = left[:, kept], sizes[kept], right[kept]
        core, shift = left.T @ white.core @ left, left.T @ white.shift
        # U vectors = F^-1 W left = U [S L', mean] right' / sizes: no division by a tiny F
        columns = np.hstack([reduced.sizes[:, None] * white.scale.T, reduced.mean])
        vectors = columns @ right.T / sizes
        # What these directions leave of C and Delta, rounding included
        lost, axes = np.linalg.eigh(np.diag(reduced.sizes) - vectors @ core @ vectors.T)
        axes, d = np.hstack([axes, reduced.mean - vectors @ shift]), shift.shape[1]
        energies = np.linalg.norm(axes, axis=0) / np.sqrt(least)
        large = np.zeros(0, dtype=np.intp)  # axes for which the plain bound is not good enough
        if _left_over(lost, energies)[1] > _SMALL_REST:
            shares = np.abs(lost) * energies[: len(lost)] ** 2
            large = np.flatnonzero(np.append(shares > _SMALL_REST / len(lost), energies[-d:] > 0))
        axes, k = axes[:, large], len(sizes)
        errors = self._energy_errors(seen, noise, reduced.span @ np.hstack([vectors, axes]))
        more = errors[k:] + np.linalg.norm(white.scale @ axes, axis=0)
        energies[large] = np.minimum(energies[large], more)
        factors = _shrinking_factors(errors[:k], sizes)
        x, turn = np.linalg.eigh(factors[:, None] * core * factors)
        a2 = np.sum(np.square(turn.T @ (factors[:, None] * shift)), axis=1)
        total = float(np.sum(np.square(white.shift)))
        rest_shift, rest_covariance = _left_over(lost, energies)
        return Enclosure(
            x,
            a2,
            shift_error + rest_shift,
            covariance_error + rest_covariance,
            float(np.sum(a2)) / total - 1 if total > 0 else 0.0,
            float(np.linalg.norm(x)) - float(np.linalg.norm(white.core)),
        )

    def _energy_errors(self, seen: ChainDifference, noise: float, vectors: Array) -> Array:
        """For every column c: how much more than |F c| the least noise moving Q c may cost.

        The noise that moves the projected chain by c is fed to the real one; what it misses is
        corrected at the last step of a phase that is still to come, at a cost that the coupling
        bounds.
        """
        eta, n_steps = seen.rounding.step_size, seen.n_steps
        h, extra = seen.variances, seen.later_variances(noise)
        unit = np.sqrt(2 * eta) * noise
        share = 1 / (h + extra)
        costs = _correction_costs(seen.rounding.schedule, eta, unit**2)
        error = eta * self._sums(share[:, None] * vectors, costs)
        if noise > 0:
            moved = (extra * share)[:, None] * vectors
            dual = (seen.kept / (noise**2 * seen.added))[:, None] * moved
            s = np.arange(2 * n_steps)
            pairs = np.maximum(np.minimum(s, n_steps - 1) - s // 2, 0)
            # R is taken smaller than it was computed, at the most by half: energies grow by 2^1/2.
            error += 1.5 * eta * unit * self._sums(dual, pairs)
            error += 1.5 * eta * self._sums(moved, np.ones(n_steps)) / unit
        return np.asarray(error)

    def _sums(self, vectors: Array, weights: Array) -> Array:
        """sum_s weights_s |B E_last' (1 - eta T')^s v| for every column v."""
        return self._powers.norm_sums(self._coupling, vectors, weights)


def _correction_costs(schedule: Schedule, step_size: float, later: float) -> Array:
    """What each v_s = |B E_last' (1 - eta T')^s y|, s < 2N, adds to the error, over eta.

    The step that n others follow misses M'^e times v_{2n-1-e} for every e < n, var_n times. A
    miss with M'^e can be corrected at any step that at most e others follow, or while unlearning
    (with variance `later`), at 1 / (that step's deviation): the noisiest of them is taken.
    """
    costs = np.zeros(2 * schedule.n_steps)
    for start, end, best in _noisiest_to_come(schedule, step_size, later):
        reach = _noise_reached(schedule, step_size, start, end)
        costs += reach / np.sqrt(best) if best > 0 else np.where(reach > 0, np.inf, 0.0)
    return costs


def _noisiest_to_come(
    schedule: Schedule, step_size: float, later: float
) -> list[tuple[int, int, float]]:
    """(start, end, variance): the noisiest step that at most start <= e < end others follow."""
    pieces: list[tuple[int, int, float]] = []
    best, start = later, 0
    for steps, noise in reversed(schedule.segments):
        best = max(best, 2 * step_size * noise**2)
        if pieces and pieces[-1][2] == best:
            pieces[-1] = (pieces[-1][0], start + steps, best)
        else:
            pieces.append((start, start + steps, best))
        start += steps
    return pieces


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

    Any weights w >= 1 are valid. These keep kappa at `_SPARED` and spend as little as they can,
    each direction counted at its size.
    """
    total = float(np.sum(errors * np.sqrt(sizes)))
    weights = np.maximum(1.0, total / _SPARED**2 * errors / np.sqrt(sizes))
    kappa = float(np.sqrt(np.sum(np.square(errors) / weights)))
    return np.asarray(np.sqrt((1 + kappa) * (1 + kappa * weights)))


def projection_errors(
    law: "RidgeLaw", leaks: Array, retained_leaks: Array, residual_norms: Array, size: float
) -> tuple[float, float]:
    """Bounds on the errors of Delta and of C by the projection.

    `leaks` are g_i and `retained_leaks` g'_i for i < 2N, `residual_norms` |u^_k| for k < N, and
    `size` is at least |X_f|.
    """
    eta, N = law.step_size, len(residual_norms)
    r = eta * summed_before(leaks)
    mean = eta**2 * float(residual_norms @ summed_before(retained_leaks)[N - 1 - np.arange(N)])
    unsure = eta**2 * float(leaks[:N] @ law.gradient_sums[::-1])  # of the residual means themselves
    unsure += float(np.linalg.norm(law.start_coordinates)) * float(np.sum(r[:N]))
    doubled = summed_before(r + eta * summed_before(retained_leaks))[2 * np.arange(N)]
    covariance = eta * size * float(law.schedule.variances(eta)[::-1] @ doubled)
    return mean + eta * size * unsure, covariance


def reached_space(law: "RidgeLaw", lanczos: BlockLanczos) -> RequestSpace:
    """The Krylov space of X_f' as far as it has been extended."""
    T, first = lanczos.projected, lanczos.first
    k, without = len(first), T.copy()
    without[:k, :k] -= first @ first.T

    def diagonal(matrix: Array, least: float) -> Diagonal:
        if k > 1 or len(matrix) == 1:
            values, vectors = np.linalg.eigh(matrix)
        else:
            values, vectors = scipy.linalg.eigh_tridiagonal(
                np.diag(matrix), np.diag(matrix, 1), check_finite=False
            )
        rows = vectors[:k].T @ first
        return Diagonal(np.maximum(values, least), vectors, rows, law.step_size)

    # X'X has no negative eigenvalue.
    own, retained = diagonal(T, -math.inf), diagonal(without, law.spectrum.alpha)
    return RequestSpace(lanczos.basis, own, retained)


def _residual_means(law: "RidgeLaw", space: RequestSpace, count: int) -> Array:
    """X_f m_k for k < count, m_k = eta sum_{j<k} (1 - eta A)^j B + (1 - eta A)^k theta_0."""
    cross, rows = space.see(law.spectrum.cross.T)[0], space.own.rows.T
    R, d, m = len(rows), *cross.shape

    def series(columns: Array) -> Array:  # X_f (1 - eta A)^k times the columns, for k < count
        pairs = (rows[:, None, :] * columns).reshape(R * d, m)
        return space.own.powers.series(pairs.T, count)

    means = np.zeros((R * d, count))
    np.cumsum(law.step_size * series(cross)[:, :-1], axis=1, out=means[:, 1:])
    if law.start_coordinates.any():
        means += series(space.see(law.start_coordinates.T)[0])
    return means.reshape(R, d, count)
