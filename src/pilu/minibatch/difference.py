"""How two runs on mini-batches differ in law, one of them without some rows: dense, p x p.

The rows act at their batches' visits only. With A'_k the steps without them,

    Delta_{k+1} = A'_k Delta_k - eta X_f' u_k at visits,   C = Sigma_N - Sigma'_N.

K steps with noise sigma follow for both: theta -> F theta + N(0, sigma^2 S). With Sigma'_N = L L'
and S = G G', the singular values s of G^-1 F L are what is left of each direction, in units of the
noise. Along the right singular vectors of L^-1 theta the later noise, seen from before the K steps,
has variance sigma^2 / s^2, and Sigma'_N has variance 1. This stays well conditioned however small
sigma or s become. Where steps without noise have left Sigma'_N (nearly) singular, the same is seen
from after the K steps: variance s^2 along the left singular vectors of G^-1 F Sigma'_N^(1/2), and
sigma^2 of the later noise. Without later steps (K = 0) a nearly singular Sigma'_N is refused.
"""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pilu.chains.comparison import ChainDifference, Comparison, View
from pilu.chains.reduced import Reduced
from pilu.chains.schedule import UNIT
from pilu.exceptions import BeyondPrecision
from pilu.minibatch.flows import covariance_after, flow_of

if TYPE_CHECKING:
    from pilu.minibatch.law import MinibatchLaw

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_ILL_CONDITIONED = 1e6  # ratio of variances past which inverting them costs too many digits


class _Laws(NamedTuple):
    """After the schedule: the retained run's covariance, C, Delta and its rounding."""

    retained: Array
    values: Array  # eigenvalues of `retained`
    scale: float  # what the rounding of either covariance is relative to
    difference: Array
    mean: Array
    mean_rounding: float


def compare_minibatches(law: "MinibatchLaw", rows: Rows, X: Array, Y: Array) -> Comparison:
    """The run with `rows` (values X, Y) against the run without them."""
    leaves_trace = X.any() and law.problem.n_visits(rows, law.schedule.n_steps) > 0
    views = [View(_Difference(law, rows, X, Y).before)] if leaves_trace else []
    return Comparison(law.schedule, law.n_outputs, iter(views), always_dense=True)


class _Difference:
    """Delta and C in all directions, before any number of steps."""

    def __init__(self, law: "MinibatchLaw", rows: Rows, X: Array, Y: Array) -> None:
        self._law, self._rows, self._X, self._Y = law, rows, X, Y
        self._retained = law.problem.without(rows, X, Y)

    def before(self, n_steps: int) -> ChainDifference:
        law, values = self._law, self._laws.values
        is_regular = values[0] * _ILL_CONDITIONED > values[-1]
        if n_steps == 0:
            if not is_regular:
                raise BeyondPrecision(
                    "the law of the parameters is too narrow in some directions to be "
                    "distinguished from rounding. Learn with more noise, or redraw."
                )
            return self._seen_before(np.eye(len(values)), np.eye(len(values)), 0)
        flow = flow_of(self._retained, law.step_size, law.schedule.n_steps, n_steps)
        noise = np.asarray(np.linalg.cholesky(flow.spread), dtype=np.float64)
        if is_regular:
            return self._seen_before(flow.matrix, noise, n_steps)
        return self._seen_after(flow.matrix, noise, n_steps)

    def _seen_before(self, matrix: Array, noise: Array, n_steps: int) -> ChainDifference:
        laws, least, largest = self._laws, self._laws.values[0], self._laws.values[-1]
        root = np.linalg.cholesky(laws.retained)
        _, left, turn = np.linalg.svd(solve_triangular(noise, matrix @ root, lower=True))
        half, ones = solve_triangular(root, laws.difference, lower=True), np.ones_like(left)
        mean = turn @ solve_triangular(root, laws.mean, lower=True)
        covariance = turn @ solve_triangular(root, half.T, lower=True) @ turn.T
        scale = laws.scale / float(least)
        return ChainDifference(
            n_steps,
            variances=ones,
            kept=left,
            added=ones,
            reduced=Reduced.of(mean, covariance, scale, self._law.schedule.n_steps),
            largest=scale,
            mean_rounding=laws.mean_rounding / float(np.sqrt(least)),
            rounding=replace(self._law.rounding, length=float(np.sqrt(largest))),
        )

    def _seen_after(self, matrix: Array, noise: Array, n_steps: int) -> ChainDifference:
        laws = self._laws
        # In units of the later noise, where the error of F is one of C and of Delta.
        units = solve_triangular(noise, matrix, lower=True)
        size, rounding = float(np.linalg.norm(units, 2)), self._law.rounding
        relative, absolute = rounding.of_later_steps(n_steps)
        off = relative * size + absolute
        left = units @ laws.retained @ units.T
        variances, turn = np.linalg.eigh((left + left.T) / 2)
        variances, ones = np.maximum(variances, 0.0), np.ones_like(variances)
        turned = turn.T @ units
        mean, covariance = turned @ laws.mean, turned @ laws.difference @ turned.T
        scale = laws.scale * (size**2 + (2 * size + off) * off / UNIT)
        return ChainDifference(
            n_steps,
            variances=variances,
            kept=ones,
            added=ones,
            reduced=Reduced.of(mean, covariance, scale, self._law.schedule.n_steps),
            largest=scale,
            mean_rounding=size * laws.mean_rounding
            + off * (laws.mean_rounding + float(np.linalg.norm(laws.mean))),
            rounding=replace(rounding, length=0.0),
        )

    @cached_property
    def _laws(self) -> _Laws:
        law = self._law
        retained, scale = covariance_after(self._retained, law.step_size, law.schedule)
        with_rows, other_scale = law.final_covariance
        return _Laws(
            retained,
            np.asarray(np.linalg.eigvalsh(retained), dtype=np.float64),
            2 * max(scale, other_scale),
            with_rows - retained,
            self._mean_difference(),
            self._mean_rounding(),
        )

    def _mean_difference(self) -> Array:
        law, M = self._law, self._law.problem.n_batches
        batches, eta = law.problem.batch_of(self._rows), law.step_size
        delta, first = np.zeros_like(law.start), int(np.min(batches))
        for k, batch in self._retained.batches_at(range(first, law.schedule.n_steps)):
            here = batches == k % M
            delta = batch.step(delta, eta, law.alpha)
            if here.any():
                delta -= eta * self._X[here].T @ law.residual_means(self._rows[here], k)
        return delta

    def _mean_rounding(self) -> float:
        # Relative to the terms of Delta, not to what cancellation leaves of them. Each term passes
        # through all steps after it.
        law, N = self._law, self._law.schedule.n_steps
        size, total = float(np.linalg.norm(self._X)), 0.0
        for t in np.unique(law.problem.batch_of(self._rows)):
            visits = law.problem.visits(int(t), N)
            terms = size * law.means.norms[visits] + float(np.linalg.norm(self._Y))
            units = 2 * UNIT + law.rounding.error * (N - visits)
            total += float(np.sum(size * law.mean_errors[visits] + units * terms))
        return law.step_size * size * total
