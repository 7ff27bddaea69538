"""Sufficient statistics of ridge regression: X'X and X'Y, in one pass over blocks of rows."""

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu._processes import blas

Array = NDArray[np.float64]

# read(share, shares) yields every shares-th block of rows, starting with block `share`.
_Block = tuple[Array, Array]
ReadShare = Callable[[int, int], Iterable[_Block]]

_FEW_COLUMNS = 128  # up to it, products are formed of as many rows at a time
_MANY_COLUMNS = 512  # past it, compensated sums would cost too much
_ROWS_OF_BLAS = 512  # most rows that BLAS sums before it adds to the total (measured)
_WORTH_THREADS = 32 * 2**20  # bytes of rows: below it, one thread is as fast
_MOST_THREADS = 4
_MOST_COLUMNS = 4096  # past it, a copy of X'X for every thread takes too much memory
_ROUNDING = 1e-15  # relative error of a subtraction, and of collecting apart from its sums


@dataclass(frozen=True, eq=False)
class Statistics:
    """X'X, X'Y and a bound on their rounding error, relative to their norms."""

    gram: Array
    cross: Array
    target_energy: float
    error: float = _ROUNDING

    @classmethod
    def collect(
        cls, read: ReadShare, n: int, p: int, d: int, *, fit_intercept: bool
    ) -> "Statistics":
        """Accumulate n rows of p columns; with an intercept, the last column is ones.

        Each thread reads its share of the blocks and uses its share of the BLAS threads. One thread
        can then compute digests while another computes products.
        """
        if n * p * 8 < _WORTH_THREADS or p > _MOST_COLUMNS:
            return cls.of_rows(read(0, 1), p, d, fit_intercept=fit_intercept)
        threads = max((library["num_threads"] for library in blas().info()), default=1)
        shares = min(threads, _MOST_THREADS)
        stopped = threading.Event()  # all threads at their next block

        def sums(share: int) -> tuple[Array, Array, float, int]:
            blocks = itertools.takewhile(lambda _: not stopped.is_set(), read(share, shares))
            with _setting_on_error(stopped):
                return _sums(blocks, p, d, fit_intercept)

        with (
            blas().limit(limits=threads // shares),
            ThreadPoolExecutor(shares) as pool,
            _setting_on_error(stopped),  # Ctrl-C reaches this thread
        ):
            parts = list(pool.map(sums, range(shares)))
        gram, cross, energy, _ = parts.pop()
        for other in parts:
            gram += other[0]
            cross += other[1]
            energy += other[2]
        return cls(gram, cross, energy, _collecting_error(n, p))

    @classmethod
    def of_rows(
        cls, blocks: Iterable[tuple[Array, Array]], p: int, d: int, *, fit_intercept: bool
    ) -> "Statistics":
        """As `collect`, on one thread."""
        gram, cross, energy, n = _sums(blocks, p, d, fit_intercept)
        return cls(gram, cross, energy, _collecting_error(n, p))

    def plus(self, other: "Statistics") -> "Statistics":
        """The statistics of two sets of rows together."""
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.target_energy + other.target_energy,
            max(self.error, other.error),
        )

    def without(self, x: Array, y: Array) -> "Statistics":
        """Subtract rows; cancellation makes `error` grow."""
        gram = self.gram - x.T @ x
        cross = self.cross - x.T @ y
        energy = self.target_energy - float(np.sum(y * y))
        return Statistics(gram, cross, energy, self.error_without(x, y))

    def error_without(self, x: Array, y: Array) -> float:
        """`error` after the rows are subtracted, without forming the products."""
        before = float(np.trace(self.gram))
        after, energy = before - float(np.sum(x * x)), self.target_energy - float(np.sum(y * y))
        shrink = max(
            _ratio(before, after), math.sqrt(_ratio(before * self.target_energy, after * energy))
        )
        return (self.error + _ROUNDING) * shrink


@contextmanager
def _setting_on_error(event: threading.Event) -> Iterator[None]:
    try:
        yield
    except BaseException:
        event.set()
        raise


def _sums(
    blocks: Iterable[tuple[Array, Array]], p: int, d: int, fit_intercept: bool
) -> tuple[Array, Array, float, int]:
    """X'X, X'Y, the sum of squared targets and the number of rows.

    Equal rows round equally, so their errors add up. BLAS therefore sums few rows at a time, and
    these sums are added with compensation. For many columns BLAS itself takes few rows at a time.
    """
    gram, cross, energy, n = _Sum((p, p)), _Sum((p, d)), 0.0, 0
    width, few = p - bool(fit_intercept), _rows_together(p)
    product = np.zeros((p, p))
    for block, targets in blocks:
        n += len(block)
        energy += float(np.sum(targets * targets))
        for x, _ in _parts(block, targets, few):
            np.matmul(x.T, x, out=product[:width, :width])
            if fit_intercept:  # the column of ones, without copying x to append it
                product[width, :width] = product[:width, width] = np.ones(len(x)) @ x
                product[width, width] = len(x)
            gram.add(product, compensated=few is not None)
        for x, y in _parts(block, targets, few or _ROWS_OF_BLAS):
            ones = [np.ones((1, len(x))) @ y] if fit_intercept else []
            cross.add(np.vstack([x.T @ y, *ones]), compensated=True)
    return gram.total, cross.total, energy, n


def _parts(x: Array, y: Array, rows: int | None) -> Iterator[_Block]:
    rows = len(x) if rows is None else rows
    for start in range(0, len(x), max(rows, 1)):
        yield x[start : start + rows], y[start : start + rows]


class _Sum:
    """A running sum of matrices, with or without Kahan's compensation."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.total, self._lost = np.zeros(shape), np.zeros((1, 1))

    def add(self, part: Array, *, compensated: bool) -> None:
        """Add a matrix, which is overwritten if compensated."""
        if not compensated:
            self.total += part
            return
        part -= self._lost
        total = self.total + part
        self._lost = total - self.total
        self._lost -= part
        self.total = total


def _rows_together(p: int) -> int | None:
    """Rows that BLAS sums at a time; None for whole blocks."""
    if p <= _FEW_COLUMNS:
        return _FEW_COLUMNS
    return None if p > _MANY_COLUMNS else 4 * _ROWS_OF_BLAS


def _collecting_error(n: int, p: int) -> float:
    """Error relative to the norms; it grows with the rows summed without compensation."""
    rows = min(_rows_together(p) or n, n)
    return _ROUNDING + (2.0**-53 * rows if p <= _FEW_COLUMNS else sum_error(rows))


def sum_error(n: int) -> float:
    """Relative error of a BLAS product over n rows, in the worst case of equal rows.

    BLAS sums a few hundred rows at a time and then adds these partial sums.
    """
    return 2.0**-53 * min(n, _ROWS_OF_BLAS + n // 256)


def _ratio(before: float, after: float) -> float:
    if before == 0.0:
        return 1.0
    return before / after if after > 0.0 else math.inf
