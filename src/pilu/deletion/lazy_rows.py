"""Rows of a user's table under their fit-time positions, read when they are asked for."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.deletion.fitting import encoded_targets
from pilu.deletion.names import hash_of
from pilu.deletion.snapshot import Model
from pilu.deletion.store import Moment
from pilu.deletion.tables import Batch, Table, open_table
from pilu.exceptions import RowsChanged

__all__ = ["LazyRows", "places_in", "table_of", "with_rows"]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


class LazyRows:
    """X and Y as `RowSource` reads them: by slices or arrays of positions.

    Parameters
    ----------
    table : Table
    places : array
        For every fit-time position its place in the file, -1 where it is not there any more.
    encode : function
        From targets as they stand in the file to numbers, n x d.
    n_outputs : int
        d.
    """

    def __init__(
        self,
        table: Table,
        places: Positions,
        encode: Callable[[NDArray[Any]], Array],
        n_outputs: int,
    ) -> None:
        self._table, self._places, self._encode = table, places, encode
        self._lock = threading.Lock()
        self.X = _Part(self, 0, (len(places), len(table.features)))
        self.Y = _Part(self, 1, (len(places), n_outputs))
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
        positions = np.atleast_1d(np.arange(len(self._places))[where])
        with self._lock:  # several threads read, and one block is held at a time
            if not np.isin(positions, self._held[0]).all():
                self.hold(positions)
            held, X, Y = self._held
        found = np.searchsorted(held, positions)
        return X[found], Y[found]

    def _read(self, positions: Positions) -> tuple[Array, Array]:
        places = self._places[positions]
        if (places < 0).any():
            raise RowsChanged(
                f"{self._table.path} has lost {int((places < 0).sum())} row(s) that were not "
                "forgotten. Restore the table."
            )
        order = np.argsort(places)
        batch: Batch = self._table.take(places[order])
        back = np.argsort(order)
        return batch.X[back], self._encode(batch.y)[back]


class _Part:
    """One of the two, as an array-like."""

    def __init__(self, rows: LazyRows, part: int, shape: tuple[int, int]) -> None:
        self._rows, self._part, self.shape = rows, part, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, where: Any) -> Array:
        return self._rows.at(where)[self._part]


def with_rows(moment: Moment, table: str | Path | None, key: bytes, rows: Positions) -> Model:
    """The model of a moment, reading its rows from the user's table; `rows` are read at once."""
    found, model = table_of(moment, table), moment.model
    classes = getattr(model, "classes_", None)
    lazy = LazyRows(
        found,
        places_in(found, moment, key),
        lambda y: encoded_targets(found.path, y, classes),
        model._theta.shape[1],
    )
    if len(rows):
        lazy.hold(rows)
    source = model._fitted.source.reading(lazy.X, lazy.Y)
    model._fitted = model._fitted.reading(model._fitted.chain.problem.reading(source))
    return model


def table_of(moment: Moment, table: str | Path | None) -> Table:
    """The table that a store was fitted on, where it is now."""
    found = open_table(table or moment.state["table"], moment.columns)
    if list(found.features) != moment.state["features"]:
        raise ValueError(f"{found.path} must have the columns of the fit, got others.")
    return found


def places_in(table: Table, moment: Moment, key: bytes) -> Positions:
    """Where each row of the fit stands in the table as it is now; -1 for nowhere."""
    live = moment.model._fitted.source.live
    places = np.full(len(live), -1)
    if moment.columns.id is not None:  # rows may have come, gone or moved
        known = moment.names.by_hash("id")
        for some, ids, _ in table.names():
            for place, name in zip(some, ids or (), strict=True):
                position = known.get(hash_of("id", name, key), (None,))[0]
                if position is None:
                    continue
                if places[position] >= 0:
                    raise ValueError(f"{table.path}: ids must be unique, got {name!r} twice.")
                places[position] = place
        return places
    if table.n_rows == len(live):
        return np.arange(len(live))
    if table.n_rows == int(live.sum()):
        places[live] = np.arange(table.n_rows)
        return places
    raise ValueError(
        f"{table.path} must have the {len(live)} rows of the fit, or the {int(live.sum())} that "
        f"are left, in their order, got {table.n_rows}. With an id column rows may be missing."
    )
