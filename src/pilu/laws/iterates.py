"""The Gaussian law of the iterates theta_k of a schedule, k = 0..N-1, and of residuals.

All phases run on one problem, the one without any forgotten row (docs/guarantee.md, "Repeated
requests"), so the mean is that of noiseless descent and only the covariance sees the noise levels:

    theta_k ~ N(m_k, I_d (x) Sigma_k)                             [PILU, Lemma gaussian-kronecker]
    x'theta_k - y ~ N(u_k, v_k I_d),  u_k = x'm_k - y,  v_k = x'Sigma_k x   [PILU, Thm 1(i)]
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu.dynamics.schedule import Schedule
from pilu.dynamics.spectral import decay, drift, spread
from pilu.ridge.spectrum import Spectrum

__all__ = ["IterateLaw"]

Array = NDArray[np.float64]

_FEW = 8  # rows whose means are walked rather than read off a profile
_KEPT_BYTES = 2**27  # of mean profiles, which every request of a law needs again


@dataclass(frozen=True, eq=False)
class IterateLaw:
    """The law of every iterate of a chain on one problem, from a fixed start (p x d).

    Where the spectrum has rows taken out of its basis, residual means and what follows from the
    schedule alone are there; profiles need an eigenbasis.
    """

    spectrum: Spectrum
    step_size: float
    schedule: Schedule
    start: Array

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.start.shape[1])

    def mean_profile(self, output: int) -> Array:
        """Coordinates of m_k in the eigenbasis for one output, for all k: (r x N)."""
        if output in self._profiles:
            return self._profiles[output]
        profile = self._mean_profile(output)
        if self._keeps_profiles:
            self._profiles[output] = profile
        return profile

    @property
    def _keeps_profiles(self) -> bool:
        size = 8 * len(self.spectrum.eigenvalues) * self.schedule.n_steps
        return size * self.n_outputs <= _KEPT_BYTES

    @cached_property
    def _profiles(self) -> dict[int, Array]:
        return {}

    def _mean_profile(self, output: int) -> Array:
        a, k = self.spectrum.eigenvalues[:, None], np.arange(self.schedule.n_steps)
        profile = drift(a, self.step_size, k) * self.spectrum.cross[:, output, None]
        start = self._start_coordinates[:, output, None]
        if start.any():
            profile += decay(a, self.step_size, k) * start
        return np.asarray(profile)

    def prepared(self) -> "IterateLaw":
        """The same law with its mean profiles at hand, for many requests to come."""
        if self._keeps_profiles:
            for output in range(self.n_outputs):
                self.mean_profile(output)
        return self

    def final_variances(self, a: Array) -> Array:
        """Eigenvalue of Sigma_N, the covariance after all steps, where A has eigenvalue a."""
        variance = np.zeros_like(a)
        for steps, noise in self.schedule.segments:
            variance = decay(a, self.step_size, steps) ** 2 * variance
            variance += noise**2 * spread(a, self.step_size, steps)
        return variance

    @cached_property
    def final_mean_norm(self) -> float:
        """|m_N| within the row space."""
        a, N = self.spectrum.eigenvalues[:, None], self.schedule.n_steps
        mean = drift(a, self.step_size, N) * self.spectrum.cross
        mean += decay(a, self.step_size, N) * self._start_coordinates
        return float(np.linalg.norm(mean))

    @cached_property
    def variance_profile(self) -> Array:
        """Eigenvalues of Sigma_k along the eigenbasis, for all k: (r x N)."""
        a = self.spectrum.eigenvalues[:, None]
        pieces, before = [], np.zeros_like(a)
        for steps, noise in self.schedule.segments:
            k = np.arange(steps + 1)
            variance = decay(a, self.step_size, k) ** 2 * before
            variance += noise**2 * spread(a, self.step_size, k)
            pieces.append(variance[:, :-1])
            before = variance[:, -1:]
        return np.concatenate(pieces, axis=1)

    @cached_property
    def mean_norms(self) -> Array:
        """|m_k| within the row space, for all k: (N,)."""
        squares = np.zeros(self.schedule.n_steps)
        for t in range(self.n_outputs):
            squares += np.sum(np.square(self.mean_profile(t)), axis=0)
        return np.sqrt(squares)

    def coordinates(self, X: Array) -> Array:
        """Rows in the eigenbasis; training rows have nothing outside it."""
        return X @ self.spectrum.basis

    def residual_mean_norms(self, Z: Array, Y: Array) -> Array:
        """|u_k| of rows with coordinates Z and targets Y, for all k: (n x N)."""
        squares = np.zeros((len(Z), self.schedule.n_steps))
        for t in range(self.n_outputs):
            u = Z @ self.mean_profile(t)
            u -= Y[:, t, None]
            squares += np.square(u, out=u)
        return np.sqrt(squares, out=squares)

    def residual_means(self, Z: Array, Y: Array) -> Array:
        """u_k itself: (n x d x N)."""
        few = len(Z) <= _FEW and not self._profiles
        if few or not self.spectrum.is_diagonal or not self._keeps_profiles:
            return self._walked_residual_means(Z, Y)
        return np.stack(
            [Z @ self.mean_profile(t) - Y[:, t, None] for t in range(self.n_outputs)], axis=1
        )

    def _walked_residual_means(self, Z: Array, Y: Array) -> Array:
        # Step by step: for a few rows that is less work than the mean of every coordinate, and it
        # takes rows out of the basis on the way.
        spectrum, eta = self.spectrum, self.step_size
        removed = np.empty((0, Z.shape[1])) if spectrum.removed is None else spectrum.removed
        watched, lift = np.vstack([removed, Z]), eta * removed.T
        factor, push = 1 - eta * spectrum.eigenvalues[:, None], eta * spectrum.cross
        seen = np.empty((self.schedule.n_steps, len(watched), self.n_outputs))
        m = self._start_coordinates.copy()
        for scores in seen:
            np.matmul(watched, m, out=scores)
            m *= factor
            m += push
            if len(removed):
                m += lift @ scores[: len(removed)]
        return np.moveaxis(seen[:, len(removed) :], 0, 2) - Y[:, :, None]

    def without_basis(self) -> "IterateLaw":
        """The law for rows whose coordinates and residual means are known: light to send."""
        spectrum = replace(self.spectrum, basis=np.empty((0, self.spectrum.basis.shape[1])))
        return replace(self, spectrum=spectrum, start=np.empty((0, self.n_outputs)))

    def residual_variances(self, Z: Array) -> Array:
        """v_k of rows with coordinates Z, for all k: (n x N)."""
        return np.square(Z) @ self.variance_profile

    @cached_property
    def _start_coordinates(self) -> Array:
        if not self.start.any():  # the usual case, without p^2 products
            return np.zeros((self.spectrum.basis.shape[1], self.n_outputs))
        return self.spectrum.basis.T @ self.start
