"""Ridge regression on the remaining rows: rows, statistics and eigenbasis together, and its law.

f(theta) = sum_j |x_j'theta - y_j|^2 / 2 + alpha |theta|^2 / 2        [PILU, sec. 3.2]

Removing a few rows does not change the eigenbasis: they are kept as a low-rank correction. A new
eigenbasis is computed when there are too many of them, or when it or the statistics are needed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pilu._digits import up_to_grid
from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Problem, Run
from pilu.chains.schedule import UNIT, Segment
from pilu.chains.shortfall import Shortfall
from pilu.data.rows import RowSource
from pilu.data.statistics import ReadShare, Statistics
from pilu.ridge.forecast import shortfall_of
from pilu.ridge.law import RidgeLaw
from pilu.ridge.spectral import Spectrum, check_room, draw_after
from pilu.ridge.stationary import StationaryRidgeLaw

Array = NDArray[np.float64]

_STATISTICS_ERROR = 1e-12  # past it, statistics are collected again from the remaining rows
_MOST_PENDING = 32  # rows in a correction
_PER_OCTAVE = 4  # grid of a stored error: the rows are summed again after about forty deletions
_EIGENPROBLEM = 10  # multiplications for each of p^3
_COLUMNS_FOR_EACH = 32  # columns per row of a correction; with fewer, a new basis is cheaper


@dataclass(frozen=True, eq=False)
class _Known:
    """Statistics, an eigenbasis, and the rows removed since they were computed."""

    statistics: Statistics | None
    spectrum: Spectrum
    pending: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, statistics: Statistics, alpha: float) -> "_Known":
        spectrum = Spectrum.of_statistics(statistics.gram, statistics.cross, alpha)
        norm = math.sqrt(statistics.target_energy) * (1 + 1e-9)
        return cls(statistics, replace(spectrum, target_norm=norm))

    @cached_property
    def settled(self) -> Statistics | None:
        """Statistics without the removed rows, before there is a new eigenbasis."""
        if self.statistics is None or self.pending is None:
            return self.statistics
        return self.statistics.without(*self.pending)


class RidgeProblem(Problem):
    """Ridge regression on all rows at every step.

    It represents a fixed set of rows: forgetting rows returns a new problem. Internally,
    `consolidate` replaces the correction by a new eigenbasis. A correction holds the values of
    forgotten rows, so it is never pickled or copied.

    `solver` is "spectral" (one draw from the chain's law in the eigenbasis) or "gradient" (every
    step on the rows). Both have the same law.
    """

    keeps_law: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = False
    minibatch_size: ClassVar[None] = None

    def __init__(
        self, source: RowSource, alpha: float, known: _Known, solver: str = "spectral"
    ) -> None:
        self.source = source
        self.alpha = alpha
        self.n_outputs = int(known.spectrum.cross.shape[1])
        self.solver = solver
        self._known = known

    @classmethod
    def fit(
        cls, source: RowSource, alpha: float, n_outputs: int, solver: str = "spectral"
    ) -> "RidgeProblem":
        """The problem of new rows, whose digests are computed in the same pass."""
        read = partial(source.features, first=True)
        return cls.collected(source, alpha, n_outputs, read, solver)

    @classmethod
    def collected(
        cls,
        source: RowSource,
        alpha: float,
        n_outputs: int,
        read: ReadShare,
        solver: str = "spectral",
    ) -> "RidgeProblem":
        """The problem of the rows that `read` yields."""
        n, p = int(source.live.sum()), source.n_columns
        if n >= p:
            check_room(p)
            sums = Statistics.collect(read, n, p, n_outputs, fit_intercept=source.fit_intercept)
            return cls.of_statistics(source, alpha, sums, solver)
        X, Y, filled = np.ones((n, p)), np.empty((n, n_outputs)), 0
        for x, y in read(0, 1):
            X[filled : filled + len(x), : x.shape[1]], Y[filled : filled + len(x)] = x, y
            filled += len(x)
        return cls(source, alpha, _Known(None, Spectrum.of_rows(X, Y, alpha)), solver)

    @classmethod
    def of_statistics(
        cls, source: RowSource, alpha: float, statistics: Statistics, solver: str = "spectral"
    ) -> "RidgeProblem":
        """The problem of rows whose statistics are known."""
        return cls(source, alpha, _Known.of(statistics, alpha), solver)

    @property
    def largest(self) -> float:  # type: ignore[override]  # `consolidate` replaces it
        """Largest eigenvalue of A; an upper bound while there is a correction."""
        return self._known.spectrum.largest

    @property
    def statistics_error(self) -> float:
        """Relative rounding error of the statistics, all subtractions included."""
        known = self._known
        if known.statistics is None:
            return 0.0
        pending = known.pending
        return known.statistics.error_without(*pending) if pending else known.statistics.error

    @property
    def corrected_spectrum(self) -> Spectrum:
        """An eigenbasis, with a low-rank correction for the rows removed since."""
        return self._known.spectrum

    @property
    def spectrum(self) -> Spectrum:
        """The eigenbasis of the current problem."""
        self.consolidate()
        return self._known.spectrum

    @property
    def statistics(self) -> Statistics | None:
        """X'X and X'Y of the remaining rows; None if there are fewer rows than columns."""
        self.consolidate()
        return self._known.statistics

    def consolidate(self) -> None:
        """Replace the correction by a new eigenbasis, so that no removed row is held."""
        if self._known.pending is not None:
            assert self._known.settled is not None
            # One assignment: an interrupt before it leaves the problem as it was.
            self._known = _Known.of(self._known.settled, self.alpha)

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> "RidgeProblem":
        """The problem without `rows`, whose values are x and y."""
        source, known = self.source.without(rows), self._known
        if known.statistics is not None:
            pending = (x, y)
            if known.pending is not None:
                pending = np.vstack([known.pending[0], x]), np.vstack([known.pending[1], y])
            if known.statistics.error_without(*pending) <= _STATISTICS_ERROR:
                spectrum = known.spectrum.without(x, y)
                corrected = _Known(known.statistics, spectrum, pending)
                problem = RidgeProblem(source, self.alpha, corrected, self.solver)
                if len(pending[0]) > min(_MOST_PENDING, len(spectrum.basis) // _COLUMNS_FOR_EACH):
                    problem.consolidate()
                return problem
        # Too few rows for statistics, or too much cancellation: start from the rows.
        return self.reading(source).recollected()

    def recollected(self, read: ReadShare | None = None) -> "RidgeProblem":
        """The same problem with statistics and eigenbasis computed again from the remaining rows.

        Statistics after a subtraction are rounded differently from those that never had the rows.
        """
        read = self.source.features if read is None else read
        return self.collected(self.source, self.alpha, self.n_outputs, read, self.solver)

    def is_consistent(self, tolerance: float) -> bool:
        """Whether the eigenbasis is that of the statistics."""
        statistics, spectrum = self.statistics, self.spectrum
        if statistics is None:
            return True
        V, a = spectrum.basis, spectrum.eigenvalues - spectrum.alpha
        gram, cross = (float(np.linalg.norm(s)) for s in (statistics.gram, statistics.cross))
        return bool(
            np.linalg.norm((V * a) @ V.T - statistics.gram) <= tolerance * gram
            and np.linalg.norm(V.T @ V - np.eye(V.shape[1])) <= tolerance * len(V)
            and np.linalg.norm(V @ spectrum.cross - statistics.cross) <= tolerance * cross
        )

    def reading(self, source: RowSource) -> "RidgeProblem":
        """The same problem with its rows attached or detached."""
        return RidgeProblem(source, self.alpha, self._known, self.solver)

    def with_solver(self, solver: str) -> "RidgeProblem":
        """The same problem with another solver."""
        return RidgeProblem(self.source, self.alpha, self._known, solver)

    def drawing_privately(self) -> "RidgeProblem":
        """The same problem: it draws nothing of its own."""
        return self

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of Langevin steps, drawn or taken one by one."""
        if segment.steps == 0:  # at stationarity
            return draw_after(theta, self.spectrum, step_size, segment, gaussian)
        if self.solver == "spectral":
            return draw_after(theta, self.corrected_spectrum, step_size, segment, gaussian)
        for _ in self.source.blocks():  # check all rows against their digests once
            pass
        return walk(theta, self.gradient, step_size, segment, gaussian)

    def gradient(self, theta: Array, step: int) -> Array:
        """grad f(theta) = X'(X theta - Y) + alpha theta, the same at every step of Algorithm 1.

        It is computed from the rows, which are not checked against their digests.
        """
        gradient = self.alpha * theta
        for x, y in self.source.features(check=False):
            p = x.shape[1]
            residuals = x @ theta[:p] + (theta[p:].sum(axis=0) - y)  # x has no column of ones
            gradient[:p] += x.T @ residuals
            gradient[p:] += residuals.sum(axis=0)
        return gradient

    def law(self, run: Run, *, corrected: bool = False) -> RidgeLaw:
        """The law of a run; with `corrected`, its basis may have a low-rank correction."""
        if run.schedule.is_stationary:  # its comparisons need an eigenproblem anyway
            return StationaryRidgeLaw(self.spectrum, *run, max(self.statistics_error, UNIT))
        spectrum = self.corrected_spectrum if corrected else self.spectrum
        return RidgeLaw(spectrum, *run, max(self.statistics_error, UNIT))

    def shortfall(self, run: Run, theta: Array) -> Shortfall | None:
        """R2 on the rows, of the mean after learning and of the minimiser; theta is not used."""
        n_live = int(self.source.live.sum()) if self.source.fit_intercept else None
        return shortfall_of(self.spectrum, run, n_live)

    def batch_facts(
        self, rows: NDArray[np.intp], n_steps: int, n_unlearn_steps: int
    ) -> dict[str, bool]:
        """No facts: every step uses all rows."""
        return {}

    def timing_sample(self, n_steps: int) -> tuple[int, float]:
        """Steps to time (all in one draw, or a single step), and the eigenbasis's seconds."""
        return (n_steps if self.solver == "spectral" else 1), self.spectrum.seconds

    def redraw_work(self, learning: Segment) -> float:
        """One eigenproblem or SVD; with the solver "gradient", also all steps on the rows."""
        n, p = self.source.n_rows, self.source.n_columns
        work = _EIGENPROBLEM * p * float(min(n, p)) ** 2
        if self.solver == "gradient":
            work += 2.0 * learning.steps * n * p * self.n_outputs
        return work

    def record(self) -> dict[str, Any]:
        """What a store keeps as plain numbers."""
        statistics, spectrum = self.statistics, self.spectrum
        sums = None
        if statistics is not None:
            # Rounded up, which is safe: all its digits would reveal the norm of the removed rows.
            error = up_to_grid(statistics.error, _PER_OCTAVE) if statistics.error else 0.0
            sums = {"target_energy": statistics.target_energy, "error": error}
        return {
            "spectrum_seconds": spectrum.seconds,
            "target_norm": spectrum.target_norm,
            "statistics": sums,
        }

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """What a store keeps as arrays. The eigenbasis comes last because it may be computed."""
        statistics = self._known.settled
        if statistics is not None:
            yield "gram", statistics.gram
            yield "cross", statistics.cross
        spectrum = self.spectrum
        yield "eigenvalues", spectrum.eigenvalues
        yield "basis", spectrum.basis
        yield "spectral_cross", spectrum.cross

    @classmethod
    def restored(
        cls,
        record: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        source: RowSource,
        solver: str,
    ) -> "RidgeProblem":
        """The problem of a store's record and arrays."""
        alpha, sums, statistics = float(record["alpha"]), record["statistics"], None
        if sums is not None:
            energy, error = float(sums["target_energy"]), float(sums["error"])
            statistics = Statistics(arrays["gram"], arrays["cross"], energy, error)
        spectrum = Spectrum(
            arrays["eigenvalues"],
            arrays["basis"],
            arrays["spectral_cross"],
            alpha,
            float(record["spectrum_seconds"]),
            float(record["target_norm"]),
        )
        return cls(source, alpha, _Known(statistics, spectrum), solver)

    def __getstate__(self) -> dict[str, Any]:
        self.consolidate()
        return self.__dict__.copy()
