"""Shifted interpolation over infinitely many steps that are alike: a chain at stationarity.

Steps that j others follow have sensitivity s_j, noise of variance var and a contraction c < 1. If
s_j does not fall with j, the targets c^-j s_j / var of the isotonic regression fall towards the
end. So all these steps are one block, measured at the last of them:

    mass = sum_j c^j s_j,    variance = var / (1 - c^2).

A union bound over infinitely many steps needs tails that can be summed. Steps are taken in windows
of W, and those of window g (from the end) have the tail slack 2^-(g+1) / W. Past G windows
s_g <= S (1 + g - G) with S the last column of the bounds, so what is left is at most

    S q^G / ((1 - c)(1 - q)),    q = c^W.                      [docs/exact.md, "Stationarity"]
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.exceptions import BeyondPrecision

__all__ = ["N_WINDOWS", "pooled_steps", "window_length", "window_tails"]

Array = NDArray[np.float64]

N_WINDOWS = 40  # G: e^-40 of the mass is left beyond them
_LEAST_TAIL = 1e-305
_UP = 1 + 1e-12


def window_length(rate: float) -> float:
    """W = 1 / rate, rounded up. Any W is valid; if 1 - c is the rate, a window contracts by 1/e."""
    return float(math.ceil(1 / max(rate, 2.0**-52)))


def window_tails(slack: float, length: float) -> Array:
    """Tails of a step in each window, and in the first one past the last: (G + 1,)."""
    tails = slack * 2.0 ** -np.arange(1.0, N_WINDOWS + 2) / length
    if not tails[-1] >= _LEAST_TAIL:
        raise complaint("delta", "larger for a chain at stationarity", slack)
    return np.asarray(tails)


def pooled_steps(
    bounds: Array, later: Array, length: float, variance: float, contraction: float
) -> tuple[Array, Array]:
    """Sensitivities and variances of the pooled steps, as one, and of the later ones.

    Parameters
    ----------
    bounds : array of shape (n, G + 1 + n_later)
        Sensitivity in each window, S, and at each later step.
    later : array of shape (n_later,)
        Variances of the later steps.
    length, variance, contraction : float
        W, var and c.
    """
    gap = 1.0 - contraction
    if not gap > 0.0:
        raise BeyondPrecision(
            "alpha is too small for steps to contract in double precision, so the theorem has no "
            "bound at stationarity. Use Theorem(strong_convexity='retained'), Exact or a redraw."
        )
    with np.errstate(under="ignore"):
        exponent = length * math.log1p(-gap)
        q, lost = math.exp(exponent), -math.expm1(exponent)  # lost = 1 - q without cancellation
        weights = np.power(q, np.arange(N_WINDOWS + 1.0))
    weights[:-1] *= lost / gap
    weights[-1] /= gap * lost
    mass = bounds[..., : N_WINDOWS + 1] @ weights * _UP
    pooled = np.concatenate([mass[..., None], bounds[..., N_WINDOWS + 1 :]], axis=-1)
    total = variance / (gap * (1.0 + contraction)) / _UP
    return pooled, np.concatenate([[total], later])
