"""The eigenbasis of A = X'X + alpha I, in which every law and every step is elementwise."""

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu._checks import check_memory

__all__ = ["Spectrum", "check_room"]

Array = NDArray[np.float64]

_MATRICES = 8  # p x p, held at a time when an eigenbasis is replaced (measured)


def check_room(n_columns: int) -> None:
    """Refuse too many columns for this machine's memory, before the rows are read."""
    check_memory(
        _MATRICES * 8 * n_columns**2,
        f"X must have fewer columns, got {n_columns:,}: their eigenbasis",
        "Reduce the columns by a map that does not depend on the rows (docs/sizes.md).",
    )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A = basis (diag(eigenvalues) - removed' removed) basis' + alpha (I - basis basis'), and X'Y.

    With fewer rows than columns the basis spans the row space only; on its complement A is alpha.
    `removed` holds the coordinates of rows removed since the basis was computed. While they are
    few, this correction is cheaper than a new basis.
    """

    eigenvalues: Array
    basis: Array
    cross: Array
    alpha: float
    seconds: float = 0.0  # time to compute it, the main cost of a redraw
    target_norm: float = math.inf  # at least |Y|
    removed: Array | None = None

    @classmethod
    def of_statistics(cls, gram: Array, cross: Array, alpha: float) -> "Spectrum":
        """From X'X and X'Y: one symmetric eigenproblem."""
        started = time.perf_counter()
        # NumPy's eigh uses the BLAS of the products. SciPy's would start the threads of another.
        # X'X has no negative eigenvalue: values below zero are rounding.
        values, basis = np.linalg.eigh(gram)
        values, cross = alpha + np.maximum(values, 0.0), basis.T @ cross
        return cls(values, basis, cross, alpha, time.perf_counter() - started)

    @classmethod
    def of_rows(cls, X: Array, Y: Array, alpha: float) -> "Spectrum":
        """From the rows, for fewer rows than columns: one thin SVD."""
        started = time.perf_counter()
        left, singular, right = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
        cross = singular[:, None] * (left.T @ Y)
        values, basis = alpha + singular**2, np.ascontiguousarray(right.T)
        seconds = time.perf_counter() - started
        return cls(values, basis, cross, alpha, seconds, target_norm=float(np.linalg.norm(Y)))

    @property
    def is_diagonal(self) -> bool:
        """Whether the basis is an eigenbasis of A, without a correction."""
        return self.removed is None

    def without(self, X: Array, Y: Array) -> "Spectrum":
        """The same basis without some rows, whose coordinates are kept as a correction."""
        Z = X @ self.basis
        removed = Z if self.removed is None else np.vstack([self.removed, Z])
        return replace(self, cross=self.cross - Z.T @ Y, removed=removed)

    def times(self, M: Array) -> Array:
        """A M, within the basis, for a vector or a matrix."""
        product = (self.eigenvalues if M.ndim == 1 else self.eigenvalues[:, None]) * M
        if self.removed is not None:
            product -= self.removed.T @ (self.removed @ M)
        return product

    def matrix(self) -> Array:
        """A itself, within the basis."""
        matrix = np.diag(self.eigenvalues)
        if self.removed is not None:
            matrix -= self.removed.T @ self.removed
        return matrix

    @property
    def n_parameters(self) -> int:
        """Rows of theta, p."""
        return len(self.basis)

    @property
    def has_complement(self) -> bool:
        """Whether there are directions outside the basis; A is alpha on them."""
        return bool(self.basis.shape[1] < self.basis.shape[0])

    @property
    def largest(self) -> float:
        """Largest eigenvalue of A."""
        return float(np.max(self.eigenvalues))

    def smallest_without(self, X: Array) -> float:
        """A lower bound, at least alpha, on the smallest eigenvalue of A - X'X for rows X.

        One row x shifts the smallest eigenvalue to the root of the secular equation
        sum_l (v_l'x)^2 / (w_l - t) = 1 below w_min. Several rows need an eigenproblem.
        """
        if self.has_complement:
            return self.alpha
        z = X @ self.basis
        margin = 8 * np.finfo(np.float64).eps * (len(self.eigenvalues) + 2) * self.largest
        if len(X) == 1:
            bound = self._secular_root(z[0])
        else:
            retained = np.diag(self.eigenvalues) - z.T @ z
            bound = float(
                scipy.linalg.eigh(
                    retained, eigvals_only=True, subset_by_index=(0, 0), check_finite=False
                )[0]
            )
        return max(self.alpha, bound - margin)

    def _secular_root(self, z: Array) -> float:
        energy, lowest = z * z, float(np.min(self.eigenvalues))
        low, high = lowest - float(np.sum(energy)), lowest
        for _ in range(100):
            middle = low + (high - low) / 2
            if not low < middle < high:
                break
            if np.sum(energy / (self.eigenvalues - middle)) <= 1.0:
                low = middle
            else:
                high = middle
        return low
