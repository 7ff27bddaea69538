"""Rows of a user's table under their fit-time positions, read when they are asked for."""

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.chains.chain import Problem
from pilu.deletion.model_records import Model
from pilu.deletion.names import hashes_of
from pilu.deletion.store import Snapshot
from pilu.deletion.table import rows_in_a_batch
from pilu.deletion.tables import Batch, Table, open_table
from pilu.deletion.targets import encoded_targets
from pilu.estimators.outputs import LangevinClassification
from pilu.exceptions import RowsChanged
from pilu.losses.problem import SmoothProblem
from pilu.ridge.problem import RidgeProblem

__all__ = ["LazyRows", "Places", "encoder", "recollected", "table_of", "with_rows"]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


class LazyRows:
    """X and Y as `RowSource` reads them: by slices or arrays of positions.

    Parameters
    ----------
    table : Table
    places : Places
    encode : function
        From targets as they stand in the file to numbers, n x d.
    n_outputs : int
        d.
    """

    def __init__(
        self,
        table: Table,
        places: "Places",
        encode: Callable[[NDArray[Any]], Array],
        n_outputs: int,
    ) -> None:
        self._table, self._places, self._encode = table, places, encode
        self._lock = threading.Lock()
        self.X = _Part(self, 0, (places.n_rows, len(table.features)))
        self.Y = _Part(self, 1, (places.n_rows, n_outputs))
        nobody: Positions = np.array([], dtype=np.intp)
        self._held: tuple[Positions, Array, Array] = (
            nobody,
            np.empty((0, len(table.features))),
            np.empty((0, n_outputs)),
        )

    def hold(self, positions: Positions) -> None:
        """Read rows that will be asked for, all at once."""
        positions = np.unique(positions)
        self._held = (positions, *self._read(positions))

    def at(self, where: Any) -> tuple[Array, Array]:
        """X and Y at some positions."""
        positions = np.atleast_1d(np.arange(self._places.n_rows)[where])
        with self._lock:  # several threads read, and one block is held at a time
            if not np.isin(positions, self._held[0]).all():
                self.hold(positions)
            held, X, Y = self._held
        found = np.searchsorted(held, positions)
        # Columns one after the other, as a fit reads them: one thread's sums are then the same to
        # the last bit.
        return np.asfortranarray(X[found]), Y[found]

    def _read(self, positions: Positions) -> tuple[Array, Array]:
        likely = self._places.likely(positions)
        batch = None if likely is None else self._table.take(likely)
        if batch is None or not self._places.are(positions, batch):
            places = self._places.found[positions]
            if (places < 0).any():
                raise RowsChanged(
                    f"{self._table.path} has lost {int((places < 0).sum())} row(s) that were not "
                    "forgotten. Restore the table."
                )
            order = np.argsort(places)
            batch = self._table.take(places[order])
            back = np.argsort(order)
            return batch.X[back], self._encode(batch.y)[back]
        return batch.X, self._encode(batch.y)


class Places:
    """Where each row of the fit stands in the table as it is now.

    A row is looked for where it should be, and by its id in all of the table if it is not there.
    """

    def __init__(self, table: Table, snapshot: Snapshot, key: bytes) -> None:
        self._table, self._key = table, key
        self._live = snapshot.model.fitted_.source.live
        self._ids = snapshot.names.hashes.get("id")
        n_left = int(self._live.sum())
        self._expected: Positions | None = None
        if table.n_rows == self.n_rows:
            self._expected = np.arange(self.n_rows)
        elif table.n_rows == n_left:  # those forgotten are gone from it
            self._expected = np.cumsum(self._live) - 1
        elif self._ids is None:
            raise ValueError(
                f"{table.path} must have the {self.n_rows} rows of the fit, or the {n_left} that "
                f"are left, in their order, got {table.n_rows}. With an id column rows may be "
                "missing."
            )

    @property
    def n_rows(self) -> int:
        """Rows of the fit."""
        return len(self._live)

    def likely(self, positions: Positions) -> Positions | None:
        """Where sorted positions should be; None if nothing is known."""
        return None if self._expected is None else self._expected[positions]

    def are(self, positions: Positions, batch: Batch) -> bool:
        """Whether a batch has the names of these positions."""
        if self._ids is None:
            return True
        return np.array_equal(hashes_of(batch.ids or (), self._key), self._ids[positions])

    @cached_property
    def found(self) -> Positions:
        """All places, by the ids; -1 for nowhere."""
        assert self._ids is not None  # else all are where they should be
        known = {row.tobytes(): k for k, row in enumerate(self._ids) if row.any()}
        places = np.full(self.n_rows, -1)
        for some, ids, _ in self._table.names():  # rows may have come, gone or moved
            hashes = hashes_of(ids or (), self._key)
            for place, name, hashed in zip(some, ids or (), hashes, strict=True):
                position = known.get(hashed.tobytes())
                if position is None:
                    continue
                if places[position] >= 0:
                    raise ValueError(f"{self._table.path}: ids must be unique, got {name!r} twice.")
                places[position] = place
        return places


class _Part:
    """One of the two, as an array-like."""

    def __init__(self, rows: LazyRows, part: int, shape: tuple[int, int]) -> None:
        self._rows, self._part, self.shape = rows, part, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, where: Any) -> Array:
        return self._rows.at(where)[self._part]


def with_rows(snapshot: Snapshot, table: str | Path | None, key: bytes, rows: Positions) -> Model:
    """The model of a snapshot, reading its rows from the user's table; `rows` are read at once."""
    found, model = table_of(snapshot, table), snapshot.model
    lazy = LazyRows(
        found,
        Places(found, snapshot, key),
        encoder(model, found.path),
        model.fitted_.chain.theta.shape[1],
    )
    kept = model.fitted_.source
    if isinstance(model.fitted_.chain.problem, SmoothProblem):
        source = kept.reading(*_all_rows(lazy, kept.live))  # every step reads them again
    else:
        if len(rows):
            lazy.hold(rows)
        source = kept.reading(lazy.X, lazy.Y)
    model.fitted_ = model.fitted_.reading(model.fitted_.chain.problem.reading(source))
    return model


def encoder(model: Model, path: Path) -> Callable[[NDArray[Any]], Array]:
    """From targets as they stand in a file to those of the model, n x d."""
    if not isinstance(model, LangevinClassification):
        return lambda y: encoded_targets(path, y, None)
    return lambda y: model._from_members(encoded_targets(path, y, model.classes_))


def _all_rows(lazy: LazyRows, live: NDArray[np.bool_]) -> tuple[Array, Array]:
    """X and Y in memory; places of forgotten rows are left empty."""
    X, Y = np.zeros(lazy.X.shape), np.zeros(lazy.Y.shape)
    positions = np.flatnonzero(live)
    at_a_time = rows_in_a_batch(lazy.X.shape[1])
    for first in range(0, len(positions), at_a_time):
        some = positions[first : first + at_a_time]
        X[some], Y[some] = lazy.at(some)
    return X, Y


def recollected(problem: Problem) -> Problem:
    """The same problem with statistics and eigenbasis summed anew from the rows that are left.

    What came from a subtraction is rounded otherwise than what never had the rows. Other losses
    than ridge have no statistics.
    """
    if not isinstance(problem, RidgeProblem):
        return problem
    source = problem.source
    return RidgeProblem.collected(source, problem.alpha, problem.n_outputs, source.features)


def table_of(snapshot: Snapshot, table: str | Path | None) -> Table:
    """The table that a store was fitted on, where it is now."""
    found = open_table(table or snapshot.state["table"], snapshot.columns)
    if list(found.features) != snapshot.state["features"]:
        raise ValueError(f"{found.path} must have the columns of the fit, got others.")
    return found
