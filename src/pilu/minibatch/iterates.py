"""The Gaussian law of the iterates of a chain on mini-batches, and of residuals at their visits.

A step on batch t maps theta by A_t = 1 - eta (X_t'X_t + alpha), so the law changes from step to
step   [PILU, app. mini-batch]:

    m_{k+1} = A_t m_k + eta X_t'Y_t,   Sigma_{k+1} = A_t Sigma_k A_t + var_k

The mean is one pass over all steps. For the variance of a residual, x'Sigma_k x, there are two
ways. Backwards: with a_0 = x and a_{j+1} = A a_j through the batches before the visit, in reverse,

    x'Sigma_k x = sum_{j<k} var_{k-1-j} |a_j|^2,

and a_j is the same for every visit, because the order repeats: one sweep for a few hundred points.
Where the noise was one all along, and the points are many enough to pay for it, whole cycles of the
sweep are taken at once. Forwards: Sigma_k itself, for all rows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.batches import Batch
from pilu.chains.rounding import UNIT, StepRounding, deviation_errors, mean_errors, mean_size
from pilu.chains.schedule import Schedule
from pilu.data.statistics import sum_error
from pilu.minibatch.flows import Flow, covariance_after, flow_of, propagated
from pilu.minibatch.objective import RidgeBatches

__all__ = ["MinibatchIterates", "VisitLaw", "lengths_back", "mean_after", "variances_back"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


_FORWARDS_FROM = 1.0  # times the rows for which both ways cost the same
_MOST_LENGTHS = 2**23  # numbers
_POOR = 1e-9  # share of a variance that rounding may be before it is computed the other way


class VisitLaw(NamedTuple):
    """Residuals of some rows of one batch at its visits: N(u, v I_d), rows of X_f apart."""

    members: Rows  # which of the rows asked for these are
    steps: Rows  # V of them
    means: Array  # R x d x V
    variances: Array  # R x V


class _Means(NamedTuple):
    residuals: Array  # cycles x n x d, where a row's batch has its turn
    norms: Array  # |m_k|, N
    pushes: Array  # at least |eta X_t'Y_t| and all that cancels in it, N
    final: Array  # m_N


@dataclass(frozen=True, eq=False)
class MinibatchIterates:
    """The law of every iterate of a chain on mini-batches, from a fixed start (p x d)."""

    problem: RidgeBatches
    step_size: float
    schedule: Schedule
    start: Array

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.problem.alpha

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta|, a deviation included, of this run and of any without some of its rows."""
        problem, start = self.problem, float(np.linalg.norm(self.start))
        cycles = -(-(self.schedule.n_steps + n_more_steps) // problem.n_batches)
        targets = problem.source.raw(np.flatnonzero(problem.source.live), check=False)[1]
        squares = cycles * float(np.sum(np.square(targets)))
        sums = math.sqrt(squares * cycles * problem.n_batches)  # by Cauchy and Schwarz
        mean = mean_size(self.step_size, problem.largest, start, squares, sums)
        return mean + math.sqrt(float(np.sum(self.variances)))

    @cached_property
    def variances(self) -> Array:
        """Noise variance of every step."""
        return self.schedule.variances(self.step_size)

    @cached_property
    def rounding(self) -> StepRounding:
        """What doubles leave unknown of this run, and of one without some rows."""
        eta, p = self.step_size, self.problem.n_parameters
        largest = eta * self.problem.largest
        # A step is two products with a batch: a few units each, which were measured, and what
        # rows that are alike may add up to.
        error = UNIT * (1 + largest * (4 + math.sqrt(p) / 4))
        error += largest * sum_error(self.problem.batch_size)
        kept = max(abs(1 - eta * self.alpha), abs(1 - largest)) + error
        memory = min(float(self.schedule.n_steps), 1 / max(1 - kept**2, 1e-300))
        return StepRounding(error, kept, p * memory, eta, self.schedule)

    @cached_property
    def mean_errors(self) -> Array:
        """What rounding of the steps may do to m_k, for all k: (N,)."""
        # A step on Y_t rounds eta X_t'Y_t too: by the same share of what it moves the mean by.
        error = self.rounding.error
        return mean_errors(error, self.mean_norms) + mean_errors(error, self._means.pushes)

    @cached_property
    def deviation_errors(self) -> Array:
        """What it may add to the deviation x'Sigma_k x of a row of norm 1, for all k: (N,)."""
        return deviation_errors(self.rounding.error, self.variances)

    @cached_property
    def _largest_variances(self) -> Array:
        """Bounds on |Sigma_k|: as if every step took as little away as a step can."""
        eta, bounds = self.step_size, np.zeros(self.schedule.n_steps)
        kept = max(abs(1.0 - eta * self.alpha), abs(1.0 - eta * self.problem.largest)) ** 2
        for k in range(len(bounds) - 1):
            bounds[k + 1] = kept * bounds[k] + self.variances[k]
        return bounds

    @property
    def mean_norms(self) -> Array:
        """|m_k| for every step."""
        return self._means.norms

    @property
    def final_mean(self) -> Array:
        """m_N."""
        return self._means.final

    def n_visits(self, rows: Rows) -> int:
        """Visits of all the rows' batches, counted for each row."""
        return self.problem.n_visits(rows, self.schedule.n_steps)

    def prepare(self) -> None:
        """The pass over all steps that every later question needs."""
        _ = self._means

    def residual_laws(self, rows: Rows) -> Iterator[VisitLaw]:
        """Laws of the rows' residuals, batch by batch."""
        batches = self.problem.batch_of(rows)
        v = self._residual_variances(rows)
        for t in np.unique(batches):
            members = np.flatnonzero(batches == t)
            steps = self.problem.visits(int(t), self.schedule.n_steps)
            u = self._means.residuals[: len(steps), rows[members]]
            yield VisitLaw(members, steps, np.moveaxis(u, 0, 2), v[members, : len(steps)])

    def residual_means(self, rows: Rows, k: int) -> Array:
        """u_k of rows of the batch that has its turn at step k: (R x d)."""
        return np.asarray(self._means.residuals[k // self.problem.n_batches, rows])

    def _residual_variances(self, rows: Rows) -> Array:
        """x'Sigma_k x at the visits of each row: (R x cycles)."""
        self.expect(rows)
        return np.stack([self._known_variances[int(row)] for row in rows])

    @cached_property
    def _known_variances(self) -> dict[int, Array]:
        return {}

    @cached_property
    def final_covariance(self) -> tuple[Array, float]:
        """Sigma_N, dense, and what its rounding is relative to."""
        return covariance_after(self.problem, self.step_size, self.schedule)

    def expect(self, rows: Rows) -> None:
        """These rows will be asked for, in turn: do what is cheapest for all of them together."""
        new = np.array([row for row in rows.tolist() if row not in self._known_variances])
        # A step costs 4 b p R backwards, 4 b p (b + p) forwards.
        forwards = _FORWARDS_FROM * (self.problem.n_parameters + self.problem.batch_size)
        if len(new) > forwards:
            everyone, lost = self._all_variances()
            found = everyone[:, new].T
            # A sum of squares is better where the difference is mostly rounding.
            poor = np.flatnonzero((found * _POOR < lost[:, new].T).any(axis=1))
            if 0 < len(poor) <= forwards:
                X, _ = self.problem.source.take(new[poor])
                found[poor] = self._variances_backwards(self.problem.batch_of(new[poor]), X)
        elif len(new):
            X, _ = self.problem.source.take(new)
            by_cycles = self._is_cheaper_by_cycles(len(new))
            back = self._variances_by_cycles if by_cycles else self._variances_backwards
            found = back(self.problem.batch_of(new), X)
        else:
            return
        self._known_variances.update(zip(new.tolist(), found, strict=True))

    def _is_cheaper_by_cycles(self, n_points: int) -> bool:
        N, M, p = self.schedule.n_steps, self.problem.n_batches, self.problem.n_parameters
        if len(self.schedule.segments) > 1 or N < 2 * M:
            return False
        b = self.problem.batch_size
        one_cycle = 0 if "_cycle" in self.__dict__ else M * b * p * (2 * p + b)
        return one_cycle + n_points * (M * b * p + N / M * p**2) < n_points * N * b * p

    @cached_property
    def _cycle(self) -> Flow:
        return flow_of(self.problem, self.step_size, 0, self.problem.n_batches)

    def _variances_by_cycles(self, batches: Rows, X: Array) -> Array:
        """The same sums as `_variances_backwards`, a cycle at a time once step 0 is reached."""
        N, M = self.schedule.n_steps, self.problem.n_batches
        lengths, walkers = lengths_back(self.problem, self.step_size, X, batches)
        found = np.zeros((len(X), -(-N // M)))
        found[:, 0] = self.variances[0] * np.sum(lengths, axis=1)
        squared_noise = self.schedule.segments[0].noise ** 2
        for c in range(1, found.shape[1]):
            seen = np.einsum("ij,ij->i", walkers @ self._cycle.spread, walkers)
            found[:, c] = found[:, c - 1] + squared_noise * seen
            walkers = walkers @ self._cycle.matrix
        return found

    def _variances_backwards(self, batches: Rows, X: Array) -> Array:
        N, M = self.schedule.n_steps, self.problem.n_batches
        some = max(1, _MOST_LENGTHS // N)
        if len(X) > some:  # a few at a time, so that their lengths at all steps stay few
            parts = [
                self._variances_backwards(batches[i : i + some], X[i : i + some])
                for i in range(0, len(X), some)
            ]
            return np.concatenate(parts)
        found = np.zeros((len(X), -(-N // M)))
        last = np.where(batches < N, batches + (N - 1 - batches) // M * M, 0)
        lengths, _ = lengths_back(self.problem, self.step_size, X, last)
        for t in np.unique(batches):
            members = np.flatnonzero(batches == t)
            for c, k in enumerate(self.problem.visits(int(t), N)):
                found[members, c] = lengths[members, :k] @ self.variances[:k][::-1]
        return found

    def residual_covariances(self, t: int, X: Array) -> Array:
        """X Sigma_k X' for rows X of batch t, at its visits: (V x R x R)."""
        visits = self.problem.visits(t, self.schedule.n_steps)
        found, last = np.zeros((len(visits), len(X), len(X))), int(visits[-1]) if len(visits) else 0
        walkers = np.ascontiguousarray(X.T)
        for k, batch in _turns_back(self.problem, last):
            gram, j = walkers.T @ walkers, last - 1 - k
            later = visits > j  # visits that the noise of this length reaches
            found[later] += self.variances[visits[later] - 1 - j, None, None] * gram
            walkers = batch.step(walkers, self.step_size, self.alpha)
        return found

    @cached_property
    def _means(self) -> _Means:
        N, M = self.schedule.n_steps, self.problem.n_batches
        residuals = np.zeros((-(-N // M), self.problem.source.n_rows, self.n_outputs))
        norms, pushes, m, eta = np.empty(N), np.empty(N), self.start, self.step_size
        reach = math.sqrt(eta * self.problem.largest * eta)  # eta |X_t|
        with progress_bar(N, what="means", unit="step") as bar:
            for k, batch in self.problem.turns(range(N)):
                norms[k] = np.linalg.norm(m)
                pushes[k] = reach * np.linalg.norm(batch.targets)
                u = batch.times(m) - batch.targets
                residuals[k // M, self.problem.positions(k % M)] = u
                m = (1.0 - eta * self.alpha) * m - eta * batch.back(u)
                bar.update()
        return _Means(residuals, norms, pushes, m)

    def _all_variances(self) -> tuple[Array, Array]:
        """x'Sigma_k x of all rows, at their visits, and what of it is charged: (cycles x n)."""
        N, M, p = self.schedule.n_steps, self.problem.n_batches, self.problem.n_parameters
        found, sigma = np.zeros((-(-N // M), self.problem.source.n_rows)), np.zeros((p, p))
        lost = np.zeros_like(found)
        unit = UNIT * (1 + N / 2)  # each step is good to a few units
        with progress_bar(N, what="covariances", unit="step") as bar:
            for k, batch in self.problem.turns(range(N)):
                sigma, v = propagated(sigma, batch, self.step_size, self.alpha)
                # v is a difference of numbers as large as |x|^2 |Sigma_k|.
                where = k // M, self.problem.positions(k % M)
                lost[where] = unit * self._largest_variances[k] * batch.squared_norms()
                found[where] = np.maximum(v, 0.0) + lost[where]
                sigma[np.diag_indices(p)] += self.variances[k]
                bar.update()
        return found, lost


def mean_after(problem: RidgeBatches, step_size: float, mean: Array, steps: range) -> Array:
    """The mean after some more steps."""
    shrink = 1.0 - step_size * problem.alpha
    for _, batch in problem.turns(steps):
        mean = shrink * mean - step_size * batch.back(batch.times(mean) - batch.targets)
    return mean


def lengths_back(
    problem: RidgeBatches,
    step_size: float,
    X: Array,
    last: int | Rows,
    n_steps: int | None = None,
) -> tuple[Array, Array]:
    """|a_j|^2 of every row of X, walking back from just before step `last`; and where it ends.

    Each row has its own `last` and walks back to step 0, or all of them `n_steps` steps.
    """
    ends = np.broadcast_to(last, len(X))
    first = 0 if n_steps is None else int(np.max(ends)) - n_steps
    found = np.zeros((len(X), int(np.max(ends, initial=0)) - first))
    order = np.argsort(-ends, kind="stable")  # those that set out first in front
    walkers, ends = np.ascontiguousarray(X[order].T), ends[order]
    for k, batch in _turns_back(problem, first + found.shape[1], first):
        active = int(np.searchsorted(-ends, -k, side="left"))  # ends > k
        a = walkers[:, :active]
        found[order[:active], ends[:active] - 1 - k] = np.einsum("ij,ij->j", a, a)
        walkers[:, :active] = batch.step(a, step_size, problem.alpha)
    return found, walkers.T[np.argsort(order)]


def variances_back(
    problem: RidgeBatches, step_size: float, X: Array, last: int, variances: Array
) -> tuple[Array, Array]:
    """x'Sigma x of every row by the noise of steps before `last`; and where the way back ends."""
    n_steps, found, ends = len(variances), np.empty(len(X)), np.empty_like(X)
    some = max(1, _MOST_LENGTHS // n_steps)
    for i in range(0, len(X), some):
        part = slice(i, i + some)
        lengths, ends[part] = lengths_back(problem, step_size, X[part], last, n_steps)
        found[part] = lengths @ variances[::-1]
    return found, ends


def _turns_back(problem: RidgeBatches, last: int, first: int = 0) -> Iterator[tuple[int, Batch]]:
    with progress_bar(last - first, what="walking back", unit="step") as bar:
        for turn in problem.turns(range(last - 1, first - 1, -1)):
            yield turn
            bar.update()
