"""Sensitivity bounds of a chain that learned at stationarity   [docs/exact.md, "Stationarity"]."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.accounting.endless import window_length, window_tails
from pilu.chains.schedule import deviation_errors
from pilu.chains.sensitivities import ROUNDING, gaussian_norm_bound
from pilu.data.rows import Request
from pilu.ridge.sensitivities import RidgeSensitivities

if TYPE_CHECKING:
    from pilu.ridge.stationary import StationaryRidgeLaw

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StationarySensitivities(RidgeSensitivities):
    """Bounds for windows of learning steps, and for every later step, as `endless` takes them."""

    law: "StationaryRidgeLaw"

    def check_options(self, *, group: str, strong_convexity: str) -> None:
        """Groups are bounded by the sum of their rows."""
        if group != "sum":
            raise complaint("group", "'sum' for learning at stationarity", group)

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row on its own: (n x (G + 1 + N)) for N steps after learning.

        u and v are the same at all steps of learning. They are those of a chain that starts at m,
        and for which v is smaller at every step (docs/exact.md).
        """
        law, N = self.law, self.law.schedule.n_steps
        Z, norms = law.coordinates(rows.X), np.sqrt(np.sum(np.square(rows.X), axis=1))
        u, root_v = self._residual_means(rows, Z, norms), self._deviations(Z)
        share = 0.5 if N else 1.0  # of the slack, for learning
        tails = window_tails(share * slack, window_length(law.step_size * law.alpha))
        parts = [gaussian_norm_bound(u, root_v, law.n_outputs, t)[:, None] for t in tails[:-1]]
        # Past the windows, |u| + v^1/2 (d^1/2 + (2 log 1/tail)^1/2) grows slower than linearly.
        reach = math.sqrt(law.n_outputs) + math.sqrt(-2 * math.log(tails[-1]))
        parts.append((u + root_v * reach)[:, None])
        if N:
            later = np.sqrt(law.residual_variances(Z)) + norms[:, None] * self._later_errors()
            mean = np.broadcast_to(u[:, None], later.shape)
            parts.append(gaussian_norm_bound(mean, later, law.n_outputs, slack / (2 * N)))
        return np.asarray(np.hstack(parts) * law.step_size * norms[:, None] * (1 + ROUNDING))

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group."""
        return np.asarray(np.sum(self.of_each(rows, slack / len(rows.X)), axis=0))

    def _residual_means(self, rows: Request, Z: Array, norms: Array) -> Array:
        law, a = self.law, self.law.spectrum.eigenvalues
        least = law.least(a)
        u = np.linalg.norm(Z @ law.minimiser - rows.Y, axis=1)
        u += np.linalg.norm(Z / a, axis=1) * (1 + law.matrix_error / least) * law.mean_error
        m = float(np.linalg.norm(law.minimiser))
        return np.asarray(u + ROUNDING * (norms * m + np.linalg.norm(rows.Y, axis=1)))

    def _deviations(self, Z: Array) -> Array:
        """Of the stationary law."""
        law, (relative, _) = self.law, self.law.covariance_errors(self.law.spectrum.eigenvalues)
        variances = law.learning_variances(law.spectrum.eigenvalues)
        return np.asarray(np.sqrt(np.square(Z) @ variances * (1 + relative)))

    def _later_errors(self) -> Array:
        """Bounds on the rounding error of sqrt(x'Sigma_k x) for |x| = 1 at later steps: (N,)."""
        law, (relative, _) = self.law, self.law.covariance_errors(self.law.spectrum.eigenvalues)
        k, e = np.arange(law.schedule.n_steps), law.step_error
        learned = 2 * math.sqrt(law.learned_variance) * (relative + k * e)
        return learned + deviation_errors(e, law.schedule.variances(law.step_size))
