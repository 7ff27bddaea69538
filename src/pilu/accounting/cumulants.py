"""The cumulant of the log-likelihood ratio of two Gaussians, for one pair or for many.

In direction l, P has variance 1 + x_l and squared mean shift a_l^2 against Q = N(0, I). Under Q,

    log M(s) = sum_l s(s-1) a^2 / (2 D) - (count/2) (log D + (s-1) log(1+x)),   D = 1 + (1-s) x.

Directions are the last axis of `x`, `a2` (squared shifts) and `half` (half of the counts). Axes
before it number the pairs. `gap` is s - 1: near s = 1 the rounding of s would matter. A real s
broadcasts against `x`: a number, or a column for many pairs.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_UP = 1 + 1e-12
_BEND = math.tan(math.radians(25))


def cumulant(x: Array, a2: Array, half: Array, s: NDArray[Any], gap: NDArray[Any]) -> NDArray[Any]:
    """log M at real or complex s along the last axis."""
    z = -gap[..., None] * x[..., None, :]
    quadratic = (s * gap / 2)[..., None] * a2[..., None, :] / (1 + z)
    logs = np.log1p(z) + gap[..., None] * np.log1p(x)[..., None, :]
    values: NDArray[Any] = quadratic.sum(axis=-1) - np.matmul(logs, half[..., None])[..., 0]
    return values


def slope(x: Array, a2: Array, half: Array, s: Array | float, gap: Array | float) -> Array:
    """Derivative of log M at a real s."""
    D = 1 - gap * x
    quadratic = a2 * ((2 * s - 1) * D + s * gap * x) / (2 * D * D)
    return np.asarray(np.sum(quadratic + half * (x / D - np.log1p(x)), axis=-1))


def curvature(x: Array, a2: Array, half: Array, gap: Array | float) -> Array:
    """Second derivative of log M at a real s."""
    D = 1 - gap * x
    return np.asarray(np.sum(a2 * (1 + x) ** 2 / D**3 + half * (x / D) ** 2, axis=-1))


def magnitude(x: Array, a2: Array, half: Array, s: Array | float, gap: Array | float) -> Array:
    """Size of what is summed in log M at a real s: its rounding error is this many ulps."""
    D = 1 - gap * x
    return np.asarray(np.sum(s * gap * a2 / D + 2 * half * gap * np.abs(x), axis=-1))


def log_guard(log_m: Array, s: Array, gap: Array, epsilon: Array) -> Array:
    """The bound on log delta that needs no quadrature; `log_m` is log M(s), and gap = s - 1.

    delta <= M(s) e^{-eps (s-1)} (s-1)^(s-1) / s^s
    """
    return np.asarray(log_m - epsilon * gap + gap * np.log1p(-1 / s) - np.log(s))


def largest_loss(x: Array, a2: Array, half: Array) -> Array:
    """Maximum of log dP/dQ, rounded up: finite with every x < 0. Beyond it delta is 0."""
    narrow = x < 0
    divisor = np.where(narrow, -2 * x, 1.0)
    losses = np.sum(np.where(narrow, a2 / divisor - half * np.log1p(x), 0.0), axis=-1)
    unbounded = ((x > 0) | ((x == 0) & (a2 > 0))).any(axis=-1)
    return np.where(unbounded, np.inf, losses * _UP)


def bend(x: Array, a2: Array, half: Array, epsilon: Array | float) -> Array:
    """kappa of the path on which the integrand of delta is likely to die out fastest."""
    moved = x != 0
    divisor = np.where(moved, 2 * x, 1.0)
    rate = epsilon + np.sum(np.where(moved, a2 / divisor, 0.0) + half * np.log1p(x), axis=-1)
    # Where a shift is large against its excess its Gaussian decay ends the integral first.
    gaussian = (a2 > 400 * x**2).any(axis=-1)
    return np.where(gaussian, _BEND, np.copysign(_BEND, rate))
