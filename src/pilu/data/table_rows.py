"""Rows of a user's table under their fit-time positions, read when they are needed."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import hashes_of
from pilu.data.rows import Rows
from pilu.data.table import Table
from pilu.data.tables import encoded_targets
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.exceptions import RowsChanged, WrongInput

__all__ = ["TableRows"]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


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
