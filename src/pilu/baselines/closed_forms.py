"""Ridge regression in closed form, in the eigenbasis of all rows: what only squares have."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.problem import Run
from pilu.data.statistics import Statistics
from pilu.exceptions import WrongInput
from pilu.ridge.problem import RidgeLaw
from pilu.ridge.spectral import Spectrum

__all__ = ["ClosedForms", "check_conditioning"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_TOLERATED = 1e-5  # relative error up to which a solution is exact "up to rounding"


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """A = X'X + alpha I, B = X'Y, and what follows from them."""

    X: Array
    Y: Array
    alpha: float

    @property
    def gram(self) -> Array:
        """X'X."""
        return self._statistics.gram

    @property
    def cross(self) -> Array:
        """B."""
        return self._statistics.cross

    @cached_property
    def _statistics(self) -> Statistics:
        p, d = self.X.shape[1], self.Y.shape[1]
        return Statistics.of_rows([(self.X, self.Y)], p, d, fit_intercept=False)

    @cached_property
    def spectrum(self) -> Spectrum:
        """A in its eigenbasis, complete even if p > n."""
        spectrum = Spectrum.of_statistics(self.gram, self.cross, self.alpha)
        return replace(spectrum, target_norm=float(np.linalg.norm(self.Y)))

    def law(self, run: Run) -> RidgeLaw:
        """The law of Langevin steps on all rows."""
        return RidgeLaw(self.spectrum, *run, self._statistics.error)

    def without(self, rows: Rows) -> "ClosedForms":
        """The closed forms of the other rows, summed again."""
        X, Y = (np.delete(values, rows, axis=0) for values in (self.X, self.Y))
        return replace(self, X=X, Y=Y)

    def solve(self, right: Array) -> Array:
        """A^{-1} times a matrix that is given in the eigenbasis."""
        check_conditioning(self._condition, len(self.spectrum.basis), self.alpha)
        return np.asarray(self.spectrum.basis @ (right / self.spectrum.eigenvalues[:, None]))

    def minimiser(self) -> Array:
        """A^{-1} B."""
        return self.solve(self.spectrum.cross)

    def leave_out(self, theta: Array, rows: Rows) -> Array:
        """Theta without the pull of some rows, A'^{-1} (A theta - X_f'Y_f), by Woodbury."""
        solved = self.solve(self.spectrum.basis.T @ self.X[rows].T)
        return theta + solved @ self.left_out_residuals(theta, rows)

    def left_out_residuals(self, theta: Array, rows: Rows) -> Array:
        """(I - H)^{-1} (X_f theta - Y_f), with H = X_f A^{-1} X_f' their block of the hat matrix.

        For the minimiser theta these are X_f theta' - Y_f, with theta' the minimiser without them.
        """
        X = self.X[rows]
        H = X @ self.solve(self.spectrum.basis.T @ X.T)
        gap = np.eye(len(H)) - (H + H.T) / 2
        least = max(float(np.linalg.eigvalsh(gap)[0]), 0.0)
        condition = self._condition / least if least > 0 else math.inf
        check_conditioning(condition, len(self.spectrum.basis), self.alpha)
        return np.asarray(scipy.linalg.solve(gap, X @ theta - self.Y[rows], assume_a="sym"))

    @property
    def _condition(self) -> float:
        least = float(np.min(self.spectrum.eigenvalues))
        return self.spectrum.largest / least if least > 0 else math.inf


def check_conditioning(condition: float, size: int, alpha: float) -> None:
    """Refuse linear systems whose solutions rounding may spoil."""
    if not size * np.finfo(np.float64).eps * condition < _TOLERATED:
        raise WrongInput(
            "alpha must be large enough to solve the problem to five digits, and what is left of "
            f"it without the requested rows, got alpha={alpha} for a condition of {condition:.1g}. "
            "Some features are linearly dependent, or occur in the requested rows only: pass a "
            "larger alpha, or retrain."
        )
