"""How the run with some rows differs from the run without them, in the full eigenbasis."""

from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.difference import ChainDifference, LaterSteps
from pilu.chains.rounding import UNIT
from pilu.ridge.iterates import RidgeIterates
from pilu.ridge.powers import Powers
from pilu.ridge.spectral import decay, spread

__all__ = ["Reach", "dense_difference", "mean_difference", "mean_rounding", "steps_along"]

Array = NDArray[np.float64]


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
    law: RidgeIterates, reach: Reach, residuals: Array, targets: Array, error: float
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


def mean_difference(law: RidgeIterates, powers: Powers, source: Array, means: Array) -> Array:
    """Delta_N = -eta sum_k (1 - eta A')^{N-1-k} X_f' u_k, where A' is diagonal.

    `powers` are those of 1 - eta A', `source` is X_f' in that basis (m x R), `means` are the
    residual means u (R x d x N).
    """
    total = np.zeros((len(source), means.shape[1]))
    for row, u in enumerate(means):
        total -= law.step_size * source[:, row, None] * powers.weighted(u.T[::-1])
    return total


def dense_difference(law: RidgeIterates, Z: Array, targets: Array) -> ChainDifference:
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
