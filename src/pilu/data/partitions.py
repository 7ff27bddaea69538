"""Rows in the partitions of dask collections (needs the extra ``pilu[dask]``).

Sums are made where the rows are and added up in a tree; what comes back is p x p numbers, and a
digest of every row. Rows are numbered through the partitions in their order. Reading rows by their
numbers computes only the partitions that hold them, and sends only those rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.data.collecting import Collector
from pilu.data.graphs import (
    check_collection,
    computed,
    delayed,
    is_dask,
    meta_of,
    side_by_side,
    summed,
    width_of,
)
from pilu.data.rows import Rows
from pilu.data.statistics import Statistics
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.data.values import (
    aligned,
    all_classes,
    check_same_rows,
    distinct_labels,
    index_of,
    numbers_of,
    picked,
)
from pilu.exceptions import RowsChanged, WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

_BLOCK_BYTES = 32 * 2**20  # of a part of a partition, in float64


class LearnedPartitions(NamedTuple):
    """What a pass over all partitions brings back."""

    statistics: Statistics | None  # None if no sums were wanted
    notes: Collector
    sizes: Positions  # rows of every partition
    index: Any  # of dataframes, else None
    beside: dict[str, list[Any]]  # what was given beside X and y, row by row


@dataclass(frozen=True, eq=False)
class Reading:
    """How a partition becomes numbers: columns by their names, all of the declared width."""

    targets: NumericTargets | ClassTargets
    columns: tuple[Any, ...] | None
    n_features: int
    target_columns: tuple[Any, ...] | None

    def __call__(self, part: Any, inside: Positions | None = None) -> tuple[NDArray[Any], Array]:
        """X and Y of a partition, or of some of its rows; the other rows may hold anything."""
        n_outputs = self.targets.n_outputs
        x, y = part[:2]
        check_same_rows(x, [("y", y)])
        if inside is not None:
            x, y = picked(x, inside), picked(y, inside)
        if not len(x):  # an empty partition may have any types
            return np.empty((0, self.n_features)), np.empty((0, n_outputs))
        X = numbers_of("X", aligned("X", x, self.columns))
        Y = self.targets.encode(aligned("y", y, self.target_columns))
        for name, values, width in (("X", X, self.n_features), ("y", Y, n_outputs)):
            if values.ndim != 2 or values.shape[1] != width:
                raise WrongInput(
                    f"{name} must have {width} column(s) in every partition, as it declares, got "
                    f"an array of shape {values.shape}. Give map_blocks or from_delayed the shape "
                    "that comes out."
                )
        return X, Y


class Partitions:
    """X and y, partition by partition, not computed yet.

    They are collections with the same rows in the same partitions, as is what is beside them.
    """

    def __init__(self, X: Any, y: Any, **beside: Any) -> None:
        if not (is_dask(X) and is_dask(y)):
            raise WrongInput(
                "X and y must both be dask collections, got one of them. dask.array.from_array and "
                "dask.dataframe.from_pandas make one of what is in memory."
            )
        given = {"X": X, "y": y, **beside}
        for name, collection in given.items():
            check_collection(name, collection)
        if X.ndim != 2:
            raise WrongInput(f"X must have two dimensions, got {X.ndim}.")
        if y.ndim not in (1, 2):
            raise WrongInput(f"y must have one or two dimensions, got {y.ndim}.")
        for name, collection in beside.items():
            if collection.ndim != 1:
                raise WrongInput(
                    f"{name} must have one dimension, got {collection.ndim}. Take a column, as in "
                    "frame['who']."
                )
        self.n_features, self.y_is_vector = width_of("X", X), y.ndim == 1
        self.n_outputs = 1 if self.y_is_vector else width_of("y", y)
        is_frame = hasattr(type(X), "columns")
        # X without rows
        self.like: Any = meta_of(X) if is_frame else np.empty((0, self.n_features))
        self.columns = tuple(X.columns) if is_frame else None
        named = not self.y_is_vector and hasattr(type(y), "columns")
        self.target_columns = tuple(y.columns) if named else None
        self.n_rows: int | None = None  # not known without reading
        if hasattr(type(X), "chunks") and not np.isnan(sum(X.chunks[0])):
            self.n_rows = int(sum(X.chunks[0]))
        self.beside = tuple(beside)
        self.blocks = side_by_side(given)  # delayed: X, y and what is beside them, read together

    def reading(self, targets: NumericTargets | ClassTargets) -> Reading:
        """How these partitions become numbers."""
        return Reading(targets, self.columns, self.n_features, self.target_columns)

    def learn(
        self, reading: Reading, key: bytes, *, fit_intercept: bool, sums: bool = True
    ) -> LearnedPartitions:
        """Notes of all rows, and their sums if they are wanted: one pass, where the rows are."""
        learn = delayed(_learn_block, n_results=2)
        statistics, learned = summed(
            learn(part, reading, key, fit_intercept, sums, self.beside) for part in self.blocks
        )
        sizes = np.array([len(notes.digests) for notes, *_ in learned], dtype=np.intp)
        notes = Collector(int(sizes.sum()), reading.targets.n_outputs, key)
        notes.put_together(part for part, *_ in learned)
        beside = {
            name: [value for *_, columns in learned for value in columns[k]]
            for k, name in enumerate(self.beside)
        }
        index = _joined([index for _, index, _ in learned])
        return LearnedPartitions(statistics, notes, sizes, index, beside)

    def rows(self) -> tuple[Positions, Any]:
        """Rows of every partition, and the index of dataframes."""
        sized = computed(*(delayed(_rows_of)(part) for part in self.blocks))
        sizes = np.array([size for size, _ in sized], dtype=np.intp)
        return sizes, _joined([index for _, index in sized])

    def classes(self) -> NDArray[Any]:
        """All labels, sorted."""
        return all_classes(computed(*(delayed(distinct_labels)(part[1]) for part in self.blocks)))


class PartitionedRows(Rows):
    """Rows of partitions by their fit-time positions; only partitions that hold some are computed.

    `numbers` are the positions of the rows that the partitions hold, all of the fit's by default,
    and `names` the ids of the fit where the partitions have none of their own.
    """

    def __init__(
        self,
        partitions: Partitions,
        sizes: Positions,
        reading: Reading,
        *,
        numbers: Positions | None = None,
        names: Sequence[Any] | None = None,
    ) -> None:
        self.partitions, self.sizes, self.reading, self.names = partitions, sizes, reading, names
        self.numbers = np.arange(int(sizes.sum())) if numbers is None else numbers

    @cached_property
    def ends(self) -> Positions:
        """Where every partition ends, counting the rows that are there."""
        return np.cumsum(self.sizes)

    def read(self, positions: Positions) -> tuple[Array, Array]:
        """Features and targets of some rows, in this order."""
        places = np.searchsorted(self.numbers, positions)
        owners = np.searchsorted(self.ends, places, "right")
        owned, tasks = [], []
        for owner in np.unique(owners).tolist():
            mine, size = np.flatnonzero(owners == owner), int(self.sizes[owner])
            inside = places[mine] - (self.ends[owner] - size)
            owned.append(mine)
            tasks.append(delayed(taken)(self.partitions.blocks[owner], inside, size, self.reading))
        X = np.empty((len(positions), self.reading.n_features))
        Y = np.empty((len(positions), self.reading.targets.n_outputs))
        for mine, (x, y) in zip(owned, computed(*tasks), strict=True):
            X[mine], Y[mine] = x, y
        return X, Y

    def numbered(self) -> Iterator[tuple[Any, Positions]]:
        """Partitions, and the positions of their rows."""
        for part, start, end in zip(
            self.partitions.blocks, self.ends - self.sizes, self.ends, strict=True
        ):
            yield part, self.numbers[start:end]


def taken(part: Any, inside: Positions, size: int, reading: Reading) -> tuple[Array, Array]:
    """Some rows of a partition, which must have as many as it had."""
    if len(part[0]) != size:
        raise RowsChanged(
            f"a partition has {len(part[0])} row(s), and had {size} when it was fitted or "
            "attached. Restore or attach the original X and y."
        )
    X, Y = reading(part, inside)
    return np.asarray(X, dtype=np.float64), Y


def _learn_block(
    part: Any,
    reading: Reading,
    key: bytes,
    fit_intercept: bool,
    sums: bool,
    names: tuple[str, ...],
) -> tuple[Statistics | None, tuple[Collector, Any, list[list[Any]]]]:
    X, Y = reading(part)
    check_same_rows(part[0], list(zip(names, part[2:], strict=True)))
    (n, p), d, statistics = X.shape, Y.shape[1], None
    notes = Collector(n, d, key)
    blocks = notes.noted(_pieces(X, Y))
    if sums:
        statistics = Statistics.of_rows(blocks, p + fit_intercept, d, fit_intercept=fit_intercept)
    else:
        for _ in blocks:
            pass
    return statistics, (notes, index_of(part[0]), [list(beside) for beside in part[2:]])


def _pieces(X: NDArray[Any], Y: Array) -> Iterator[tuple[slice, Array, Array]]:
    size = max(1, _BLOCK_BYTES // (8 * max(1, X.shape[1])))
    for start in range(0, len(X), size):
        some = slice(start, start + size)
        # float32 and float16 are exact as float64, and are added up as such
        yield some, np.asarray(X[some], dtype=np.float64), Y[some]


def _rows_of(part: Any) -> tuple[int, Any]:
    check_same_rows(part[0], [("y", part[1])])
    return len(part[0]), index_of(part[0])


def _joined(indexes: list[Any]) -> Any:
    if any(index is None for index in indexes):
        return None
    first, *others = [index for index in indexes if len(index)] or indexes[:1]
    return first.append(others)  # an empty one may be of any type
