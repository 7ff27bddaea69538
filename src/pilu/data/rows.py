"""The training rows, referred to but not owned: read in blocks, identified by keyed digests."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import RowsChanged, RowsNotAttached, WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Digests = NDArray[np.uint8]

_BLOCK_BYTES = 32 * 2**20  # of a copy
_VIEW_BYTES = 128 * 2**20  # of a view of the caller's array
_HASHED_TOGETHER = 128  # rows: few enough to stay in the cache
_DIGEST_BYTES = 16


class Rows(Protocol):
    """What holds the rows: arrays (`ArrayRows`), a user's table, or the partitions of dask.

    Rows are addressed by their fit-time positions.
    """

    @property
    def in_place(self) -> bool:
        """Whether consecutive rows are read without a copy, so that large blocks are free."""
        return False

    def read(self, positions: Positions) -> tuple[Array, Array]:
        """Features and targets of some rows, in this order, as float64."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """Rows of the caller's arrays or memory maps, which are not copied.

    `places` says where each fit-time row is in the arrays; None where they hold all of them.
    """

    X: Any
    Y: Array
    places: Positions | None = None

    @property
    def in_place(self) -> bool:
        """Whether X is an array of doubles."""
        is_double = isinstance(self.X, np.ndarray) and self.X.dtype == np.float64
        return is_double and self.places is None

    def read(self, positions: Positions) -> tuple[Array, Array]:
        """Features and targets; a run of consecutive rows is a view where it can be."""
        places = positions if self.places is None else self.places[positions]
        whole = (
            len(places) > 0
            and places[-1] - places[0] + 1 == len(places)
            and bool((np.diff(places) == 1).all())
        )
        where: Any = slice(int(places[0]), int(places[-1]) + 1) if whole else places
        return (
            np.asarray(self.X[where], dtype=np.float64),
            np.asarray(self.Y[where], dtype=np.float64),
        )


@dataclass(frozen=True, eq=False)
class RowSource:
    """Rows (x, y) at their fit-time positions, some of them forgotten.

    `rows` reads them; it is never pickled. What stays with the source is a keyed digest of every
    live row, so that rows it never saw are refused when they are attached again. A forgotten row's
    digest is erased. Every block is float64 with a column of ones appended where the model has an
    intercept.
    """

    rows: Rows | None
    n_features: int
    fit_intercept: bool
    live: NDArray[np.bool_]
    digests: Digests = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, X: NDArray[Any], Y: Array, *, fit_intercept: bool) -> "RowSource":
        """A source of all rows of X and Y, not digested yet: `features` does that."""
        n, p = X.shape
        blank = np.zeros((n, _DIGEST_BYTES), dtype=np.uint8)
        key = secrets.token_bytes(32)
        return cls(ArrayRows(X, Y), p, fit_intercept, np.ones(n, dtype=bool), blank, key)

    @property
    def n_columns(self) -> int:
        """Columns of a block: features, and one for the intercept."""
        return self.n_features + bool(self.fit_intercept)

    @property
    def n_rows(self) -> int:
        """Rows at fit, forgotten ones included."""
        return len(self.live)

    def features(
        self, share: int = 0, shares: int = 1, *, first: bool = False, check: bool = True
    ) -> Iterator[tuple[Array, Array]]:
        """Live rows without the column of ones, every `shares`-th block of them, checked.

        The `first` pass makes the digests instead; a pass that directly follows a checked one may
        skip the check.
        """
        block_bytes = _VIEW_BYTES if self._attached.in_place else _BLOCK_BYTES // shares
        for positions in self._runs(block_bytes, self.n_features, share, shares):
            yield self.first(positions) if first else self.raw(positions, check=check)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Live rows in order, in blocks of bounded size, checked against their digests."""
        for _, x, y in self.numbered_blocks():
            yield x, y

    def numbered_blocks(self, width: int = 0) -> Iterator[tuple[Positions, Array, Array]]:
        """The same with positions; blocks stay bounded if each row takes `width` numbers more."""
        for positions in self._runs(_BLOCK_BYTES, max(self.n_columns, width)):
            yield positions, *self.take(positions)

    def take(self, positions: Positions) -> tuple[Array, Array]:
        """The given live rows, checked against their digests."""
        features, y = self.raw(positions, check=False)
        x = np.empty((len(positions), self.n_columns))
        x[:, : self.n_features], x[:, self.n_features :] = features, 1.0
        # The copy is checked, not the caller's array: it cannot change in between.
        y = np.array(y)
        digests = self.digest(x[:, : self.n_features], y)
        compare_digests(self.digests[positions], digests, positions)
        return x, y

    def first(self, positions: Positions) -> tuple[Array, Array]:
        """The given rows without the column of ones, digested."""
        x, y = self._attached.read(positions)
        self.digests[positions] = self.digest(x, y)
        return x, y

    def raw(self, positions: Positions, *, check: bool) -> tuple[Array, Array]:
        """The given live rows without the column of ones, not copied where that is possible."""
        x, y = self._attached.read(positions)
        if check:
            compare_digests(self.digests[positions], self.digest(x, y), positions)
        return x, y

    def check(self, runs: Iterable[Positions]) -> None:
        """Compare runs of rows with their digests, several at a time."""

        def compare(positions: Positions) -> None:
            self.raw(positions, check=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing does not hold the interpreter
            for _ in pool.map(compare, runs):
                pass

    def without(self, positions: Positions) -> "RowSource":
        """A source in which some rows are gone, digests included."""
        live, digests = self.live.copy(), self.digests.copy()
        live[positions] = False
        digests[positions] = 0
        return replace(self, live=live, digests=digests)

    def attach(self, X: NDArray[Any], Y: Array) -> "RowSource":
        """A source that reads from X and Y: all fit-time rows, or just those not forgotten.

        Forgotten positions are not read, so they may hold anything.
        """
        n_live = int(self.live.sum())
        if len(X) != len(Y):
            raise WrongInput(f"X and y must have as many rows, got {len(X)} and {len(Y)}.")
        if len(X) == self.n_rows:
            source = self.reading(ArrayRows(X, Y))
        elif len(X) == n_live:
            source = self.reading(ArrayRows(X, Y, np.cumsum(self.live) - 1))
        else:
            raise WrongInput(
                f"X must have all {self.n_rows} rows of the fit or the {n_live} not forgotten, in "
                f"their order, got {len(X)} rows."
            )
        for _ in source.features():
            pass
        return source

    def reading(self, rows: Rows | None) -> "RowSource":
        """The same source with other rows behind it; each is checked when it is read."""
        return replace(self, rows=rows)

    def in_memory(self, n_outputs: int) -> "RowSource":
        """The same source with all live rows read into arrays; forgotten ones are zeros there."""
        X, Y = np.zeros((self.n_rows, self.n_features)), np.zeros((self.n_rows, n_outputs))
        for positions in self._runs(_BLOCK_BYTES, self.n_features):
            X[positions], Y[positions] = self.raw(positions, check=False)
        return self.reading(ArrayRows(X, Y))

    def digest(self, x: Array, y: Array) -> Digests:
        """Keyed digests of rows, without the column of ones, and their targets."""
        return digests_of(x, y, self.key)

    @property
    def _attached(self) -> Rows:
        if self.rows is None:
            raise RowsNotAttached(
                "the model was loaded without its training rows. Call model.attach(X, y) first."
            )
        return self.rows

    def _runs(
        self, block_bytes: int, width: int, share: int = 0, shares: int = 1
    ) -> Iterator[Positions]:
        """Live positions in runs of at most so many bytes, every `shares`-th of them."""
        positions, longest = np.flatnonzero(self.live), max(1, block_bytes // (8 * max(1, width)))
        rounds = -(-len(positions) // (longest * shares))
        if rounds:
            yield from np.array_split(positions, rounds * shares)[share::shares]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "rows": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> "RowSource":
        return self  # immutable, and the rows are the caller's


def compare_digests(kept: Digests, now: Digests, positions: Positions) -> None:
    """Refuse rows whose digests are not those that were kept."""
    wrong = (now != kept).any(axis=1)
    if wrong.any():
        raise RowsChanged(
            f"{int(wrong.sum())} row(s), the first at position {int(positions[wrong][0])}, are not "
            "those that the model was fitted on. Restore or attach the original X and y."
        )


def digests_of(x: Array, y: Array, key: bytes) -> Digests:
    """Keyed digests of rows, without the column of ones, and their targets."""
    keyed, raw = hashlib.sha256(key), bytearray()
    together = np.empty((_HASHED_TOGETHER, x.shape[1] + y.shape[1]))
    for start in range(0, len(x), _HASHED_TOGETHER):
        some = slice(start, start + _HASHED_TOGETHER)
        rows = together[: len(x) - start]
        rows[:, : x.shape[1]], rows[:, x.shape[1] :] = x[some], y[some]
        rows += 0.0  # -0.0 and 0.0 are the same row
        for row in rows:
            digest = keyed.copy()  # a prefixed key is safe: rows of one source have one length
            digest.update(row)
            raw += digest.digest()[:_DIGEST_BYTES]
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(x), _DIGEST_BYTES)


class Request(NamedTuple):
    """Rows to forget together: X is R x p (with the intercept's ones), Y is R x d."""

    X: Array
    Y: Array
    rows: NDArray[np.intp]  # their fit-time positions

    def part(self, rows: slice | NDArray[np.intp]) -> "Request":
        """Some of the rows, by their places in the request."""
        return Request(self.X[rows], self.Y[rows], self.rows[rows])

    @classmethod
    def read(cls, source: RowSource, rows: NDArray[np.intp]) -> "Request":
        """The request to forget `rows`, checked against their digests."""
        return cls(*source.take(rows), rows)
