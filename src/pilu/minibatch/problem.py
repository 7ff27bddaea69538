"""Ridge regression on mini-batches: contiguous rows in a fixed order, visited cyclically.

    grad f_t(theta) = X_t'(X_t theta - Y_t) + alpha theta        [PILU, app. mini-batch, the update]

An empty batch still takes its step, which is shrinkage by alpha and noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.batches import Batch, BatchedObjective
from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Run
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.minibatch.law import MinibatchLaw

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MinibatchProblem(BatchedObjective):
    """Ridge regression on mini-batches, as a `chains.problem.Problem`."""

    @classmethod
    def fit(cls, source: RowSource, alpha: float, n_outputs: int, batch_size: int) -> Self:
        """The problem of new rows, whose digests are computed in the same pass."""
        problem, largest = cls(source, alpha, batch_size, n_outputs, np.inf), 0.0
        for t in range(problem.n_batches):
            batch = Batch(*source.first(problem.positions(t)), source.fit_intercept)
            largest = max(largest, batch.largest())
        return replace(problem, largest=alpha + largest)

    def batches_at(self, steps: range) -> Iterator[tuple[int, Batch]]:
        """(step, batch) for each step; all rows are checked before the first one."""
        positions = {t: self.positions(t) for t in self.visited_batches(steps)}
        self.source.check(positions.values())
        for k in steps:
            yield k, self.batch(positions[k % self.n_batches])

    def total(self, theta: Array) -> tuple[float, Array]:
        """The sum of all batches' objectives and its gradient, in one pass."""
        penalty = self.n_batches * self.alpha
        value, gradient = penalty * float(np.sum(np.square(theta))) / 2, penalty * theta
        for t in range(self.n_batches):
            batch = self.batch(self.positions(t))
            residuals = batch.times(theta) - batch.targets
            value += float(np.sum(np.square(residuals))) / 2
            gradient += batch.back(residuals)
        return value, gradient

    def total_of_a_constant(self) -> float:
        """Half of the targets' squares, about their mean if there is an intercept."""
        _, targets = self.source.raw(np.flatnonzero(self.source.live), check=False)
        if self.source.fit_intercept:
            targets = targets - np.mean(targets, axis=0)
        return float(np.sum(np.square(targets))) / 2

    def smallest_without(self, rows: NDArray[np.intp]) -> float:
        """A lower bound, at least alpha, on every batch's smallest eigenvalue without `rows`."""
        retained, p = replace(self, source=self.source.without(rows)), self.n_parameters
        if np.min(retained.batch_sizes) < p:
            return self.alpha
        least = self._smallest.copy()  # only the batches of `rows` change
        for t in np.unique(self.batch_of(rows)):
            least[t] = retained.smallest_eigenvalues(range(int(t), int(t) + 1))[0]
        margin = 8 * np.finfo(np.float64).eps * (p + 2) * self.largest
        return max(self.alpha, self.alpha + float(np.min(least)) - margin)

    @cached_property
    def _smallest(self) -> Array:
        return self.smallest_eigenvalues(range(self.n_batches))

    def smallest_eigenvalues(self, batches: range) -> Array:
        """Smallest eigenvalue of X_t'X_t for some batches."""
        values = (np.linalg.eigvalsh(batch.gram())[0] for _, batch in self.batches_at(batches))
        return np.array([float(value) for value in values])

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of steps, each on one batch."""
        batches = self.batches_at(range(first_step, first_step + segment.steps))

        def gradient(theta: Array, k: int) -> Array:
            _, batch = next(batches)
            return batch.back(batch.times(theta) - batch.targets) + self.alpha * theta

        return walk(theta, gradient, step_size, segment, gaussian, first_step)

    def law(self, run: Run, *, corrected: bool = False) -> MinibatchLaw:
        """The law of a run."""
        return MinibatchLaw(self, *run)
