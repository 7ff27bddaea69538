"""The Gaussian law of a chain on mini-batches, and of residuals at their visits.

A step on batch t maps theta by A_t = 1 - eta (X_t'X_t + alpha), so the law changes from step to
step   [PILU, app. mini-batch]:

    m_{k+1} = A_t m_k + eta X_t'Y_t,   Sigma_{k+1} = A_t Sigma_k A_t + var_k

The means take one pass over all steps. The variance of a residual, x'Sigma_k x, is computed in one
of two ways. Backwards: with a_0 = x and a_{j+1} = A a_j through the earlier batches in reverse,

    x'Sigma_k x = sum_{j<k} var_{k-1-j} |a_j|^2.

The a_j are the same for every visit because the order repeats, so one sweep serves a few hundred
points. With constant noise and enough points, the sweep advances by whole cycles. Forwards: Sigma_k
itself, for all rows.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.comparison import Comparison
from pilu.chains.problem import Law
from pilu.chains.schedule import (
    UNIT,
    Schedule,
    StepRounding,
    deviation_errors,
    mean_errors,
    mean_size,
)
from pilu.data.rows import Request
from pilu.data.statistics import sum_error
from pilu.minibatch.difference import compare_minibatches
from pilu.minibatch.flows import (
    MOST_LENGTHS,
    Flow,
    batches_back,
    covariance_after,
    flow_of,
    lengths_back,
    propagated,
)
from pilu.minibatch.forecast import MinibatchForecast
from pilu.minibatch.sensitivities import MinibatchSensitivities

if TYPE_CHECKING:
    from pilu.minibatch.problem import MinibatchProblem

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_FORWARDS_FROM = 1.0  # times the number of rows at which both ways cost the same
_POOR = 1e-9  # relative rounding error past which a variance is computed backwards


class Means(NamedTuple):
    """Means of the iterates m_k, and of the residuals."""

    residuals: Array  # at each row's visits, cycles x n x d
    norms: Array  # |m_k|, N
    pushes: Array  # bounds |eta X_t'Y_t| and the terms that cancel in it, N
    final: Array  # m_N


@dataclass(frozen=True, eq=False)
class MinibatchLaw(Law):
    """The law of every iterate of a chain on mini-batches, from a fixed start (p x d).

    Maps of different batches do not commute: all is dense.
    """

    problem: "MinibatchProblem"
    step_size: float
    schedule: Schedule
    start: Array

    is_gaussian: ClassVar[bool] = True

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.problem.alpha

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta| up to a deviation, here and in every run without some of the rows."""
        problem, start = self.problem, float(np.linalg.norm(self.start))
        cycles = -(-(self.schedule.n_steps + n_more_steps) // problem.n_batches)
        targets = problem.source.raw(np.flatnonzero(problem.source.live), check=False)[1]
        squares = cycles * float(np.sum(np.square(targets)))
        sums = math.sqrt(squares * cycles * problem.n_batches)  # by Cauchy-Schwarz
        mean = mean_size(self.step_size, problem.largest, start, squares, sums)
        return mean + math.sqrt(float(np.sum(self.variances)))

    @cached_property
    def variances(self) -> Array:
        """Noise variance of every step."""
        return self.schedule.variances(self.step_size)

    @cached_property
    def rounding(self) -> StepRounding:
        """Rounding errors of this run, and of one without some rows."""
        eta, p = self.step_size, self.problem.n_parameters
        largest = eta * self.problem.largest
        # A step is two products with a batch. Each has an error of a few units (measured), plus the
        # errors of equal rows, which add up.
        error = UNIT * (1 + largest * (4 + math.sqrt(p) / 4))
        error += largest * sum_error(self.problem.batch_size)
        kept = max(abs(1 - eta * self.alpha), abs(1 - largest)) + error
        memory = min(float(self.schedule.n_steps), 1 / max(1 - kept**2, 1e-300))
        return StepRounding(error, kept, p * memory, eta, self.schedule)

    @cached_property
    def mean_errors(self) -> Array:
        """Bounds on the rounding error of m_k, for all k: (N,)."""
        # eta X_t'Y_t is rounded, too, with the same relative error.
        error = self.rounding.error
        return mean_errors(error, self.means.norms) + mean_errors(error, self.means.pushes)

    @cached_property
    def deviation_errors(self) -> Array:
        """Bounds on the rounding error of sqrt(x'Sigma_k x) for |x| = 1, for all k: (N,)."""
        return deviation_errors(self.rounding.error, self.variances)

    @cached_property
    def _largest_variances(self) -> Array:
        """Bounds on |Sigma_k|, with the weakest contraction of any step."""
        eta, bounds = self.step_size, np.zeros(self.schedule.n_steps)
        kept = max(abs(1.0 - eta * self.alpha), abs(1.0 - eta * self.problem.largest)) ** 2
        for k in range(len(bounds) - 1):
            bounds[k + 1] = kept * bounds[k] + self.variances[k]
        return bounds

    def residual_laws(self, rows: Rows, n_visits: int) -> tuple[Array, Array]:
        """Residuals of rows of one batch at its first visits, each N(u, v I_d).

        Returns the means u (R x d x V) and the variances v (R x V).
        """
        self.prepare_variances(rows)
        u = np.moveaxis(self.means.residuals[:n_visits, rows], 0, 2)
        return u, np.stack([self._known_variances[int(row)][:n_visits] for row in rows])

    def residual_means(self, rows: Rows, k: int) -> Array:
        """u_k of rows of the batch that step k visits: (R x d)."""
        return np.asarray(self.means.residuals[k // self.problem.n_batches, rows])

    @cached_property
    def _known_variances(self) -> dict[int, Array]:
        return {}

    @cached_property
    def final_covariance(self) -> tuple[Array, float]:
        """Sigma_N, dense, and the scale of its rounding error."""
        return covariance_after(self.problem, self.step_size, self.schedule)

    def prepare_variances(self, rows: Rows) -> None:
        """Compute the variances of these rows together, in the cheapest way."""
        new = np.array([row for row in rows.tolist() if row not in self._known_variances])
        # A step costs 4 b p R backwards, 4 b p (b + p) forwards.
        forwards = _FORWARDS_FROM * (self.problem.n_parameters + self.problem.batch_size)
        if len(new) > forwards:
            by_cycle, errors = self._all_variances()
            variances = by_cycle[:, new].T
            # Where rounding dominates the difference, a sum of squares is more accurate.
            poor = np.flatnonzero((variances * _POOR < errors[:, new].T).any(axis=1))
            if 0 < len(poor) <= forwards:
                X, _ = self.problem.source.take(new[poor])
                variances[poor] = self._variances_backwards(self.problem.batch_of(new[poor]), X)
        elif len(new):
            X, _ = self.problem.source.take(new)
            by_cycles = self._is_cheaper_by_cycles(len(new))
            back = self._variances_by_cycles if by_cycles else self._variances_backwards
            variances = back(self.problem.batch_of(new), X)
        else:
            return
        self._known_variances.update(zip(new.tolist(), variances, strict=True))

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
        """The sums of `_variances_backwards`, one cycle at a time once step 0 is reached."""
        N, M = self.schedule.n_steps, self.problem.n_batches
        lengths, walkers = lengths_back(self.problem, self.step_size, X, batches)
        variances = np.zeros((len(X), -(-N // M)))
        variances[:, 0] = self.variances[0] * np.sum(lengths, axis=1)
        squared_noise = self.schedule.segments[0].noise ** 2
        for c in range(1, variances.shape[1]):
            seen = np.einsum("ij,ij->i", walkers @ self._cycle.spread, walkers)
            variances[:, c] = variances[:, c - 1] + squared_noise * seen
            walkers = walkers @ self._cycle.matrix
        return variances

    def _variances_backwards(self, batches: Rows, X: Array) -> Array:
        N, M = self.schedule.n_steps, self.problem.n_batches
        some = max(1, MOST_LENGTHS // N)
        if len(X) > some:  # in parts, to bound the memory of their lengths at all steps
            parts = [
                self._variances_backwards(batches[i : i + some], X[i : i + some])
                for i in range(0, len(X), some)
            ]
            return np.concatenate(parts)
        variances = np.zeros((len(X), -(-N // M)))
        last = np.where(batches < N, batches + (N - 1 - batches) // M * M, 0)
        lengths, _ = lengths_back(self.problem, self.step_size, X, last)
        for t in np.unique(batches):
            members = np.flatnonzero(batches == t)
            for c, k in enumerate(self.problem.visits(int(t), N)):
                variances[members, c] = lengths[members, :k] @ self.variances[:k][::-1]
        return variances

    def residual_covariances(self, t: int, X: Array) -> Array:
        """X Sigma_k X' for rows X of batch t, at its visits: (V x R x R)."""
        visits = self.problem.visits(t, self.schedule.n_steps)
        covariances = np.zeros((len(visits), len(X), len(X)))
        last = int(visits[-1]) if len(visits) else 0
        walkers = np.ascontiguousarray(X.T)
        for k, batch in batches_back(self.problem, last):
            gram, j = walkers.T @ walkers, last - 1 - k
            later = visits > j  # visits with a noise term |a_j|^2
            covariances[later] += self.variances[visits[later] - 1 - j, None, None] * gram
            walkers = batch.step(walkers, self.step_size, self.alpha)
        return covariances

    @cached_property
    def means(self) -> Means:
        """The means at all steps, from one pass over them."""
        N, M = self.schedule.n_steps, self.problem.n_batches
        residuals = np.zeros((-(-N // M), self.problem.source.n_rows, self.n_outputs))
        norms, pushes, m, eta = np.empty(N), np.empty(N), self.start, self.step_size
        reach = math.sqrt(eta * self.problem.largest * eta)  # eta |X_t|
        with progress_bar(N, what="means", unit="step") as bar:
            for k, batch in self.problem.batches_at(range(N)):
                norms[k] = np.linalg.norm(m)
                pushes[k] = reach * np.linalg.norm(batch.targets)
                u = batch.times(m) - batch.targets
                residuals[k // M, self.problem.positions(k % M)] = u
                m = (1.0 - eta * self.alpha) * m - eta * batch.back(u)
                bar.update()
        return Means(residuals, norms, pushes, m)

    def _all_variances(self) -> tuple[Array, Array]:
        """x'Sigma_k x of all rows at their visits, and the rounding error in it: (cycles x n)."""
        N, M, p = self.schedule.n_steps, self.problem.n_batches, self.problem.n_parameters
        variances, sigma = np.zeros((-(-N // M), self.problem.source.n_rows)), np.zeros((p, p))
        errors = np.zeros_like(variances)
        unit = UNIT * (1 + N / 2)  # each step adds a few units
        with progress_bar(N, what="covariances", unit="step") as bar:
            for k, batch in self.problem.batches_at(range(N)):
                sigma, v = propagated(sigma, batch, self.step_size, self.alpha)
                # v is a difference of numbers of size |x|^2 |Sigma_k|.
                where = k // M, self.problem.positions(k % M)
                errors[where] = unit * self._largest_variances[k] * batch.squared_norms()
                variances[where] = np.maximum(v, 0.0) + errors[where]
                sigma[np.diag_indices(p)] += self.variances[k]
                bar.update()
        return variances, errors

    @property
    def sensitivities(self) -> MinibatchSensitivities:
        """Bounds on the rows' gradients at their visits."""
        return MinibatchSensitivities(self)

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction."""
        return float(np.linalg.eigvalsh(self.final_covariance[0])[0])

    def prepare_after_learning(self) -> None:
        """Compute the means at all steps, which all requests share."""
        _ = self.means

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them."""
        return compare_minibatches(self, request.rows, request.X, request.Y)

    def forecast(self, points: Array, n_unlearn_steps: int) -> MinibatchForecast:
        """Predictions at some points."""
        return MinibatchForecast(self, points)
