"""One pass over a table: sums of its rows, a digest of each, their names as keyed hashes.

In this process batches go to several threads; on a dask cluster parts of the files go to workers,
which open the files themselves, and sums come back by a tree.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import LARGEST_NUMBER, check_scale, first_line
from pilu._extras import need
from pilu._progress import progress_bar
from pilu.data.partitions import added_up, computed
from pilu.data.rows import digests_of
from pilu.data.statistics import ReadShare, Statistics
from pilu.deletion.names import Names, hashes_of
from pilu.deletion.table import BATCH_BYTES, Batch, Part, Table
from pilu.deletion.tables import open_part
from pilu.deletion.targets import encoded_targets
from pilu.exceptions import ClusterLost, RowsChanged

__all__ = ["Gathered", "batch_bytes_within", "changed", "gathered_by_cluster", "gathered_here"]

Array = NDArray[np.float64]
Classes = NDArray[Any] | None

_PROCESS_BYTES = 400 * 2**20  # the interpreter and its libraries
_ROW_BYTES = 96  # digests, names and flags, and what makes them
_THREADS = 4  # at most, each with a batch in several forms and an X'X of its own
_FORMS = 6
_LEAST_BATCH = 2**20


class Gathered:
    """What a pass notes down of rows, beside their sums."""

    def __init__(self, n_rows: int, n_outputs: int, kinds: tuple[str, ...], key: bytes) -> None:
        self._key = key
        self.digests = np.zeros((n_rows, 16), dtype=np.uint8)
        self.names = Names.blank(kinds, n_rows)
        self.largest = np.zeros(2)  # magnitudes of features and targets
        self.target_sums = np.zeros(n_outputs)
        self.n_noted = 0
        self._lock = threading.Lock()

    @property
    def n_outputs(self) -> int:
        """Columns of targets, d."""
        return len(self.target_sums)

    def note(self, path: Path, batch: Batch, Y: Array) -> None:
        """Digests and names of a batch; several threads may do so."""
        places = batch.places
        if len(places) and places[-1] >= len(self.digests):
            raise changed(path)
        self.digests[places] = digests_of(batch.X, Y, self._key)
        ids = None if batch.ids is None else hashes_of(batch.ids, self._key)
        if ids is not None:
            self.names.hashes["id"][places] = ids
        # Where nobody is named, every row is somebody.
        people = ids if batch.subjects is None else hashes_of(batch.subjects, self._key)
        assert people is not None
        self.names.hashes["subject"][places] = people
        seen = [_largest(values) for values in (batch.X, Y)]
        for name, largest in zip(("features", "targets"), seen, strict=True):
            if largest > LARGEST_NUMBER:  # before they are squared
                check_scale(f"{path}: {name}", largest)
        with self._lock:
            self.largest = np.maximum(self.largest, seen)
            self.target_sums += Y.sum(axis=0)
            self.n_noted += len(places)

    def put(self, first: int, part: "Gathered") -> None:
        """Put in what was gathered of the rows from `first` on."""
        here = slice(first, first + len(part.digests))
        self.digests[here] = part.digests
        for kind, hashes in part.names.hashes.items():
            self.names.hashes[kind][here] = hashes
        self.largest = np.maximum(self.largest, part.largest)
        self.target_sums += part.target_sums
        self.n_noted += part.n_noted

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_key": b""}


@contextmanager
def gathered_here(
    table: Table, gathered: Gathered, classes: Classes, most_bytes: int
) -> Iterator[ReadShare]:
    """read(share, shares) for `RidgeProblem.collected`: batches to whoever asks next."""
    lock, promises = threading.Lock(), table.promises(most_bytes)

    def read(share: int, shares: int) -> Iterator[tuple[Array, Array]]:
        while True:
            with lock:
                promise = next(promises, None)
            if promise is None:
                return
            batch = promise()
            Y = encoded_targets(table.path, batch.y, classes)
            gathered.note(table.path, batch, Y)
            with lock:
                bar.update(len(batch.places))
            yield batch.X, Y

    with progress_bar(table.n_rows, what="learning", unit="row") as bar:
        yield read


def gathered_by_cluster(
    table: Table,
    gathered: Gathered,
    classes: Classes,
    key: bytes,
    scheduler: str,
    *,
    fit_intercept: bool,
) -> Statistics:
    """The same by the workers of a dask cluster, who must find the files under the same paths."""
    delayed = need("dask", for_="a scheduler", extra="dask").delayed
    parts = table.parts()
    kinds = tuple(gathered.names.hashes)
    with _client(scheduler):
        told = [
            delayed(_learn_part, nout=2, pure=False)(
                part, kinds, classes, gathered.n_outputs, key, fit_intercept
            )
            for part in parts
        ]
        statistics, *found = computed(added_up([s for s, _ in told]), *(g for _, g in told))
    for part, one in zip(parts, found, strict=True):
        gathered.put(part.first, one)
    total: Statistics = statistics
    return total


def _learn_part(
    part: Part,
    kinds: tuple[str, ...],
    classes: Classes,
    n_outputs: int,
    key: bytes,
    fit_intercept: bool,
) -> tuple[Statistics, Gathered]:
    gathered = Gathered(part.n_rows, n_outputs, kinds, key)
    table, batches = open_part(part)

    def rows() -> Iterator[tuple[Array, Array]]:
        for batch in batches:
            Y = encoded_targets(part.path, batch.y, classes)
            gathered.note(part.path, batch, Y)
            yield batch.X, Y

    p = len(table.features) + fit_intercept
    if table.n_rows < part.n_rows or table.features != part.columns.features:
        raise changed(part.path)
    statistics = Statistics.of_rows(rows(), p, n_outputs, fit_intercept=fit_intercept)
    if gathered.n_noted != part.n_rows:
        raise changed(part.path)
    return statistics, gathered


def changed(path: Path) -> RowsChanged:
    """Of a table that is another one than it was when the fit began."""
    return RowsChanged(f"{path} was changed while it was read. Nothing was kept: fit again.")


def _largest(values: Array) -> float:
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))  # no copy


def _client(scheduler: str) -> Any:
    distributed = need("distributed", for_="a scheduler", extra="dask")
    try:
        if scheduler == "local":
            return distributed.Client(
                processes=True, threads_per_worker=1, dashboard_address=None, set_as_default=True
            )
        return distributed.Client(scheduler, timeout="10s", set_as_default=True)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ClusterLost(
            f"scheduler must be 'local' or the address of a dask scheduler, got {scheduler!r}: "
            f"{first_line(error)}. Nothing was changed."
        ) from None


def batch_bytes_within(memory: int | None, n_rows: int, p: int, held: int = 0) -> int:
    """How large batches may be for a fit to stay within so many bytes; `held` are in use."""
    if memory is None:
        return BATCH_BYTES
    # X'X of every thread, and what the eigenbasis takes: its workspace is three times as large
    fixed = held + _PROCESS_BYTES + n_rows * _ROW_BYTES + 8 * p * p * (_THREADS + 5)
    least = fixed + _THREADS * _FORMS * _LEAST_BATCH
    if memory < least:
        raise ValueError(
            f"memory must be at least {-(-least // 10**6):,} MB for {n_rows:,} rows of {p:,} "
            f"columns, got {memory // 10**6:,} MB. A cluster (--scheduler) shares the work, not "
            "the p x p numbers."
        )
    return min((memory - fixed) // (_THREADS * _FORMS), BATCH_BYTES)
