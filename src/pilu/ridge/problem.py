"""Ridge regression on the rows that are left: rows, statistics and eigenbasis kept together.

f(theta) = sum_j |x_j'theta - y_j|^2 / 2 + alpha |theta|^2 / 2        [PILU, sec. 3.2]
"""

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
    def of_source(cls, source: RowSource, alpha: float, n_outputs: int) -> "RidgeProblem":
        """Statistics and eigenbasis by one pass over the live rows."""
        n_live = int(source.live.sum())
        first = next(source.blocks())[0]
        p = first.shape[1]
        if n_live < p:
            blocks = list(source.blocks())
            X, Y = (np.concatenate(part) for part in zip(*blocks, strict=True))
            return cls(source, alpha, Spectrum.of_rows(X, Y, alpha), None)
        statistics = Statistics.collect(source.blocks(), p, n_outputs)
        return cls._of_statistics(source, alpha, statistics)

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
        """Relative rounding error of the statistics that earlier subtractions have left."""
        return 0.0 if self.statistics is None else self.statistics.error

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> "RidgeProblem":
        """The problem without `rows`, whose values are x and y."""
        source = self.source.without(rows)
        if self.statistics is not None:
            statistics = self.statistics.without(x, y)
            if statistics.error <= _STATISTICS_ERROR:
                return self._of_statistics(source, self.alpha, statistics)
        # Few rows, or a deletion that cancels the digits of the rest: start from the rows.
        return self.of_source(source, self.alpha, self.n_outputs)

    def reading(self, source: RowSource) -> "RidgeProblem":
        """The same problem with its rows attached or detached."""
        return replace(self, source=source)
