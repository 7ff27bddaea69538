"""Numbers with few digits, always on the safe side: for records that should tell little of a row.

A number that was calibrated to a row is a function of it. With sixteen digits it tells one guess at
the row from any other; rounded up to a coarse grid it says about as much as its order of magnitude.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Curve

__all__ = ["CoarseCurve", "two_digits_up", "up_to_grid"]

Array = NDArray[np.float64]

_PER_OCTAVE = 2  # for deltas: later totals are a little looser, and tell less


def up_to_grid(value: float, per_octave: int) -> float:
    """The least power of 2^(1/per_octave) that is not below a number > 0."""
    step = math.ceil(per_octave * math.log2(value) - 1e-9)
    found = math.pow(2.0, step / per_octave)
    return found if found >= value else math.pow(2.0, (step + 1) / per_octave)


def two_digits_up(error: float) -> float:
    """An error bound with two digits, not below the error.

    >>> two_digits_up(1.2345e-14)
    1.3e-14
    """
    if error == 0.0 or math.isinf(error):
        return error
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return float(f"{math.ceil(error / unit * (1 + 1e-12)) * unit:.1e}")


@dataclass(frozen=True)
class CoarseCurve:
    """A privacy curve whose deltas are rounded up to a coarse grid."""

    curve: Curve

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, never too small."""
        fine = self.curve.deltas(epsilons)
        return np.array([min(up_to_grid(d, _PER_OCTAVE), 1.0) if d > 0 else 0.0 for d in fine])
