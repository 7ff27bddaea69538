"""Weighted Gram matrices of rows, with a bound on their error."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_ROWS = 2048  # summed by BLAS at a time


def gamma(k: int) -> float:
    """k u/(1 - k u), rounded up."""
    return k * _UNIT / (1 - k * _UNIT) * (1 + 1e-10)


def rounding_of_sums(n: int, more: int = 0) -> float:
    """Error of the Gram matrix of n rows relative to its trace, in the Frobenius norm.

    An entry is within gamma of the sum of its terms' sizes, and the matrix of these sums has a norm
    of at most the trace. `more` roundings of each term can be added.
    """
    return gamma(min(n, _ROWS) + n // _ROWS + 16 + more)


def weighted_gram(rows: Any, weights: Array) -> Array:
    """Z' diag(w) Z, summed by blocks."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for i in range(0, len(weights), _ROWS):
        total += block_gram(rows[i : i + _ROWS], weights[i : i + _ROWS])
    return total


def block_gram(block: Any, weights: NDArray[Any]) -> NDArray[Any]:
    """Z' diag(w) Z of a few rows, in their own precision; weights are n x 1."""
    if hasattr(block, "multiply"):
        root = block.multiply(np.sqrt(weights)).tocsr()
        return np.asarray((root.T @ root).todense())
    root = block if (weights == 1.0).all() else np.sqrt(weights) * block
    return np.asarray(root.T @ root)


@dataclass(frozen=True, eq=False)
class Gram:
    """Z'WZ as it was computed, and a bound on the norm of its error."""

    matrix: Array
    error: float
    carried: bool = False  # from an earlier run, so that its rounding depends on rows that are gone

    @classmethod
    def of(cls, rows: Any, weights: Array) -> "Gram":
        """Summed over rows; weights are n x 1."""
        matrix = weighted_gram(rows, weights)
        return cls(matrix, rounding_of_sums(rows.shape[0]) * float(np.trace(matrix)) * 1.01)
