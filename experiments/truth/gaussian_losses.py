"""The privacy loss of two Gaussians, bounded from both sides on a lattice.

Whitened by Q and turned to principal axes, P is N(a_j, v_j) and Q is N(0, 1) in each coordinate j,
independently. With z standard normal and t = a + sqrt(v) z the coordinate under P,

    l_j = t^2/2 - (t - a)^2/(2v) - log(v)/2 = (v - 1)/2 z^2 + a sqrt(v) z + a^2/2 - log(v)/2,

and l is the sum. The law of each l_j is known in closed form. Rounded down to a lattice, and to
minus infinity in its lowest tail, it gives a smaller delta, because E_P (1 - e^(eps - l))_+ grows
with l. Rounded up it gives a larger one. Sums are convolutions, by fast Fourier transforms whose
rounding is charged. This is accounting by privacy loss distributions:

    S. Meiser and E. Mohammadi, Tight on budget?, CCS 2018.
    A. Koskela, J. Jälkö and A. Honkela, Computing tight differential privacy guarantees using
    FFT, AISTATS 2020.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from experiments.truth.laws import Array, Gaussian

_REACH = 8.5  # deviations of z on the lattice; 2e-17 of its law is beyond
_POINTS = 2**17
_ROUNDING = 1e-12  # of delta, by the transforms


def delta_functions(
    P: Gaussian, Q: Gaussian
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """A lower and an upper bound on delta(eps) of P against Q."""
    all_of_them = losses(P, Q)
    quadratics = [(A, B, C) for A, B, C in all_of_them if A or B]
    constant = sum(C for A, B, C in all_of_them if not (A or B))
    ends = np.array([_range(*one) for one in quadratics]).reshape(-1, 2)
    step = max(float((ends[:, 1] - ends[:, 0]).sum()) / _POINTS, 1e-15)
    first = np.floor(ends[:, 0] / step).astype(int)
    last = np.ceil(ends[:, 1] / step).astype(int) + 1
    size = int((last - first).sum()) + 1
    size = max(1 << (size - 1).bit_length(), 2)
    down, up = np.ones((2, size // 2 + 1))
    beyond = 0.0
    for one, start, end in zip(quadratics, first, last, strict=True):
        below = _distribution(*one, np.arange(start, end + 1) * step)
        masses = np.diff(below)
        masses_down = np.append(masses, 1 - below[-1])  # the highest tail, rounded down
        masses_up = np.concatenate([below[:1], masses])  # the lowest tail, rounded up
        down = down * np.fft.rfft(masses_down, size)
        up = up * np.fft.rfft(masses_up, size)
        beyond += 1 - below[-1]
    lattice = (first.sum() + np.arange(size)) * step + constant
    summed = (np.maximum(np.fft.irfft(both, size), 0.0) for both in (down, up))
    lower, upper = (_delta_function(lattice, masses) for masses in summed)
    return (
        lambda epsilon: lower(epsilon) - _ROUNDING,
        lambda epsilon: upper(epsilon) + beyond + _ROUNDING,
    )


def losses(P: Gaussian, Q: Gaussian) -> list[tuple[float, float, float]]:
    """Coefficients (of z^2, of z, constant) of the loss in each coordinate, under P."""
    factor = np.linalg.cholesky(Q.covariance)
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, P.covariance).T)
    v, axes = np.linalg.eigh((whitened + whitened.T) / 2)
    if v[0] <= 0:
        raise ValueError(f"P's covariance must be regular, got a variance of {v[0]:.2g}.")
    a = axes.T @ np.linalg.solve(factor, P.mean - Q.mean)
    return list(zip((v - 1) / 2, a * np.sqrt(v), a**2 / 2 - np.log(v) / 2, strict=True))


def _range(A: float, B: float, C: float) -> tuple[float, float]:
    """The least and the largest loss of |z| <= _REACH."""
    found = [A * z * z + B * z + C for z in (-_REACH, _REACH)]
    if abs(B) < 2 * abs(A) * _REACH:
        found.append(C - B * B / (4 * A))
    return min(found), max(found)


def _distribution(A: float, B: float, C: float, x: Array) -> Array:
    """P(A z^2 + B z + C <= x) for an increasing x."""
    discriminant = B * B - 4 * A * (C - x)
    real = discriminant >= 0
    root = np.sqrt(np.where(real, discriminant, 0.0))
    q = -(B + np.copysign(root, B)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = q / A, (C - x) / q  # A may be 0, then the first is at infinity
    other = np.where(q == 0, 0.0, other)
    if A == 0.0:
        return ndtr(np.copysign(1.0, B) * other)
    between = np.where(real, ndtr(np.maximum(one, other)) - ndtr(np.minimum(one, other)), 0.0)
    found = between if A > 0 else 1 - between
    return np.maximum.accumulate(np.clip(found, 0.0, 1.0))


def _delta_function(lattice: Array, masses: Array) -> Callable[[float], float]:
    def delta(epsilon: float) -> float:
        k = int(np.searchsorted(lattice, epsilon, side="right"))
        return float(masses[k:] @ -np.expm1(epsilon - lattice[k:]))

    return delta
