"""The cumulant log M of the loss of two Gaussians, and what rounding may change in it.

For one pair or for many: directions are the last axis of `x`, `a2` (squared shifts) and `half`
(half of the counts), and axes before it number the pairs. `gap` is s - 1: near s = 1 the rounding
of s would matter. A real s broadcasts against `x`. `pilu.accounting.gaussians` has the formulas,
docs/margins.md ("The rounding of a cumulant") the proof of `rounding`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

UNIT = 2.0**-52
BEND = math.tan(math.radians(25))
_UP = 1 + 1e-12


def cumulant(x: Array, a2: Array, half: Array, s: NDArray[Any], gap: NDArray[Any]) -> NDArray[Any]:
    """log M at real or complex s along the last axis."""
    z = -gap[..., None] * x[..., None, :]
    quadratic = (s * gap / 2)[..., None] * a2[..., None, :] / (1 + z)
    logs = _log1p(z) + gap[..., None] * np.log1p(x)[..., None, :]
    values: NDArray[Any] = quadratic.sum(axis=-1) - np.matmul(logs, half[..., None])[..., 0]
    return values


def _log1p(z: NDArray[Any]) -> NDArray[Any]:
    """log(1 + z), accurate for small z too. NumPy's is not if z is complex."""
    if not np.iscomplexobj(z):
        return np.asarray(np.log1p(z))
    re, im = z.real, z.imag
    square = re * (2 + re) + im * im  # |1 + z|^2 - 1
    logs = np.empty_like(z)
    logs.real = np.log1p(np.maximum(square, -0.5)) / 2
    logs.imag = np.arctan2(im, 1 + re)
    near = square < -0.5  # there the square has lost digits, and 1 + z has not
    if near.any():
        logs.real[near] = np.log(np.hypot(1 + re[near], im[near]))
    return logs


def slope(x: Array, a2: Array, half: Array, s: Array | float, gap: Array | float) -> Array:
    """Derivative of log M at a real s."""
    D = 1 - gap * x
    quadratic = a2 * ((2 * s - 1) * D + s * gap * x) / (2 * D * D)
    return np.asarray(np.sum(quadratic + half * (x / D - np.log1p(x)), axis=-1))


def curvature(x: Array, a2: Array, half: Array, gap: Array | float) -> Array:
    """Second derivative of log M at a real s."""
    D = 1 - gap * x
    return np.asarray(np.sum(a2 * (1 + x) / D**3 + half * (x / D) ** 2, axis=-1))


def magnitude(x: Array, a2: Array, half: Array, s: Array | float, gap: Array | float) -> Array:
    """Size of what is summed in log M at a real s: its rounding error is this many ulps."""
    D, moved = 1 - gap * x, gap * np.abs(x)
    lost = moved / D  # D is off by that many ulps, because gap x is rounded
    logs = 2 * half * (moved + lost + gap * np.abs(np.log1p(x)))
    return np.asarray(np.sum(s * gap * a2 / D * (1 + lost) + logs, axis=-1))


def rounding(magnitude: Array | float, exponent: Array | float, n_directions: int) -> Array | float:
    """Bound on the rounding of log delta: of the cumulant, of eps (s-1), of all else."""
    return (64 + 2 * n_directions) * UNIT * (magnitude + exponent + 20)


def log_guard(
    log_m: Array | float, s: Array | float, gap: Array | float, epsilon: Array | float
) -> Array:
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
    return np.where(gaussian, BEND, np.copysign(BEND, rate))


def log_down(delta: float) -> float:
    """log delta, rounded down."""
    value = math.log(delta)
    return value - 4 * UNIT * (2 + abs(value))


def log_up(delta: float) -> float:
    """log delta, rounded up."""
    value = math.log(delta)
    return value + 4 * UNIT * (2 + abs(value))


def delta_from_log(log_delta: float) -> float:
    """delta, rounded up; what underflows is still positive."""
    if log_delta == -math.inf:
        return 0.0
    return min(math.nextafter(math.exp(log_delta) * (1 + 1e-15), math.inf), 1.0)
