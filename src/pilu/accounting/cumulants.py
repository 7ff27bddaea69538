"""The cumulant of the log-likelihood ratio of two Gaussians, for one pair or for many.

In direction l, P has variance 1 + x_l and squared mean shift a_l^2 against Q = N(0, I). Under Q,

    log M(s) = sum_l s(s-1) a^2 / (2 D) - (count/2) (log D + (s-1) log(1+x)),   D = 1 + (1-s) x.

Directions are the last axis of `x`, `a2` (squared shifts) and `half` (half of the counts). Axes
before it number the pairs. Real s broadcast against `x`: a number, or a column for many pairs.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


def cumulant(x: Array, a2: Array, half: Array, s: Complex, gap: Complex) -> Complex:
    """log M at the points s along the last axis; `gap` is s - 1, known better than s."""
    z = -gap[..., None] * x[..., None, :]
    quadratic = (s * gap / 2)[..., None] * a2[..., None, :] / (1 + z)
    logs = np.log1p(z) + gap[..., None] * np.log1p(x)[..., None, :]
    values: Complex = quadratic.sum(axis=-1) - np.matmul(logs, half[..., None])[..., 0]
    return values


def slope(x: Array, a2: Array, half: Array, s: Array | float) -> Array:
    """Derivative of log M at a real s."""
    D = 1 + (1 - s) * x
    quadratic = a2 * ((2 * s - 1) * D + s * (s - 1) * x) / (2 * D * D)
    return np.asarray(np.sum(quadratic + half * (x / D - np.log1p(x)), axis=-1))


def curvature(x: Array, a2: Array, half: Array, s: Array | float) -> Array:
    """Second derivative of log M at a real s."""
    D = 1 + (1 - s) * x
    return np.asarray(np.sum(a2 * (1 + x) ** 2 / D**3 + half * (x / D) ** 2, axis=-1))


def magnitude(x: Array, a2: Array, half: Array, s: Array | float) -> Array:
    """Size of what is summed in log M at a real s: its rounding error is this many ulps."""
    D = 1 + (1 - s) * x
    return np.asarray(np.sum(s * (s - 1) * a2 / D + 2 * half * (s - 1) * np.abs(x), axis=-1))


def log_guard(log_m: Array, s: Array, gap: Array, epsilon: Array) -> Array:
    """The bound on log delta that needs no quadrature; `log_m` is log M(s), and gap = s - 1.

    delta <= M(s) e^{-eps (s-1)} (s-1)^(s-1) / s^s
    """
    return np.asarray(log_m - epsilon * gap + gap * np.log1p(-1 / s) - np.log(s))
