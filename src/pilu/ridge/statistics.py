"""Sufficient statistics of ridge regression: X'X and X'Y, in one pass over blocks of rows."""

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["ReadShare", "Statistics"]

Array = NDArray[np.float64]

# read(share, shares) gives every shares-th block of rows, from the share-th on.
_Block = tuple[Array, Array]
ReadShare = Callable[[int, int], Iterable[_Block]]

_WORTH_THREADS = 32 * 2**20  # bytes of rows
_MOST_THREADS = 4
_MOST_COLUMNS = 4096  # past it, X'X once for every thread is too much memory
_ROUNDING = 1e-15  # of collecting, and of each subtraction


@dataclass(frozen=True, eq=False)
class Statistics:
    """X'X, X'Y and what is known of their rounding error (relative to their norms)."""

    gram: Array
    cross: Array
    target_energy: float
    error: float = _ROUNDING

    @classmethod
    def collect(
        cls, read: ReadShare, n: int, p: int, d: int, *, fit_intercept: bool
    ) -> "Statistics":
        """Accumulate n rows of p columns, the last of them ones where there is an intercept.

        Each thread reads its share of the blocks and has BLAS to itself: digests of one block are
        then made while the product of another is, and nobody waits for anybody.
        """
        if n * p * 8 < _WORTH_THREADS or p > _MOST_COLUMNS:
            return cls(*_sums(read(0, 1), p, d, fit_intercept))
        blas = ThreadpoolController().select(user_api="blas")
        threads = max((library["num_threads"] for library in blas.info()), default=1)
        shares = min(threads, _MOST_THREADS)
        with (
            blas.limit(limits=threads // shares),
            ThreadPoolExecutor(shares) as pool,
            _StopOnError() as stop,
        ):

            def sums(share: int) -> tuple[Array, Array, float]:
                with stop:
                    return _sums(stop.unless_stopped(read(share, shares)), p, d, fit_intercept)

            parts = list(pool.map(sums, range(shares)))
        gram, cross, energy = parts.pop()
        for other in parts:
            gram += other[0]
            cross += other[1]
            energy += other[2]
        return cls(gram, cross, energy)

    @classmethod
    def of_rows(
        cls, blocks: Iterable[tuple[Array, Array]], p: int, d: int, *, fit_intercept: bool
    ) -> "Statistics":
        """The same by one thread."""
        return cls(*_sums(blocks, p, d, fit_intercept))

    def plus(self, other: "Statistics") -> "Statistics":
        """The statistics of two sets of rows together."""
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.target_energy + other.target_energy,
            max(self.error, other.error),
        )

    def without(self, x: Array, y: Array) -> "Statistics":
        """Subtract rows. `error` grows by what the subtraction cancels."""
        gram = self.gram - x.T @ x
        cross = self.cross - x.T @ y
        energy = self.target_energy - float(np.sum(y * y))
        return Statistics(gram, cross, energy, self.error_without(x, y))

    def error_without(self, x: Array, y: Array) -> float:
        """`error` once rows are subtracted, at no more cost than reading them."""
        before = float(np.trace(self.gram))
        after, energy = before - float(np.sum(x * x)), self.target_energy - float(np.sum(y * y))
        shrink = max(
            _ratio(before, after), math.sqrt(_ratio(before * self.target_energy, after * energy))
        )
        return (self.error + _ROUNDING) * shrink


class _StopOnError:
    """One thread's error, or Ctrl-C, ends the work of all at their next block."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def __enter__(self) -> "_StopOnError":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._stopped.set()

    def unless_stopped(self, blocks: Iterable[_Block]) -> Iterator[_Block]:
        return itertools.takewhile(lambda _: not self._stopped.is_set(), blocks)


def _sums(
    blocks: Iterable[tuple[Array, Array]], p: int, d: int, fit_intercept: bool
) -> tuple[Array, Array, float]:
    gram, cross, energy = np.zeros((p, p)), np.zeros((p, d)), 0.0
    width = p - bool(fit_intercept)
    for x, y in blocks:
        gram[:width, :width] += x.T @ x
        cross[:width] += x.T @ y
        energy += float(np.sum(y * y))
        if fit_intercept:  # the column of ones, without copying x to append it
            ones = np.ones(len(x))
            gram[width, :width] += ones @ x
            gram[width, width] += len(x)
            cross[width] += ones @ y
    gram[:width, width:] = gram[width:, :width].T
    return gram, cross, energy


def _ratio(before: float, after: float) -> float:
    if before == 0.0:
        return 1.0
    return before / after if after > 0.0 else math.inf
