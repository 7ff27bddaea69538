"""Ridge regression in mini-batches: contiguous rows in a fixed order, walked through in turn.

    grad f_t(theta) = X_t'(X_t theta - Y_t) + alpha theta        [PILU, app. mini-batch, the update]

A batch that has no rows left keeps its turn, and its step is then shrinkage by alpha and noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.batches import Batch, BatchedObjective
from pilu.data.rows import RowSource

__all__ = ["RidgeBatches"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeBatches(BatchedObjective):
    """Ridge regression in mini-batches."""

    @classmethod
    def fit(cls, source: RowSource, alpha: float, n_outputs: int, batch_size: int) -> Self:
        """The problem of rows seen for the first time, digested in the same pass."""
        problem, largest = cls(source, alpha, batch_size, n_outputs, np.inf), 0.0
        for t in range(problem.n_batches):
            batch = Batch(*source.first(problem.positions(t)), source.fit_intercept)
            largest = max(largest, batch.largest())
        return replace(problem, largest=alpha + largest)

    def turns(self, steps: range) -> Iterator[tuple[int, Batch]]:
        """(step, batch) for each of the steps; their rows are checked before the first."""
        positions = {t: self.positions(t) for t in self.batches_met(steps)}
        self.source.check(positions.values())
        for k in steps:
            yield k, self.batch(positions[k % self.n_batches])

    def smallest_without(self, rows: NDArray[np.intp]) -> float:
        """A lower bound, never below alpha, on every batch's smallest eigenvalue without rows."""
        retained, p = replace(self, source=self.source.without(rows)), self.n_parameters
        if np.min(retained.batch_sizes) < p:
            return self.alpha
        least = self._smallest.copy()  # only those of the rows' batches change
        for t in np.unique(self.batch_of(rows)):
            least[t] = retained.smallest_eigenvalues(range(int(t), int(t) + 1))[0]
        margin = 8 * np.finfo(np.float64).eps * (p + 2) * self.largest
        return max(self.alpha, self.alpha + float(np.min(least)) - margin)

    @cached_property
    def _smallest(self) -> Array:
        return self.smallest_eigenvalues(range(self.n_batches))

    def smallest_eigenvalues(self, batches: range) -> Array:
        """Of X_t'X_t, for some batches."""
        values = (np.linalg.eigvalsh(batch.gram())[0] for _, batch in self.turns(batches))
        return np.array([float(value) for value in values])
