"""Rows of a user's table as numbers: all of them in one pass for a fit, or some of them later.

In a fit, batches go to several threads of this process, or parts of the files go to the workers of
a dask cluster, which open the files themselves. X'X and X'Y are added up on the way.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.data.collecting import Collector
from pilu.data.graphs import connected, delayed, summed
from pilu.data.names import hashes_of
from pilu.data.rows import Rows
from pilu.data.statistics import ReadShare, Statistics
from pilu.data.table import BATCH_BYTES, Part, Scan, Table, TableBatch
from pilu.data.tables import open_file
from pilu.data.targets import ClassTargets, NumericTargets, encoded_targets
from pilu.exceptions import RowsChanged, WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

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
        lock, deferred = threading.Lock(), table.deferred_batches(Scan(most_bytes=most_bytes))

        def read(share: int, shares: int) -> Iterator[tuple[Array, Array]]:
            while True:
                with lock:
                    make_batch = next(deferred, None)
                if make_batch is None:
                    return
                rows = self.rows(make_batch())
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
    table = open_file(part.path, part.columns)
    if table.n_rows < part.n_rows or table.features != part.columns.features:
        raise one.changed()
    statistics = Statistics.of_rows(
        map(one.rows, table.batches(Scan(groups=part.groups))),
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


class TableRows(Rows):
    """The rows of a fit in the table as it is now.

    A row is expected at its old place, or where it is once forgotten rows are deleted. If the ids
    there are others, all ids of the table are read to find it.

    Parameters
    ----------
    table : Table
    targets : NumericTargets or ClassTargets
    live : array of bool
        Which rows of the fit are not forgotten.
    ids : array of hashes, or None for a table without ids
    key : bytes
        Of the hashes.
    """

    def __init__(
        self,
        table: Table,
        targets: NumericTargets | ClassTargets,
        live: NDArray[np.bool_],
        ids: NDArray[np.uint8] | None,
        key: bytes,
    ) -> None:
        self._table, self._targets, self._ids, self._key = table, targets, ids, key
        self._held: tuple[Positions, Array, Array] | None = None
        n_rows, n_left = len(live), int(live.sum())
        self._expected: Positions | None = None
        if table.n_rows == n_rows:
            self._expected = np.arange(n_rows)
        elif table.n_rows == n_left:  # forgotten rows were deleted from it
            self._expected = np.cumsum(live) - 1
        elif ids is None:
            raise WrongInput(
                f"{table.path} must have the {n_rows} rows of the fit, or the {n_left} that are "
                f"left, in their order, got {table.n_rows}. With an id column rows may be missing."
            )

    def hold(self, positions: Positions) -> None:
        """Read rows that are needed several times, all at once."""
        positions = np.unique(positions)
        self._held = (positions, *self._read(positions))

    def read(self, positions: Positions) -> tuple[Array, Array]:
        """Features and targets of some rows, in this order."""
        if self._held is not None and np.isin(positions, self._held[0]).all():
            known, X, Y = self._held
            order = np.searchsorted(known, positions)
        else:
            known, order = np.unique(positions, return_inverse=True)
            X, Y = self._read(known)
        if np.array_equal(order, np.arange(len(X))):
            return X, Y
        # Column by column, as a fit reads them: sums of one thread are then equal to the last bit.
        return np.asfortranarray(X[order]), Y[order]

    def _read(self, positions: Positions) -> tuple[Array, Array]:
        """Rows at sorted positions."""
        if self._expected is not None:
            batch = self._table.take(self._expected[positions])
            if self._ids is None or np.array_equal(
                hashes_of(batch.ids or (), self._key), self._ids[positions]
            ):
                return batch.X, encoded_targets(self._table.path, batch.y, self._targets)
        places = self._places[positions]
        if (places < 0).any():
            raise RowsChanged(
                f"{self._table.path} has lost {int((places < 0).sum())} row(s) that were not "
                "forgotten. Restore the table."
            )
        order = np.argsort(places)
        batch, back = self._table.take(places[order]), np.argsort(order)
        Y = encoded_targets(self._table.path, batch.y, self._targets)
        return np.asfortranarray(batch.X[back]), Y[back]

    @cached_property
    def _places(self) -> Positions:
        """Where each row of the fit is, by its id; -1 for a row that is not in the table."""
        assert self._ids is not None  # else every row is where it is expected
        known = {row.tobytes(): k for k, row in enumerate(self._ids) if row.any()}
        places = np.full(len(self._ids), -1)
        for some, ids, _ in self._table.names():
            hashes = hashes_of(ids or (), self._key)
            for place, name, hashed in zip(some, ids or (), hashes, strict=True):
                position = known.get(hashed.tobytes())
                if position is None:  # a new row
                    continue
                if places[position] >= 0:
                    raise WrongInput(f"{self._table.path}: ids must be unique, got {name!r} twice.")
                places[position] = place
        return places
