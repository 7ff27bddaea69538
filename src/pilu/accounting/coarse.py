"""Numbers with few digits, always on the safe side: for records that should tell little of a row.

A number that was calibrated to a row is a function of it. With sixteen digits it tells one guess at
the row from any other; rounded up to a coarse grid it says about as much as its order of magnitude.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Curve
from pilu.accounting.gdp import delta_from_mu

__all__ = ["CoarseCurve", "decade_up", "two_digits_up"]

Array = NDArray[np.float64]

_ERROR_AS_GOOD_AS_NONE = 1e-9
# Rungs of a ladder of Gaussian curves, as octaves of mu: few below, where deltas are small anyway.
_RUNGS = np.array([-3.0, -2.0, -1.0, *(k / 4 for k in range(17))])


def two_digits_up(error: float) -> float:
    """An error bound with two digits, not below the error.

    >>> two_digits_up(1.2345e-14)
    1.3e-14
    """
    if error == 0.0 or math.isinf(error):
        return error
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return float(f"{math.ceil(error / unit * (1 + 1e-12)) * unit:.1e}")


def decade_up(error: float) -> float:
    """The least power of ten that is not below an error; 1e-9 will do for smaller ones.

    >>> decade_up(3e-8)
    1e-07
    """
    if error <= _ERROR_AS_GOOD_AS_NONE or math.isinf(error):
        return max(error, _ERROR_AS_GOOD_AS_NONE)
    found = 10.0 ** math.ceil(math.log10(error) - 1e-12)
    return found if found >= error else 10.0 * found


@dataclass(frozen=True)
class CoarseCurve:
    """A privacy curve rounded up to the next of a ladder of Gaussian curves, at every epsilon.

    The curve of a calibrated request is nearly that of the Gaussian mechanism with its (epsilon,
    delta), whose `mu` the ladder goes up and down from: on most rungs stands nobody.
    """

    curve: Curve
    mu: float

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, never too small."""
        fine, e = self.curve.deltas(epsilons), np.asarray(epsilons, dtype=np.float64)
        mus = self.mu * 2.0 ** _RUNGS[:, None]
        ladder = np.vstack([delta_from_mu(mus, e[None, :]), np.ones(len(e))])
        return np.asarray(ladder[np.argmax(ladder >= fine, axis=0), np.arange(len(e))])
