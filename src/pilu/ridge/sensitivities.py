"""Sensitivity bounds of a full-batch ridge chain   [PILU, Thm 1(i)]."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.sensitivities import (
    ROUNDING,
    Sensitivities,
    contraction_between,
    joint_norm_bounds,
    row_norm_bounds,
)
from pilu.data.rows import Request
from pilu.ridge.spectral import Spectrum

if TYPE_CHECKING:
    from pilu.ridge.law import RidgeLaw

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RidgeSensitivities(Sensitivities):
    """Sensitivity bounds of a full-batch chain.

    Iterate 0 is deterministic and needs no tail. The paper's union bound over all steps is kept.
    """

    law: "RidgeLaw"

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row on its own: (n x N)."""
        return self._of_each(rows, slack / self.law.schedule.n_steps)

    def _of_each(self, rows: Request, tail: float) -> Array:
        law, (X, Y, _) = self.law, rows
        Z, errors = law.coordinates(X), law.mean_errors + ROUNDING * law.mean_norms
        u, v = law.residual_mean_norms(Z, Y), law.residual_variances(Z)
        return row_norm_bounds(X, Y, u, v, errors, law.deviation_errors, law.step_size, tail)

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)   [PILU, Cor. group-unlearning]."""
        each = self._of_each(rows, slack / (len(rows.X) * self.law.schedule.n_steps))
        return np.asarray(np.sum(each, axis=0))

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The norm of the group's summed gradient, bounded as one Gaussian matrix: (N,)."""
        law, (X, Y, _) = self.law, rows
        Z = law.coordinates(X)
        covariances = ((Z * variances) @ Z.T for variances in law.variance_profile.T)
        tail = slack / law.schedule.n_steps
        bounds = joint_norm_bounds(
            X,
            Y,
            law.residual_means(Z, Y),
            covariances,
            law.mean_errors + ROUNDING * law.mean_norms,
            law.deviation_errors,
            tail,
            ROUNDING,
        )
        return np.asarray(law.step_size * bounds)

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c = max(|1 - eta m|, |1 - eta L|) of the retained problem   [PILU, Assumption 1]."""
        law, spectrum = self.law, self.law.spectrum
        m = spectrum.alpha
        if strong_convexity == "retained":
            unsure = law.statistics_error * spectrum.largest
            m = max(m, smallest_without(spectrum, rows.X) - unsure)
        return contraction_between(m, spectrum.largest, law.step_size)


def smallest_without(spectrum: Spectrum, X: Array) -> float:
    """A lower bound, at least alpha, on the smallest eigenvalue of A - X'X for rows X.

    One row x shifts the smallest eigenvalue to the root of the secular equation
    sum_l (v_l'x)^2 / (w_l - t) = 1 below w_min. Several rows need an eigenproblem.
    """
    if spectrum.has_complement:
        return spectrum.alpha
    z = X @ spectrum.basis
    margin = 8 * np.finfo(np.float64).eps * (len(spectrum.eigenvalues) + 2) * spectrum.largest
    if len(X) == 1:
        bound = _secular_root(spectrum.eigenvalues, z[0])
    else:
        retained = np.diag(spectrum.eigenvalues) - z.T @ z
        bound = float(
            scipy.linalg.eigh(
                retained, eigvals_only=True, subset_by_index=(0, 0), check_finite=False
            )[0]
        )
    return max(spectrum.alpha, bound - margin)


def _secular_root(eigenvalues: Array, z: Array) -> float:
    energy, lowest = z * z, float(np.min(eigenvalues))
    low, high = lowest - float(np.sum(energy)), lowest
    for _ in range(100):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        if np.sum(energy / (eigenvalues - middle)) <= 1.0:
            low = middle
        else:
            high = middle
    return low
