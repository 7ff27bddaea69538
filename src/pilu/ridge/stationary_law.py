"""The law of learning at stationarity, as accountants and forecasts use it.

With m and h of `ridge.stationary`, and A' = A - X_f'X_f,

    Delta = m - m' = -A'^-1 X_f' u,    C = h(A) - h(A')

before any later step, and Delta at every later one: A' Delta = -X_f'u is where a step leaves it.
The comparison uses the full eigenbasis of A'.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import ChainDifference, Comparison, Reduced, View
from pilu.chains.schedule import UNIT
from pilu.data.rows import Request
from pilu.ridge.problem import RidgeLaw
from pilu.ridge.spectral import RequestSpace, decay, spread
from pilu.ridge.stationary import StationaryIterates
from pilu.ridge.stationary_sensitivities import StationarySensitivities

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StationaryRidgeLaw(StationaryIterates, RidgeLaw):
    """Implements `chains.problem.Law`."""

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
    law: StationaryIterates, Z: Array, targets: Array
) -> Callable[[int], ChainDifference]:
    """Delta and C in the eigenbasis of A', for rows with coordinates Z."""
    space, eta = RequestSpace.whole(law.spectrum, law.step_size, Z), law.step_size
    a = space.retained.values
    residuals = Z @ law.minimiser - targets
    mean = -(space.retained.rows @ residuals) / a[:, None]
    variances, with_rows = law.final_variances(np.stack([a, space.own.values]))
    covariance = space.turn.T @ (with_rows[:, None] * space.turn) - np.diag(variances)
    largest = float(max(np.max(variances), np.max(with_rows)))
    reduced = Reduced.of(mean, covariance, largest, law.schedule.n_steps)
    unsure = _mean_rounding(law, Z, targets, a, residuals, mean)
    rounding = law.rounding_against(a)

    def before(n_steps: int) -> ChainDifference:
        kept, added = decay(a, eta, n_steps), spread(a, eta, n_steps)
        return _StationaryDifference(
            n_steps, variances, kept, added, reduced, largest, unsure, rounding, retained=a
        )

    return before


def _mean_rounding(
    law: StationaryIterates,
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
