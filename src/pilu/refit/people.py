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

    def rows_of(self, prepared: Prepared, without: Rows) -> list[Rows]:
        """Positions of each person's rows in the objective; none for the people at `without`.

        Rows without weight are left out.
        """
        place = np.full(len(self.table), -1)
        place[prepared.used] = np.arange(len(prepared.used))
        groups = [place[rows] for rows in self._positions()]
        for i in without.tolist():
            groups[i] = groups[i][:0]
        return [rows[rows >= 0] for rows in groups]

    def _positions(self) -> list[Rows]:
        """Positions in the table."""
        return [np.searchsorted(self.table.numbers, np.array(rows)) for rows in self.numbers]

    def who_end_a_class(self, prepared: Prepared) -> Rows:
        """Places of people without whom a class would be gone, which the class names show."""
        classes = prepared.problem.classes
        if classes is None:
            return np.array([], dtype=np.intp)
        codes = np.searchsorted(classes, self.table.y)
        counts = np.bincount(codes, minlength=len(classes))
        rare = counts <= max((len(rows) for rows in self.numbers), default=0)
        ends = []
        for i, rows in enumerate(self._positions()):
            own = np.bincount(codes[rows], minlength=len(classes))
            if (rare & (own > 0) & (own == counts)).any():
                ends.append(i)
        return np.array(ends, dtype=np.intp)

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
