"""The objective that a method steps on: squares in the eigenbasis, other losses row by row.

    f(theta) = sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2

Steps are taken on a state: theta itself, or its coordinates in the eigenbasis. There a ball is the
same ball, and isotropic noise is isotropic. `ClosedForms` is what only squares have.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Run
from pilu.chains.schedule import Segment
from pilu.data.statistics import Statistics
from pilu.exceptions import WrongInput
from pilu.losses.loss import Loss
from pilu.ridge.law import RidgeLaw
from pilu.ridge.spectral import Spectrum, draw_after, drift

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_TOLERATED = 1e-5  # relative error up to which a solution is exact "up to rounding"


@dataclass(frozen=True, eq=False)
class QuadraticObjective:
    """Ridge: the eigenbasis replaces all rows, and any number of steps is one formula."""

    spectrum: Spectrum
    X: Array
    Y: Array

    def theta(self, state: Array) -> Array:
        """The parameters of a state."""
        return np.asarray(self.spectrum.basis @ state)

    def gradient(self, state: Array, step: int = 0) -> Array:
        """The gradient of f, A theta - B, in the basis; the same at every step."""
        return np.asarray(self.spectrum.times(state) - self.spectrum.cross)

    def without(self, rows: Rows) -> "QuadraticObjective":
        """The same basis, with the rows kept beside it as a correction."""
        return replace(self, spectrum=self.spectrum.without(self.X[rows], self.Y[rows]))

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """How many rows `n_steps` steps read once `rows` are left out: only these."""
        return len(rows)

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """Theta after a segment of Langevin steps: one draw from its law."""
        return draw_after(theta, self.spectrum, step_size, segment, gaussian)


def descended(spectrum: Spectrum, pull: Array, step_size: float, n_steps: int) -> Array:
    """Theta after noiseless steps from zero; `pull`, in the basis, is B or what replaces it."""
    moved = drift(spectrum.eigenvalues[:, None], step_size, n_steps)
    return np.asarray(spectrum.basis @ (moved * pull))


@dataclass(frozen=True, eq=False)
class RowObjective:
    """Any smooth loss: every step reads every row. A perturbation b adds <b, theta> to f."""

    X: Array
    Y: Array
    loss: Loss
    alpha: float
    b: Array | float = 0.0

    def theta(self, state: Array) -> Array:
        """The state itself."""
        return state

    def gradient(self, state: Array, step: int = 0) -> Array:
        """The gradient of f, X' dl/dz + alpha theta + b; the same at every step."""
        slopes = self.loss.gradient(self.X @ state, self.Y)
        return np.asarray(self.X.T @ slopes + self.alpha * state + self.b)

    def without(self, rows: Rows) -> "RowObjective":
        """The other rows."""
        X, Y = (np.delete(values, rows, axis=0) for values in (self.X, self.Y))
        return replace(self, X=X, Y=Y)

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """How many rows `n_steps` steps read once `rows` are left out: the others at each."""
        return n_steps * (len(self.X) - len(rows))

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """Theta after a segment of Langevin steps."""
        return walk(theta, self.gradient, step_size, segment, gaussian)


Objective = QuadraticObjective | RowObjective


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """A = X'X + alpha I, B = X'Y, and what follows from them."""

    X: Array
    Y: Array
    alpha: float

    @cached_property
    def statistics(self) -> Statistics:
        """X'X and B."""
        p, d = self.X.shape[1], self.Y.shape[1]
        return Statistics.of_rows([(self.X, self.Y)], p, d, fit_intercept=False)

    @cached_property
    def spectrum(self) -> Spectrum:
        """A in its eigenbasis, complete even if p > n."""
        sums = self.statistics
        spectrum = Spectrum.of_statistics(sums.gram, sums.cross, self.alpha)
        return replace(spectrum, target_norm=float(np.linalg.norm(self.Y)))

    def law(self, run: Run) -> RidgeLaw:
        """The law of Langevin steps on all rows."""
        return RidgeLaw(self.spectrum, *run, self.statistics.error)

    def solve(self, right: Array) -> Array:
        """A^{-1} times a matrix that is given in the eigenbasis."""
        self._check(1.0)
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
        self._check(float(np.linalg.eigvalsh(gap)[0]))
        return np.asarray(scipy.linalg.solve(gap, X @ theta - self.Y[rows], assume_a="sym"))

    def _check(self, gap: float) -> None:
        """Refuse systems in A, and in I - H if `gap` is its least eigenvalue."""
        least = float(np.min(self.spectrum.eigenvalues))
        condition = self.spectrum.largest / least / gap if min(least, gap) > 0 else math.inf
        check_conditioning(condition, len(self.spectrum.basis), self.alpha)


def check_conditioning(condition: float, size: int, alpha: float) -> None:
    """Refuse linear systems whose solutions rounding may spoil."""
    if not size * np.finfo(np.float64).eps * condition < _TOLERATED:
        raise WrongInput(
            "alpha must be large enough to solve the problem to five digits, and what is left of "
            f"it without the requested rows, got alpha={alpha} for a condition of {condition:.1g}. "
            "Some features are linearly dependent, or occur in the requested rows only: pass a "
            "larger alpha, or retrain."
        )
