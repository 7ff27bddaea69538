"""How far learning is from the minimiser, as the data holder would notice it.

The error of a model is its loss as a share of the loss of a constant, 1 - R2 for least squares.
What learning has reached is compared with what the minimiser would reach. For ridge both are known.
For other problems a few steps of a better descent show how much more can be reached at least, so
that no run near its minimiser is called far from it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

__all__ = ["Shortfall", "shortfall_by_descent"]

Array = NDArray[np.float64]

_LARGE = 0.02  # of the share explained (R2) that is missing
_SMALL = 0.002  # less than this is never noticed
_WORSE = 1.2  # error, relative to the minimiser's: 10% in the RMSE


class Shortfall(NamedTuple):
    """The share of the loss that is explained: reached by learning, and reachable."""

    reached: float
    reachable: float

    @property
    def is_large(self) -> bool:
        """Whether 0.02 are missing, or 0.002 that make the error 20% larger (the RMSE 10%)."""
        missing = self.reachable - self.reached
        worse = 1 - self.reached > _WORSE * (1 - self.reachable)
        return missing > _LARGE or (missing > _SMALL and worse)


def shortfall_by_descent(
    objective: Callable[[Array], tuple[float, Array]],
    theta: Array,
    scale: float,
    *,
    convexity: float,
    noise: float,
    most_passes: int,
) -> Shortfall | None:
    """The shortfall of parameters, or less: L-BFGS from there shows what is still reachable.

    Parameters
    ----------
    objective : callable
        Value and gradient over all rows: one pass.
    theta : array
        Where learning ended, noise included.
    scale : float
        The value of a constant.
    convexity : float
        The value is within |gradient|^2 / (2 convexity) of its minimum. If that is little, nothing
        else is computed.
    noise : float
        What the noise of the steps may have added to the value; not counted.
    most_passes : int
    """
    value, gradient = objective(theta)
    if not scale > 0 or float(np.sum(np.square(gradient))) <= 2 * convexity * _SMALL * scale:
        return None

    def flat(point: Array) -> tuple[float, Array]:
        value, gradient = objective(point.reshape(theta.shape))
        return value, gradient.ravel()

    found = minimize(
        flat,
        theta.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxfun": most_passes, "maxiter": most_passes},
    )
    least = min(value, float(found.fun))
    return Shortfall(1 - max(value - noise, least) / scale, 1 - least / scale)
