"""Two Gaussians that differ in one coordinate: delta by normal distribution functions.

P = N(a, v) and Q = N(0, 1) with v = 1 - h, 0 < h < 1. log dP/dQ > e exactly between l and r, in
units of P's deviation between l_P = (l - a)/sqrt(v) and r_P:

    g^2 = a^2 - h (log v + 2 e),
    l   = (a^2 + v (log v + 2 e)) / (a + sqrt(v) g),    r   = (a + sqrt(v) g) / h,
    l_P = (-a^2 + log v + 2 e) / (a sqrt(v) + g),       r_P = (a sqrt(v) + g) / h.

Nothing is divided by h in the lower ends, so h -> 0 is harmless. With e = eps for P against Q and
e = -eps for Q against P,

    delta_PQ(eps) = Phi(-l_P) - Phi(-r_P) - e^eps (Phi(-l) - Phi(-r)),
    delta_QP(eps) = Phi(l) + Phi(-r) - e^eps (Phi(l_P) + Phi(-r_P)).

Each Phi is charged for the rounding of its argument, d: |log Phi(t + d) - log Phi(t)| is at most
(max(-t, 0) + 1 + d) d. The charges are added to delta, so cancellation makes it larger, never too
small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]

_UNIT = 2.0**-52
_FEW = 4 * _UNIT  # relative: a handful of roundings
_COARSEST = 1e-3  # rounding of an argument of Phi, relative to it, beyond which nothing is said
_LARGEST_CHARGE = 600.0  # its exponential is finite


@dataclass(frozen=True, eq=False)
class OneDirection:
    """Pairs N(a, 1 - h), N(0, 1), one an entry. Which law is called P does not matter."""

    h: Array
    v: Array
    log_v: Array
    a2: Array

    @classmethod
    def of(cls, x: Array, a2: Array) -> "OneDirection":
        """From excesses x != 0 and squared shifts; where x > 0 the laws change places."""
        wide, e = x > 0, 1 + x
        return cls(
            np.where(wide, x / e, -x),
            np.where(wide, 1 / e, e),
            -np.abs(np.log1p(x)),
            np.where(wide, a2 / e, a2),
        )

    def log_delta(
        self, epsilon: Array, rows: NDArray[np.intp], narrow_first: bool
    ) -> tuple[Array, Array, Array]:
        """log delta of some pairs, rounded up; how steeply it falls; how far it may be off.

        `narrow_first`: P against Q, otherwise Q against P. NaN where rounding blurs everything.
        """
        h, v, log_v, a2 = (p[rows] for p in (self.h, self.v, self.log_v, self.a2))
        a, root = np.sqrt(a2), np.sqrt(v)
        level = log_v + 2 * (epsilon if narrow_first else -epsilon)
        size = -log_v + 2 * epsilon
        g2, g2_error = a2 - h * level, _FEW * (a2 + h * size)
        g = np.sqrt(np.maximum(g2, 0.0))
        g_error = g2_error / np.maximum(g, np.sqrt(g2_error))

        q_scale, p_scale = a + root * g, a * root + g
        l_q, l_p = (a2 + v * level) / q_scale, (level - a2) / p_scale
        l_q_error = _FEW * (a2 + v * size) / q_scale
        l_q_error += np.abs(l_q) * (_FEW + root * g_error / q_scale)
        l_p_error = _FEW * (a2 + size) / p_scale + np.abs(l_p) * (_FEW + g_error / p_scale)
        r_q, r_p = q_scale / h, p_scale / h
        r_q_error, r_p_error = _FEW * r_q + root * g_error / h, _FEW * r_p + g_error / h

        if narrow_first:
            first = _tail(-l_p, l_p_error), _tail(-r_p, r_p_error)
            second = _tail(-l_q, l_q_error), _tail(-r_q, r_q_error)
        else:
            first = _tail(l_q, l_q_error), _tail(-r_q, r_q_error)
            second = _tail(l_p, l_p_error), _tail(-r_p, r_p_error)
        # In units of the largest term, so that nothing leaves the doubles.
        top = np.maximum(first[0][0], first[1][0])
        logs = [first[0][0] - top, first[1][0] - top]
        logs += [second[0][0] + epsilon - top, second[1][0] + epsilon - top]
        terms = [np.exp(t) for t in logs]
        charges = [t * np.expm1(tail[1]) for t, tail in zip(terms, first + second, strict=True)]
        sign = -1.0 if narrow_first else 1.0
        other = terms[2] + sign * terms[3]
        delta = terms[0] + sign * terms[1] - other
        # An exponential carries the rounding of its argument, eps among it.
        charge = sum(charges) + _FEW * sum(
            t * (4 + np.abs(u) + np.abs(top) + epsilon) for t, u in zip(terms, logs, strict=True)
        )
        value = top + np.log(delta + charge) + _FEW * (np.abs(top) + 2)
        if narrow_first:  # the ratio is bounded: beyond its maximum delta is 0
            value = np.where(g2 < -g2_error, -np.inf, value)
        return value, other / delta, 2 * charge / delta + _FEW * (np.abs(top) + 2)


def _tail(t: Array, error: Array) -> tuple[Array, Array]:
    """log Phi(t), and a bound on what rounding changes in it."""
    logs = log_ndtr(t)
    below = np.maximum(-t, 0.0)
    charge = (below + 1 + error) * error + _FEW * (4 + below**2)
    charge = np.minimum(charge, _LARGEST_CHARGE)  # where it is as large, Phi is 0 beyond doubt
    return logs, np.where(error <= _COARSEST * (np.abs(t) + 1), charge, np.nan)
