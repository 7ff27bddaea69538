"""How the run with some rows differs in law from the run without them.

After the N steps of the schedule both are Gaussian. With A' = A - X_f'X_f the retained problem,

    Delta = m_N - m'_N:          Delta_{k+1} = (1 - eta A') Delta_k - eta X_f' u_k,
    C = Sigma_N - Sigma'_N = h(A) - h(A'),

u_k the residual means of the rows and h the schedule's variance as a function of the eigenvalue.
K steps with noise sigma on A' follow for both. Seen from step N they add the covariance
R = sigma^2 spread_K(A') / (1 - eta A')^{2K} to both, so the whitened difference is

    x = eig(F C F),  shift = F Delta,  F = (h(A') + R)^{-1/2},

which stays well conditioned however small sigma or (1 - eta a)^K become.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.dynamics.spectral import decay, spread
from pilu.laws.iterates import IterateLaw

__all__ = ["ChainDifference", "Whitened", "dense_difference", "mean_difference"]

Array = NDArray[np.float64]

_UNIT = 1e-15


@dataclass(frozen=True, eq=False)
class Whitened:
    """The difference in units of the retained run's noise: excesses x, directions, shifts."""

    scale: Array  # F, along the eigenbasis
    excesses: Array
    directions: Array  # columns
    shifts: Array  # rows, one for each direction, d columns

    @property
    def squared_shifts(self) -> Array:
        """a^2 of every direction, over all outputs."""
        return np.asarray(np.sum(np.square(self.shifts), axis=1))


@dataclass(frozen=True, eq=False)
class ChainDifference:
    """Delta and C in an eigenbasis of the retained problem, or of a projection of it."""

    law: IterateLaw
    eigenvalues: Array  # of A'
    mean: Array  # m x d
    covariance: Array  # m x m

    @cached_property
    def variances(self) -> Array:
        """Eigenvalues h(A') of the retained run's covariance after the schedule."""
        return self.law.final_variances(self.eigenvalues)

    def later_variances(self, noise: float, n_steps: int) -> Array:
        """Eigenvalues of R: what K steps with this noise add, seen from before them."""
        if noise == 0.0:
            return np.zeros_like(self.eigenvalues)
        with np.errstate(over="ignore"):  # an infinite variance is a direction without a trace
            return noise**2 * self._later_per_noise(n_steps)

    def _later_per_noise(self, n_steps: int) -> Array:
        if n_steps not in self._kept:
            a, eta = self.eigenvalues, self.law.step_size
            with np.errstate(divide="ignore", over="ignore"):
                self._kept[n_steps] = spread(a, eta, n_steps) / decay(a, eta, n_steps) ** 2
        return self._kept[n_steps]

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    def total_squared_shift(self, noise: float, n_steps: int) -> float:
        """|F Delta|^2, the sum of all squared shifts, without solving for the directions."""
        variances = self.variances + self.later_variances(noise, n_steps)
        return float(np.sum(np.square(self.mean) / variances[:, None]))

    def rounding_error(self, noise: float, n_steps: int) -> float:
        """What rounding of C and Delta may amount to in the whitened difference."""
        least = float(np.min(self.variances + self.later_variances(noise, n_steps)))
        if least == 0.0:
            return math.inf
        covariance = float(np.max(self.variances)) / least
        shift = float(np.max(np.abs(self.mean), initial=0.0)) / math.sqrt(least)
        # An eigenvalue that is off by an ulp of the largest moves (1 - eta a)^N by N ulps.
        return _UNIT * (max(covariance, shift) + self.law.schedule.n_steps)

    def whitened(self, noise: float, n_steps: int) -> Whitened:
        """The difference that is left once K steps with this noise have followed."""
        scale = 1 / np.sqrt(self.variances + self.later_variances(noise, n_steps))
        x, directions = scipy.linalg.eigh(
            scale[:, None] * self.covariance * scale, check_finite=False
        )
        return Whitened(scale, x, directions, directions.T @ (scale[:, None] * self.mean))


def mean_difference(law: IterateLaw, eigenvalues: Array, source: Array, means: Array) -> Array:
    """Delta_N = -eta sum_k (1 - eta A')^{N-1-k} X_f' u_k, where A' is diagonal.

    `source` is X_f' in that basis (m x R), `means` the residual means u (R x d x N).
    """
    powers = decay(eigenvalues[:, None], law.step_size, np.arange(means.shape[2])[::-1])
    total = np.zeros((len(eigenvalues), means.shape[1]))
    for row, u in enumerate(means):
        total -= law.step_size * source[:, row, None] * (powers @ u.T)
    return total


def dense_difference(law: IterateLaw, Z: Array, means: Array) -> ChainDifference:
    """The difference in the full eigenbasis of A': exact up to rounding, O(p^3)."""
    retained = np.diag(law.spectrum.eigenvalues) - Z.T @ Z
    values, basis = scipy.linalg.eigh(retained, check_finite=False)
    values = np.maximum(values, law.spectrum.alpha)  # X'X has no negative eigenvalue
    before = law.final_variances(law.spectrum.eigenvalues)
    covariance = basis.T @ (before[:, None] * basis)
    covariance[np.diag_indices_from(covariance)] -= law.final_variances(values)
    mean = mean_difference(law, values, basis.T @ Z.T, means)
    return ChainDifference(law, values, mean, (covariance + covariance.T) / 2)
