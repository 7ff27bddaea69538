"""The alpha of ridge regression with the least leave-one-out error, as RidgeCV defines it.

With centred, weighted rows a_i = sqrt(w_i) (x_i - mean), targets alike, and A'A = V diag(v) V', the
error of row i when it is left out is

    e_i(alpha) = (b_i - a_i' theta)/(1 - h_i),    h_i = w_i/W + sum_k (a_i' V)_k^2/(v_k + alpha)

where w_i/W is the leverage of the intercept. RidgeCV takes the alpha with the least mean of e_i^2
over rows and targets, the first of several, or the least one for each target.

All of this is computed from the rows in standard coordinates and from their Gram matrix, which the
solver uses too. It is a function of the rows.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.refit.coordinates import Coordinates
from pilu.refit.gram import Gram, gamma
from pilu.refit.head import HeadProblem
from pilu.refit.loo_errors import basis_tolerance, eigen_tolerance

Array = NDArray[np.float64]

_ROWS = 1024


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Sums of squared errors, alphas x targets, and the leverage of every row for every alpha."""

    problem: HeadProblem = field(repr=False)
    squares: Array
    leverages: Array = field(repr=False)
    slopes: Array = field(repr=False)  # -alpha dh/dalpha, for every row and alpha

    @property
    def best(self) -> Any:
        """The alpha of the least error, or one for each target."""
        alphas = self.problem.candidates
        assert alphas is not None
        if self.problem.per_target:
            return alphas[self.squares.argmin(axis=0)]
        return float(alphas[self.squares.sum(axis=1).argmin()])


def leave_one_out(
    problem: HeadProblem, coordinates: Coordinates, rows: Array, gram: Gram | None
) -> LeaveOneOut:
    """Errors of all candidates from one eigendecomposition and one product with the rows."""
    alphas, w = problem.candidates, problem.weights
    assert alphas is not None
    n, p = len(rows), len(coordinates.scale)
    total = w.sum()
    mean, B, own = np.zeros(p), problem.targets, np.zeros((n, 1))
    if coordinates.free_intercept:
        mean, own = w[:, 0] @ rows[:, :p] / total, w / total
        B = B - (w * B).sum(axis=0) / total
    basis = _Basis.of(rows[:, :p], w, mean, coordinates.scale, gram)
    root = np.sqrt(w)
    m = len(alphas)
    squares, leverages, slopes = np.zeros((m, B.shape[1])), np.empty((n, m)), np.empty((n, m))
    projected = basis.project(rows[:, :p], w, B)
    shrunk = 1.0 / (basis.values[:, None] + alphas)
    for start in range(0, n, _ROWS):
        part = slice(start, start + _ROWS)
        T = root[part] * (rows[part, :p] @ basis.vectors - basis.centre)
        both = (T * T) @ np.hstack([shrunk, alphas * shrunk**2])
        leverages[part], slopes[part] = own[part] + both[:, :m], both[:, m:]
        for j in range(m):
            errors = root[part] * B[part] - T @ (shrunk[:, j : j + 1] * projected)
            squares[j] += ((errors / (1.0 - leverages[part, j : j + 1])) ** 2).sum(axis=0)
    return LeaveOneOut(problem, squares, leverages, slopes)


@dataclass(frozen=True, eq=False)
class _Basis:
    """Eigenvalues of A'A, and scale * V, to which standard rows are multiplied."""

    values: Array
    vectors: Array
    centre: Array  # of the rows, in this basis

    @classmethod
    def of(cls, rows: Array, w: Array, mean: Array, scale: Array, gram: Gram | None) -> "_Basis":
        """Through A A' where that is smaller; `scale` is a power of two, so products are exact."""
        n, p = rows.shape
        if gram is not None and p <= n:
            centred = gram.matrix[:p, :p] - w.sum() * np.outer(mean, mean)
            centred = scale[:, None] * centred * scale
            values, V = np.linalg.eigh(centred)
            values = np.maximum(values, 0.0)
            _check_eigen(centred, values, V)
            vectors = scale[:, None] * V
            return cls(values, vectors, mean @ vectors)
        A = np.sqrt(w) * (rows - mean) * scale
        values, left = np.linalg.eigh(A @ A.T)
        keep = values > values[-1] * n * 1e-15
        vectors = scale[:, None] * ((A.T @ left[:, keep]) / np.sqrt(values[keep]))
        return cls(values[keep], vectors, mean @ vectors)

    def project(self, rows: Array, w: Array, B: Array) -> Array:
        """A'B in the eigenbasis, for centred B."""
        projected: Array = self.vectors.T @ (rows.T @ (w * B))
        return projected


def _check_eigen(matrix: Array, values: Array, V: Array) -> None:
    """The bounds of `loo_errors.py` take the eigendecomposition to be as good as this."""
    p, trace = len(values), float(values.sum())
    residual = float(np.linalg.norm(matrix - (V * values) @ V.T)) + 1.01 * gamma(p + 4) * trace
    inner = V.T @ V
    inner[np.arange(p), np.arange(p)] -= 1.0
    skew = float(np.linalg.norm(inner)) + 1.01 * gamma(p + 2) * p
    if not (residual <= eigen_tolerance(p) * trace and skew <= basis_tolerance(p)):
        raise ArithmeticError("LAPACK's eigendecomposition is inaccurate; please report this.")
