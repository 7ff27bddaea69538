"""What a task knows in closed form where its loss is the square: the eigenbasis of all rows."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu.dynamics.schedule import Schedule, Segment
from pilu.laws.iterates import IterateLaw
from pilu.ridge.spectrum import Spectrum

__all__ = ["RidgeParts"]

Array = NDArray[np.float64]


class RidgeParts:
    """Ridge-only properties; for another loss each of them refuses."""

    X: Array
    Y: Array
    alpha: float
    n_steps: int
    noise: float
    step_size: float

    def check_ridge(self, name: str) -> None:
        """Refuse other losses than the square."""
        raise NotImplementedError

    @cached_property
    def gram(self) -> Array:
        """X'X."""
        self.check_ridge("X'X as a statistic of the problem")
        return np.asarray(self.X.T @ self.X)

    @cached_property
    def cross(self) -> Array:
        """B = X'Y."""
        self.check_ridge("X'Y as a statistic of the problem")
        return np.asarray(self.X.T @ self.Y)

    @cached_property
    def spectrum(self) -> Spectrum:
        """A = X'X + alpha I in its eigenbasis, complete also where p > n."""
        return Spectrum.of_statistics(self.gram, self.cross, self.alpha)

    @cached_property
    def law(self) -> IterateLaw:
        """The law of Algorithm A on all rows."""
        schedule = Schedule((Segment(self.n_steps, self.noise),))
        start = np.zeros((self.X.shape[1], self.Y.shape[1]))
        return IterateLaw(self.spectrum, self.step_size, schedule, start)
