"""Sufficient statistics of ridge regression: X'X and X'Y, in one pass over blocks of rows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Statistics"]

Array = NDArray[np.float64]

_ROUNDING = 1e-15  # of collecting, and of each subtraction


@dataclass(frozen=True, eq=False)
class Statistics:
    """X'X, X'Y and what is known of their rounding error (relative to their norms)."""

    gram: Array
    cross: Array
    target_energy: float
    error: float = _ROUNDING

    @classmethod
    def collect(cls, blocks: Iterable[tuple[Array, Array]], p: int, d: int) -> "Statistics":
        """Accumulate in float64, whatever the rows' dtype was."""
        gram, cross, energy = np.zeros((p, p)), np.zeros((p, d)), 0.0
        for x, y in blocks:
            gram += x.T @ x
            cross += x.T @ y
            energy += float(np.sum(y * y))
        return cls(gram, cross, energy)

    def without(self, x: Array, y: Array) -> "Statistics":
        """Subtract rows. `error` grows by what the subtraction cancels."""
        gram = self.gram - x.T @ x
        cross = self.cross - x.T @ y
        energy = self.target_energy - float(np.sum(y * y))
        return Statistics(gram, cross, energy, self.error_without(x, y))

    def error_without(self, x: Array, y: Array) -> float:
        """`error` once rows are subtracted, at no more cost than reading them."""
        before = float(np.trace(self.gram))
        after, energy = before - float(np.sum(x * x)), self.target_energy - float(np.sum(y * y))
        shrink = max(
            _ratio(before, after), math.sqrt(_ratio(before * self.target_energy, after * energy))
        )
        return (self.error + _ROUNDING) * shrink


def _ratio(before: float, after: float) -> float:
    if before == 0.0:
        return 1.0
    return before / after if after > 0.0 else math.inf
