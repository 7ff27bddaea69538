"""Rows in contiguous batches of a fixed order, visited cyclically: the base of batched problems.

Batch t holds the b fit-time positions from t b on. Forgetting removes rows from their batch and
never moves the others. An empty batch still takes its step. A single batch of all rows is the full
batch.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.problem import Problem, Run
from pilu.chains.schedule import Segment
from pilu.chains.sensitivities import Sensitivities
from pilu.chains.shortfall import Shortfall, shortfall_by_descent
from pilu.data.rows import Request, RowSource
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Batch:
    """The remaining rows of a batch: features without the column of ones, and targets."""

    features: Array
    targets: Array
    fit_intercept: bool

    def times(self, M: Array) -> Array:
        """X_t M, the column of ones included."""
        width = self.features.shape[1]
        product = self.features @ M[:width]
        if self.fit_intercept:
            product += M[width]
        return np.asarray(product)

    def back(self, R: Array) -> Array:
        """X_t' R."""
        width = self.features.shape[1]
        product = np.empty((width + bool(self.fit_intercept), R.shape[1]))
        np.matmul(self.features.T, R, out=product[:width])
        product[width:] = np.sum(R, axis=0)
        return product

    def squared_norms(self) -> Array:
        """|x|^2 of every row, the column of ones included."""
        return np.asarray(np.einsum("ij,ij->i", self.features, self.features)) + float(
            self.fit_intercept
        )

    def gram(self) -> Array:
        """X_t'X_t."""
        x = self.features
        if not self.fit_intercept:
            return np.asarray(x.T @ x)
        sums = np.sum(x, axis=0)[:, None]
        return np.block([[x.T @ x, sums], [sums.T, np.array([[len(x)]])]])

    def largest(self) -> float:
        """Largest eigenvalue of X_t'X_t, from the smaller of the two products."""
        x = self.features
        if len(x) >= x.shape[1]:
            return float(np.linalg.eigvalsh(self.gram())[-1])
        return float(np.linalg.eigvalsh(x @ x.T + float(self.fit_intercept))[-1])

    def step(self, M: Array, step_size: float, alpha: float) -> Array:
        """(1 - eta (X_t'X_t + alpha)) M."""
        moved = self.back(self.times(M))
        moved *= -step_size
        moved += (1.0 - step_size * alpha) * M
        return moved


@dataclass(frozen=True, eq=False)
class BatchedObjective(Problem):
    """A batched problem. It is immutable: forgetting rows returns a new one.

    `largest` bounds the curvature of every batch's objective, alpha included. The bound still holds
    when rows are forgotten.
    """

    source: RowSource
    alpha: float
    batch_size: int
    n_outputs: int
    largest: float

    keeps_law: ClassVar[bool] = True  # every request needs its one pass over all steps
    reads_rows: ClassVar[bool] = True

    @property
    def n_batches(self) -> int:
        """Number of batches, M."""
        return -(-self.source.n_rows // self.batch_size)

    @property
    def n_parameters(self) -> int:
        """Rows of theta, p."""
        return self.source.n_columns

    @property
    def batch_sizes(self) -> Rows:
        """Number of remaining rows in each batch."""
        starts = np.arange(0, self.source.n_rows, self.batch_size)
        return np.asarray(np.add.reduceat(self.source.live.astype(np.intp), starts))

    def batch_of(self, rows: Rows) -> Rows:
        """The batch of each row."""
        return np.asarray(rows // self.batch_size)

    def positions(self, t: int) -> Rows:
        """Fit-time positions of the remaining rows of batch t."""
        first = t * self.batch_size
        return first + np.flatnonzero(self.source.live[first : first + self.batch_size])

    def visited_batches(self, steps: range) -> list[int]:
        """The batches visited by some steps."""
        return sorted({k % self.n_batches for k in steps[: self.n_batches]})

    def visits(self, t: int, n_steps: int) -> Rows:
        """Those of the first `n_steps` steps that visit batch t."""
        return np.arange(t, n_steps, self.n_batches)

    def n_visits(self, rows: Rows, n_steps: int) -> int:
        """Visits of the rows' batches in the first `n_steps` steps, summed over the rows."""
        return int(np.sum(-((self.batch_of(rows) - n_steps) // self.n_batches)))

    def batch(self, rows: Rows) -> Batch:
        """The rows at some positions, not checked against their digests."""
        features, targets = self.source.raw(rows, check=False)
        return Batch(features, targets, self.source.fit_intercept)

    def without(self, rows: Rows, x: Array, y: Array) -> Self:
        """The problem without `rows`; their values x and y are not used."""
        return replace(self, source=self.source.without(rows))

    def reading(self, source: RowSource) -> Self:
        """The same problem with its rows attached or detached."""
        return replace(self, source=source)

    def drawing_privately(self) -> Self:
        """The same: it draws nothing of its own."""
        return self

    @property
    def minibatch_size(self) -> int | None:
        """Rows in a mini-batch; None for one batch of all rows."""
        return self.batch_size if self.n_batches > 1 else None

    def shortfall(self, run: Run, theta: Array) -> Shortfall | None:
        """How far theta is at least from the minimiser of the sum over all batches."""
        cycles = run.schedule.n_steps / self.n_batches
        # Per parameter, noise adds about sigma^2 / (2 - eta L), in every step of a cycle. Twice it.
        gap = max(2 - run.step_size * self.largest, 1e-3)
        noise = 2 * run.schedule.segments[0].noise ** 2 * theta.size * self.n_batches / gap
        return shortfall_by_descent(
            self.total,
            theta,
            self.total_of_a_constant(),
            convexity=self.alpha * self.n_batches,
            noise=noise,
            most_passes=int(min(max(cycles / 10, 3), 30)),  # a tenth of learning, or little
        )

    def by_batch(self, rows: Rows, n_steps: int) -> Iterator[tuple[Rows, Rows]]:
        """For each batch of some rows: their indices, and those of n steps that visit them."""
        batches = self.batch_of(rows)
        for t in np.unique(batches):
            if len(steps := self.visits(int(t), n_steps)):
                yield np.flatnonzero(batches == t), steps

    @abstractmethod
    def total(self, theta: Array) -> tuple[float, Array]:
        """The sum of all batches' objectives and its gradient, in one pass."""

    @abstractmethod
    def total_of_a_constant(self) -> float:
        """About the same sum for a model that does not use its features."""

    def batch_facts(self, rows: Rows, n_steps: int, n_unlearn_steps: int) -> dict[str, bool]:
        """Facts about the rows' mini-batches for a certificate; empty for a full batch."""
        if self.minibatch_size is None:
            return {}
        batches, learned = self.batch_of(rows), n_steps - n_unlearn_steps
        wait = (batches - learned) % self.n_batches  # unlearning steps before each batch is visited
        return {
            "batches_visited": bool(np.any(batches < learned)),
            "batches_revisited": bool(np.all(wait < n_unlearn_steps)),
            "batches_left_empty": bool(np.min(self.batch_sizes) == 0),
        }

    def timing_sample(self, n_steps: int) -> tuple[int, float]:
        """One cycle of steps is timed; there is no eigenbasis."""
        return min(n_steps, self.n_batches), 0.0

    def redraw_work(self, learning: Segment) -> float:
        """All steps on their rows."""
        return 2.0 * learning.steps * self.batch_size * self.n_parameters * self.n_outputs

    def record(self) -> dict[str, Any]:
        """What a store keeps as plain numbers; a store takes full batches only."""
        if self.minibatch_size is not None:
            raise WrongInput("batch_size must be None for a store, got mini-batches.")
        return {}


class VisitSensitivities(Sensitivities):
    """Sensitivity bounds of a batched problem: nonzero only at the visits of the rows' batches."""

    problem: BatchedObjective
    n_steps: int

    @abstractmethod
    def at_visits(self, rows: Request, steps: Rows, slack: float, n_visits: int) -> Array:
        """Bounds for rows of one batch at its visits, if `slack` is for `n_visits`: (R x V)."""

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row on its own: (n x N)."""
        self.prepare(rows.rows)
        bounds = np.zeros((len(rows.X), self.n_steps))
        for members, steps in self.problem.by_batch(rows.rows, self.n_steps):
            at_visits = self.at_visits(rows.part(members), steps, slack, len(steps))
            bounds[members[:, None], steps] = at_visits
        return bounds

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)."""
        self.prepare(rows.rows)
        bounds, n_visits = np.zeros(self.n_steps), self.problem.n_visits(rows.rows, self.n_steps)
        for members, steps in self.problem.by_batch(rows.rows, self.n_steps):
            at_visits = self.at_visits(rows.part(members), steps, slack, n_visits)
            bounds[steps] += np.sum(at_visits, axis=0)
        return bounds
