"""Numbers with few digits, always on the safe side, for records that should reveal little of a row.

A number that was calibrated to a row is a function of it. With sixteen digits it distinguishes one
guess at the row from any other. Rounded up to a coarse grid it reveals little more than its order
of magnitude.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Curve
from pilu.accounting.gdp import delta_from_mu

__all__ = ["CoarseCurve", "decade_up", "two_digits_up"]

Array = NDArray[np.float64]

_NEGLIGIBLE_ERROR = 1e-9
# Rungs of a ladder of Gaussian curves, as octaves of mu: few below, where deltas are small.
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
    """The least power of ten that is not below an error, and at least 1e-9.

    >>> decade_up(3e-8)
    1e-07
    """
    if error <= _NEGLIGIBLE_ERROR or math.isinf(error):
        return max(error, _NEGLIGIBLE_ERROR)
    power = 10.0 ** math.ceil(math.log10(error) - 1e-12)
    return power if power >= error else 10.0 * power


@dataclass(frozen=True)
class CoarseCurve:
    """A privacy curve rounded up to the next of a ladder of Gaussian curves, at every epsilon.

    The ladder starts from the `mu` of the Gaussian mechanism with the request's (epsilon, delta).
    The curve of a calibrated request is close to that mechanism's, so most rungs are never used.
    """

    curve: Curve
    mu: float

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, never too small."""
        fine, e = self.curve.deltas(epsilons), np.asarray(epsilons, dtype=np.float64)
        mus = self.mu * 2.0 ** _RUNGS[:, None]
        ladder = np.vstack([delta_from_mu(mus, e[None, :]), np.ones(len(e))])
        return np.asarray(ladder[np.argmax(ladder >= fine, axis=0), np.arange(len(e))])
