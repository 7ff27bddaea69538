"""How two runs on mini-batches differ in law, one of them without some rows: dense, p x p.

The rows act at their batches' visits only. With A'_k the steps without them,

    Delta_{k+1} = A'_k Delta_k - eta X_f' u_k at visits,   C = Sigma_N - Sigma'_N.

K steps with noise sigma follow for both: theta -> F theta + N(0, sigma^2 S). With Sigma'_N = L L'
and S = G G', the singular values s of G^-1 F L say how much of each direction is left of what was,
in units of the noise: along the right singular vectors V of L^-1 theta the later noise, seen from
before the K steps, has variance sigma^2 / s^2, and Sigma'_N has variance 1. This stays well
conditioned however small sigma or s become.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.laws.comparison import Comparison
from pilu.laws.cyclic import CyclicLaw
from pilu.laws.difference import NOISY_STEPS, UNIT, ChainDifference
from pilu.laws.flows import covariance_after, flow_of

__all__ = ["CyclicDifference"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class _Whitened(NamedTuple):
    """After the schedule, in units of the retained run's covariance L L'."""

    root: Array  # L
    covariance: Array  # L^-1 C L^-T
    mean: Array  # L^-1 Delta
    condition: float
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
        law, white = self.law, self._whitened
        flow = flow_of(self._retained, law.step_size, law.schedule.n_steps, n_steps)
        noise = np.linalg.cholesky(flow.spread)
        left = scipy.linalg.solve_triangular(noise, flow.matrix @ white.root, lower=True)
        _, shrunk, turn = np.linalg.svd(left)
        ones = np.ones_like(shrunk)
        return ChainDifference.of(
            law,
            ones,
            lambda _: (shrunk, ones),
            turn @ white.mean,
            turn @ white.covariance @ turn.T,
            white.condition,
            white.mean_rounding,
        )

    @cached_property
    def _whitened(self) -> _Whitened:
        law = self.law
        retained = covariance_after(self._retained, law.step_size, law.schedule)
        values = np.linalg.eigvalsh(retained)
        root = np.asarray(np.linalg.cholesky(retained), dtype=np.float64)
        half = scipy.linalg.solve_triangular(root, law.final_covariance - retained, lower=True)
        return _Whitened(
            root,
            scipy.linalg.solve_triangular(root, half.T, lower=True),
            scipy.linalg.solve_triangular(root, self._mean_difference(), lower=True),
            float(values[-1] / values[0]),
            self._mean_rounding() / float(np.sqrt(values[0])),
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
