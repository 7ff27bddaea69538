"""Standard coordinates of a head: columns shifted and scaled so that one noise level fits all.

    z = ((x - m)/s, 1),     theta = (s coef, intercept + m' coef)

Scores are the same. m and s are functions of the rows that are left. s is a power of two just above
the largest |x - m| of its column, so scaling is exact and |z_j| <= 1. Noise of one size then means
the same for a column in cents and one in millions, and a rare category gets no more of it than
a frequent one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROWS = 128


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The affine map between a head's own parameters and the standard ones."""

    shift: Array
    scale: Array
    intercept_column: float | None  # value of the last column; None without an intercept
    free_intercept: bool  # whether the intercept has no penalty

    @classmethod
    def of(
        cls, X: Any, weights: Array, *, fit_intercept: bool, penalised_scaling: float | None = None
    ) -> "Coordinates":
        """Coordinates for the rows X; `penalised_scaling` is liblinear's column for the intercept.

        Columns are centred only if they are dense and the intercept is free: otherwise the zeros
        would be lost, or the penalty would no longer be a sum over coordinates.
        """
        p = X.shape[1]
        free = fit_intercept and penalised_scaling is None
        shift = np.zeros(p)
        if free and not isinstance(X, sp.csr_array | sp.csr_matrix):
            each = weights.mean(axis=1)
            shift = each @ X / each.sum()
        if isinstance(X, sp.csr_array | sp.csr_matrix):
            extent = abs(X).max(axis=0).toarray()
        else:  # rounding is monotone, so this is the largest |x - shift| without a copy of X
            extent = np.maximum(X.max(axis=0) - shift, shift - X.min(axis=0))
        column = (penalised_scaling or 1.0) if fit_intercept else None
        return cls(shift, _power_of_two(np.ravel(extent)), column, free)

    def rows(self, X: Any) -> Any:
        """Rows in these coordinates."""
        if isinstance(X, sp.csr_array | sp.csr_matrix):
            scaled = sp.csr_array(X @ sp.diags_array(1.0 / self.scale))
            if self.intercept_column is not None:
                constant = np.full((X.shape[0], 1), self.intercept_column / self._last_scale)
                scaled = sp.csr_array(sp.hstack([scaled, sp.coo_array(constant)]))
            return scaled
        n, p = X.shape
        rows = np.empty((n, p + (self.intercept_column is not None)))
        for i in range(0, n, _ROWS):  # in a block that fits the cache
            block = rows[i : i + _ROWS, :p]
            np.subtract(X[i : i + _ROWS], self.shift, out=block)
            block /= self.scale
        if self.intercept_column is not None:
            rows[:, p] = self.intercept_column / self._last_scale
        return rows

    @property
    def _last_scale(self) -> float:
        """Of the intercept's column; the column of a free intercept is 1."""
        if self.free_intercept or self.intercept_column is None:
            return 1.0
        return float(_power_of_two(np.array([self.intercept_column]))[0])

    def penalty(self, alpha: Array) -> Array:
        """Penalties of the standard coordinates, P x 1 or P x K; alpha has shape (1,) or (K,)."""
        penalties = alpha[None, :] / self.scale[:, None] ** 2
        if self.intercept_column is None:
            return penalties
        last = np.zeros((1, len(alpha)))
        if not self.free_intercept:
            last = alpha[None, :] / self._last_scale**2
        return np.vstack([penalties, last])

    def into(self, coef: Array, intercept: Array) -> Array:
        """Standard parameters, P x K, of coefficients p x K and intercepts."""
        theta = coef * self.scale[:, None]
        if self.intercept_column is None:
            return theta
        last = intercept + self.shift @ coef
        return np.vstack([theta, last * (self._last_scale / self.intercept_column)])

    def out(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients p x K and intercepts of standard parameters."""
        coef = theta[: len(self.scale)] / self.scale[:, None]
        if self.intercept_column is None:
            return coef, np.zeros(theta.shape[1])
        last = theta[-1] * (self.intercept_column / self._last_scale)
        return coef, last - self.shift @ coef


def _power_of_two(extent: Array) -> Array:
    _, exponent = np.frexp(np.where(extent > 0, extent, 1.0))
    return np.ldexp(np.ones(len(extent)), exponent)
