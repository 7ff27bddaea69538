"""How two runs on mini-batches differ in law, one of them without some rows: dense, p x p.

The rows act at their batches' visits only. With A'_k the steps without them,

    Delta_{k+1} = A'_k Delta_k - eta X_f' u_k at visits,   C = Sigma_N - Sigma'_N.

K steps with noise sigma follow for both: theta -> F theta + N(0, sigma^2 S). With Sigma'_N = L L'
and S = G G', the singular values s of G^-1 F L say how much of each direction is left of what was,
in units of the noise: along the right singular vectors V of L^-1 theta the later noise, seen from
before the K steps, has variance sigma^2 / s^2, and Sigma'_N has variance 1. This stays well
conditioned however small sigma or s become. Where steps without noise have left Sigma'_N (nearly)
singular, the same is seen from after the K steps: variance s^2 along the left singular vectors of
G^-1 F Sigma'_N^(1/2), and sigma^2 of the later noise.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pilu.laws.comparison import Comparison
from pilu.laws.cyclic import CyclicLaw
from pilu.laws.difference import NOISY_STEPS, UNIT, ChainDifference
from pilu.laws.flows import covariance_after, flow_of

__all__ = ["CyclicDifference"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_WIDER = 1e-9  # relative
_ILL_CONDITIONED = 1e6  # ratio of variances past which inverting them costs too many digits


class _Laws(NamedTuple):
    """After the schedule: the retained run's covariance, C, Delta and its rounding."""

    retained: Array
    values: Array  # eigenvalues of `retained`
    difference: Array
    mean: Array
    mean_rounding: float


class CyclicDifference(Comparison):
    """What tells the run with `rows` (values X, Y) from the run without them."""

    law: CyclicLaw

    def __init__(self, law: CyclicLaw, rows: Rows, X: Array, Y: Array) -> None:
        super().__init__(law, is_nothing=not X.any() or law.n_visits(rows) == 0)
        self._rows, self._X, self._Y = rows, X, Y
        self._retained = law.problem.without(rows, X, Y)
        self._after: dict[int, ChainDifference] = {}

    def _shown(self, n_steps: int) -> ChainDifference:
        if n_steps not in self._after:
            self._after[n_steps] = self._difference(n_steps)
        return self._after[n_steps]

    def _difference(self, n_steps: int) -> ChainDifference:
        law, laws = self.law, self._laws
        flow = flow_of(self._retained, law.step_size, law.schedule.n_steps, n_steps)
        noise = np.asarray(np.linalg.cholesky(flow.spread), dtype=np.float64)
        if laws.values[0] * _ILL_CONDITIONED > laws.values[-1]:
            return self._seen_before(flow.matrix, noise, n_steps)
        return self._seen_after(flow.matrix, noise, n_steps)

    def _seen_before(self, matrix: Array, noise: Array, n_steps: int) -> ChainDifference:
        laws, least, largest = self._laws, self._laws.values[0], self._laws.values[-1]
        root = np.linalg.cholesky(laws.retained)
        _, found, turn = np.linalg.svd(solve_triangular(noise, matrix @ root, lower=True))
        # The true matrix is off by `error` at most, and |(B + E) v|^2 <= (1 + w) |B v|^2 +
        # (1 + 1/w) |E v|^2: with s larger by that, there is less later noise than there really is.
        # Of F, whose factors are contractions, a few units of 1; |G^-1| <= (2 eta)^(-1/2).
        error = UNIT * (4 + n_steps / NOISY_STEPS) * np.sqrt(largest / (2 * self.law.step_size))
        shrunk = np.sqrt((1 + _WIDER) * found**2 + (1 + 1 / _WIDER) * error**2)
        half = solve_triangular(root, laws.difference, lower=True)
        ones = np.ones_like(shrunk)
        return ChainDifference.of(
            self.law,
            ones,
            lambda _: (shrunk, ones),
            turn @ solve_triangular(root, laws.mean, lower=True),
            turn @ solve_triangular(root, half.T, lower=True) @ turn.T,
            float(largest / least),
            laws.mean_rounding / float(np.sqrt(least)),
        )

    def _seen_after(self, matrix: Array, noise: Array, n_steps: int) -> ChainDifference:
        laws = self._laws
        # In units of the later noise, S of which is at least 2 eta. F is off by a few units of 1,
        # not of |F|: different batches may take different directions away.
        units = solve_triangular(noise, matrix, lower=True)
        size, least = float(np.linalg.norm(units, 2)), float(np.sqrt(2 * self.law.step_size))
        few = 4 + n_steps / NOISY_STEPS
        left = units @ laws.retained @ units.T
        variances, turn = np.linalg.eigh((left + left.T) / 2)
        variances, ones = np.maximum(variances, 0.0), np.ones_like(variances)
        turned = turn.T @ units
        return ChainDifference.of(
            self.law,
            variances,
            lambda _: (ones, ones),
            turned @ laws.mean,
            turned @ laws.difference @ turned.T,
            float(laws.values[-1]) * (size**2 + 2 * few * size / least + UNIT * (few / least) ** 2),
            (laws.mean_rounding + UNIT * few * float(np.linalg.norm(laws.mean))) / least,
        )

    @cached_property
    def _laws(self) -> _Laws:
        law = self.law
        retained = covariance_after(self._retained, law.step_size, law.schedule)
        return _Laws(
            retained,
            np.asarray(np.linalg.eigvalsh(retained), dtype=np.float64),
            law.final_covariance - retained,
            self._mean_difference(),
            self._mean_rounding(),
        )

    def _mean_difference(self) -> Array:
        law, M = self.law, self.law.problem.n_batches
        batches, eta = law.problem.batch_of(self._rows), law.step_size
        delta, first = np.zeros_like(law.start), int(np.min(batches))
        for k, batch in self._retained.turns(range(first, law.schedule.n_steps)):
            here = batches == k % M
            delta = batch.step(delta, eta, law.alpha)
            if here.any():
                delta -= eta * self._X[here].T @ law.residual_means(self._rows[here], k)
        return delta

    def _mean_rounding(self) -> float:
        # Relative to the terms of Delta, not to what cancellation leaves of them
        law, N = self.law, self.law.schedule.n_steps
        size, total = float(np.linalg.norm(self._X)), 0.0
        for t in np.unique(law.problem.batch_of(self._rows)):
            norms = law.mean_norms[law.problem.visits(int(t), N)]
            total += float(np.sum(size * norms + np.linalg.norm(self._Y)))
        return UNIT * (1 + N / NOISY_STEPS) * law.step_size * size * total
