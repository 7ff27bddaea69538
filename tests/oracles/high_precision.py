"""GDP conversions and noncentral chi-square tails in 60-digit arithmetic (mpmath).

Python floats are converted exactly and `mpf` values are returned. The conversions are good to 40
digits or more, the chi-square functions to 30 or more, relative.
"""

from collections.abc import Callable
from functools import cache

from mpmath import mp, mpf

from .quantiles import norm_quantile_gap

_DIGITS = 60
_PANEL = 3  # in units of the arc R phi, with 40 Gauss-Legendre nodes each

Number = float | int | mpf


def delta_from_mu_mp(mu: Number, eps: Number) -> mpf:
    """delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)  [PILU, App. A], for eps >= 0."""
    with mp.workdps(_DIGITS):  # a wider mpf would be rounded at the caller's precision
        mu, eps = mpf(mu), mpf(eps)
        if mu == 0:
            return mpf(0)
        # The difference loses about 2 log10(1/mu) digits, the normal tail at t about 2 log10(t).
        guard = 10 + 2 * int(mp.log10(1 + eps / mu + mu)) + 2 * int(mp.log10(1 + eps + 1 / mu))
    with mp.workdps(_DIGITS + guard):
        return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-eps / mu - mu / 2)


def epsilon_from_mu_mp(mu: Number, delta: Number) -> mpf:
    """The least eps >= 0 with delta_from_mu_mp(mu, eps) <= delta."""
    with mp.workdps(_DIGITS):
        mu, delta = mpf(mu), mpf(delta)
        if delta_from_mu_mp(mu, 0) <= delta:
            return mpf(0)
        if delta <= 0:
            return mp.inf
        return _bisect(lambda eps: delta_from_mu_mp(mu, eps) <= delta, mu + mu**2)[1]


def mu_from_epsilon_mp(eps: Number, delta: Number) -> mpf:
    """The largest mu with delta_from_mu_mp(mu, eps) <= delta, for delta < 1."""
    with mp.workdps(_DIGITS):
        eps, delta = mpf(eps), mpf(delta)
        if delta <= 0:
            return mpf(0)
        start = mpf(1)
        while delta_from_mu_mp(start, eps) > delta:
            start /= 2
        return _bisect(lambda mu: delta_from_mu_mp(mu, eps) > delta, start)[0]


def _bisect(holds: Callable[[mpf], bool], start: mpf) -> tuple[mpf, mpf]:
    """(low, high) around the point from which `holds` is true on; low may be 0."""
    low, high = mpf(0), start
    while not holds(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


@cache
def _legendre() -> tuple[list[mpf], list[mpf]]:
    with mp.workdps(_DIGITS + 10):
        nodes, weights = mp.gauss_quadrature(40, "legendre")
        return list(nodes), list(weights)


def _norm_tail_mp(gap: mpf, df: int, shift: mpf) -> mpf:
    """P(|Z + shift e_1| > shift + gap), Z ~ N(0, I_df): the integral of quantiles.py."""
    radius, rest = shift + gap, df - 1
    if radius <= 0:
        return mpf(1)
    if df == 1:
        return mp.ncdf(-gap) + mp.ncdf(-gap - 2 * shift)
    shortest = min(max(mpf(0), mp.sqrt(df - 2) - 15), radius)
    longest = min(mp.sqrt(rest) + 14 + max(gap, 0), radius)
    first, last = mp.asin(shortest / radius), mp.asin(longest / radius)
    n_panels = max(1, int(mp.ceil((last - first) * radius / _PANEL)))
    half = (last - first) / (2 * n_panels)
    total = mpf(0)
    for panel in range(n_panels):
        middle = first + (2 * panel + 1) * half
        for node, weight in zip(*_legendre(), strict=True):
            phi = middle + half * node
            rho, along = radius * mp.sin(phi), radius * mp.cos(phi)
            both = mp.ncdf(shift - along) + mp.ncdf(-shift - along)
            total += weight * along * rho ** (rest - 1) * mp.exp(-(rho**2) / 2) * both
    total *= half * mpf(2) ** (1 - mpf(rest) / 2) / mp.gamma(mpf(rest) / 2)
    return total + mp.gammainc(mpf(rest) / 2, radius**2 / 2, mp.inf, regularized=True)


def ncx2_sf_mp(q: Number, df: int, nc: Number) -> mpf:
    """P(chi'^2_df(nc) > q), for tails down to 1e-40, df to 1000 and nc to 1e16."""
    with mp.workdps(_DIGITS):
        shift = mp.sqrt(mpf(nc))
        return _norm_tail_mp(mp.sqrt(mpf(q)) - shift, df, shift)


def ncx2_sf_series_mp(q: Number, df: int, nc: Number) -> mpf:
    """The same by the Poisson mixture sum_j e^{-nc/2} (nc/2)^j / j! P(chi^2_{df+2j} > q).

    A second, unrelated form; it takes about nc/2 terms, so for nc up to 1e5 or so.
    """
    with mp.workdps(_DIGITS):
        half_q, half_nc, a = mpf(q) / 2, mpf(nc) / 2, mpf(df) / 2
        weight = mp.exp(-half_nc)
        tail = mp.gammainc(a, half_q, mp.inf, regularized=True)
        gain = mp.exp(a * mp.log(half_q) - half_q) / mp.gamma(a + 1)  # tail_{j+1} - tail_j
        total, j = weight * tail, 0
        while j < half_nc or weight > mpf(10) ** -45 * total:
            j += 1
            weight *= half_nc / j
            tail += gain
            gain *= half_q / (a + j)
            total += weight * tail
        return total


def ncx2_upper_quantile_mp(tail: Number, df: int, nc: Number) -> mpf:
    """The q with P(chi'^2_df(nc) > q) = tail <= 1/2: secant steps from the float solution."""
    with mp.workdps(_DIGITS):
        shift, log_tail = mp.sqrt(mpf(nc)), mp.log(mpf(tail))
        old = mpf(norm_quantile_gap(float(tail), df, float(shift)))
        new = old + mpf(10) ** -11
        f_old = mp.log(_norm_tail_mp(old, df, shift)) - log_tail
        for _ in range(3):
            f_new = mp.log(_norm_tail_mp(new, df, shift)) - log_tail
            old, new, f_old = new, new - f_new * (new - old) / (f_new - f_old), f_new
        if abs(f_old) > mpf(10) ** -20:
            raise RuntimeError(f"no convergence: tail={tail}, df={df}, nc={nc}")
        return (shift + new) ** 2
