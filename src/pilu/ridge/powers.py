"""Sums over many powers of a contraction, in blocks that stay in the cache.

With t = 1 - eta a along an eigenbasis, t^s for s = k B + j is (t^B)^k t^j: a block of B powers and
the leap from a block to the next are all that is kept.
"""

from collections.abc import Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from pilu.ridge.spectral import decays

__all__ = ["Powers"]

Array = NDArray[np.float64]

_BLOCK = 256


class Powers:
    """t^s, t = 1 - eta a, for all s >= 0, within 2s rounding units of each."""

    def __init__(self, a: Array, step_size: float) -> None:
        powers = decays(a, step_size, _BLOCK + 1)
        self._block, self._leap = np.ascontiguousarray(powers[:, :-1]), powers[:, -1:].copy()

    def squared(self) -> "Powers":
        """The same for t^2, within twice as many units."""
        squares = copy(self)
        squares._block, squares._leap = np.square(self._block), np.square(self._leap)
        return squares

    def weighted(self, series: Array) -> Array:
        """sum_s t^s series_s for every t: (m x d) from (count x d)."""
        total = np.zeros((len(self._block), series.shape[1]))
        for start in reversed(range(0, len(series), _BLOCK)):  # by Horner's rule
            part = series[start : start + _BLOCK]
            total = self._leap * total + self._block[:, : len(part)] @ part
        return total

    def series(self, columns: Array, count: int) -> Array:
        """sum over t of t^s v for every column v and s < count: (columns x count)."""
        found, scaled = np.empty((columns.shape[1], count)), columns.T
        for start in range(0, count, _BLOCK):
            end = min(start + _BLOCK, count)
            np.matmul(scaled, self._block[:, : end - start], out=found[:, start:end])
            scaled = scaled * self._leap[:, 0]
        return found

    def norms(self, rows: Array, columns: Array, count: int) -> Array:
        """|rows diag(t^s) columns|_F for every s < count."""
        found = np.empty(count)
        for start, squares in self._squares(rows, columns, count):
            found[start : start + squares.shape[1]] = np.sqrt(squares.sum(axis=0))
        return found

    def norm_sums(self, rows: Array, columns: Array, weights: Array) -> Array:
        """sum_s weights_s |rows diag(t^s) v| for every column v."""
        total = np.zeros(columns.shape[1])
        for start, squares in self._squares(rows, columns, len(weights)):
            total += np.sqrt(squares, out=squares) @ weights[start : start + squares.shape[1]]
        return total

    def _squares(self, rows: Array, columns: Array, count: int) -> Iterator[tuple[int, Array]]:
        """|rows diag(t^s) v|^2 by columns v and s, block after block."""
        columns = columns.T
        for start in range(0, count, _BLOCK):
            block = self._block[:, : min(_BLOCK, count - start)]
            squares = np.square((rows[0] * columns) @ block)
            for row in rows[1:]:
                squares += np.square((row * columns) @ block)
            yield start, squares
            columns = columns * self._leap[:, 0]
