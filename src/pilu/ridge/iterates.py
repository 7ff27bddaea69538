"""The Gaussian law of the iterates theta_k of a schedule, k = 0..N-1, and of residuals.

All phases run on one problem, the one without any forgotten row (docs/guarantee.md, "Repeated
requests"), so the mean is that of noiseless descent and only the covariance sees the noise levels:

    theta_k ~ N(m_k, I_d (x) Sigma_k)                             [PILU, Lemma gaussian-kronecker]
    x'theta_k - y ~ N(u_k, v_k I_d),  u_k = x'm_k - y,  v_k = x'Sigma_k x   [PILU, Thm 1(i)]
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.rounding import UNIT, StepRounding, deviation_errors, mean_errors, mean_size
from pilu.chains.schedule import Schedule
from pilu.ridge.spectral import Powers, decay, drift, spread
from pilu.ridge.spectrum import Spectrum

__all__ = ["RidgeIterates"]

Array = NDArray[np.float64]

_TOGETHER = 64  # eigenvalues whose profiles are formed together
_KEPT_BYTES = 2**27  # of mean profiles, which every request of a law needs again


@dataclass(frozen=True, eq=False)
class RidgeIterates:
    """The law of every iterate of a chain on one problem, from a fixed start (p x d).

    Where the spectrum has rows taken out of its basis, residual means and what follows from the
    schedule alone are there; profiles need an eigenbasis.
    """

    spectrum: Spectrum
    step_size: float
    schedule: Schedule
    start: Array
    statistics_error: float = UNIT  # of X'X and X'Y, relative to their norms

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.spectrum.alpha

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta|, a deviation included, of this run and of any without some of its rows.

        Now and up to n_more_steps later   [docs/guarantee.md, "Floating point"].
        """
        spectrum, eta = self.spectrum, self.step_size
        steps, start = self.schedule.n_steps + n_more_steps, float(np.linalg.norm(self.start))
        if math.isinf(spectrum.target_norm):  # not told: then for this run alone
            mean = start + steps * eta * float(np.linalg.norm(spectrum.cross))
        else:
            pushes = steps * spectrum.target_norm**2, steps * spectrum.target_norm
            mean = mean_size(eta, spectrum.largest, start, *pushes)
        return mean + math.sqrt(float(np.sum(self.schedule.variances(eta))))

    @cached_property
    def step_error(self) -> float:
        """How far a step as it is computed is from the true one (`chains.rounding`).

        An eigenproblem is solved for A, and another for A without rows; what that does to a matrix
        of norm 1 was measured, at up to 5e-15 for 1,500 columns.
        """
        eigenproblems = 2 * UNIT * (2 + math.sqrt(self.spectrum.n_parameters) / 8)
        largest = self.step_size * self.spectrum.largest
        return UNIT + largest * (eigenproblems + self.statistics_error)

    @cached_property
    def push_error(self) -> float:
        """The same for eta B, what a step adds."""
        spectrum, size = self.spectrum, float(np.linalg.norm(self.spectrum.cross))
        terms = size
        if math.isfinite(spectrum.target_norm):  # |X|_F |Y|, in which nothing cancels
            squared_norm = float(np.sum(spectrum.eigenvalues - spectrum.alpha))
            terms = max(size, math.sqrt(squared_norm) * spectrum.target_norm)
        return self.step_size * (2 * UNIT * size + self.statistics_error * terms)

    def rounding(self, n_rows: int, more: float = 0.0) -> StepRounding:
        """For this run and the one without `n_rows` rows; a step's error is `more` than ours."""
        error, spectrum = self.step_error + more, self.spectrum
        eta, N = self.step_size, self.schedule.n_steps
        ends = abs(1 - eta * spectrum.alpha), abs(1 - eta * spectrum.largest)
        # Each row taken out moves the others' eigenvalues past at most one neighbour.
        taken = n_rows if spectrum.removed is None else n_rows + len(spectrum.removed)
        return StepRounding(error, max(ends) + error, self._memory + taken * N, eta, self.schedule)

    @cached_property
    def _memory(self) -> float:
        """sum_l min(N, 1 / (1 - t_l^2)), twice where t_l may be negative."""
        spectrum, N = self.spectrum, self.schedule.n_steps
        a = self.step_size * np.append(spectrum.eigenvalues, spectrum.alpha)
        with np.errstate(divide="ignore"):
            lengths = np.minimum(1 / np.maximum(a * (2 - a), 0.0), float(N))
        outside = spectrum.n_parameters - spectrum.basis.shape[1]
        total = float(np.sum(lengths[:-1]) + outside * lengths[-1])
        return total if np.max(a) <= 1.0 else 2 * total

    def mean_profile(self, output: int) -> Array:
        """Coordinates of m_k in the eigenbasis for one output, for all k: (r x N)."""
        if output in self._profiles:
            return self._profiles[output]
        profile = self._mean_profile(output)
        if profile.nbytes * self.n_outputs <= _KEPT_BYTES:
            self._profiles[output] = profile
        return profile

    @cached_property
    def _profiles(self) -> dict[int, Array]:
        return {}

    def _mean_profile(self, output: int) -> Array:
        k, start = np.arange(self.schedule.n_steps), self.start_coordinates[:, output, None]
        cross = self.spectrum.cross[:, output, None]
        profile = np.empty((len(cross), len(k)))
        for part, a in self._some_eigenvalues():
            profile[part] = drift(a, self.step_size, k) * cross[part]
            if start.any():
                profile[part] += decay(a, self.step_size, k) * start[part]
        return profile

    def _some_eigenvalues(self) -> Iterator[tuple[slice, Array]]:
        # A few at a time: the temporaries of a whole profile would be several times its size.
        for first in range(0, len(self.spectrum.eigenvalues), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            yield part, self.spectrum.eigenvalues[part, None]

    def final_variances(self, a: Array) -> Array:
        """Eigenvalue of Sigma_N, the covariance after all steps, where A has eigenvalue a."""
        steps, noise = np.array(self.schedule.segments).T
        after = self.schedule.n_steps - np.cumsum(steps)
        added = spread(a[..., None], self.step_size, steps)
        kept = decay(a[..., None], self.step_size, after) ** 2
        return np.asarray((added * kept) @ noise**2)

    @cached_property
    def variance_profile(self) -> Array:
        """Eigenvalues of Sigma_k along the eigenbasis, for all k: (r x N)."""
        profile = np.empty((len(self.spectrum.eigenvalues), self.schedule.n_steps))
        for part, a in self._some_eigenvalues():
            done, before = 0, np.zeros_like(a)
            for steps, noise in self.schedule.segments:
                k = np.arange(steps + 1)
                variance = decay(a, self.step_size, k) ** 2 * before
                variance += noise**2 * spread(a, self.step_size, k)
                profile[part, done : done + steps] = variance[:, :-1]
                done, before = done + steps, variance[:, -1:]
        return profile

    @cached_property
    def mean_norms(self) -> Array:
        """|m_k| within the row space, for all k: (N,)."""
        squares = np.zeros(self.schedule.n_steps)
        for t in range(self.n_outputs):
            squares += np.sum(np.square(self.mean_profile(t)), axis=0)
        return np.sqrt(squares)

    @cached_property
    def mean_errors(self) -> Array:
        """What rounding of the steps may do to m_k, for all k: (N,)."""
        return mean_errors(self.step_error, self.mean_norms, self.push_error)

    @cached_property
    def deviation_errors(self) -> Array:
        """What it may add to the deviation x'Sigma_k x of a row of norm 1, for all k: (N,)."""
        return deviation_errors(self.step_error, self.schedule.variances(self.step_size))

    def coordinates(self, X: Array) -> Array:
        """Rows in the eigenbasis; training rows have nothing outside it.

        A law without its basis is for rows that are given in it.
        """
        return X @ self.spectrum.basis if len(self.spectrum.basis) else X

    def residual_mean_norms(self, Z: Array, Y: Array) -> Array:
        """|u_k| of rows with coordinates Z and targets Y, for all k: (n x N)."""
        squares = np.zeros((len(Z), self.schedule.n_steps))
        for t in range(self.n_outputs):
            u = Z @ self.mean_profile(t)
            u -= Y[:, t, None]
            squares += np.square(u, out=u)
        return np.sqrt(squares, out=squares)

    def residual_means(self, Z: Array, Y: Array) -> Array:
        """u_k itself, step by step, with rows taken out of the basis on the way: (n x d x N)."""
        spectrum, eta = self.spectrum, self.step_size
        means = np.empty((self.schedule.n_steps, len(Z), self.n_outputs))
        m, push = self.start_coordinates, eta * spectrum.cross
        for u in means:
            np.matmul(Z, m, out=u)
            m = m - eta * spectrum.times(m) + push
        return np.moveaxis(means, 0, 2) - Y[:, :, None]

    @cached_property
    def gradient_norms(self) -> Array:
        """Bounds on |(1 - eta A)^k B|, the gradient of descent from zero, for all k: (N,)."""
        spectrum, N = self.spectrum, self.schedule.n_steps
        energies = np.sum(np.square(spectrum.cross), axis=1)
        if spectrum.is_diagonal:
            squares = Powers.of(spectrum.eigenvalues, self.step_size).squared()
            return np.asarray(np.sqrt(squares.series(energies[:, None], N)[0]) * (1 + 1e-12 * N))
        bounds = np.full(N, np.sqrt(np.sum(energies)))  # a contraction, at least
        if self.step_size * spectrum.largest <= 1.0:
            # B = X'Y, and sqrt(a) (1 - eta a)^k <= 1/sqrt(eta (2k + 1))
            falling = 1 / np.sqrt(self.step_size * (2 * np.arange(N) + 1))
            bounds = np.minimum(bounds, falling * spectrum.target_norm)
        return bounds * (1 + 1e-9)

    @cached_property
    def gradient_sums(self) -> Array:
        """The gradient norms, summed up twice."""
        return np.cumsum(np.cumsum(self.gradient_norms))

    @cached_property
    def mean_bounds(self) -> Array:
        """Bounds on |m_k|, in which nothing cancels, for all k: (N,)."""
        steps = self.step_size * np.cumsum(self.gradient_norms)
        return np.asarray(np.linalg.norm(self.start_coordinates) + steps)

    def without_basis(self) -> Self:
        """The law for rows whose coordinates are known: light to send."""
        spectrum = replace(self.spectrum, basis=np.empty((0, self.spectrum.basis.shape[1])))
        law = replace(self, spectrum=spectrum, start=np.empty((0, self.n_outputs)))
        for known in ("start_coordinates", "gradient_norms", "step_error", "_memory"):
            law.__dict__[known] = getattr(self, known)
        return law

    def __getstate__(self) -> dict[str, Any]:
        # A copy, without the one that grows: on a cluster's worker one thread may send the law to
        # another worker while a second one fills its caches.
        state = self.__dict__.copy()
        state.pop("_profiles", None)
        return state

    def residual_variances(self, Z: Array) -> Array:
        """v_k of rows with coordinates Z, for all k: (n x N)."""
        return np.square(Z) @ self.variance_profile

    @cached_property
    def start_coordinates(self) -> Array:
        """theta_0 in the basis."""
        if not self.start.any():  # the usual case, without p^2 products
            return np.zeros((self.spectrum.basis.shape[1], self.n_outputs))
        return self.spectrum.basis.T @ self.start
