"""Closed forms of ridge regression that several methods share, in the eigenbasis of all rows."""

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.baselines.interface import Rows, Task, without
from pilu.baselines.objective import descended
from pilu.exceptions import WrongInput
from pilu.ridge.spectrum import Spectrum

__all__ = [
    "check_conditioning",
    "descended",
    "leave_out",
    "left_out_residuals",
    "minimiser",
    "retained_spectrum",
]

Array = NDArray[np.float64]

_TOLERATED = 1e-5  # relative error of a solution, past which it is no longer "up to rounding"


def minimiser(spectrum: Spectrum, cross: Array) -> Array:
    """A^{-1} B; `cross` is B in the basis."""
    return np.asarray(spectrum.basis @ _divided(spectrum, cross))


def leave_out(task: Task, theta: Array, rows: Rows) -> Array:
    """theta with the rows' pull taken out, A'^{-1} (A theta - X_f'Y_f), by Woodbury's formula."""
    spectrum = task.spectrum
    solved = minimiser(spectrum, spectrum.basis.T @ task.X[rows].T)
    return theta + solved @ left_out_residuals(task, theta, rows)


def left_out_residuals(task: Task, theta: Array, rows: Rows) -> Array:
    """(I - H)^{-1} (X_f theta - Y_f), H = X_f A^{-1} X_f' the rows' block of the hat matrix.

    For the minimiser, X_f theta' - Y_f without the rows.
    """
    X, spectrum = task.X[rows], task.spectrum
    H = X @ minimiser(spectrum, spectrum.basis.T @ X.T)
    gap = np.eye(len(H)) - (H + H.T) / 2
    least = max(float(np.linalg.eigvalsh(gap)[0]), 0.0)
    condition = _condition(spectrum) / least if least > 0 else math.inf
    check_conditioning(condition, len(spectrum.basis), task.alpha)
    return np.asarray(scipy.linalg.solve(gap, X @ theta - task.Y[rows], assume_a="sym"))


def retained_spectrum(task: Task, rows: Rows) -> Spectrum:
    """The eigenbasis without the rows, from those that are left."""
    X, Y = without(task, rows)
    return Spectrum.of_statistics(X.T @ X, X.T @ Y, task.alpha)


def check_conditioning(condition: float, size: int, alpha: float) -> None:
    """Refuse linear systems whose solution rounding may spoil."""
    if not size * np.finfo(np.float64).eps * condition < _TOLERATED:
        raise WrongInput(
            f"alpha must be large enough for the problem, and what is left of it, to be solved to "
            f"five digits, got alpha={alpha} for a condition of {condition:.1g}. Some features are "
            "linearly dependent, or rest on the requested rows alone: pass a larger alpha, or "
            "retrain."
        )


def _condition(spectrum: Spectrum) -> float:
    least = float(np.min(spectrum.eigenvalues))
    return spectrum.largest / least if least > 0 else math.inf


def _divided(spectrum: Spectrum, coordinates: Array) -> Array:
    check_conditioning(_condition(spectrum), len(spectrum.basis), spectrum.alpha)
    return np.asarray(coordinates / spectrum.eigenvalues[:, None])
