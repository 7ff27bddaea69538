"""delta of many privacy curves at one epsilon: of the curves of many requests, say.

`PrivacyCurve.log_delta` of each, but the integrals of all curves in both directions are evaluated
in one array (`contours`). What that cannot resolve is left to the curve itself.
"""

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.contours import Contours, Pairs
from pilu.accounting.curves import FARTHEST, PrivacyCurve
from pilu.accounting.gaussians import GaussianPair

Array = NDArray[np.float64]

_STEP, _NODES = 0.04, 112  # of the path, towards the likely side
_RESOLVED = 2e-9  # relative error of delta
_CHUNK = 150_000  # complex numbers evaluated together: they stay in the cache


def log_deltas(curves: Sequence[PrivacyCurve], epsilon: float, enough: float) -> list[float]:
    """log delta(epsilon) of each curve, rounded up; NaN where it cannot be evaluated.

    Where a cheaper upper bound is below `enough`, it may be the answer.
    """
    known = _together(curves, epsilon) if len(curves) > 1 else [math.nan]  # one alone is faster
    for i, curve in enumerate(curves):
        if math.isnan(known[i]):
            with suppress(ArithmeticError):
                known[i] = curve.log_delta(epsilon, enough)
    return known


def _together(curves: Sequence[PrivacyCurve], epsilon: float) -> list[float]:
    """The same, and NaN where it is not resolved."""
    pairs: list[GaussianPair] = []
    owners: list[int] = []
    for i, curve in enumerate(curves):
        if curve.epsilon_error <= epsilon and not curve.pair.is_trivial:
            with suppress(ArithmeticError):
                directions = [curve.pair, *([curve.pair.reversed()] if curve.both else [])]
                pairs += directions
                owners += [i] * len(directions)
    values = np.full(len(curves), np.inf)
    values[owners] = -np.inf
    at = epsilon - np.array([curves[i].epsilon_error for i in owners])
    size = max(1, _CHUNK // (_NODES * max((len(pair.excesses) for pair in pairs), default=1)))
    for first in range(0, len(pairs), size):
        some = slice(first, first + size)
        np.maximum.at(values, owners[some], _of_pairs(_table(pairs[some]), at[some]))
    return [
        curve.with_errors(value, epsilon) if value < math.inf else math.nan
        for curve, value in zip(curves, values.tolist(), strict=True)
    ]


@np.errstate(all="ignore")  # what leaves the doubles is inf or NaN, and is dealt with
def _of_pairs(pairs: Pairs, epsilons: Array) -> Array:
    """log delta of each pair at its epsilon, rounded up; inf where not resolved."""
    gap, _ = pairs.saddles(epsilons, math.inf, FARTHEST)
    contours = Contours(pairs, gap, epsilons, _STEP, _NODES, 1)
    values, _, doubts = contours.log_delta(epsilons, np.arange(len(gap)))
    guards = pairs.log_guards(gap, epsilons)
    resolved = (doubts <= _RESOLVED) & np.isfinite(values)
    return np.where(resolved, np.minimum(np.minimum(values, guards), 0.0), np.inf)


def _table(pairs: Sequence[GaussianPair]) -> Pairs:
    """Rows of one width: directions without a difference are added."""
    width = max(len(pair.excesses) for pair in pairs)
    x, a2, half = np.zeros((3, len(pairs), width))
    half += 0.5
    for i, pair in enumerate(pairs):
        m = len(pair.excesses)
        x[i, :m], a2[i, :m], half[i, :m] = pair.excesses, pair.squared_shifts, pair.counts / 2
    return Pairs(x, a2, half)
