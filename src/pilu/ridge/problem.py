"""Ridge regression on the rows that are left: rows, statistics and eigenbasis kept together.

f(theta) = sum_j |x_j'theta - y_j|^2 / 2 + alpha |theta|^2 / 2        [PILU, sec. 3.2]
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pilu.ridge.rows import RowSource
from pilu.ridge.spectrum import Spectrum
from pilu.ridge.statistics import Statistics

__all__ = ["RidgeProblem"]

Array = NDArray[np.float64]

_STATISTICS_ERROR = 1e-12  # past it, subtracting rows gives way to a fresh pass over what is left


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """An immutable problem; forgetting rows gives a new one."""

    source: RowSource
    alpha: float
    spectrum: Spectrum
    statistics: Statistics | None

    @classmethod
    def fit(cls, source: RowSource, alpha: float, n_outputs: int) -> "RidgeProblem":
        """The problem of rows seen for the first time, digested in the same pass."""
        return cls._collect(source, alpha, n_outputs, source.first_blocks())

    @classmethod
    def _collect(
        cls,
        source: RowSource,
        alpha: float,
        n_outputs: int,
        blocks: Iterator[tuple[Array, Array]],
    ) -> "RidgeProblem":
        n, p = int(source.live.sum()), source.n_columns
        if n >= p:
            return cls._of_statistics(source, alpha, Statistics.collect(blocks, p, n_outputs))
        X, Y, filled = np.empty((n, p)), np.empty((n, n_outputs)), 0
        for x, y in blocks:
            X[filled : filled + len(x)], Y[filled : filled + len(x)] = x, y
            filled += len(x)
        return cls(source, alpha, Spectrum.of_rows(X, Y, alpha), None)

    @classmethod
    def _of_statistics(
        cls, source: RowSource, alpha: float, statistics: Statistics
    ) -> "RidgeProblem":
        spectrum = Spectrum.of_statistics(statistics.gram, statistics.cross, alpha)
        return cls(source, alpha, spectrum, statistics)

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.spectrum.cross.shape[1])

    @property
    def statistics_error(self) -> float:
        """Relative rounding error of the statistics, earlier subtractions included."""
        return 0.0 if self.statistics is None else self.statistics.error

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> "RidgeProblem":
        """The problem without `rows`, whose values are x and y."""
        source = self.source.without(rows)
        if self.statistics is not None:
            statistics = self.statistics.without(x, y)
            if statistics.error <= _STATISTICS_ERROR:
                return self._of_statistics(source, self.alpha, statistics)
        # Few rows, or a deletion that cancels the digits of the rest: start from the rows.
        return self._collect(source, self.alpha, self.n_outputs, source.blocks())

    def reading(self, source: RowSource) -> "RidgeProblem":
        """The same problem with its rows attached or detached."""
        return replace(self, source=source)
