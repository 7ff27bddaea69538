"""Rows in the partitions of dask collections (needs the extra ``pilu[dask]``).

Sums are made where the rows are and added up in a tree; what comes back is p x p numbers, and a
digest of every row. Rows are numbered through the partitions in their order. Whoever asks for rows
by their numbers has only the partitions computed that hold them, and only those rows sent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.data.graphs import added_up, check_collection, computed, is_dask, side_by_side, width_of
from pilu.data.rows import digests_of
from pilu.data.statistics import Statistics
from pilu.data.values import (
    aligned,
    all_classes,
    check_same_rows,
    distinct_labels,
    index_of,
    numbers_of,
    picked,
)
from pilu.exceptions import RowsChanged

__all__ = [
    "Learned",
    "PartitionedRows",
    "Partitions",
    "Reading",
    "added_up",
    "computed",
    "is_dask",
    "taken",
]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Encode = Callable[[Any], Array]  # from a partition's targets to n x d numbers

_BLOCK_BYTES = 32 * 2**20  # of a part of a partition, in float64


class Learned(NamedTuple):
    """What a pass over all partitions brings back."""

    statistics: Statistics | None  # None where nobody asked for sums
    digests: NDArray[np.uint8]
    sizes: Positions  # rows of every partition
    index: Any  # of dataframes, else None
    largest: tuple[float, float]  # magnitudes of features and targets
    target_sums: Array
    beside: dict[str, list[Any]]  # what stood beside X and y, row by row


@dataclass(frozen=True, eq=False)
class Reading:
    """How a partition becomes numbers: by names of columns, all of them of the declared width."""

    encode: Encode
    columns: tuple[Any, ...] | None
    n_features: int
    target_columns: tuple[Any, ...] | None
    n_outputs: int

    def __call__(self, part: Any, inside: Positions | None = None) -> tuple[NDArray[Any], Array]:
        """X and Y of a partition, or of some of its rows; what is not asked for may be anything."""
        x, y = part[:2]
        check_same_rows(x, [("y", y)])
        if inside is not None:
            x, y = picked(x, inside), picked(y, inside)
        if not len(x):  # of whatever types
            return np.empty((0, self.n_features)), np.empty((0, self.n_outputs))
        X = numbers_of("X", aligned("X", x, self.columns))
        Y = self.encode(aligned("y", y, self.target_columns))
        for name, values, width in (("X", X, self.n_features), ("y", Y, self.n_outputs)):
            if values.ndim != 2 or values.shape[1] != width:
                raise ValueError(
                    f"{name} must have {width} column(s) in every partition, as it declares, got "
                    f"an array of shape {values.shape}. Give map_blocks or from_delayed the shape "
                    "that comes out."
                )
        return X, Y


@dataclass(frozen=True, eq=False)
class Partitions:
    """X and y, partition by partition, not computed yet."""

    blocks: tuple[Any, ...]  # delayed: X, y and what stands beside them, read together
    like: Any  # X without rows
    n_features: int
    target_columns: tuple[Any, ...] | None  # names, of dataframes
    n_outputs: int
    y_is_vector: bool
    n_rows: int | None  # where it is known without reading
    beside: tuple[str, ...]

    @classmethod
    def of(cls, X: Any, y: Any, **beside: Any) -> "Partitions":
        """Collections with the same rows in the same partitions."""
        if not (is_dask(X) and is_dask(y)):
            raise ValueError(
                "X and y must both be dask collections, got one of them. dask.array.from_array and "
                "dask.dataframe.from_pandas make one of what is in memory."
            )
        given = {"X": X, "y": y, **beside}
        for name, collection in given.items():
            check_collection(name, collection)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}.")
        if y.ndim not in (1, 2):
            raise ValueError(f"y must have one or two dimensions, got {y.ndim}.")
        for name, collection in beside.items():
            if collection.ndim != 1:
                raise ValueError(
                    f"{name} must have one dimension, got {collection.ndim}. Take a column, as in "
                    "frame['who']."
                )
        n_features, n_outputs = width_of("X", X), 1 if y.ndim == 1 else width_of("y", y)
        like = X._meta if hasattr(type(X), "columns") else np.empty((0, n_features))
        n_rows = None
        if hasattr(type(X), "chunks") and not np.isnan(sum(X.chunks[0])):
            n_rows = int(sum(X.chunks[0]))
        names = tuple(y.columns) if y.ndim == 2 and hasattr(type(y), "columns") else None
        blocks = tuple(side_by_side(given))
        return cls(blocks, like, n_features, names, n_outputs, y.ndim == 1, n_rows, tuple(beside))

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """Names, of dataframes."""
        return tuple(self.like.columns) if hasattr(self.like, "columns") else None

    def reading(self, encode: Encode, n_outputs: int) -> Reading:
        """How these partitions become numbers."""
        return Reading(encode, self.columns, self.n_features, self.target_columns, n_outputs)

    def learn(
        self, reading: Reading, key: bytes, *, fit_intercept: bool, sums: bool = True
    ) -> Learned:
        """Sums, if they are wanted, digests and sizes: one pass, where the rows are."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        told = [
            delayed(_learn_block, nout=2, pure=False)(
                part, reading, key, fit_intercept, sums, self.beside
            )
            for part in self.blocks
        ]
        total = added_up([total for total, _ in told]) if sums else None
        statistics, *notes = computed(total, *(note for _, note in told))
        largest = np.max([note.largest for note in notes], axis=0)
        return Learned(
            statistics,
            np.concatenate([note.digests for note in notes]),
            np.array([len(note.digests) for note in notes], dtype=np.intp),
            _joined([note.index for note in notes]),
            (float(largest[0]), float(largest[1])),
            np.sum([note.target_sums for note in notes], axis=0),
            {
                name: [value for note in notes for value in note.beside[k]]
                for k, name in enumerate(self.beside)
            },
        )

    def rows(self) -> tuple[Positions, Any]:
        """Rows of every partition, and the index of dataframes."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        found = computed(*(delayed(_rows_of, pure=False)(part) for part in self.blocks))
        sizes = np.array([size for size, _ in found], dtype=np.intp)
        return sizes, _joined([index for _, index in found])

    def classes(self) -> NDArray[Any]:
        """All labels, sorted."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        found = computed(*(delayed(_labels, pure=False)(part) for part in self.blocks))
        return all_classes(found)


class PartitionedRows:
    """X and Y as `RowSource` reads them, by fit-time positions; only partitions asked for.

    `numbers` are the positions of the rows that the partitions hold, all of the fit's by default,
    and `names` the ids of the fit where the partitions have none of their own.
    """

    def __init__(
        self,
        partitions: Partitions,
        sizes: Positions,
        reading: Reading,
        *,
        n_rows: int,
        numbers: Positions | None = None,
        names: Sequence[Any] | None = None,
    ) -> None:
        self.partitions, self.sizes, self.reading, self.names = partitions, sizes, reading, names
        self.numbers = np.arange(n_rows) if numbers is None else numbers
        self.X = _Part(self, 0, (n_rows, reading.n_features))
        self.Y = _Part(self, 1, (n_rows, reading.n_outputs))
        self._held: tuple[Positions, Array, Array] | None = None

    @cached_property
    def ends(self) -> Positions:
        """Where every partition ends, counting the rows that are there."""
        return np.cumsum(self.sizes)

    def at(self, where: Any) -> tuple[Array, Array]:
        """X and Y at some positions, in their order."""
        positions = np.atleast_1d(np.arange(len(self.X))[where])
        held = self._held
        if held is None or not np.array_equal(held[0], positions):
            held = self._held = (positions, *self._read(positions))  # X is asked for, then Y
        return held[1], held[2]

    def let_go(self) -> None:
        """Hold no row any longer than it is asked for: it may be about to be forgotten."""
        self._held = None

    def target_sums(self, live: NDArray[np.bool_]) -> Array:
        """Sums of the columns of Y over some rows, made where the rows are."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        tasks = [
            delayed(_target_sums, pure=False)(
                part, np.flatnonzero(live[here]), len(here), self.reading
            )
            for part, here in self.numbered()
        ]
        return np.asarray(np.sum(computed(*tasks), axis=0), dtype=np.float64)

    def numbered(self) -> Iterator[tuple[Any, Positions]]:
        """Partitions, and the positions of their rows."""
        for part, start, end in zip(
            self.partitions.blocks, self.ends - self.sizes, self.ends, strict=True
        ):
            yield part, self.numbers[start:end]

    def _read(self, positions: Positions) -> tuple[Array, Array]:
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        places = np.searchsorted(self.numbers, positions)
        owners = np.searchsorted(self.ends, places, "right")
        asked, tasks = [], []
        for owner in np.unique(owners).tolist():
            mine, size = np.flatnonzero(owners == owner), int(self.sizes[owner])
            inside = places[mine] - (self.ends[owner] - size)
            part = self.partitions.blocks[owner]
            asked.append(mine)
            tasks.append(delayed(taken, pure=False)(part, inside, size, self.reading))
        X = np.empty((len(positions), self.X.shape[1]))
        Y = np.empty((len(positions), self.Y.shape[1]))
        for mine, (x, y) in zip(asked, computed(*tasks), strict=True):
            X[mine], Y[mine] = x, y
        return X, Y


class _Part:
    """One of the two, as an array-like."""

    def __init__(self, rows: PartitionedRows, part: int, shape: tuple[int, int]) -> None:
        self.rows, self._part, self.shape = rows, part, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, where: Any) -> Array:
        found = self.rows.at(where)[self._part]
        if self._part == 1:
            self.rows.let_go()
        return found


def taken(part: Any, inside: Positions, size: int, reading: Reading) -> tuple[Array, Array]:
    """Some rows of a partition, which must have as many as it had."""
    if len(part[0]) != size:
        raise RowsChanged(
            f"a partition has {len(part[0])} row(s), and had {size} when it was fitted or "
            "attached. Restore or attach the original X and y."
        )
    X, Y = reading(part, inside)
    return np.asarray(X, dtype=np.float64), Y


class _Note(NamedTuple):
    digests: NDArray[np.uint8]
    index: Any
    largest: tuple[float, float]
    target_sums: Array
    beside: list[list[Any]]


def _learn_block(
    part: Any,
    reading: Reading,
    key: bytes,
    fit_intercept: bool,
    sums: bool,
    names: tuple[str, ...],
) -> tuple[Statistics | None, _Note]:
    X, Y = reading(part)
    check_same_rows(part[0], list(zip(names, part[2:], strict=True)))
    digests, largest = [np.empty((0, 16), dtype=np.uint8)], 0.0

    def pieces() -> Iterator[tuple[Array, Array]]:
        nonlocal largest
        for some in _slices(X):
            # float32 and float16 are exact as float64, and are added up as such
            piece = np.asarray(X[some], dtype=np.float64)
            digests.append(digests_of(piece, Y[some], key))
            largest = max(largest, float(np.max(np.abs(piece), initial=0.0)))
            yield piece, Y[some]

    statistics = None
    if sums:
        p = X.shape[1] + fit_intercept
        statistics = Statistics.of_rows(pieces(), p, Y.shape[1], fit_intercept=fit_intercept)
    else:
        for _ in pieces():
            pass
    note = _Note(
        np.concatenate(digests),
        index_of(part[0]),
        (largest, float(np.max(np.abs(Y), initial=0.0))),
        Y.sum(axis=0),
        [list(beside) for beside in part[2:]],
    )
    return statistics, note


def _slices(X: NDArray[Any]) -> Iterator[slice]:
    size = max(1, _BLOCK_BYTES // (8 * max(1, X.shape[1])))
    yield from (slice(start, start + size) for start in range(0, len(X), size))


def _rows_of(part: Any) -> tuple[int, Any]:
    check_same_rows(part[0], [("y", part[1])])
    return len(part[0]), index_of(part[0])


def _labels(part: Any) -> Any:
    return distinct_labels(part[1])


def _target_sums(part: Any, inside: Positions, size: int, reading: Reading) -> Array:
    return np.asarray(taken(part, inside, size, reading)[1].sum(axis=0))


def _joined(indexes: list[Any]) -> Any:
    if any(index is None for index in indexes):
        return None
    first, *others = [index for index in indexes if len(index)] or indexes[:1]
    return first.append(others)  # an empty one may be of any type
