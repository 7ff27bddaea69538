"""What a task knows in closed form where its loss is the square: the eigenbasis of all rows."""

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu.chains.schedule import Schedule, Segment
from pilu.data.statistics import Statistics
from pilu.ridge.law import RidgeLaw
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

    @property
    def gram(self) -> Array:
        """X'X."""
        self.check_ridge("X'X as a statistic of the problem")
        return self._statistics.gram

    @property
    def cross(self) -> Array:
        """B = X'Y."""
        self.check_ridge("X'Y as a statistic of the problem")
        return self._statistics.cross

    @cached_property
    def _statistics(self) -> Statistics:
        p, d = self.X.shape[1], self.Y.shape[1]
        return Statistics.of_rows([(self.X, self.Y)], p, d, fit_intercept=False)

    @cached_property
    def spectrum(self) -> Spectrum:
        """A = X'X + alpha I in its eigenbasis, complete also where p > n."""
        found = Spectrum.of_statistics(self.gram, self.cross, self.alpha)
        return replace(found, target_norm=float(np.linalg.norm(self.Y)))

    @cached_property
    def law(self) -> RidgeLaw:
        """The law of Algorithm A on all rows."""
        schedule = Schedule((Segment(self.n_steps, self.noise),))
        start = np.zeros((self.X.shape[1], self.Y.shape[1]))
        error = self._statistics.error
        return RidgeLaw(self.spectrum, self.step_size, schedule, start, error)
