"""The people of a table, and what the head's objective needs to know of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pilu.refit.held_rows import Table
from pilu.refit.program import Prepared, requested_weights

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class People:
    """Groups of rows of a table, each with the name of its person."""

    names: tuple[Hashable, ...]
    numbers: tuple[tuple[int, ...], ...]  # row numbers of each person
    table: Table
    # Minimisers without a person, each with its proved distance: found once in a run.
    solutions: dict[int, tuple[Array, float]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def rows_of(self, prepared: Prepared) -> list[Rows]:
        """Positions of each person's rows in the objective; rows without weight are left out."""
        place = np.full(len(self.table), -1)
        place[prepared.used] = np.arange(len(prepared.used))
        groups = [place[rows] for rows in self._positions()]
        return [rows[rows >= 0] for rows in groups]

    def _positions(self) -> list[Rows]:
        """Positions in the table."""
        return [np.searchsorted(self.table.numbers, np.array(rows)) for rows in self.numbers]

    def hopeless(self, prepared: Prepared) -> Rows:
        """Places of people without whom no row of weight would be left, or none of some class.

        The class names of a release show the latter.
        """
        n, classes, used = len(self.table), prepared.problem.classes, prepared.used
        weighted = np.zeros(n, dtype=bool)
        weighted[used] = True
        codes, kinds = np.zeros(n, dtype=np.intp), 1
        if classes is not None:
            codes, kinds = np.searchsorted(classes, self.table.y), len(classes)
        places = set()
        for counted in (np.ones(n, dtype=bool), weighted):
            counts = np.bincount(codes[counted], minlength=kinds)
            for i, rows in enumerate(self._positions()):
                own = np.bincount(codes[rows[counted[rows]]], minlength=kinds)
                if ((own > 0) & (own == counts)).any():
                    places.add(i)
        return np.array(sorted(places), dtype=np.intp)

    def penalty_without(self, prepared: Prepared) -> Callable[[int], Array]:
        """Penalties of standard parameters if the folded scaler is fitted without a person."""
        assert prepared.folded is not None
        table, scale, positions = self.table, prepared.folded.scale, self._positions()

        def penalty(place: int) -> Array:
            left = table.take(np.delete(np.arange(len(table)), positions[place]))
            scaler = clone(prepared.scaler)
            weights = requested_weights(scaler, left.weights)
            scaler.fit(left.for_transformers(), left.y, **weights)
            ratio = np.ones(len(prepared.objective.penalty))
            if scaler.with_std:
                ratio[: len(scale)] = (np.asarray(scaler.scale_) / scale) ** 2
            return prepared.objective.penalty * ratio[:, None]

        return penalty
