"""Ridge regression on the rows that are left: rows, statistics and eigenbasis kept together.

f(theta) = sum_j |x_j'theta - y_j|^2 / 2 + alpha |theta|^2 / 2        [PILU, sec. 3.2]

Taking out a few rows leaves the eigenbasis as it is: they stand beside it as a low-rank correction,
until there are too many of them or somebody asks for the eigenbasis or the statistics themselves.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.data.rows import RowSource
from pilu.data.statistics import ReadShare, Statistics
from pilu.ridge.spectrum import Spectrum, check_room

__all__ = ["RidgeProblem"]

Array = NDArray[np.float64]

_STATISTICS_ERROR = 1e-12  # past it, subtracting rows gives way to a fresh pass over what is left
_MOST_PENDING = 32  # rows in a correction
_COLUMNS_FOR_EACH = 32  # a new eigenbasis of fewer columns is cheaper than a correction


@dataclass(frozen=True, eq=False)
class _Known:
    """Statistics and eigenbasis of one moment, and the rows taken out since."""

    statistics: Statistics | None
    spectrum: Spectrum
    pending: tuple[Array, Array] | None = None

    def with_pending(self, x: Array, y: Array) -> tuple[Array, Array]:
        if self.pending is None:
            return x, y
        return np.vstack([self.pending[0], x]), np.vstack([self.pending[1], y])


class RidgeProblem:
    """Immutable in what it means; forgetting rows gives a new problem.

    Inside, the correction gives way to a new eigenbasis on demand (`consolidate`). It holds the
    values of rows already forgotten, so it is never pickled or copied.
    """

    def __init__(self, source: RowSource, alpha: float, known: _Known) -> None:
        self.source = source
        self.alpha = alpha
        self._known = known
        self._settled: Statistics | None = None  # statistics without the rows taken out since

    @classmethod
    def fit(cls, source: RowSource, alpha: float, n_outputs: int) -> "RidgeProblem":
        """The problem of rows seen for the first time, digested in the same pass."""
        return cls.collected(source, alpha, n_outputs, partial(source.features, first=True))

    @classmethod
    def known(
        cls, source: RowSource, alpha: float, statistics: Statistics | None, spectrum: Spectrum
    ) -> "RidgeProblem":
        """A problem whose statistics and eigenbasis were kept."""
        return cls(source, alpha, _Known(statistics, spectrum))

    @classmethod
    def collected(
        cls,
        source: RowSource,
        alpha: float,
        n_outputs: int,
        read: ReadShare,
    ) -> "RidgeProblem":
        """The problem of the rows that `read` gives."""
        n, p = int(source.live.sum()), source.n_columns
        if n >= p:
            check_room(p)
            return cls.of_statistics(
                source,
                alpha,
                Statistics.collect(read, n, p, n_outputs, fit_intercept=source.fit_intercept),
            )
        X, Y, filled = np.ones((n, p)), np.empty((n, n_outputs)), 0
        for x, y in read(0, 1):
            X[filled : filled + len(x), : x.shape[1]], Y[filled : filled + len(x)] = x, y
            filled += len(x)
        return cls(source, alpha, _Known(None, Spectrum.of_rows(X, Y, alpha)))

    @classmethod
    def of_statistics(
        cls, source: RowSource, alpha: float, statistics: Statistics
    ) -> "RidgeProblem":
        """The problem of rows whose sums are known."""
        spectrum = replace(
            Spectrum.of_statistics(statistics.gram, statistics.cross, alpha),
            target_norm=math.sqrt(statistics.target_energy) * (1 + 1e-9),
        )
        return cls(source, alpha, _Known(statistics, spectrum))

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self._known.spectrum.cross.shape[1])

    @property
    def statistics_error(self) -> float:
        """Relative rounding error of the statistics, all subtractions included."""
        known = self._known
        if known.statistics is None:
            return 0.0
        if known.pending is None:
            return known.statistics.error
        return known.statistics.error_without(*known.pending)

    @property
    def corrected_spectrum(self) -> Spectrum:
        """The eigenbasis of some moment, with rows taken out since: cheap to have and to use."""
        return self._known.spectrum

    @property
    def spectrum(self) -> Spectrum:
        """The eigenbasis of the problem as it stands."""
        self.consolidate()
        return self._known.spectrum

    @property
    def statistics(self) -> Statistics | None:
        """X'X and X'Y of the rows that are left; None where there are fewer rows than columns."""
        self.consolidate()
        return self._known.statistics

    @property
    def statistics_before_spectrum(self) -> Statistics | None:
        """The same, while the correction is still held: a new eigenbasis takes longer."""
        known = self._known
        if known.statistics is None or known.pending is None:
            return known.statistics
        if self._settled is None:
            self._settled = known.statistics.without(*known.pending)
        return self._settled

    def consolidate(self) -> None:
        """Replace the correction by a new eigenbasis: nothing is left of the rows taken out."""
        if self._known.pending is None:
            return
        statistics = self.statistics_before_spectrum
        assert statistics is not None
        # One assignment: an interrupt before it leaves the problem as it was.
        self._known = self.of_statistics(self.source, self.alpha, statistics)._known
        self._settled = None

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> "RidgeProblem":
        """The problem without `rows`, whose values are x and y."""
        source, known = self.source.without(rows), self._known
        if known.statistics is not None:
            pending = known.with_pending(x, y)
            if known.statistics.error_without(*pending) <= _STATISTICS_ERROR:
                spectrum = known.spectrum.without(x, y)
                corrected = _Known(known.statistics, spectrum, pending)
                problem = RidgeProblem(source, self.alpha, corrected)
                if len(pending[0]) > min(_MOST_PENDING, source.n_columns // _COLUMNS_FOR_EACH):
                    problem.consolidate()
                return problem
        # Few rows, or a deletion that cancels the digits of the rest: start from the rows.
        return self.collected(source, self.alpha, self.n_outputs, source.features)

    def reading(self, source: RowSource) -> "RidgeProblem":
        """The same problem with its rows attached or detached."""
        return RidgeProblem(source, self.alpha, self._known)

    def __getstate__(self) -> dict[str, Any]:
        self.consolidate()
        return self.__dict__.copy()
