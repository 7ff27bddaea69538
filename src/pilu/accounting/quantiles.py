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

from pilu._checks import as_numbers, complaint

Array = NDArray[np.float64]

# The library's quantile is used up to these r and down to this tail, beyond them the isoperimetric
# bound. Its slack in Q, relative, is about 1/(2 r^2) + z df/(2 r^3).
_FAR = 1e3  # for single values: beyond it the library takes milliseconds
_FAR_IN_TABLE = 1e4
_LEAST_TAIL = 1e-100
_LIBRARY_ERROR = 1e-12  # the library's roots are low by at most 5e-14 there, relative
_CHORD_ERROR = 1e-9  # relative excess of the chords over Q
_DIRECT = 64  # fewer values than this are cheaper without a table


def ncx2_upper_quantile(tail: ArrayLike, df: ArrayLike, nc: ArrayLike) -> Array | float:
    """Upper quantile of the noncentral chi-square law, rounded up.

    Parameters
    ----------
    tail : float or array in (0, 1)
        Probability of exceeding the quantile.
    df : int or array, >= 1
        Degrees of freedom.
    nc : float or array, >= 0
        Noncentrality.

    Returns
    -------
    q : float or array
        ``P(chi'^2_df(nc) > q) <= tail``; the excess over the true quantile is about 2e-12 relative,
        for nc > 1e6 that of the isoperimetric bound, about (1 + z df/sqrt(nc))/nc.

    Examples
    --------
    >>> round(ncx2_upper_quantile(0.05, 1, 0.0), 6)
    3.841459
    """
    a, d, lam = np.broadcast_arrays(
        as_numbers("tail", tail), as_numbers("df", df), as_numbers("nc", nc)
    )
    if not ((a > 0) & (a < 1)).all():
        raise complaint("tail", "in the open interval (0, 1)", tail)
    if not ((d >= 1) & (d == np.floor(d)) & np.isfinite(d)).all():
        raise complaint("df", "an integer >= 1", df)
    if not (np.isfinite(lam) & (lam >= 0)).all():
        raise complaint("nc", "finite numbers >= 0", nc)
    a, d, r = (np.atleast_1d(v) for v in (a, d, np.sqrt(lam)))
    q = np.square(_direct(a, d, r, _FAR)) * (1 + 1e-15)
    return float(q[0]) if lam.ndim == 0 else q


def noncentral_chi_upper_quantile(tail: float, df: int, r: Array) -> Array:
    """Q(r) = sqrt(ncx2_upper_quantile(tail, df, r^2)) for many r of one law, rounded up."""
    if r.size <= _DIRECT:
        return _direct(np.full(r.shape, tail), np.full(r.shape, df), r, _FAR_IN_TABLE)
    nodes, values = _table(tail, df)
    q = np.interp(r, nodes, values)
    far = r > _FAR_IN_TABLE
    if far.any():
        q[far] = _isoperimetric(tail, df, r[far])
    return q


def _direct(tail: Array, df: Array, r: Array, far: float) -> Array:
    from scipy.stats import ncx2  # large, and only Theorem 1 needs it

    q = _isoperimetric(tail, df, r)
    near = (r <= far) & (tail >= _LEAST_TAIL)
    if near.any():
        a, d, shift, bound = tail[near], df[near], r[near], q[near]
        square = ncx2.isf(a, d, np.square(shift))
        with np.errstate(invalid="ignore"):
            exact = np.sqrt(square) * (1 + _LIBRARY_ERROR)
            # |Z + r e| >= r + Z_1, so Q >= r + z; and the library must agree with itself. Where
            # it does not, the bound is used.
            sound = np.isfinite(exact) & (exact >= shift - ndtri(a)) & (exact > 0)
            sound &= ncx2.sf(square, d, np.square(shift)) <= a * (1 + 1e-6)
        q[near] = np.where(sound, np.minimum(exact, np.where(a <= 0.5, bound, np.inf)), bound)
    return q


def _isoperimetric(tail: Array | float, df: Array | int, r: Array) -> Array:
    # |Z + r e| is 1-Lipschitz in Z and its median is at most its mean, itself at most the root
    # of its second moment. A tail above 1/2 is bounded by the one at 1/2.
    z = np.maximum(-ndtri(tail), 0.0)
    bound: Array = (np.hypot(np.sqrt(df), r) + z) * (1 + 1e-14)
    return bound


@lru_cache(maxsize=32)
def _table(tail: float, df: int) -> tuple[Array, Array]:
    """Nodes r_j and Q(r_j) on [0, _FAR_IN_TABLE], dense enough for chords within _CHORD_ERROR."""

    def at(r: Array) -> Array:
        return _direct(np.full(r.shape, tail), np.full(r.shape, df), r, _FAR_IN_TABLE)

    coarse = np.concatenate([[0.0], np.geomspace(1e-3, _FAR_IN_TABLE, 600)])
    values = at(coarse)
    # A chord of width h exceeds Q by h^2 Q''/8: equal errors mean nodes of density sqrt(Q''/Q).
    slope = np.diff(values) / np.diff(coarse)
    bend = np.maximum(np.diff(slope), 0.0) / (0.5 * (coarse[2:] - coarse[:-2]))
    bend = np.concatenate([bend[:1], bend, bend[-1:]])
    density = np.sqrt(bend / values / (8 * _CHORD_ERROR))
    count = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(coarse))])
    wanted = np.linspace(0.0, count[-1], math.ceil(count[-1]) + 2)
    nodes = np.unique(np.concatenate([coarse, np.interp(wanted, count, coarse)]))
    return nodes, at(nodes)
