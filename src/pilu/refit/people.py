"""The people of a table, and what the head's objective needs to know of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

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
        groups = [place[rows] for rows in self.positions]
        return [rows[rows >= 0] for rows in groups]

    @cached_property
    def positions(self) -> list[Rows]:
        """Positions of each person's rows in the table."""
        if not self.numbers:
            return []
        sizes = [len(rows) for rows in self.numbers]
        flat = np.fromiter(chain.from_iterable(self.numbers), dtype=np.intp, count=sum(sizes))
        return np.split(np.searchsorted(self.table.numbers, flat), np.cumsum(sizes)[:-1])

    def who_cannot_be_left_out(self, prepared: Prepared) -> Rows:
        """Places of people without whom no row of weight would be left, or none of some class.

        The class names of a release show the latter.
        """
        n, classes = len(self.table), prepared.problem.classes
        codes, kinds = np.zeros(n, dtype=np.intp), 1
        if classes is not None:
            codes, kinds = np.searchsorted(classes, self.table.y), len(classes)
        weighted = np.zeros(n)
        weighted[prepared.used] = 1.0
        sizes = [len(rows) for rows in self.positions]
        rows = np.concatenate([*self.positions, np.array([], dtype=np.intp)])
        cells = np.repeat(np.arange(len(sizes)), sizes) * kinds + codes[rows]
        alone = np.zeros(len(sizes), dtype=bool)
        for counted in (np.ones(n), weighted):
            counts = np.bincount(codes, counted, minlength=kinds)
            own = np.bincount(cells, counted[rows], minlength=len(sizes) * kinds)
            own = own.reshape(len(sizes), kinds)
            alone |= ((own > 0) & (own == counts)).any(axis=1)
        return np.flatnonzero(alone)

    def penalty_without(self, prepared: Prepared) -> Callable[[int], Array]:
        """Penalties of standard parameters if the folded scaler is fitted without a person."""
        assert prepared.folded is not None
        table, scale, positions = self.table, prepared.folded.scale, self.positions

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
