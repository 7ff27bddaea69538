"""Learning with a smooth convex loss, on the full batch or cyclically on mini-batches.

    f_t(theta) = sum_{j in batch t} l(theta'x_j, y_j) + alpha/2 |theta|^2

Rows are read in blocks of bounded size, once per step. Several runs can advance together: their
scores are one matrix product.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pilu._digits import up_to_grid
from pilu.chains.batches import Batch, BatchedObjective
from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Run
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.losses.law import SmoothLaw
from pilu.losses.loss import Loss
from pilu.losses.probe import check_loss, probe
from pilu.ridge.spectral import check_room

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
# see(step, positions, scores, targets) is called with the scores of every block of rows
Spectator = Callable[[int, Rows, Array, Array], None]

_BLOCK_BYTES = 32 * 2**20
_SHORTEST_RUN = 64  # rows: if gaps leave fewer between them on average, rows are copied
_ROUNDING = 8 * np.finfo(np.float64).eps  # of eigenvalues, per row and column


class AuxiliaryRuns(NamedTuple):
    """The number of runs that estimate the means, and the seed of their own noise."""

    n_runs: int
    seed: tuple[int, ...]
    private: bool  # whether the seed came from the operating system

    @classmethod
    def drawn(cls, n_runs: int, random_state: int | None) -> "AuxiliaryRuns":
        """Runs for a new fit; an integer makes them reproducible."""
        if random_state is None:
            return cls(n_runs, (secrets.randbits(128),), private=True)
        return cls(n_runs, (int(random_state), 1), private=False)

    def renewed(self) -> "AuxiliaryRuns":
        """New runs after a request. The old seed cannot be recovered from the new one."""
        fresh = secrets.randbits(128) if self.private else None
        mixed = hashlib.sha256(repr((self.seed, fresh)).encode()).digest()
        return self._replace(seed=(int.from_bytes(mixed[:16]),))


@dataclass(frozen=True, eq=False)
class SmoothProblem(BatchedObjective):
    """Rows, a loss, a penalty, and the auxiliary runs that estimate means.

    Implements `chains.problem.Problem`. The runs are fixed until rows are forgotten, which replaces
    them. Redrawing them until they suit would void the certificate.
    """

    loss: Loss
    runs: AuxiliaryRuns

    @classmethod
    def fit(
        cls,
        source: RowSource,
        alpha: float,
        n_outputs: int,
        batch_size: int,
        loss: Loss,
        runs: AuxiliaryRuns,
    ) -> Self:
        """The problem of new rows, whose digests are computed in the same pass.

        The Hessian of l(theta'x, y) in theta is at most smoothness x x'. So a batch's curvature is
        at most smoothness times the largest eigenvalue of X_t'X_t.
        """
        check_loss(loss)
        problem, largest = cls(source, alpha, batch_size, n_outputs, np.inf, loss, runs), 0.0
        probe(loss, problem._first(problem.positions(0)[:64]).targets)
        for t in range(problem.n_batches):
            largest = max(largest, problem._largest_eigenvalue(problem.positions(t)))
        # The factor covers the rounding of the product and of the sum.
        return replace(problem, largest=(alpha + loss.smoothness * largest) * (1 + 2**-50))

    @classmethod
    def restored(
        cls, record: Mapping[str, Any], source: RowSource, n_outputs: int, loss: Loss, n_runs: int
    ) -> Self:
        """The problem that a store kept as `record`."""
        return cls(
            source,
            float(record["alpha"]),
            source.n_rows,
            n_outputs,
            float(record["largest_curvature"]),
            loss,
            AuxiliaryRuns(
                n_runs,
                tuple(int(part) for part in record["auxiliary_seed"]),
                private=bool(record["private"]),
            ),
        )

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of steps."""
        self.check_rows(range(first_step, first_step + segment.steps))
        return walk(theta, self.gradient, step_size, segment, gaussian, first_step)

    def law(self, run: Run, *, corrected: bool = False) -> SmoothLaw:
        """The law of a run."""
        return SmoothLaw(self, *run)

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> Self:
        """The problem without `rows`, with new auxiliary runs."""
        return replace(super().without(rows, x, y), runs=self.runs.renewed())

    def drawing_privately(self) -> Self:
        """The same problem with auxiliary runs that no chosen seed determines.

        Otherwise seeds could be tried until their means suit.
        """
        if self.runs.private:
            return self
        return replace(self, runs=self.runs._replace(private=True).renewed())

    def describe_loss(self) -> dict[str, Any]:
        """Name and options of the loss."""
        return self.loss.describe()

    def record(self) -> dict[str, Any]:
        """What a store keeps. The auxiliary runs stay the same until rows are forgotten."""
        return {
            **super().record(),
            "largest_curvature": self.largest,
            "auxiliary_seed": [str(part) for part in self.runs.seed],
        }

    def for_steps(self, step_size: float) -> Self:
        """The same problem with a coarser curvature bound that is equivalent for these steps.

        All its digits, together with the remaining rows, would reveal which rows were removed. Up
        to 1/L a step contracts by 1 - eta alpha, whatever L is.
        """
        if step_size * self.largest <= 1.0 + 2.0**-50:  # at most 1/L, up to rounding
            return replace(self, largest=1.0 / step_size)
        coarse = up_to_grid(self.largest, 8)
        return replace(self, largest=coarse) if step_size * coarse < 2.0 else self

    def _largest_eigenvalue(self, rows: Rows) -> float:
        """An upper bound for X_t'X_t, with the rounding errors of the product and of LAPACK.

        An entry, a sum of n products, has an error of n units of |x_i|'|x_j|. So the matrix has an
        error of n units of its trace in norm, and eigenvalues add a few p units of the norm.
        """
        p = self.n_parameters
        if len(rows) < p:
            batch = self._first(rows)
            largest, trace = batch.largest(), float(np.sum(batch.squared_norms()))
        else:
            check_room(p)
            gram = np.zeros((p, p))
            for run in self._runs(rows, n_runs=1):
                gram += self._first(run).gram()
            largest, trace = float(np.linalg.eigvalsh(gram)[-1]), float(np.trace(gram))
        return max(largest, 0.0) + _ROUNDING * (len(rows) + p) * trace

    def _first(self, rows: Rows) -> Batch:
        features, targets = self.source.first(rows)
        self.loss.check_targets(targets)
        return Batch(features, targets, self.source.fit_intercept)

    def check_rows(self, steps: range) -> None:
        """Check the rows of all batches that the steps visit against their digests."""
        self.source.check(
            run
            for t in self.visited_batches(steps)
            for run in self._runs(self.positions(t), n_runs=1)
        )

    def gradient(
        self, theta: Array, step: int, n_runs: int = 1, see: Spectator | None = None
    ) -> Array:
        """grad f_t of the step's batch, for `n_runs` values of theta side by side: p x (R C).

        Rows are not checked against their digests: call `check_rows` first.
        """
        total = self.alpha * theta
        for rows, batch in self._blocks(step % self.n_batches, n_runs):
            scores = batch.times(theta).reshape(len(rows), n_runs, self.n_outputs)
            targets = batch.targets[:, None, :]
            # `see` must not change what the gradient is computed from.
            scores.flags.writeable = targets.flags.writeable = False
            if see is not None:
                see(step, rows, scores, targets)
            total += batch.back(self.loss.gradient(scores, targets).reshape(len(rows), -1))
        return total

    def total(self, theta: Array) -> tuple[float, Array]:
        """The sum of all batches' objectives and its gradient, in one pass."""
        penalty = self.n_batches * self.alpha
        value, gradient = penalty * float(np.sum(np.square(theta))) / 2, penalty * theta
        for t in range(self.n_batches):
            for _, batch in self._blocks(t, n_runs=1):
                scores = batch.times(theta)
                value += float(np.sum(self.loss.value(scores, batch.targets)))
                gradient += batch.back(self.loss.gradient(scores, batch.targets))
        return value, gradient

    def total_of_a_constant(self) -> float:
        """The least loss of zero scores and, with an intercept, of the targets' medians."""
        _, targets = self.source.raw(np.flatnonzero(self.source.live), check=False)
        constants = [np.zeros(self.n_outputs)]
        if self.source.fit_intercept:
            constants.append(np.median(targets, axis=0))
        scores = (np.broadcast_to(constant, targets.shape) for constant in constants)
        return min(float(np.sum(self.loss.value(s, targets))) for s in scores)

    def summed_gradient_norms(self, theta: Array, t: int) -> float:
        """The sum of |x| |dl/dz| over the rows of batch t."""
        total = 0.0
        for _, batch in self._blocks(t, n_runs=1):
            slopes = np.linalg.norm(self.loss.gradient(batch.times(theta), batch.targets), axis=1)
            total += float(np.sqrt(batch.squared_norms()) @ slopes)
        return total

    def _blocks(self, t: int, n_runs: int) -> Iterator[tuple[Rows, Batch]]:
        for run in self._runs(self.positions(t), n_runs):
            yield run, self.batch(run)

    def _runs(self, rows: Rows, n_runs: int) -> Iterator[Rows]:
        """Rows in blocks, consecutive where possible: those are read without a copy."""
        width = max(self.n_parameters, n_runs * self.n_outputs)
        longest = max(1, _BLOCK_BYTES // (8 * width))
        gaps = np.flatnonzero(np.diff(rows) > 1) + 1
        pieces = [rows] if len(gaps) * _SHORTEST_RUN > len(rows) else np.split(rows, gaps)
        for piece in pieces:
            if len(piece):
                yield from np.array_split(piece, -(-len(piece) // longest))
