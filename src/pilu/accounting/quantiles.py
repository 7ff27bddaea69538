"""Upper quantiles of the noncentral chi-square law, never too small.

The square root Q(r) of the upper `tail` quantile of chi'^2_df(r^2) is the radius of the ball around
the origin that a Gaussian centred at distance r leaves with probability `tail`. Gaussian measure is
log-concave, so the ball half-way between two such balls, in centre and in radius, holds at least
as much:

    Q is convex in r, for every df and tail     (docs/guarantee.md, "Quantiles")

A chord between two nodes therefore lies above Q, which makes a table both fast and proved. Far
out, where the library's quantile slows down and loses its digits, Gaussian isoperimetry bounds it:

    Q(r) <= sqrt(df + r^2) + z_tail             (tail <= 1/2)
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import ncx2

from pilu._checks import as_numbers, check_integer, check_probability, complaint

__all__ = ["ncx2_upper_quantile", "noncentral_chi_upper_quantile"]

Array = NDArray[np.float64]

# The library's quantile is asked up to these r, then the isoperimetric bound takes over. Its slack
# in Q, relative, is about 1/(2 r^2) + z df/(2 r^3).
_FAR = 1e3  # for single values: beyond it the library takes milliseconds
_FAR_IN_TABLE = 1e4
_LIBRARY_ERROR = 1e-12  # the library's quantiles are low by at most 7e-14, relative
_CHORD_ERROR = 1e-9  # relative excess of the chords over Q
_DIRECT = 64  # fewer values than this are cheaper without a table


def ncx2_upper_quantile(tail: float, df: int, nc: ArrayLike) -> Array | float:
    """Upper quantile of the noncentral chi-square law, rounded up.

    Parameters
    ----------
    tail : float in (0, 1)
        Probability of exceeding the quantile.
    df : int, >= 1
        Degrees of freedom.
    nc : float or array, >= 0
        Noncentrality.

    Returns
    -------
    q : float or array
        ``P(chi'^2_df(nc) > q) <= tail``; the excess over the true quantile is about 1e-12 relative,
        for nc > 1e6 that of the isoperimetric bound, about (1 + z df/sqrt(nc))/nc.

    Examples
    --------
    >>> round(ncx2_upper_quantile(0.05, 1, 0.0), 6)
    3.841459
    """
    tail, df = check_probability("tail", tail), check_integer("df", df, least=1)
    lam = as_numbers("nc", nc)
    if not (np.isfinite(lam) & (lam >= 0)).all():
        raise complaint("nc", "finite numbers >= 0", nc)
    q = np.square(_direct(tail, df, np.sqrt(np.atleast_1d(lam)), _FAR)) * (1 + 1e-15)
    return float(q[0]) if lam.ndim == 0 else q


def noncentral_chi_upper_quantile(tail: float, df: int, r: Array) -> Array:
    """Q(r) = sqrt(ncx2_upper_quantile(tail, df, r^2)) for many r of one law, rounded up."""
    if r.size <= _DIRECT:
        return _direct(tail, df, r, _FAR)
    nodes, values = _table(tail, df)
    q = np.interp(r, nodes, values)
    far = r > _FAR_IN_TABLE
    if far.any():
        q[far] = _isoperimetric(tail, df, r[far])
    return q


def _direct(tail: float, df: int, r: Array, far: float) -> Array:
    q = _isoperimetric(tail, df, r)
    near = r <= far
    if near.any():
        exact = np.sqrt(ncx2.isf(tail, df, np.square(r[near]))) * (1 + _LIBRARY_ERROR)
        # Where the library gives up (nan, inf or 0 in extreme tails) the bound stands.
        q[near] = np.where(np.isfinite(exact) & (exact > 0), exact, q[near])
    return q


def _isoperimetric(tail: float, df: int, r: Array) -> Array:
    # |Z + r e| is 1-Lipschitz in Z and its median is at most its mean, itself at most the root
    # of its second moment. A tail above 1/2 is bounded by the one at 1/2.
    z = max(-float(ndtri(tail)), 0.0)
    bound: Array = (np.sqrt(df + np.square(r)) + z) * (1 + 1e-14)
    return bound


@lru_cache(maxsize=32)
def _table(tail: float, df: int) -> tuple[Array, Array]:
    """Nodes r_j and Q(r_j) on [0, _FAR_IN_TABLE], dense enough for chords within _CHORD_ERROR."""
    coarse = np.concatenate([[0.0], np.geomspace(1e-3, _FAR_IN_TABLE, 600)])
    values = _direct(tail, df, coarse, _FAR_IN_TABLE)
    # A chord of width h exceeds Q by h^2 Q''/8: equal errors mean nodes of density sqrt(Q''/Q).
    slope = np.diff(values) / np.diff(coarse)
    bend = np.maximum(np.diff(slope), 0.0) / (0.5 * (coarse[2:] - coarse[:-2]))
    bend = np.concatenate([bend[:1], bend, bend[-1:]])
    density = np.sqrt(bend / values / (8 * _CHORD_ERROR))
    count = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(coarse))])
    wanted = np.linspace(0.0, count[-1], math.ceil(count[-1]) + 2)
    nodes = np.unique(np.concatenate([coarse, np.interp(wanted, count, coarse)]))
    return nodes, _direct(tail, df, nodes, _FAR_IN_TABLE)
