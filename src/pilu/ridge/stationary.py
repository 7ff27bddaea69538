"""The Gaussian law of a chain that learned at stationarity.

Steps of noise sigma on A converge to theta ~ N(m, I_d (x) h(A)),

    m = A^-1 B,    h(a) = 2 sigma^2 / (a (2 - eta a)).

Learning with `n_steps=None` draws from this law. Later steps on the same problem keep the mean, so
the residual means u = X_f m - Y_f of some rows are the same at every step. What rounding does to
this law is proved in docs/exact.md, "Stationarity".

With A' = A - X_f'X_f, the runs with and without the rows differ by

    Delta = m - m' = -A'^-1 X_f' u,    C = h(A) - h(A')

before any later step, and by Delta at every later one: A' Delta = -X_f'u is where a step leaves it.
The comparison uses the full eigenbasis of A'.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import ChainDifference, Comparison, View
from pilu.chains.schedule import UNIT, StepRounding, mean_size
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision
from pilu.ridge.law import RidgeLaw
from pilu.ridge.spectral import RequestSpace, decay, spread
from pilu.ridge.stationary_sensitivities import StationarySensitivities

Array = NDArray[np.float64]

_UNSURE = 0.05  # of the smallest eigenvalue: beyond it, nothing is certified


@dataclass(frozen=True, eq=False)
class StationaryRidgeLaw(RidgeLaw):
    """The law after learning at stationarity, and at every later step, in an eigenbasis of A."""

    @cached_property
    def minimiser(self) -> Array:
        """Coordinates of m: (r x d)."""
        return np.asarray(self.spectrum.cross / self.spectrum.eigenvalues[:, None])

    @cached_property
    def matrix_error(self) -> float:
        """E: bounds |A - A^|, with any rows and without them. It is at least UNIT |A| / 2."""
        return self.step_error / self.step_size

    @cached_property
    def mean_error(self) -> float:
        """Bounds |A (m - m^)| = |(B - B^) - (A - A^) m^|, with m^ rounded."""
        size = float(np.linalg.norm(self.minimiser))
        return self.push_error / self.step_size + 3 * self.matrix_error * size

    @cached_property
    def n_outside(self) -> int:
        """Directions outside of the basis, in which A is alpha."""
        return self.spectrum.n_parameters - int(self.spectrum.basis.shape[1])

    @cached_property
    def learned_variance(self) -> float:
        """The largest variance of the stationary law, with any rows and without them."""
        ends = np.array([self.spectrum.alpha, self.spectrum.largest])
        return float(np.max(self.learning_variances(ends)))

    def learning_variances(self, a: Array) -> Array:
        """h, for eigenvalues a of A."""
        return np.asarray(
            self.schedule.segments[0].noise ** 2 * spread(a, self.step_size, math.inf)
        )

    def least(self, computed: Array) -> float:
        """A lower bound on the eigenvalues of a matrix, given those computed."""
        unsure, alpha = self.matrix_error, self.spectrum.alpha
        least = max(alpha, float(np.min(computed)) - unsure)
        if not unsure <= _UNSURE * least:
            raise BeyondPrecision(
                f"alpha={alpha:g} is too small beside the largest eigenvalue, "
                f"{self.spectrum.largest:.3g}, for a law at stationarity in double precision. "
                "Scale the columns, use a larger alpha, or redraw."
            )
        return least

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta| up to a deviation, in this run and in every run without some of its rows.

        |A^-1 X'| <= 1 / (2 alpha^1/2), whichever the rows. Steps of later requests follow.
        """
        spectrum, eta = self.spectrum, self.step_size
        Y, steps = spectrum.target_norm, self.schedule.n_steps + n_more_steps
        start = Y / (2 * math.sqrt(spectrum.alpha))
        mean = mean_size(eta, spectrum.largest, start, steps * Y**2, steps * Y)
        later = float(np.sum(self.schedule.variances(eta)))
        return mean + math.sqrt(self.learned_variance + later)

    def covariance_errors(self, computed: Array) -> tuple[float, float]:
        """By how much h(A) may differ from h(A^), relatively: in operator and Frobenius norm.

        With P(a) = a (2 - eta a) and h = 2 sigma^2 / P, |P(A) - P(A^)| <= 2 E. So
        P^^-1/2 P P^^-1/2 = 1 + F with |F| <= 2 E max 1/P^ and |F|_F^2 <= |F| 2 E sum 1/P^.
        """
        eta, unsure = self.step_size, 2 * self.matrix_error * (1 + 1e-6)
        a = np.append(computed, self.spectrum.alpha)
        inverses = 1 / np.maximum(a * (2 - eta * a), 1e-300)
        largest = unsure * float(np.max(inverses))
        if not largest <= 0.5:
            self.least(computed)
            raise BeyondPrecision(
                "step_size is too close to 2/L for a law at stationarity in double precision. Use "
                "step_size='auto'."
            )
        total = float(np.sum(inverses[:-1]) + self.n_outside * inverses[-1])
        return largest / (1 - largest), math.sqrt(largest * unsure * total) / (1 - largest)

    def rounding_against(self, retained: Array) -> StepRounding:
        """Rounding for this run and for one with the eigenvalues `retained`."""
        spectrum, eta, error = self.spectrum, self.step_size, self.step_error
        both = spectrum.eigenvalues, retained
        ends = abs(1 - eta * spectrum.alpha), abs(1 - eta * spectrum.largest)
        # A symmetric error of a square root of a covariance counts twice in it, a triangular one,
        # as of steps, only 2^1/2 times.
        learned = math.sqrt(2) * max(self.covariance_errors(a)[1] for a in both)
        memory = max(self._memory_of(a) for a in both)
        return StepRounding(error, max(ends) + error, memory, eta, self.schedule, learned=learned)

    def _memory_of(self, computed: Array) -> float:
        """Bounds the trace of any Sigma_k over the largest variance of a step before k."""
        a = self.step_size * np.append(computed, self.spectrum.alpha)
        lengths = 1 / np.maximum(a * (2 - a), 1e-300)
        # Twice: `covariance_errors` allows half of a (2 - a) to be an error.
        return 2 * float(np.sum(lengths[:-1]) + self.n_outside * lengths[-1])

    @cached_property
    def variance_profile(self) -> Array:
        """Eigenvalues of Sigma_k along the eigenbasis, for all steps after learning: (r x N)."""
        a, eta = self.spectrum.eigenvalues[:, None], self.step_size
        before, parts = self.learning_variances(a), [np.empty((len(a), 0))]
        for steps, noise in self.schedule.segments[1:]:
            k = np.arange(steps + 1)
            variance = decay(a, eta, k) ** 2 * before + noise**2 * spread(a, eta, k)
            parts.append(variance[:, :-1])
            before = variance[:, -1:]
        return np.concatenate(parts, axis=1)

    def portable(self) -> Self:
        """A copy for rows in coordinates, small to send to other processes."""
        n_outside, law = self.n_outside, super().portable()
        law.__dict__["n_outside"] = n_outside
        return law

    @property
    def sensitivities(self) -> StationarySensitivities:
        """Bounds on gradients at all steps of learning, and at later ones."""
        return StationarySensitivities(self)

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them."""
        Z = self.coordinates(request.X)
        views = [View(_difference(self, Z, request.Y))] if Z.any() else []
        return Comparison(self.schedule, self.n_outputs, iter(views), always_dense=True)


def _difference(
    law: StationaryRidgeLaw, Z: Array, targets: Array
) -> Callable[[int], ChainDifference]:
    """Delta and C in the eigenbasis of A', for rows with coordinates Z."""
    space, eta = RequestSpace.whole(law.spectrum, law.step_size, Z), law.step_size
    a = space.retained.values
    residuals = Z @ law.minimiser - targets
    mean = -(space.retained.rows @ residuals) / a[:, None]
    variances, largest, reduced = law.reduced_in(space, mean)
    unsure = _mean_rounding(law, Z, targets, a, residuals, mean)
    rounding = law.rounding_against(a)

    def before(n_steps: int) -> ChainDifference:
        kept, added = decay(a, eta, n_steps), spread(a, eta, n_steps)
        return _StationaryDifference(
            n_steps, variances, kept, added, reduced, largest, unsure, rounding, retained=a
        )

    return before


def _mean_rounding(
    law: StationaryRidgeLaw,
    Z: Array,
    targets: Array,
    retained: Array,
    residuals: Array,
    mean: Array,
) -> float:
    """Bounds |A'^ (Delta - Delta^)|.

    A' (Delta - Delta^) = -X_f'(u - u^) - (A' - A'^) Delta^, and u - u^ = X_f (m - m^) is
    X_f A^^-1 A^ A^-1 times what `mean_error` bounds.
    """
    a, unsure = law.spectrum.eigenvalues, law.matrix_error
    ratio = 1 + unsure / law.least(retained)  # at least |A^ A^-1|, and |A'^ A'^-1|
    size, m = float(np.linalg.norm(Z)), float(np.linalg.norm(law.minimiser))
    products = UNIT * (2 + math.sqrt(len(a)) / 8)
    u = ratio * float(np.linalg.norm(Z / a)) * law.mean_error
    u += products * (size * m + float(np.linalg.norm(targets)))
    moved = size * (u + 2 * products * float(np.linalg.norm(residuals)))
    return ratio * (moved + 3 * unsure * float(np.linalg.norm(mean)))


@dataclass(frozen=True, eq=False)
class _StationaryDifference(ChainDifference):
    """`mean_rounding` bounds A' times the error of Delta, which is largest where a' is small."""

    retained: Array = field(default_factory=lambda: np.empty(0))  # eigenvalues of A'

    def rounding_errors(self, noise: float) -> tuple[float, float]:
        """What rounding of Delta and of C may amount to once whitened.

        Where a' is small, so is S^-1/2: |S^-1/2 A'^-1 r| <= |r| max 1 / (a' S^1/2).
        """
        variances = self.variances + self.later_variances(noise)
        worst = float(np.max(1 / (self.retained * np.sqrt(variances))))
        _, covariance = super().rounding_errors(noise)
        return self.mean_rounding * worst, covariance
