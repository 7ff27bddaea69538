"""How the run with some rows differs from the run without them, for ridge in a full batch.

The difference is seen in the Krylov space of the rows where the proved errors of that projection
(`ridge.krylov`) are negligible at the noise in question. Else the space grows. Beyond a size at
which it is no longer cheaper, the full eigenbasis is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.comparison import ChainDifference, Comparison, Reduced, View
from pilu.chains.rounding import UNIT, StepRounding
from pilu.ridge.iterates import RidgeIterates
from pilu.ridge.krylov import KrylovProjection, projection_errors
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.spectral import Powers, decay, spread

__all__ = ["RequestSpace", "compare_ridge", "project"]

Array = NDArray[np.float64]

_GROWTH = (40, 64, 80, 112, 160, 240)  # dimensions for each row of the request, tried in turn
_LIKELY = 19.6  # times the sixth root of the steps: the first size, if the problem has room for it
_DENSE_BELOW = 40  # parameters: a small problem is cheaper without a projection
_DENSE_SHARE = 0.6  # of the parameters: a projection on more of them is not cheaper
_DENSE_IS_SLOW = 1000  # parameters


def compare_ridge(law: RidgeIterates, Z: Array, targets: Array, *, at_least: int = 0) -> Comparison:
    """The run with some rows against the run without them.

    Parameters
    ----------
    law : RidgeIterates
    Z : array
        The rows in the law's coordinates, R of them.
    targets : array
        Their targets, R x d.
    at_least : int
        Smallest projection worth trying, where that is known.
    """
    views = _views(law, Z, targets, at_least) if Z.any() else iter(())
    return Comparison(law, views)


def _views(law: RidgeIterates, Z: Array, targets: Array, at_least: int) -> Iterator[View]:
    p, sizes = Z.shape[1], []
    if p > _DENSE_BELOW:
        sizes = [s * len(Z) for s in _GROWTH if s * len(Z) <= _DENSE_SHARE * p]
    if sizes:
        likely = at_least or len(Z) * _LIKELY * law.schedule.n_steps ** (1 / 6)
        sizes = [s for s in sizes if s >= likely] or sizes
        lanczos = BlockLanczos(law.spectrum, Z.T)
        for size in sizes:
            lanczos.extend(size)
            yield project(law, lanczos, targets, is_finest=size == sizes[-1])
            if lanczos.exhausted:
                break
    yield _whole(law, Z, targets)


@dataclass(frozen=True, eq=False)
class RequestSpace:
    """A and A' = A - X_f'X_f on a space that contains X_f', each diagonal in its own basis.

    The space is a Krylov space of X_f', with A = T and A' = T' = T - R_1 R_1', or the row space.
    """

    step_size: float
    basis: Array | None  # Q, in the coordinates of the spectrum; None is the identity
    values: Array  # of A
    vectors: Array | None  # its eigenvectors within the space; None is the identity
    retained: Array  # values of A'
    retained_vectors: Array
    rows: Array  # X_f' in the eigenvectors of A, m x R
    retained_rows: Array  # and in those of A'

    @classmethod
    def whole(cls, law: RidgeIterates, Z: Array) -> "RequestSpace":
        """The row space, for rows with coordinates Z: exact up to rounding, O(p^3)."""
        spectrum = law.spectrum
        full, values, vectors = spectrum.matrix(), spectrum.eigenvalues, None
        # Divide and conquer: other drivers' vectors are less orthogonal than `step_error` allows.
        if not spectrum.is_diagonal:
            values, vectors = scipy.linalg.eigh(full, check_finite=False, driver="evd")
            values = np.maximum(values, spectrum.alpha)  # X'X has no negative eigenvalue
        retained, turn = scipy.linalg.eigh(full - Z.T @ Z, check_finite=False, driver="evd")
        retained = np.maximum(retained, spectrum.alpha)
        rows = (Z if vectors is None else Z @ vectors).T
        return cls(law.step_size, None, values, vectors, retained, turn, rows, turn.T @ Z.T)

    @classmethod
    def reached(cls, law: RidgeIterates, lanczos: BlockLanczos) -> "RequestSpace":
        """The Krylov space as far as it has been extended."""
        T, first = lanczos.projected, lanczos.first
        k, without = len(first), T.copy()
        without[:k, :k] -= first @ first.T
        values, vectors = _eigh(T, k)
        retained, turn = _eigh(without, k)
        retained = np.maximum(retained, law.spectrum.alpha)  # X'X has no negative eigenvalue
        rows, retained_rows = vectors[:k].T @ first, turn[:k].T @ first
        basis = lanczos.basis
        return cls(law.step_size, basis, values, vectors, retained, turn, rows, retained_rows)

    @cached_property
    def turn(self) -> Array:
        """From the eigenvectors of A' to those of A."""
        if self.vectors is None:
            return self.retained_vectors
        return self.vectors.T @ self.retained_vectors

    @cached_property
    def powers(self) -> Powers:
        """Of 1 - eta A."""
        return Powers.of(self.values, self.step_size)

    @cached_property
    def retained_powers(self) -> Powers:
        """Of 1 - eta A'."""
        return Powers.of(self.retained, self.step_size)

    def see(self, points: Array) -> tuple[Array, Array]:
        """Points of the row space, one per row, in the eigenvectors of A and in those of A'."""
        inside = points if self.basis is None else points @ self.basis
        own = inside if self.vectors is None else inside @ self.vectors
        return own, inside @ self.retained_vectors

    def leaks(self, coupling: Array, count: int) -> tuple[Array, Array]:
        """|B E_last' (1 - eta T)^i E_1 R_1|_F for i < count, and with T', for a coupling B."""
        assert self.vectors is not None
        m, width = len(self.values), coupling.shape[1]
        last, retained_last = self.vectors[m - width :], self.retained_vectors[m - width :]
        return (
            self.powers.norms(coupling @ last, self.rows, count),
            self.retained_powers.norms(coupling @ retained_last, self.retained_rows, count),
        )

    def reach(self, count: int) -> Array:
        """|(1 - eta A)^i X_f'|_F for i < count, and with A': (2 x count)."""
        own = _lengths(self.powers, self.rows, count)
        return np.stack([own, _lengths(self.retained_powers, self.retained_rows, count)])


def _eigh(matrix: Array, bandwidth: int) -> tuple[Array, Array]:
    if bandwidth > 1 or len(matrix) == 1:
        values, vectors = np.linalg.eigh(matrix)
    else:
        values, vectors = scipy.linalg.eigh_tridiagonal(
            np.diag(matrix), np.diag(matrix, 1), check_finite=False
        )
    return values, vectors


def _lengths(powers: Powers, columns: Array, count: int) -> Array:
    energies = np.sum(np.square(columns), axis=1, keepdims=True)
    return np.asarray(np.sqrt(powers.squared().series(energies, count)[0]))


def _whole(law: RidgeIterates, Z: Array, targets: Array) -> View:
    """The difference in the full eigenbasis of A'."""
    space, residuals = RequestSpace.whole(law, Z), law.residual_means(Z, targets)
    return View(_difference(law, space, residuals, targets, law.rounding(len(Z))))


def project(
    law: RidgeIterates, lanczos: BlockLanczos, targets: Array, *, is_finest: bool = False
) -> View:
    """The difference in a Krylov space; `targets` are those of the rows (R x d)."""
    space, N = RequestSpace.reached(law, lanczos), law.schedule.n_steps
    residuals = _residual_means(law, space, N) - targets[:, :, None]
    # What was deflated is a step's error, and one of X_f' itself.
    rounding = law.rounding(lanczos.width, law.step_size * lanczos.deflated * law.spectrum.largest)
    before = _difference(law, space, residuals, targets, rounding, lanczos)
    coupling, errors = np.zeros((0, len(space.values))), (0.0, 0.0)
    if not lanczos.exhausted:
        width = lanczos.coupling.shape[1]
        coupling = lanczos.coupling @ space.retained_vectors[len(space.values) - width :]
        size = float(np.linalg.norm(lanczos.first))  # Frobenius: at least |X_f|
        leaks = space.leaks(lanczos.coupling, 2 * N)
        errors = projection_errors(law, *leaks, _norms(residuals), size)
    is_slow = len(law.spectrum.eigenvalues) > _DENSE_IS_SLOW
    projection = KrylovProjection(
        coupling, space.retained_powers, *errors, is_finest, is_finest and is_slow
    )
    return View(before, projection)


def _difference(
    law: RidgeIterates,
    space: RequestSpace,
    residuals: Array,
    targets: Array,
    rounding: StepRounding,
    lanczos: BlockLanczos | None = None,
) -> Callable[[int], ChainDifference]:
    """Delta and C in a space, given the residual means u (R x d x N)."""
    eta, N = law.step_size, residuals.shape[2]
    variances, with_rows = law.final_variances(np.stack([space.retained, space.values]))
    covariance = space.turn.T @ (with_rows[:, None] * space.turn) - np.diag(variances)
    largest = float(max(np.max(variances), np.max(with_rows)))
    reduced = Reduced.of(_mean_difference(space, residuals), covariance, largest, N)
    deflated = 0.0 if lanczos is None else lanczos.deflated
    unsure = _mean_rounding(law, space, _norms(residuals), targets, rounding.error, deflated)

    def before(n_steps: int) -> ChainDifference:
        a, is_whole = space.retained, lanczos is None
        kept, added = decay(a, eta, n_steps), spread(a, eta, n_steps)
        return ChainDifference(
            n_steps, variances, kept, added, reduced, largest, unsure, rounding, is_whole
        )

    return before


def _mean_difference(space: RequestSpace, residuals: Array) -> Array:
    """Delta_N = -eta sum_k (1 - eta A')^{N-1-k} X_f' u_k in the eigenvectors of A'."""
    total = np.zeros((len(space.retained), residuals.shape[1]))
    for x, u in zip(space.retained_rows.T, residuals, strict=True):
        total -= space.step_size * x[:, None] * space.retained_powers.weighted(u.T[::-1])
    return total


def _mean_rounding(
    law: RidgeIterates,
    space: RequestSpace,
    lengths: Array,
    targets: Array,
    error: float,
    deflated: float,
) -> float:
    """What rounding may do to Delta_N: relative to its terms, not to what is left of them.

    The k-th is (1 - eta A')^{N-1-k} X_f' (X_f m_k - Y_f), and X_f m_k a sum of k others. `lengths`
    are the computed |u_k|, `error` is that of a step, and `deflated` that of X_f', relative to it
    (docs/exact.md, "Rounding").
    """
    both = space.reach(len(lengths))
    (reach, retained_reach), before = both, np.zeros_like(both)
    np.cumsum(both[:, :-1], axis=1, out=before[:, 1:])  # sums over all steps before each
    terms = reach[0] * law.mean_bounds + float(np.linalg.norm(targets))
    unsure = before[0] * (error * law.mean_bounds + law.push_error)
    unsure += (2 * UNIT + 2.0**-53 * np.arange(len(terms))) * terms  # running sums, too
    moved = error * before[1, ::-1] * lengths
    moved += deflated * retained_reach[0] * lengths
    return law.step_size * float(retained_reach[::-1] @ unsure + np.sum(moved))


def _residual_means(law: RidgeIterates, space: RequestSpace, count: int) -> Array:
    """X_f m_k for k < count, m_k = eta sum_{j<k} (1 - eta A)^j B + (1 - eta A)^k theta_0."""
    cross, rows = space.see(law.spectrum.cross.T)[0], space.rows.T
    R, d, m = len(rows), *cross.shape

    def series(columns: Array) -> Array:  # X_f (1 - eta A)^k times the columns, for k < count
        pairs = (rows[:, None, :] * columns).reshape(R * d, m)
        return space.powers.series(pairs.T, count)

    means = np.zeros((R * d, count))
    np.cumsum(law.step_size * series(cross)[:, :-1], axis=1, out=means[:, 1:])
    if law.start_coordinates.any():
        means += series(space.see(law.start_coordinates.T)[0])
    return means.reshape(R, d, count)


def _norms(residuals: Array) -> Array:
    """|u_k| for every k."""
    return np.asarray(np.sqrt(np.sum(np.square(residuals), axis=(0, 1))))
