"""The epsilon of many pairs of Gaussians at once: of each row of a table, say.

A pair is what `pilu.accounting.gaussians.GaussianPair` reduces two Gaussians to. Its epsilon is
the least with delta(epsilon) <= delta in both directions. By kind of pair:

    nothing differs, or delta(0) <= delta         0
    equal covariances, x = 0                      the Gaussian mechanism (`gdp`)
    one direction with x != 0, of count 1         normal distribution functions (`one_direction`)
    all others                                    the contour integral (`contours`)
    what the above cannot resolve                 `PrivacyCurve`, one pair at a time

That delta(0) <= delta is seen without any integral from Pinsker's inequality,

    delta(0)^2 <= KL(P, Q)/2 = sum_l (count (x - log(1+x)) + a^2) / 4,
    x - log(1+x) <= x^2 / (2 min(1, 1+x)).

One direction is searched first. The other then starts from the epsilon found: mostly that is
enough for it, which its guard shows or one evaluation.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu._checks import as_numbers, check_probability, complaint
from pilu.accounting.contours import Contours, Pairs
from pilu.accounting.cumulants import UNIT, log_down
from pilu.accounting.curves import FARTHEST, PrivacyCurve
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import epsilon_from_mu
from pilu.accounting.one_direction import OneDirection
from pilu.accounting.search import newton_to_safe_end

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_UP = 1 + 1e-12
_LARGEST_MU = 1e6  # its epsilon is far beyond the farthest
_RELATIVE, _ABSOLUTE = 8e-10, 8e-13  # how far above the least epsilon an answer may be
# Step in tau, number of nodes, side to which the path bends: tried in this order.
_PATHS = (
    (0.04, 112, 1),
    (0.04, 216, 1),
    (0.02, 432, 1),
    (0.01, 1440, 1),
    (0.01, 1440, -1),
    (0.01, 1440, 0),
)
_CHUNK = 150_000  # complex numbers evaluated together: they stay in the cache


@np.errstate(all="ignore")  # what leaves the doubles is inf or NaN, and is dealt with
def epsilons_of_pairs(
    excesses: ArrayLike, squared_shifts: ArrayLike, counts: ArrayLike, delta: float
) -> Array:
    """Least epsilon of each pair, rounded up, for delta in both directions.

    Parameters
    ----------
    excesses : array, N x m, > -1
        x: variance of P over that of Q, minus one, in each direction. A row is a pair.
    squared_shifts : array, N x m, >= 0
        a^2: squared distance of the means in each direction, in units of Q's deviation.
    counts : array of int, >= 1, one for each direction, or int
        How many coordinates share the direction's excess.
    delta : float, in (0, 1)

    Returns
    -------
    array of N numbers
        Never below the least epsilon. Within 1e-9 of it, relative, or 1e-12 absolute, for
        delta <= 1/2: nearer to 1 the last digits of delta decide. 0 if delta(0) <= delta, inf
        beyond 1e4 and where double precision cannot tell.

    Examples
    --------
    A law of half the variance, and the Gaussian mechanism with mu = 1:

    >>> epsilons_of_pairs([[-0.5], [0.0]], [[0.1], [1.0]], 1, 1e-5).round(3).tolist()
    [10.837, 4.377]
    """
    x, a2, half = _checked(excesses, squared_shifts, counts)
    delta = check_probability("delta", delta)
    x, a2, inverse = _distinct(x, a2)
    pairs = _compact(x, a2, half)
    x, a2, half = pairs.x, pairs.a2, pairs.half

    epsilons = np.full(len(x), np.nan)
    energy = np.sum(half * x**2 / np.minimum(1.0, 1 + x) + a2, axis=1)
    epsilons[np.sqrt(energy / 4) * _UP <= delta] = 0.0
    equal = np.flatnonzero(np.isnan(epsilons) & ~x.any(axis=1))
    if equal.size:
        mu = np.sqrt(a2[equal].sum(axis=1)) * (1 + 4 * x.shape[1] * UNIT)
        some = np.asarray(epsilon_from_mu(np.minimum(mu, _LARGEST_MU), delta))
        epsilons[equal] = np.where(some > FARTHEST, np.inf, some)

    target = log_down(delta)
    single = (half[:, 0] == 0.5) & ~(x[:, 1:].any(axis=1) | a2[:, 1:].any(axis=1))
    known = ~np.isnan(epsilons)
    left = np.flatnonzero(~known & single)
    epsilons[left], known[left] = _of_single(x[left, 0], a2[left, 0], target)
    left = np.flatnonzero(~known)
    left = left[np.argsort(np.count_nonzero(x[left], axis=1), kind="stable")]
    epsilons[left] = np.fmin(epsilons[left], _of_several(pairs.rows(left), target))
    for i in np.flatnonzero(np.isnan(epsilons)):
        curve = PrivacyCurve(GaussianPair(x[i], a2[i], 2 * half[i]), both=True)
        epsilons[i] = curve.epsilon(delta)
    return epsilons[inverse]


def _of_single(x: Array, a2: Array, target: float) -> tuple[Array, NDArray[np.bool_]]:
    """Epsilons of pairs that differ in one coordinate, and which are not blurred by rounding."""
    laws = OneDirection.of(x, a2)
    narrow = Pairs(-laws.h[:, None], laws.a2[:, None], np.full((len(x), 1), 0.5))
    epsilons, sharp = np.zeros(len(x)), np.ones(len(x), dtype=np.bool_)
    _, guess = narrow.reversed().saddles(epsilons, target, FARTHEST)
    for narrow_first in (False, True):

        def excess(epsilon: Array, rows: Index) -> tuple[Array, Array, Array]:
            value, fall, doubt = laws.log_delta(epsilon, rows, narrow_first)  # noqa: B023
            return value - target, fall, doubt

        epsilons, doubts = newton_to_safe_end(excess, guess, epsilons, most=FARTHEST)
        guess, sharp = epsilons, sharp & _is_near(epsilons, doubts)
    return epsilons, sharp


def _of_several(pairs: Pairs, target: float) -> Array:
    """Epsilons of any pairs; NaN where the integral does not converge."""
    back = pairs.reversed()
    # The narrower law against the wider one mostly needs less: it comes second.
    wide = (np.sum(pairs.half * pairs.x, axis=1) > 0)[:, None]
    one, two = (
        Pairs(np.where(w, pairs.x, back.x), np.where(w, pairs.a2, back.a2), pairs.half)
        for w in (wide, ~wide)
    )
    epsilons = _of_direction(one, np.zeros(len(pairs.x)), target)
    finite = np.flatnonzero(np.isfinite(epsilons))
    epsilons[finite] = _of_direction(two.rows(finite), epsilons[finite], target)
    return epsilons


def _of_direction(pairs: Pairs, floor: Array, target: float) -> Array:
    """Least epsilons >= floor for one direction; NaN where the integral does not converge."""
    gap, guess = pairs.saddles(floor, target, FARTHEST)
    epsilons = np.where(pairs.log_guards(gap, floor) <= target, floor, np.nan)
    left = np.flatnonzero(np.isnan(epsilons))
    for step, n_nodes, side in _PATHS:
        size = max(1, _CHUNK // (n_nodes * pairs.x.shape[1]))
        unresolved = []
        for some in np.split(left, range(size, len(left), size)):
            contours = Contours(pairs.rows(some), gap[some], guess[some], step, n_nodes, side)

            def excess(epsilon: Array, rows: Index) -> tuple[Array, Array, Array]:
                value, fall, doubt = contours.log_delta(epsilon, rows)  # noqa: B023
                return value - target, fall, doubt

            ends, doubts = newton_to_safe_end(excess, guess[some], floor[some], most=FARTHEST)
            epsilons[some] = np.fmin(epsilons[some], ends)
            unresolved.append(some[~_is_near(ends, doubts)])
        left = np.concatenate(unresolved)
        if not left.size:
            break
    return epsilons


def _is_near(ends: Array, doubts: Array) -> NDArray[np.bool_]:
    return doubts <= _RELATIVE * ends + _ABSOLUTE


def _checked(
    excesses: ArrayLike, squared_shifts: ArrayLike, counts: ArrayLike
) -> tuple[Array, Array, Array]:
    x, a2 = as_numbers("excesses", excesses), as_numbers("squared_shifts", squared_shifts)
    if x.ndim != 2 or x.shape[1] == 0:
        raise complaint("excesses", "a table of N rows and m >= 1 columns", x.shape)
    if a2.shape != x.shape:
        raise complaint("squared_shifts", f"of the shape {x.shape} of excesses", a2.shape)
    for name, value, fine, allowed in (
        ("excesses", x, np.isfinite(x) & (x > -1), "finite numbers > -1"),
        ("squared_shifts", a2, np.isfinite(a2) & (a2 >= 0), "finite numbers >= 0"),
    ):
        if not fine.all():
            raise complaint(name, allowed, float(value[~fine][0]))
    n = as_numbers("counts", counts)
    if n.ndim > 1 or n.shape not in ((), x.shape[1:]):
        raise complaint("counts", "one integer, or one for each column", counts)
    if not (np.isfinite(n) & (n >= 1) & (n == np.floor(n))).all():
        raise complaint("counts", "integers >= 1", counts)
    return x, a2, np.broadcast_to(n / 2, x.shape[1:])


def _distinct(x: Array, a2: Array) -> tuple[Array, Array, Index]:
    """Every distinct row once, and for each row the number of its like."""
    order = np.lexsort(np.hstack([x, a2]).T)
    x, a2 = x[order], a2[order]
    new = np.ones(len(x), dtype=np.bool_)
    new[1:] = (x[1:] != x[:-1]).any(axis=1) | (a2[1:] != a2[:-1]).any(axis=1)
    inverse = np.empty(len(x), dtype=np.intp)
    inverse[order] = np.cumsum(new) - 1
    return x[new], a2[new], inverse


def _compact(x: Array, a2: Array, half: Array) -> Pairs:
    """Shifts without an excess as one direction, and what differs in the first columns."""
    flat = x == 0
    rest = np.sum(np.where(flat, a2, 0.0), axis=1, keepdims=True)
    x = np.hstack([x, np.zeros_like(rest)])
    a2 = np.hstack([np.where(flat, 0.0, a2), rest])
    order = np.argsort(np.where(x != 0, 0, np.where(a2 > 0, 1, 2)), axis=1, kind="stable")
    table = np.broadcast_to(np.append(half, 0.5), x.shape)
    x, a2, table = (np.take_along_axis(part, order, axis=1) for part in (x, a2, table))
    width = max(1, int(((x != 0) | (a2 > 0)).any(axis=0).sum()))
    return Pairs(x[:, :width], a2[:, :width], table[:, :width])
