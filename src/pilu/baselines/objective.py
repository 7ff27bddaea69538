"""The objective as a method's steps see it: squares in the eigenbasis, other losses row by row.

    f(theta) = sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2

Steps are taken on a state: theta itself, or its coordinates in the eigenbasis, where a ball looks
the same and isotropic noise is isotropic.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment
from pilu.losses.loss import Loss
from pilu.ridge.spectral import draw_after, drift
from pilu.ridge.spectrum import Spectrum

__all__ = ["Objective", "QuadraticObjective", "RowObjective", "descended"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Objective(Protocol):
    """What is left of the rows."""

    def zero(self) -> Array:
        """The state of theta = 0."""
        ...

    def theta(self, state: Array) -> Array:
        """The parameters of a state."""
        ...

    def gradient(self, state: Array) -> Array:
        """Of f, as a state."""
        ...

    def without(self, rows: Rows) -> "Objective":
        """The objective of all rows without some."""
        ...

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """Rows that so many steps read once `rows` are left out."""
        ...

    def descended(self, step_size: float, n_steps: int) -> Array:
        """theta after noiseless steps from zero."""
        ...

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """theta after a segment of Langevin steps, or a draw from its law."""
        ...


@dataclass(frozen=True, eq=False)
class QuadraticObjective:
    """Ridge: p numbers stand for all rows, and any number of steps is one formula."""

    spectrum: Spectrum
    X: Array
    Y: Array

    def zero(self) -> Array:
        """The state of theta = 0."""
        return np.zeros_like(self.spectrum.cross)

    def theta(self, state: Array) -> Array:
        """The parameters of a state."""
        return np.asarray(self.spectrum.basis @ state)

    def gradient(self, state: Array) -> Array:
        """A theta - B in the basis."""
        return np.asarray(self.spectrum.times(state) - self.spectrum.cross)

    def without(self, rows: Rows) -> "QuadraticObjective":
        """The same basis, the rows taken out beside it."""
        return replace(self, spectrum=self.spectrum.without(self.X[rows], self.Y[rows]))

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """The requested rows alone."""
        return len(rows)

    def descended(self, step_size: float, n_steps: int) -> Array:
        """n noiseless steps from zero on all rows."""
        return descended(self.spectrum, self.spectrum.cross, step_size, n_steps)

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """One draw."""
        return draw_after(theta, self.spectrum, step_size, segment, gaussian)


def descended(spectrum: Spectrum, cross: Array, step_size: float, n_steps: int) -> Array:
    """n noiseless steps from zero towards A^{-1} B; `cross` is B in the basis."""
    learned = drift(spectrum.eigenvalues[:, None], step_size, n_steps)
    return np.asarray(spectrum.basis @ (learned * cross))


@dataclass(frozen=True, eq=False)
class RowObjective:
    """Any smooth loss: every step reads every row."""

    X: Array
    Y: Array
    loss: Loss
    alpha: float

    def zero(self) -> Array:
        """theta = 0."""
        return np.zeros((self.X.shape[1], self.Y.shape[1]))

    def theta(self, state: Array) -> Array:
        """The state itself."""
        return state

    def gradient(self, state: Array) -> Array:
        """X' dl/dz + alpha theta."""
        return np.asarray(
            self.X.T @ self.loss.gradient(self.X @ state, self.Y) + self.alpha * state
        )

    def without(self, rows: Rows) -> "RowObjective":
        """The rows that are left."""
        X, Y = (np.delete(values, rows, axis=0) for values in (self.X, self.Y))
        return replace(self, X=X, Y=Y)

    def rows_read(self, rows: Rows, n_steps: int) -> int:
        """All that are left, at every step."""
        return n_steps * (len(self.X) - len(rows))

    def descended(self, step_size: float, n_steps: int) -> Array:
        """Step by step."""
        theta = self.zero()
        for _ in range(n_steps):
            theta = theta - step_size * self.gradient(theta)
        return theta

    def walked(
        self, theta: Array, step_size: float, segment: Segment, gaussian: GaussianSource
    ) -> Array:
        """Step by step."""
        unit = math.sqrt(2 * step_size) * segment.noise
        with progress_bar(segment.steps, what="Langevin steps", unit="step") as bar:
            for _ in range(segment.steps):
                theta = theta - step_size * self.gradient(theta)
                theta += unit * gaussian.normal(theta.shape)
                bar.update()
        return theta
