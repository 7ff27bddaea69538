"""The training rows, referred to but not owned: read in blocks, known by keyed digests."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import RowsChanged, RowsNotAttached

__all__ = ["RowSource", "digests_of"]

Array = NDArray[np.float64]

_BLOCK_BYTES = 32 * 2**20  # of a copy
_VIEW_BYTES = 128 * 2**20  # of a part of the caller's array, where that is read as it is
_HASHED_TOGETHER = 128  # rows: few enough to stay in the cache
_DIGEST_BYTES = 16


@dataclass(frozen=True, eq=False)
class RowSource:
    """Rows (x, y) at their fit-time positions, some of them forgotten.

    `X` and `Y` are the caller's arrays, never copied whole and never pickled; what stays with the
    source is a keyed digest of every live row, so that rows it never saw are refused when they are
    attached again. A forgotten row's digest is erased. Every block is float64 with a column of
    ones appended where the model has an intercept.
    """

    X: NDArray[Any] | None
    Y: Array | None
    fit_intercept: bool
    live: NDArray[np.bool_]
    digests: NDArray[np.uint8] = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, X: NDArray[Any], Y: Array, *, fit_intercept: bool) -> "RowSource":
        """A source of all rows of X and Y, not digested yet: `features` does that."""
        n = len(X)
        blank = np.zeros((n, _DIGEST_BYTES), dtype=np.uint8)
        key = secrets.token_bytes(32)
        return cls(X, Y, fit_intercept, np.ones(n, dtype=bool), blank, key)

    @classmethod
    def observe(cls, X: NDArray[Any], Y: Array, *, fit_intercept: bool) -> "RowSource":
        """A source of all rows of X and Y, digested."""
        source = cls.of(X, Y, fit_intercept=fit_intercept)
        for _ in source.features(first=True):
            pass
        return source

    @property
    def n_columns(self) -> int:
        """Columns of a block: features, and one for the intercept."""
        return int(self._array.shape[1]) + bool(self.fit_intercept)

    @property
    def n_rows(self) -> int:
        """Rows at fit, forgotten ones included."""
        return len(self.live)

    def features(
        self, share: int = 0, shares: int = 1, *, first: bool = False, check: bool = True
    ) -> Iterator[tuple[Array, Array]]:
        """Live rows without the column of ones, every `shares`-th block of them, checked.

        Not copied where that can be helped. The `first` pass makes the digests instead; a pass
        that follows a checked one at once may do without.
        """
        as_it_is = isinstance(self._array, np.ndarray) and self._array.dtype == np.float64
        row_bytes = 8 * max(1, self._array.shape[1])
        longest = max(1, (_VIEW_BYTES if as_it_is else _BLOCK_BYTES // shares) // row_bytes)
        for rows in self._runs(longest, share, shares):
            yield self.first(rows) if first else self.raw(rows, check=check)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Live rows in order, in blocks of bounded size, checked against their digests."""
        for _, x, y in self.numbered_blocks():
            yield x, y

    def numbered_blocks(self, width: int = 0) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        """The same with positions; blocks stay bounded if each row takes `width` numbers more."""
        for rows, x, y in self._read(width):
            self._compare(rows, x[:, : self._array.shape[1]], y)
            yield rows, x, y

    def take(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """The given live rows, checked against their digests."""
        x, y = self._select(rows)
        self._compare(rows, x[:, : self._array.shape[1]], y)
        return x, y

    def first(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """The given rows without the column of ones, digested."""
        x, y = self._raw(rows)
        self.digests[rows] = self.digest(x, y)
        return x, y

    def raw(self, rows: NDArray[np.intp], *, check: bool) -> tuple[Array, Array]:
        """The given live rows without the column of ones, not copied where that can be helped."""
        x, y = self._raw(rows)
        if check:
            self._compare(rows, x, y)
        return x, y

    def check(self, runs: Iterable[NDArray[np.intp]]) -> None:
        """Compare runs of rows with their digests, several at a time."""

        def compare(rows: NDArray[np.intp]) -> None:
            self.raw(rows, check=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing does not hold the interpreter
            for _ in pool.map(compare, runs):
                pass

    def without(self, rows: NDArray[np.intp]) -> "RowSource":
        """A source in which `rows` are gone, digests included."""
        live, digests = self.live.copy(), self.digests.copy()
        live[rows] = False
        digests[rows] = 0
        return replace(self, live=live, digests=digests)

    def attach(self, X: NDArray[Any], Y: Array) -> "RowSource":
        """A source that reads from X and Y: all fit-time rows, or just those not forgotten.

        Forgotten positions are not looked at, so they may hold anything.
        """
        n_live = int(self.live.sum())
        if len(X) != len(Y):
            raise ValueError(f"X and y must have as many rows, got {len(X)} and {len(Y)}.")
        if len(X) == self.n_rows:
            source = replace(self, X=X, Y=Y)
        elif len(X) == n_live:
            source = replace(self, X=_Scattered(X, self.live), Y=_Scattered(Y, self.live))  # type: ignore[arg-type]
        else:
            raise ValueError(
                f"X must have all {self.n_rows} rows of the fit or the {n_live} not forgotten, in "
                f"their order, got {len(X)} rows."
            )
        for _ in source.blocks():
            pass
        return source

    def reading(self, X: Any, Y: Any) -> "RowSource":
        """A source that reads from X and Y, array-likes by position; rows are checked when read."""
        return replace(self, X=X, Y=Y)

    @property
    def _array(self) -> NDArray[Any]:
        if self.X is None:
            raise RowsNotAttached(
                "the model was loaded without its training rows. Call model.attach(X, y) first."
            )
        return self.X

    def _read(self, width: int = 0) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        for rows in self._runs(max(1, _BLOCK_BYTES // (8 * max(self.n_columns, width)))):
            x, y = self._select(rows)
            yield rows, x, y

    def _runs(self, longest: int, share: int = 0, shares: int = 1) -> Iterator[NDArray[np.intp]]:
        positions = np.flatnonzero(self.live)
        rounds = -(-len(positions) // (longest * shares))
        if rounds:
            yield from np.array_split(positions, rounds * shares)[share::shares]

    def _select(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        features, y = self._raw(rows)
        x = np.empty((len(rows), self.n_columns))
        x[:, : features.shape[1]], x[:, features.shape[1] :] = features, 1.0
        return x, y

    def _raw(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        X, Y = self._array, self.Y
        assert Y is not None
        # A run of consecutive rows is read as a slice: no copy.
        whole = (
            len(rows) > 0
            and rows[-1] - rows[0] + 1 == len(rows)
            and bool((np.diff(rows) == 1).all())
        )
        where: Any = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows
        x, y = (np.asarray(some[where], dtype=np.float64) for some in (X, Y))
        return x, y

    def digest(self, x: Array, y: Array) -> NDArray[np.uint8]:
        """Keyed digests of rows, without the column of ones, and their targets."""
        return digests_of(x, y, self.key)

    def _compare(self, rows: NDArray[np.intp], x: Array, y: Array) -> None:
        self.compare(self.digests[rows], self.digest(x, y), rows)

    @staticmethod
    def compare(kept: NDArray[np.uint8], found: NDArray[np.uint8], rows: NDArray[np.intp]) -> None:
        """Refuse rows whose digests are not those that were kept."""
        wrong = (found != kept).any(axis=1)
        if wrong.any():
            raise RowsChanged(
                f"{int(wrong.sum())} row(s), the first at position {int(rows[wrong][0])}, are not "
                "those that the model was fitted on. Restore or attach the original X and y."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "X": None, "Y": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> "RowSource":
        return self  # immutable, and the rows are the caller's


def digests_of(x: Array, y: Array, key: bytes) -> NDArray[np.uint8]:
    """Keyed digests of rows, without the column of ones, and their targets."""
    keyed, raw = hashlib.sha256(key), bytearray()
    together = np.empty((_HASHED_TOGETHER, x.shape[1] + y.shape[1]))
    for start in range(0, len(x), _HASHED_TOGETHER):
        some = slice(start, start + _HASHED_TOGETHER)
        rows = together[: len(x) - start]
        rows[:, : x.shape[1]], rows[:, x.shape[1] :] = x[some], y[some]
        rows += 0.0  # -0.0 and 0.0 are the same row
        for row in rows:
            digest = keyed.copy()  # rows of one source have one length: a key in front will do
            digest.update(row)
            raw += digest.digest()[:_DIGEST_BYTES]
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(x), _DIGEST_BYTES)


class _Scattered:
    """Live rows only, addressed by their fit-time positions."""

    def __init__(self, array: NDArray[Any], live: NDArray[np.bool_]) -> None:
        self.array = array
        self.where = np.cumsum(live) - 1
        self.shape = (len(live), *array.shape[1:])

    def __getitem__(self, key: Any) -> NDArray[Any]:
        picked: NDArray[Any] = self.array[self.where[key]]
        return picked
