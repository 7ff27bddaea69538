"""Standard rows as affine images of the table's own numbers, where they are.

Without transformers, or behind a `StandardScaler`, a standard row is z = (x - c)/q in exact
arithmetic, with c and q functions of the table. Statistics of one run can then be expressed in the
coordinates of the next.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from pilu.refit.coordinates import Coordinates
from pilu.refit.held_rows import Table

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Front:
    """What stands between a table's numbers and standard rows: a scaler or nothing."""

    mean: Array
    scale: Array
    scaled: bool  # whether there is a scaler, which rounds
    coordinates: Coordinates

    def rows(self, x: Array) -> Array:
        """Standard rows of rows of the table, rounded as in a run."""
        if self.scaled:
            x = (x - self.mean) / self.scale
        rows: Array = self.coordinates.rows(x)
        return rows

    @property
    def centre(self) -> Array:
        """The value of each column where z is zero, up to rounding."""
        centre: Array = self.mean + self.scale * self.coordinates.shift
        return centre

    @property
    def unit(self) -> Array:
        """The step of each column where z moves by 1, up to rounding."""
        unit: Array = self.scale * self.coordinates.scale
        return unit

    @property
    def left_over(self) -> float:
        """Norm of what the scaler leaves of the means."""
        return float(np.linalg.norm(self.coordinates.shift)) * 1.01 if self.scaled else 0.0


def front_of(steps: list[tuple[str, Any]], table: Table, coordinates: Coordinates) -> Front | None:
    """The front of a fitted pipeline; None where rows are not exact numbers, or not affine."""
    if not _exact_numbers(table.X):
        return None
    p = len(coordinates.scale)
    active = [step for _, step in steps if step not in (None, "passthrough")]
    if not active:
        return Front(np.zeros(p), np.ones(p), False, coordinates)
    if len(active) > 1 or type(active[0]) is not StandardScaler:
        return None
    scaler = active[0]
    if scaler.with_mean and not coordinates.free_intercept:
        return None  # without an intercept, rows do not move with the means
    mean = np.array(scaler.mean_) if scaler.with_mean else np.zeros(p)
    scale = np.array(scaler.scale_) if scaler.with_std else np.ones(p)
    if mean.dtype != np.float64 or scale.dtype != np.float64 or len(mean) != p:
        return None
    return Front(mean, scale, True, coordinates)


def _exact_numbers(X: Any) -> bool:
    if hasattr(X, "iloc"):
        return all(dtype == np.float64 for dtype in X.dtypes)
    return isinstance(X, np.ndarray) and X.dtype == np.float64
