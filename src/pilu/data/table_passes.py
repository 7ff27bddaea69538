"""One pass over a table, for a fit: sums of its rows, and what `Collector` notes of them.

In this process batches go to several threads. On a dask cluster parts of the files go to workers,
which open the files themselves.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.data.collecting import Collector
from pilu.data.graphs import connected, delayed, summed
from pilu.data.names import hashes_of
from pilu.data.statistics import ReadShare, Statistics
from pilu.data.table import BATCH_BYTES, Part, Scan, Table, TableBatch
from pilu.data.tables import encoded_targets, open_part
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.exceptions import RowsChanged, WrongInput

__all__ = ["TablePass", "batch_bytes_within"]

Array = NDArray[np.float64]

_PROCESS_BYTES = 400 * 2**20  # the interpreter and its libraries
_ROW_BYTES = 96  # digests, names and flags, and what makes them
_THREADS = 4  # at most, each with a batch in several forms and an X'X of its own
_FORMS = 6
_LEAST_BATCH = 2**20


class TablePass:
    """A pass over all rows of a table, or of a part; `notes` fill up as rows are read."""

    def __init__(
        self,
        path: Path,
        n_rows: int,
        targets: NumericTargets | ClassTargets,
        key: bytes,
        kinds: tuple[str, ...],
    ) -> None:
        self.path, self.targets, self.kinds = path, targets, kinds
        called = (f"{path}: features", f"{path}: targets")
        self.notes = Collector(n_rows, targets.n_outputs, key, kinds, called)

    def rows(self, batch: TableBatch) -> tuple[Array, Array]:
        """Features and encoded targets of a batch, noted; several threads may call it."""
        Y = encoded_targets(self.path, batch.y, self.targets)
        places = batch.places
        if len(places) and places[-1] >= len(self.notes.digests):
            raise self.changed()
        hashes = {
            kind: hashes_of(names, self.notes.key)
            for kind, names in (("id", batch.ids), ("subject", batch.subjects))
            if names is not None
        }
        if batch.subjects is None:  # each row is then a subject of its own
            hashes["subject"] = hashes["id"]
        self.notes.note(places, batch.X, Y, hashes)
        return batch.X, Y

    def check(self) -> None:
        """Refuse a table that lost rows while it was read, and magnitudes out of range."""
        if not self.notes.is_complete:
            raise self.changed()
        self.notes.check_scale()

    @contextmanager
    def here(self, table: Table, most_bytes: int | None = None) -> Iterator[ReadShare]:
        """read(share, shares) for `Statistics.collect`; each thread takes the next batch."""
        lock, promises = threading.Lock(), table.promises(Scan(most_bytes=most_bytes))

        def read(share: int, shares: int) -> Iterator[tuple[Array, Array]]:
            while True:
                with lock:
                    promise = next(promises, None)
                if promise is None:
                    return
                rows = self.rows(promise())
                with lock:
                    bar.update(len(rows[0]))
                yield rows

        with progress_bar(table.n_rows, what="learning", unit="row") as bar:
            yield read

    def by_cluster(self, table: Table, scheduler: str, *, fit_intercept: bool) -> Statistics:
        """The sums, by workers of dask, for whom the files must have the same paths."""
        learn, key = delayed(_learn_part, n_results=2), self.notes.key
        with connected(scheduler):
            statistics, parts = summed(
                learn(part, self.targets, key, self.kinds, fit_intercept) for part in table.parts()
            )
        self.notes.put_together(parts)
        total: Statistics = statistics
        return total

    def changed(self) -> RowsChanged:
        """The error for a table that is not as it was when the fit began."""
        return RowsChanged(
            f"{self.path} was changed while it was read. Nothing was kept: fit again."
        )


def _learn_part(
    part: Part,
    targets: NumericTargets | ClassTargets,
    key: bytes,
    kinds: tuple[str, ...],
    fit_intercept: bool,
) -> tuple[Statistics, Collector]:
    one = TablePass(part.path, part.n_rows, targets, key, kinds)
    table, batches = open_part(part)
    if table.n_rows < part.n_rows or table.features != part.columns.features:
        raise one.changed()
    statistics = Statistics.of_rows(
        map(one.rows, batches),
        len(table.features) + fit_intercept,
        targets.n_outputs,
        fit_intercept=fit_intercept,
    )
    one.check()
    return statistics, one.notes


def batch_bytes_within(memory: int | None, n_rows: int, p: int, held: int = 0) -> int:
    """How large batches may be for a fit to stay within so many bytes, of which `held` are used."""
    if memory is None:
        return BATCH_BYTES
    # X'X of every thread, and the eigenbasis, whose workspace is three times as large
    fixed = held + _PROCESS_BYTES + n_rows * _ROW_BYTES + 8 * p * p * (_THREADS + 5)
    least = fixed + _THREADS * _FORMS * _LEAST_BATCH
    if memory < least:
        raise WrongInput(
            f"memory must be at least {-(-least // 10**6):,} MB for {n_rows:,} rows of {p:,} "
            f"columns, got {memory // 10**6:,} MB. A cluster (--scheduler) shares the work, not "
            "the p x p numbers."
        )
    return min((memory - fixed) // (_THREADS * _FORMS), BATCH_BYTES)
