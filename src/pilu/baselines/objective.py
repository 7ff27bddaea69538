"""The objective that a method steps on: squares in the eigenbasis, other losses row by row.

    f(theta) = sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2

Steps are taken on a state: theta itself, or its coordinates in the eigenbasis. There a ball is the
same ball, and isotropic noise is isotropic.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource
from pilu.chains.schedule import Segment
from pilu.losses.loss import Loss
from pilu.ridge.spectral import Spectrum, draw_after, drift

__all__ = ["Objective", "QuadraticObjective", "RowObjective", "descended"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Objective(Protocol):
    """f of some rows."""

    def zero(self) -> Array:
        """The state of theta = 0."""
        ...

    def theta(self, state: Array) -> Array:
        """The parameters of a state."""
        ...

    def gradient(self, state: Array, step: int = 0) -> Array:
        """The gradient of f as a state, the same at every step."""
        ...

    def without(self, rows: Rows) -> "Objective":
        """The objective without some of its rows."""
        ...

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """How many rows `n_steps` steps read once `rows` are left out."""
        ...

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """Theta after a segment of Langevin steps, or a draw from its law."""
        ...


@dataclass(frozen=True, eq=False)
class QuadraticObjective:
    """Ridge: the eigenbasis replaces all rows, and any number of steps is one formula."""

    spectrum: Spectrum
    X: Array
    Y: Array

    def zero(self) -> Array:
        """The state of theta = 0."""
        return np.zeros_like(self.spectrum.cross)

    def theta(self, state: Array) -> Array:
        """The parameters of a state."""
        return np.asarray(self.spectrum.basis @ state)

    def gradient(self, state: Array, step: int = 0) -> Array:
        """A theta - B in the basis."""
        return np.asarray(self.spectrum.times(state) - self.spectrum.cross)

    def without(self, rows: Rows) -> "QuadraticObjective":
        """The same basis, with the rows kept beside it as a correction."""
        return replace(self, spectrum=self.spectrum.without(self.X[rows], self.Y[rows]))

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """The requested rows only."""
        return len(rows)

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """One draw."""
        return draw_after(theta, self.spectrum, step_size, segment, gaussian)


def descended(spectrum: Spectrum, pull: Array, step_size: float, n_steps: int) -> Array:
    """Theta after noiseless steps from zero; `pull`, in the basis, is B or what replaces it."""
    moved = drift(spectrum.eigenvalues[:, None], step_size, n_steps)
    return np.asarray(spectrum.basis @ (moved * pull))


@dataclass(frozen=True, eq=False)
class RowObjective:
    """Any smooth loss: every step reads every row."""

    X: Array
    Y: Array
    loss: Loss
    alpha: float

    def zero(self) -> Array:
        """Theta = 0."""
        return np.zeros((self.X.shape[1], self.Y.shape[1]))

    def theta(self, state: Array) -> Array:
        """The state itself."""
        return state

    def gradient(self, state: Array, step: int = 0) -> Array:
        """X' dl/dz + alpha theta."""
        slopes = self.loss.gradient(self.X @ state, self.Y)
        return np.asarray(self.X.T @ slopes + self.alpha * state)

    def without(self, rows: Rows) -> "RowObjective":
        """The other rows."""
        X, Y = (np.delete(values, rows, axis=0) for values in (self.X, self.Y))
        return replace(self, X=X, Y=Y)

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """The other rows at every step."""
        return n_steps * (len(self.X) - len(rows))

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """Step by step."""
        return walk(theta, self.gradient, step_size, segment, gaussian)
