"""The Gaussian law of the iterates theta_k of a schedule, k = 0..N-1, with and without some rows.

All phases run on one problem, the one without any forgotten row (docs/guarantee.md, "Repeated
requests"). So the mean is that of noiseless descent, and only the covariance depends on the noise:

    theta_k ~ N(m_k, I_d (x) Sigma_k)                             [PILU, Lemma gaussian-kronecker]
    x'theta_k - y ~ N(u_k, v_k I_d),  u_k = x'm_k - y,  v_k = x'Sigma_k x   [PILU, Thm 1(i)]

The run without some of the rows is described by how it differs (`chains.comparison`), in a space
that contains these rows.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pilu._processes import blas
from pilu.chains.comparison import ChainDifference, Comparison, View
from pilu.chains.problem import Law
from pilu.chains.reduced import Reduced
from pilu.chains.schedule import (
    UNIT,
    Schedule,
    StepRounding,
    deviation_errors,
    mean_errors,
    mean_size,
)
from pilu.data.rows import Request
from pilu.ridge.forecast import RidgeForecast
from pilu.ridge.krylov import KrylovView
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.mean_difference import mean_difference, mean_rounding
from pilu.ridge.sensitivities import RidgeSensitivities
from pilu.ridge.spectral import Powers, RequestSpace, Spectrum, decay, drift, spread

Array = NDArray[np.float64]

_TOGETHER = 64  # eigenvalues whose profiles are computed together
_KEPT_BYTES = 2**27  # of mean profiles, which all requests of a law share

_GROWTH = (
    40,
    48,
    56,
    64,
    80,
    112,
    160,
    240,
)  # dimensions for each row of the request, tried in turn
_LIKELY = 19.6  # times the sixth root of the steps: the first size, if the problem has room for it
_DENSE_BELOW = 40  # parameters: a small problem is cheaper without a projection
_DENSE_SHARE = 0.6  # of the parameters: a projection on more of them is not cheaper


@dataclass(frozen=True, eq=False)
class RidgeLaw(Law):
    """The law of every iterate of a chain on one problem, from a fixed start (p x d).

    A spectrum with a low-rank correction supports residual means and whatever follows from the
    schedule alone. Profiles need an eigenbasis.
    """

    spectrum: Spectrum
    step_size: float
    schedule: Schedule
    start: Array
    statistics_error: float = UNIT  # of X'X and X'Y, relative to their norms

    is_gaussian: ClassVar[bool] = True

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.spectrum.alpha

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta| up to a deviation, in this run and in every run without some of its rows.

        It holds for the next `n_more_steps`, too   [docs/guarantee.md, "Floating point"].
        """
        spectrum, eta = self.spectrum, self.step_size
        steps, start = self.schedule.n_steps + n_more_steps, float(np.linalg.norm(self.start))
        if math.isinf(spectrum.target_norm):  # not known: the bound is for this run alone
            mean = start + steps * eta * float(np.linalg.norm(spectrum.cross))
        else:
            pushes = steps * spectrum.target_norm**2, steps * spectrum.target_norm
            mean = mean_size(eta, spectrum.largest, start, *pushes)
        return mean + math.sqrt(float(np.sum(self.schedule.variances(eta))))

    @cached_property
    def step_error(self) -> float:
        """Bounds the error of a computed step (`chains.schedule`).

        Two eigenproblems are solved: for A, and for A without rows. Their error for a matrix of
        norm 1 was measured as up to 5e-15 for 1,500 columns.
        """
        eigenproblems = 2 * UNIT * (2 + math.sqrt(self.spectrum.n_parameters) / 8)
        largest = self.step_size * self.spectrum.largest
        return UNIT + largest * (eigenproblems + self.statistics_error)

    @cached_property
    def push_error(self) -> float:
        """The same for eta B, which a step adds."""
        spectrum, size = self.spectrum, float(np.linalg.norm(self.spectrum.cross))
        terms = size
        if math.isfinite(spectrum.target_norm):  # |X|_F |Y|, without cancellation
            squared_norm = float(np.sum(spectrum.eigenvalues - spectrum.alpha))
            terms = max(size, math.sqrt(squared_norm) * spectrum.target_norm)
        return self.step_size * (2 * UNIT * size + self.statistics_error * terms)

    def rounding(self, n_rows: int, more: float = 0.0) -> StepRounding:
        """Rounding for this run and one without `n_rows` rows, with `more` error per step."""
        error, spectrum = self.step_error + more, self.spectrum
        eta, N = self.step_size, self.schedule.n_steps
        ends = abs(1 - eta * spectrum.alpha), abs(1 - eta * spectrum.largest)
        # Each removed row moves an eigenvalue past at most one neighbour.
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
        # In parts: the temporaries of a whole profile would be several times its size.
        for first in range(0, len(self.spectrum.eigenvalues), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            yield part, self.spectrum.eigenvalues[part, None]

    def final_variances(self, a: Array) -> Array:
        """Eigenvalues of Sigma_N, the covariance after all steps, for eigenvalues a of A."""
        steps, noise = np.array(self.schedule.segments).T
        after = self.schedule.n_steps - np.cumsum(steps)
        added = spread(a[..., None], self.step_size, self.schedule.durations)
        kept = decay(a[..., None], self.step_size, after) ** 2
        return np.asarray((added * kept) @ noise**2)

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction."""
        return float(np.min(self.final_variances(self.spectrum.eigenvalues)))

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
        """Bounds on the rounding error of m_k, for all k: (N,)."""
        return mean_errors(self.step_error, self.mean_norms, self.push_error)

    @cached_property
    def deviation_errors(self) -> Array:
        """Bounds on the rounding error of sqrt(x'Sigma_k x) for |x| = 1, for all k: (N,)."""
        return deviation_errors(self.step_error, self.schedule.variances(self.step_size))

    def coordinates(self, X: Array) -> Array:
        """Rows in the eigenbasis, which spans all training rows.

        A law without its basis takes rows that are already in coordinates.
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
        """u_k computed step by step, which allows a corrected basis: (n x d x N)."""
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
        bounds = np.full(N, np.sqrt(np.sum(energies)))  # steps contract
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
        """Bounds on |m_k| without cancellation, for all k: (N,)."""
        steps = self.step_size * np.cumsum(self.gradient_norms)
        return np.asarray(np.linalg.norm(self.start_coordinates) + steps)

    def portable(self) -> Self:
        """A copy for rows in coordinates, small to send to other processes."""
        spectrum = replace(self.spectrum, basis=np.empty((0, self.spectrum.basis.shape[1])))
        law = replace(self, spectrum=spectrum, start=np.empty((0, self.n_outputs)))
        for known in ("start_coordinates", "gradient_norms", "step_error", "_memory"):
            law.__dict__[known] = getattr(self, known)
        return law

    def __getstate__(self) -> dict[str, Any]:
        # A copy, because on a cluster one thread may pickle the law while another fills its caches.
        # The profiles grow after they are cached, so they are left out.
        state = self.__dict__.copy()
        state.pop("_profiles", None)
        return state

    def residual_variances(self, Z: Array) -> Array:
        """v_k of rows with coordinates Z, for all k: (n x N)."""
        return np.square(Z) @ self.variance_profile

    @cached_property
    def start_coordinates(self) -> Array:
        """Coordinates of theta_0 in the basis."""
        if not self.start.any():  # the usual case: no product is needed
            return np.zeros((self.spectrum.basis.shape[1], self.n_outputs))
        return self.spectrum.basis.T @ self.start

    @property
    def sensitivities(self) -> RidgeSensitivities:
        """Bounds on gradients at every step."""
        return RidgeSensitivities(self)

    def threads(self) -> AbstractContextManager[object]:
        """One BLAS thread. Matrices have a few dozen rows: a second thread is slower."""
        limited: AbstractContextManager[object] = blas().limit(limits=1)
        return limited

    def forecast(self, points: Array, n_unlearn_steps: int) -> RidgeForecast:
        """Predictions at some points."""
        return RidgeForecast(self, points, n_unlearn_steps)

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them.

        The difference is seen in the Krylov space of the rows where the proved errors of that
        projection are negligible at the noise in question. Else the space grows. Beyond a size at
        which it is no longer cheaper, the full eigenbasis is used.
        """
        Z = self.coordinates(request.X)
        views = self._views(Z, request.Y, likely_size) if Z.any() else iter(())
        return Comparison(self.schedule, self.n_outputs, views)

    def _views(self, Z: Array, targets: Array, at_least: int) -> Iterator[View]:
        (R, p), sizes = Z.shape, list[int]()
        if p > _DENSE_BELOW:
            sizes = [s * R for s in _GROWTH if s * R <= _DENSE_SHARE * p]
        if sizes:
            likely = at_least or R * _LIKELY * self.schedule.n_steps ** (1 / 6)
            sizes = [s for s in sizes if s >= likely] or sizes
            lanczos = None
            for size in sizes:
                lanczos = lanczos or BlockLanczos(self.spectrum, Z.T)
                lanczos.extend(size)
                view = KrylovView(self, lanczos, targets, is_finest=size == sizes[-1])
                exhausted = lanczos.exhausted
                if R == 1 and size == sizes[0]:
                    # Mostly enough. The vectors of many rows at once would leave the caches.
                    lanczos = None
                yield view
                if exhausted:
                    break
        yield self._dense_view(Z, targets)

    def _dense_view(self, Z: Array, targets: Array) -> View:
        """The difference in the full eigenbasis of A'."""
        space = RequestSpace.whole(self.spectrum, self.step_size, Z)
        residuals = self.residual_means(Z, targets)
        return View(self.difference_in(space, residuals, targets, self.rounding(len(Z))))

    def reduced_in(self, space: RequestSpace, mean: Array) -> tuple[Array, float, Reduced]:
        """C = h(A) - h(A') in a space, reduced with Delta; and h(A'), and the largest variance."""
        both = np.stack([space.retained.values, space.own.values])
        variances, with_rows = self.final_variances(both)
        covariance = space.turn.T @ (with_rows[:, None] * space.turn) - np.diag(variances)
        largest = float(max(np.max(variances), np.max(with_rows)))
        return variances, largest, Reduced.of(mean, covariance, largest, self.schedule.n_steps)

    def difference_in(
        self,
        space: RequestSpace,
        residuals: Array,
        targets: Array,
        rounding: StepRounding,
        deflated: float | None = None,
    ) -> Callable[[int], ChainDifference]:
        """Delta and C in a space, given the residual means u (R x d x N).

        `deflated` is what a projection left out as rounding error, None for the whole row space.
        """
        eta = self.step_size
        variances, largest, reduced = self.reduced_in(space, mean_difference(space, residuals))
        left_out, lengths = deflated or 0.0, np.linalg.norm(residuals, axis=(0, 1))
        unsure = mean_rounding(self, space, lengths, targets, rounding.error, left_out)

        a, is_whole = space.retained.values, deflated is None

        def before(n_steps: int) -> ChainDifference:
            kept, added = decay(a, eta, n_steps), spread(a, eta, n_steps)
            return ChainDifference(
                n_steps, variances, kept, added, reduced, largest, unsure, rounding, is_whole
            )

        return before
