"""Upper quantiles of |Z + r e_1|, Z ~ N(0, I_df), in double precision and for every shift r.

The square of that norm is noncentral chi-square, chi'^2_df(r^2) [PILU, Thm 1(i)]. Everything is
written in the gap g = norm - r, so that nothing cancels however large r is. Conditioning on the
length rho = R sin(phi) of the df - 1 components orthogonal to e_1, with R = r + g,

    P(|Z + r e_1| > R) = P(chi_{df-1} > R)
        + int_0^{pi/2} f_{chi_{df-1}}(R sin phi) R cos phi
          [ Phi(-(g - 2 R sin^2(phi/2))) + Phi(-(R cos phi + r)) ] dphi.

All terms are positive. The part of the integral where rho is outside
[sqrt(df - 2) - 15, sqrt(df - 1) + 14 + max(g, 0)] is below 1e-43 of the result.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, gammaln, log_ndtr, ndtr, ndtri

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_PANEL = 3.0  # in units of the arc R phi; the integrand varies on the scale of 0.7


def norm_tail(gap: float, df: int, shift: float) -> float:
    """P(|Z + shift e_1| > shift + gap) for Z ~ N(0, I_df), relative error about 1e-13."""
    radius = shift + gap
    if radius <= 0:
        return 1.0
    if df == 1:
        return float(ndtr(-gap) + ndtr(-gap - 2 * shift))
    rest = df - 1
    shortest = min(max(0.0, math.sqrt(df - 2) - 15), radius)
    longest = min(math.sqrt(rest) + 14 + max(gap, 0.0), radius)
    first, last = math.asin(shortest / radius), math.asin(longest / radius)
    n_panels = max(1, math.ceil((last - first) * radius / _PANEL))
    edges = np.linspace(first, last, n_panels + 1)
    half = (edges[1:, None] - edges[:-1, None]) / 2
    phi = (edges[1:, None] + edges[:-1, None]) / 2 + half * _NODES
    rho = radius * np.sin(phi)
    log_chi = (1 - rest / 2) * math.log(2) - gammaln(rest / 2) - rho**2 / 2
    log_chi = log_chi + (rest - 1) * np.log(rho)
    beyond = np.exp(log_chi + log_ndtr(2 * radius * np.sin(phi / 2) ** 2 - gap))
    behind = np.exp(log_chi + log_ndtr(-radius * np.cos(phi) - shift))
    integral = np.sum(half * _WEIGHTS * radius * np.cos(phi) * (beyond + behind))
    return float(integral + gammaincc(rest / 2, radius**2 / 2))


def norm_quantile_gap(tail: float, df: int, shift: float) -> float:
    """The g with P(|Z + shift e_1| > shift + g) = tail, by a bracketed root of the log tail."""
    if not 1e-280 < tail <= 0.5:
        raise ValueError(f"tail must be in (1e-280, 0.5], got tail={tail}.")

    def excess(gap: float) -> float:
        return math.log(norm_tail(gap, df, shift)) - math.log(tail)

    # |Z + r e_1| >= Z_1 + r, and for tails up to 1/2 the quantile is at most sqrt(df + r^2) + z.
    z = -ndtri(tail)
    low = max(z - 1e-6 * (1 + z), -shift)
    high = df / (math.hypot(math.sqrt(df), shift) + shift) + z + 1e-6 * (1 + z)
    return float(brentq(excess, low, high, xtol=1e-14 * (1 + z), rtol=1e-14))
