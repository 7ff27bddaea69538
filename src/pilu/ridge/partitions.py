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
from pilu.exceptions import ClusterLost
from pilu.ridge.rows import digests_of
from pilu.ridge.statistics import Statistics

__all__ = [
    "Learned",
    "PartitionedRows",
    "Partitions",
    "added_up",
    "computed",
    "is_dask",
    "rows_of",
]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Encode = Callable[[Any], Array]  # from a partition's targets to n x d numbers

_SPLIT_EVERY = 4  # sums are added up so many at a time
_BLOCK_BYTES = 32 * 2**20  # of a part of a partition, in float64


class Learned(NamedTuple):
    """What a pass over all partitions brings back."""

    statistics: Statistics
    digests: NDArray[np.uint8]
    sizes: Positions  # rows of every partition
    index: Any  # of dataframes, else None
    largest: tuple[float, float]  # magnitudes of features and targets


def is_dask(value: Any) -> bool:
    """Whether this is one of dask's collections; dask itself is not imported."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


@dataclass(frozen=True)
class Partitions:
    """X and y, partition by partition, not computed yet."""

    blocks: tuple[tuple[Any, Any], ...]  # delayed
    columns: tuple[str, ...] | None  # names, of dataframes
    n_features: int

    @classmethod
    def of(cls, X: Any, y: Any) -> "Partitions":
        """Two collections with the same rows in the same partitions."""
        if not (is_dask(X) and is_dask(y)):
            raise ValueError(
                "X and y must both be dask collections, got one of them. dask.array.from_array and "
                "dask.dataframe.from_pandas make one of what is in memory."
            )
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}.")
        columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        n_features = int(X.shape[1])
        parts = [_delayed(collection) for collection in (X, y)]
        if len(parts[0]) != len(parts[1]):
            raise ValueError(
                f"X and y must have the same partitions, got {len(parts[0])} and {len(parts[1])}. "
                "Take both from one frame, or rechunk y as X."
            )
        return cls(tuple(zip(*parts, strict=True)), columns, n_features)

    def learn(self, key: bytes, encode: Encode, n_outputs: int, *, fit_intercept: bool) -> Learned:
        """Sums, digests and sizes: one pass, where the rows are."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        told = [
            delayed(_learn_block, nout=2, pure=False)(x, y, key, encode, n_outputs, fit_intercept)
            for x, y in self.blocks
        ]
        total = added_up([total for total, _ in told])
        statistics, *notes = computed(total, *(note for _, note in told))
        largest = np.max([note.largest for note in notes], axis=0)
        return Learned(
            statistics,
            np.concatenate([note.digests for note in notes]),
            np.array([len(note.digests) for note in notes], dtype=np.intp),
            _joined([note.index for note in notes]),
            (float(largest[0]), float(largest[1])),
        )

    def sizes(self) -> Positions:
        """Rows of every partition."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        return np.array(computed(*(delayed(len)(x) for x, _ in self.blocks)), dtype=np.intp)

    def classes(self) -> NDArray[Any]:
        """All labels, sorted."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        found = computed(*(delayed(_labels, pure=False)(y) for _, y in self.blocks))
        return np.unique(np.concatenate(found))

    def n_outputs(self) -> tuple[int, bool]:
        """Columns of y, and whether it is a vector; by the first partition if it must be."""
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        (shape,) = computed(delayed(np.shape)(self.blocks[0][1]))
        return (1, True) if len(shape) == 1 else (int(shape[1]), False)


class PartitionedRows:
    """X and Y as `RowSource` reads them, by positions; only partitions that are asked for."""

    def __init__(
        self, partitions: Partitions, sizes: Positions, encode: Encode, n_outputs: int
    ) -> None:
        self.partitions, self.sizes, self.encode = partitions, sizes, encode
        n = int(sizes.sum())
        self.X = _Part(self, 0, (n, partitions.n_features))
        self.Y = _Part(self, 1, (n, n_outputs))
        self._held: tuple[Positions, Array, Array] | None = None

    @cached_property
    def ends(self) -> Positions:
        """Where every partition ends."""
        return np.cumsum(self.sizes)

    def at(self, where: Any) -> tuple[Array, Array]:
        """X and Y at some positions, in their order."""
        positions = np.atleast_1d(np.arange(int(self.ends[-1]))[where])
        held = self._held
        if held is None or not np.array_equal(held[0], positions):
            held = self._held = (positions, *self._read(positions))  # X is asked for, then Y
        return held[1], held[2]

    def let_go(self) -> None:
        """Hold no row any longer than it is asked for: it may be about to be forgotten."""
        self._held = None

    def _read(self, positions: Positions) -> tuple[Array, Array]:
        delayed = need("dask", for_="dask collections", extra="dask").delayed
        owners = np.searchsorted(self.ends, positions, "right")
        asked, tasks = [], []
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            inside = positions[mine] - (self.ends[owner] - self.sizes[owner])
            x, y = self.partitions.blocks[owner]
            asked.append(mine)
            tasks.append(delayed(_take, pure=False)(x, y, inside, self.encode))
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


def added_up(sums: list[Any]) -> Any:
    """The sum of delayed statistics, by a tree."""
    delayed = need("dask", for_="dask collections", extra="dask").delayed
    while len(sums) > 1:
        sums = [
            delayed(_add_up, pure=False)(sums[k : k + _SPLIT_EVERY])
            for k in range(0, len(sums), _SPLIT_EVERY)
        ]
    return sums[0]


def computed(*tasks: Any) -> tuple[Any, ...]:
    """The results, by whichever scheduler is at hand; one that goes away is told."""
    dask = need("dask", for_="dask collections", extra="dask")
    try:
        found: tuple[Any, ...] = dask.compute(*tasks)
    except (ConnectionError, TimeoutError) as error:  # any other OSError is about a user's file
        raise ClusterLost(f"the dask cluster went away: {_first_line(error)}.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("distributed", "tornado"):
            raise ClusterLost(
                f"the dask cluster could not finish the work: {_first_line(error)}. Nothing was "
                "changed."
            ) from error
        raise
    return found


def rows_of(x: Any, y: Any, encode: Encode) -> tuple[NDArray[Any], Array]:
    """A partition as arrays; what is no table of finite numbers is refused."""
    if hasattr(x, "toarray"):
        raise ValueError(
            "X must be dense, got sparse partitions. Turn them into arrays by "
            "X.map_blocks(lambda block: block.toarray()), or reduce their columns first."
        )
    for name, kind in getattr(x, "dtypes", {}).items() if hasattr(x, "columns") else ():
        if getattr(kind, "kind", "O") not in "iufb":
            raise ValueError(
                f"X must be numeric, got column {name!r} of type {kind}. Encode it as numbers, or "
                "leave it out."
            )
    X, Y = np.asarray(x), encode(y)
    if X.dtype.kind not in "iufb" or X.ndim != 2:
        raise ValueError(f"X must be a matrix of numbers, got {X.dtype} of shape {X.shape}.")
    if len(X) != len(Y):
        raise ValueError(f"X and y must have as many rows, got {len(X)} and {len(Y)} in a block.")
    for name, values in (("X", X), ("y", Y)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity. Drop or impute rows.")
    return X, Y


class _Note(NamedTuple):
    digests: NDArray[np.uint8]
    index: Any
    largest: tuple[float, float]


def _learn_block(
    x: Any, y: Any, key: bytes, encode: Encode, n_outputs: int, fit_intercept: bool
) -> tuple[Statistics, _Note]:
    X, Y = rows_of(x, y, encode)
    if Y.shape[1] != n_outputs:
        raise ValueError(f"y must have {n_outputs} columns everywhere, got {Y.shape[1]}.")
    digests, largest = [np.empty((0, 16), dtype=np.uint8)], 0.0

    def pieces() -> Iterator[tuple[Array, Array]]:
        nonlocal largest
        for some in _slices(X):
            # float32 and float16 are exact as float64, and are added up as such
            part = np.asarray(X[some], dtype=np.float64)
            digests.append(digests_of(part, Y[some], key))
            largest = max(largest, float(np.max(np.abs(part), initial=0.0)))
            yield part, Y[some]

    p = X.shape[1] + fit_intercept
    statistics = Statistics.of_rows(pieces(), p, n_outputs, fit_intercept=fit_intercept)
    targets = float(np.max(np.abs(Y), initial=0.0))
    note = _Note(np.concatenate(digests), getattr(x, "index", None), (largest, targets))
    return statistics, note


def _slices(X: NDArray[Any]) -> Iterator[slice]:
    size = max(1, _BLOCK_BYTES // (8 * max(1, X.shape[1])))
    yield from (slice(start, start + size) for start in range(0, len(X), size))


def _add_up(parts: Sequence[Statistics]) -> Statistics:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def _take(x: Any, y: Any, inside: Positions, encode: Encode) -> tuple[Array, Array]:
    X = x.iloc[inside] if hasattr(x, "iloc") else x[inside]
    targets = y.iloc[inside] if hasattr(y, "iloc") else y[inside]
    found, Y = rows_of(X, targets, encode)
    return np.asarray(found, dtype=np.float64), Y


def _labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError("y must be a vector of classes, got several columns.")
    return np.unique(labels)


def _delayed(collection: Any) -> list[Any]:
    """Partitions along the rows; columns are kept together."""
    if hasattr(collection, "rechunk"):
        whole = collection if collection.ndim == 1 else collection.rechunk({1: -1})
        return list(np.ravel(whole.to_delayed()))
    return list(collection.to_delayed())


def _joined(indexes: list[Any]) -> Any:
    if any(index is None for index in indexes):
        return None
    return indexes[0].append(indexes[1:])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
