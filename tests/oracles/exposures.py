"""The divergence of two arbitrary Gaussians, from their means and precision matrices.

    delta(eps) = P(L > eps) - e^eps Q(L > eps),     L = log dP/dQ

The pair is diagonalised in 50 digits. With t = s - 1 and E_Q e^{sL} = e^{K(t)},

    K(t)       = sum_l  t(1 + t) a_l^2/(2 (1 - t x_l)) - (log(1 - t x_l) + t log(1 + x_l))/2
    delta(eps) = 1/(2 pi i) integral of e^{K(t) - t eps}/(t (1 + t)) dt

along a line to the right of 0 and to the left of every 1/x_l > 0. In direction l of Q's own units P
has variance 1 + x_l and its mean is a_l away. The line passes through the saddle point and may bend
to the side where the integrand falls. Every value is computed twice, with and without every other
node; where the two differ, in 50 digits. Nothing here imports pilu.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from scipy.optimize import brentq

Array = np.ndarray[Any, Any]

DIGITS = 50
_ROUNDING = 1e-30
_BENDS = tuple(math.tan(math.radians(angle)) for angle in (0, 12, -12, 25, -25, 38, -38))
_END = 45.0  # nodes are cut off where the integrand is e^-45 of its peak
_AGREE = 1e-11
_STEP = 1 / 24
_FEW = np.arange(0, 47, 1 / 4)


class Law(NamedTuple):
    """Columns of `mean`, independent, each with covariance scale^2 precision^-1 (mpmath)."""

    mean: Any  # q x K
    precision: Any  # q x q
    scale: mpf


class Pair(NamedTuple):
    """P against Q in Q's units: variance 1 + excess and a mean that is shift away, one a direction.

    `log_ratio` is log(1 + excess), which the excess alone loses where it is near -1.
    """

    excess: Array
    shift: Array
    log_ratio: Array

    @property
    def reverse(self) -> "Pair":
        """Q against P, in P's units."""
        ratio = np.exp(self.log_ratio)
        return Pair(-self.excess / ratio, self.shift / np.sqrt(ratio), -self.log_ratio)

    def scaled(self, scale: float) -> "Pair":
        """The same pair where both laws have noise that is `scale` times as large."""
        return self._replace(shift=self.shift / scale)

    def inflated(self, relative: float, units: float) -> "Pair":
        """Every shift longer by a share of the whole shift and by `units` of the wider noise."""
        wider = np.maximum(1.0, np.exp(self.log_ratio / 2))
        return self._replace(
            shift=self.shift + relative * np.linalg.norm(self.shift) + units * wider
        )


def pair_of(excess: Any, shift: Any) -> Pair:
    """A pair whose excesses are not near -1."""
    x = np.atleast_1d(np.asarray(excess, dtype=float))
    return Pair(x, np.abs(np.atleast_1d(np.asarray(shift, dtype=float))), np.log1p(x))


def joined(pairs: Sequence[Pair]) -> Pair:
    """Independent pairs as one."""
    return Pair(*(np.concatenate(parts) for parts in zip(*pairs, strict=True)))


def whitened(P: Law, Q: Law) -> Pair:
    """Simultaneous diagonalisation, in 50 digits; a direction for each column of the means.

    With P's precision LL' and L^-1 (Q's precision) L^-T = U diag(v) U', P has variance v in Q's
    units (for equal scales) and the shift is sqrt(v) U'L'(m_P - m_Q)/scale.
    """
    with mp.workdps(DIGITS):
        factor = mp.cholesky(P.precision)
        inverse = mp.inverse(factor)
        middle = inverse * Q.precision * inverse.T
        values, vectors = mp.eigsy((middle + middle.T) / 2)
        along = vectors.T * (factor.T * (P.mean - Q.mean))
        directions = []
        for k in range(along.cols):
            for j, v in enumerate(values):
                ratio = v * P.scale**2 / Q.scale**2
                shift = mp.sqrt(v) * abs(along[j, k]) / Q.scale
                directions.append((float(ratio - 1), float(shift), float(mp.log(ratio))))
        rounded = np.array(directions)
        rounded[np.abs(rounded) < _ROUNDING] = 0.0  # directions that no row of the request has
        return Pair(*rounded[rounded.any(axis=1)].T)


def delta_of(pair: Pair, eps: float) -> float:
    """delta(eps) of P against Q, to 1e-10 relative, or 1e-15 times the exponent."""
    return math.exp(log_delta_of(pair, eps))


def epsilon_of(pair: Pair, delta: float) -> float:
    """The least eps >= 0 with delta(eps) <= delta, in both directions."""
    if not len(pair.excess):
        return 0.0
    return max(_epsilon_one_way(pair, delta), _epsilon_one_way(pair.reverse, delta))


def _epsilon_one_way(pair: Pair, delta: float) -> float:
    def excess(eps: float) -> float:  # positive while eps is too small; never -inf, for the search
        return max(log_delta_of(pair, eps) - math.log(delta), -50.0)

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
    return float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))


def log_delta_of(pair: Pair, eps: float) -> float:
    """Its logarithm; -inf where L never exceeds eps, and for delta far below a double's range."""
    at, where, _ = saddle = _saddle(pair, eps, right=True)
    if at < -2000:  # beyond the largest value of L the integrand falls without end
        return -math.inf
    direct = _integral(pair, eps, saddle)
    if direct is not None:
        return direct
    # Where delta is near 1 the pole at 0 is all there is; to its left is what is missing to 1.
    left = _saddle(pair, eps, right=False)
    if left[0] < -60:  # Chernoff's bound: less than e^-50 is missing
        return 0.0
    missing = _integral(pair, eps, left)
    if missing is not None and missing < math.log(0.9):
        return math.log1p(-math.exp(missing))
    return float(_log_delta_mp(pair, eps, where, saddle[2]))


def _integral(pair: Pair, eps: float, saddle: tuple[float, float, float]) -> float | None:
    """Log of the integral's size along the best contour; None if it is not sure to 1e-11."""
    at, where, width = saddle

    def along(bend: float, u: Array) -> tuple[Array, Array]:
        """(log of the integrand, speed of the contour) at its nodes."""
        t = where + width * (1j * np.sinh(u) + bend * (np.cosh(u) - 1))
        with np.errstate(all="ignore"):
            logs = _log_integrand(pair, eps, t, where) - at
        return logs, width * (1j * np.cosh(u) + bend * np.sinh(u))

    # Large terms cancel in the exponent: what they lose is a share of delta, far less of epsilon.
    a2, falls = pair.shift**2, 1 - where * pair.excess
    terms_size = abs(where * eps) + float((abs(where) * (1 + where) * a2 / falls).sum())
    enough = max(_AGREE, 1e-15 * terms_size)
    lengths = []
    for bend in _BENDS:
        logs, _ = along(bend, _FEW)
        size = np.where(np.isfinite(logs), logs.real, np.inf) + _FEW
        if size.max() <= 4 and size[-1] <= -_END:
            lengths.append((_FEW[np.flatnonzero(size > -_END)[-1] + 1], abs(bend), bend))
    for length, _, bend in sorted(lengths):
        logs, speed = along(bend, np.arange(0.0, length, _STEP))
        terms = (np.exp(logs) * speed).imag
        terms[0] /= 2
        fine, coarse = terms.sum(), 2 * terms[::2].sum()
        doubt = abs(fine - coarse) + 1e-15 * np.abs(terms).sum()
        if fine > 0 and doubt < enough * fine and enough < 1e-6:
            return at + math.log(fine * _STEP / math.pi)
    return None


def _log_integrand(pair: Pair, eps: float, t: Array, where: float) -> Array:
    """Of the integrand's size, for a contour through `where`."""
    x, a2, log_ratio = (v[:, None] for v in (pair.excess, pair.shift**2, pair.log_ratio))
    falls = 1 - t * x
    terms = t * (1 + t) * a2 / (2 * falls) - (np.log(falls) + t * log_ratio) / 2
    logs: Array = terms.sum(axis=0) - t * eps - np.log(math.copysign(1, where) * t) - np.log(1 + t)
    return logs


def _saddle(pair: Pair, eps: float, *, right: bool) -> tuple[float, float, float]:
    """(log of the integrand, t, width) at its least value for real t, right or left of 0."""
    end = 1 / pair.excess.max() if pair.excess.max() > 0 else math.inf
    u = np.linspace(-35, 60, 400)
    for _ in range(6):
        t = 1 / (np.exp(-u) + 1 / end) if right else -1 / (1 + np.exp(-u))
        inside = (t > 0) & (t < end) if right else (t > -1) & (t < 0)
        with np.errstate(all="ignore"):
            logs = np.where(inside, _log_integrand(pair, eps, t, 1.0 if right else -1.0), np.inf)
        best = int(np.nanargmin(logs))
        value, where = float(logs[best]), float(t[best])
        u = np.linspace(u[max(best - 1, 0)], u[min(best + 1, len(u) - 1)], 40)
    x, a2, falls = pair.excess, pair.shift**2, 1 - where * pair.excess
    second = a2 * (1 + x) / falls**3 + x**2 / (2 * falls**2)
    curvature = second.sum() + 1 / where**2 + 1 / (1 + where) ** 2
    return value, where, min(1 / math.sqrt(curvature), end - where)


def _log_delta_mp(pair: Pair, eps: float, where: float, width: float) -> mpf:
    """The same integral in 50 digits with three times as many nodes."""
    with mp.workdps(DIGITS):
        x, a2, log_ratio = ([mpf(float(v)) for v in part] for part in pair)
        a2 = [a * a for a in a2]

        def value(t: Any) -> Any:
            total = -t * eps
            for v, a, r in zip(x, a2, log_ratio, strict=True):
                falls = 1 - t * v
                total += t * (1 + t) * a / (2 * falls) - (mp.log(falls) + t * r) / 2
            return total - mp.log(t) - mp.log(1 + t)

        where, width, step = mpf(where), mpf(width), mpf(1) / 96
        at = mp.re(value(where))
        answers = []
        for bend in _BENDS:
            terms, size, k = [width / 2], mpf(0), 1
            while size > -80 and size < 10 and k < 6000:
                u = k * step
                t = where + width * (1j * mp.sinh(u) + mpf(bend) * (mp.cosh(u) - 1))
                speed = width * (1j * mp.cosh(u) + mpf(bend) * mp.sinh(u))
                logs = value(t) - at
                size = mp.re(logs) + u
                terms.append(mp.im(mp.exp(logs) * speed))
                k += 1
            if size <= -80:
                fine, coarse = mp.fsum(terms), 2 * mp.fsum(terms[::2])
                if fine > 0 and abs(fine - coarse) < _AGREE * fine:
                    answers.append(fine)
        if not answers:
            raise ArithmeticError(f"no contour for eps={eps} and {pair}")
        return at + mp.log(answers[0] * step / mp.pi)
