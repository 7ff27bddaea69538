"""Privacy curves: delta as a function of epsilon, for one request and for several together.

One request.  If P is known only up to a law P^ that is close to it in Renyi divergence,

    P(S) <= e^{e0} P^(S) + tail      and      P^(S) <= e^{e0} P(S) + tail,

so the divergence of P and Q at eps >= e0 is at most e^{e0} times that of P^ and Q at eps - e0, plus
the tail (times e^eps in the reverse direction). Below e0 the slope helps: delta(eps) is at most
delta(e0) + e^e0 - e^eps, because P(S) - e^eps Q(S) changes by at most that.

Several requests (docs/guarantee.md, "Repeated requests").  The chain of comparisons runs from the
real law P over W1, "without the first request", to "without any of them". If P against W1 has the
curve delta_1 and W1 against W2 has delta_2, then for every real t

    P(S) <= e^t W1(S) + delta_1(t) <= e^eps W2(S) + delta_1(t) + e^t delta_2(eps - t).

The plain rule delta_1 + e^{eps_1} delta_2 is the case t = eps_1. Where all requests so far have
Gaussian curves mu_j-GDP with slack_j,

    delta(eps) <= delta_GDP(mu_1 + ... + mu_m, eps) + sum_j Phi(mu_1 + ... + mu_{j-1} - z_{slack_j})

because t -> Phi(Phi^-1(t) + mu) is concave and vanishes at 0, hence subadditive. The smallest
counts.

A total is carried on as a few points of its curve (`CurveTable`). Every curve
delta(gamma) = sup_S P(S) - gamma Q(S), gamma = e^epsilon, is a supremum of affine functions of
gamma: convex, nonincreasing, and 1 at gamma = 0. So the chord between two certified points is an
upper bound, also from (gamma, delta) = (0, 1) to the first point; beyond the last one its delta
still holds. With chords for curves the bound above is convex and piecewise linear in e^t, with
kinks where t or eps - t is one of the points: the best t is among these.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from pilu._checks import as_numbers, check_real, complaint
from pilu.accounting.cumulants import UNIT, delta_from_log, log_down, log_up
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu
from pilu.accounting.search import safe_root

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_LARGEST_EXPONENT = 700.0  # its exponential is finite
FARTHEST = 1e4  # an epsilon beyond which no certificate is useful
# Rungs of a ladder of Gaussian curves, as octaves of mu: few below, where deltas are small.
_RUNGS = np.array([-3.0, -2.0, -1.0, *(k / 4 for k in range(17))])
_MOST_POINTS = 32  # of a table
_LEAST = 1e-300  # a positive delta is not kept smaller, so that e^700 of it is still above 1
_TOLERANCE = 1e-9
_LEVELS_PER_UNIT = 6
# Which levels get a point: every so many, from so far below to so far above the total's own.
_STRIDES = ((1, -8, 3), (2, -16, 7), (4, -24, 16))


class Curve(Protocol):
    """What a request is certified at, as a function of epsilon."""

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon >= 0, never too small; 1 if nothing is known."""


@dataclass(frozen=True)
class GaussianCurve:
    """mu-GDP outside an event of probability `slack`: delta_GDP(mu, epsilon) + slack."""

    mu: float
    slack: float

    def __post_init__(self) -> None:
        check_real("mu", self.mu, least=0.0)
        check_real("slack", self.slack, least=0.0)

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, rounded up."""
        return np.minimum((delta_from_mu(self.mu, epsilons) + self.slack) * _UP, 1.0)

    def followed_by(self, other: "GaussianCurve") -> "GaussianCurve":
        """P against W2, from P against W1 (this curve) and W1 against W2 (the other).

        psi_1(psi_2(q) + slack_2) + slack_1 <= psi_{1+2}(q) + psi_1(slack_2) + slack_1, where
        psi_mu(q) = Phi(Phi^-1(q) + mu).
        """
        if self == GaussianCurve(0.0, 0.0):
            return other
        slack = self.slack
        if other.slack > 0:
            slack += float(ndtr(self.mu + ndtri(min(other.slack, 1.0))))
        return GaussianCurve((self.mu + other.mu) * _UP, slack * _UP)


@dataclass(frozen=True)
class PrivacyCurve:
    """delta as a function of epsilon, never too small."""

    pair: GaussianPair
    both: bool
    epsilon_error: float = 0.0
    log_tail: float = -math.inf

    def log_delta(self, epsilon: float, enough: float = -math.inf) -> float:
        """log delta(epsilon), rounded up; 0 if nothing is known.

        A cheaper upper bound is returned if it is below `enough`.
        """
        return self._log_delta(epsilon, enough, self._directions)

    @property
    def _directions(self) -> tuple[bool, ...]:
        """Whether P and Q are exchanged: in the first direction, and in the second."""
        return (True, False) if self.both else (False,)

    def _log_delta(self, epsilon: float, enough: float, directions: tuple[bool, ...]) -> float:
        if self.pair.is_trivial and self.log_tail == -math.inf:
            return -math.inf
        if epsilon < self.epsilon_error:
            if self.epsilon_error > _LARGEST_EXPONENT:
                return 0.0
            rest = math.expm1(self.epsilon_error - epsilon) * math.exp(epsilon)
            delta = self.delta(self.epsilon_error) + rest * _UP
            return min(log_up(delta), 0.0)
        at = epsilon - self.epsilon_error
        enough -= self.epsilon_error + 1.0  # room for the tail and for e0
        pairs = [self.pair.reversed() if exchanged else self.pair for exchanged in directions]
        return self.with_errors(max(pair.log_delta(at, enough) for pair in pairs), epsilon)

    def with_errors(self, value: float, epsilon: float) -> float:
        """log delta(epsilon), rounded up, given the pair's at epsilon less its error."""
        tail = self.log_tail + (epsilon if self.both else 0.0)  # the worse direction's share
        top = max(value + self.epsilon_error, tail)
        if top == -math.inf:
            return top
        rest = math.exp(value + self.epsilon_error - top) + math.exp(tail - top)
        return min(top + math.log(rest) + 4 * UNIT * (2 + abs(top)), 0.0)

    def delta(self, epsilon: float) -> float:
        """delta(epsilon), rounded up."""
        return delta_from_log(self.log_delta(epsilon))

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, rounded up; 1 where it cannot be evaluated."""

        def known(epsilon: float) -> float:
            try:
                return self.delta(epsilon)
            except ArithmeticError:
                return 1.0

        return np.array([known(epsilon) for epsilon in epsilons.tolist()])

    def forward(self) -> "PrivacyCurve":
        """The curve of P against Q alone, the direction of Definition 1."""
        return replace(self, both=False)

    def epsilon(self, delta: float, near: float = 0.0) -> float:
        """Least epsilon, rounded up, with delta(epsilon) <= delta; the search starts at `near`."""
        if not 0.0 < delta < 1.0:
            raise complaint("delta", "in (0, 1)", delta)
        target = log_down(delta)

        def excess(epsilon: float, directions: tuple[bool, ...] = self._directions) -> float:
            try:
                return self._log_delta(epsilon, target, directions) - target
            except ArithmeticError:  # then delta may be 1
                return -target

        low, high = near / 1.1, near * 1.1
        for direction in self._directions if low > self.epsilon_error else ():
            # One direction mostly decides, so that the other need only be checked in the end.
            alone = partial(excess, directions=(direction,))
            if alone(low) > 0 >= alone(high):
                root = safe_root(alone, low, high, tolerance=1e-12 * max(high, 1e-3))
                if excess(root) <= 0:
                    return root if root <= FARTHEST else math.inf
        if excess(0.0) <= 0:
            return 0.0
        low, high = self.epsilon_error, self.epsilon_error + 1.0
        if excess(low) <= 0:  # below its error the curve is of no use
            return low
        while excess(high) > 0:
            low, high = high, 2 * high
            if high > FARTHEST:
                return math.inf
        return safe_root(excess, low, high, tolerance=1e-12 * max(high, 1e-3))


@dataclass(frozen=True)
class CoarseCurve:
    """A privacy curve rounded up to the next of a ladder of Gaussian curves, at every epsilon.

    The ladder starts from the `mu` of the Gaussian mechanism with the request's (epsilon, delta).
    The curve of a calibrated request is close to that mechanism's, so most rungs are never used.
    """

    curve: Curve
    mu: float

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon, never too small."""
        fine, e = self.curve.deltas(epsilons), np.asarray(epsilons, dtype=np.float64)
        mus = self.mu * 2.0 ** _RUNGS[:, None]
        ladder = np.vstack([delta_from_mu(mus, e[None, :]), np.ones(len(e))])
        return np.asarray(ladder[np.argmax(ladder >= fine, axis=0), np.arange(len(e))])


@dataclass(frozen=True)
class CurveTable:
    """Points (epsilon, delta) at which P(S) <= e^epsilon Q(S) + delta is known for every S.

    Parameters
    ----------
    epsilons : numbers >= 0, increasing
    deltas : numbers in [0, 1], nonincreasing
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    def __post_init__(self) -> None:
        e, d = (np.array(v, dtype=np.float64) for v in (self.epsilons, self.deltas))
        if e.ndim != 1 or not 1 <= len(e) <= _MOST_POINTS:
            raise complaint("epsilons", f"1 to {_MOST_POINTS} numbers", self.epsilons)
        if not (np.isfinite(e).all() and e[0] >= 0 and (np.diff(e) > 0).all()):
            raise complaint("epsilons", "finite numbers >= 0, increasing", self.epsilons)
        if d.shape != e.shape:
            raise complaint("deltas", "as many as epsilons", self.deltas)
        if not (((d >= 0) & (d <= 1)).all() and (np.diff(d) <= 0).all()):
            raise complaint("deltas", "in [0, 1] and nonincreasing", self.deltas)
        object.__setattr__(self, "epsilons", tuple(e.tolist()))
        object.__setattr__(self, "deltas", tuple(d.tolist()))

    @classmethod
    def of(cls, epsilons: Array, deltas: Array) -> Self:
        """The table of certified points, brought into the form that a table has."""
        # What is certified at a smaller epsilon is certified at a larger one too.
        falling = np.minimum.accumulate(np.minimum(deltas, 1.0))
        kept = np.where(falling > 0, np.maximum(falling, _LEAST), 0.0)
        return cls(tuple(epsilons.tolist()), tuple(kept.tolist()))

    def at(self, epsilon: ArrayLike) -> Array:
        """delta(epsilon), rounded up, for epsilons of either sign: the chord in e^epsilon."""
        e = np.asarray(epsilon, dtype=np.float64)
        # The point (gamma, delta) = (0, 1) in front, the last delta carried on behind.
        points = np.array([-np.inf, *self.epsilons, np.inf])
        deltas = np.array([1.0, *self.deltas, self.deltas[-1]])
        right = np.searchsorted(points, e, side="right")
        left = right - 1
        # Both weights are formed by themselves: a tiny one may stand before a large delta.
        width = -np.expm1(points[left] - points[right])
        on_left = -np.expm1(e - points[right]) / width
        on_right = np.exp(e - points[right]) * -np.expm1(points[left] - e) / width
        chord = on_left * deltas[left] + on_right * deltas[right]
        return np.asarray(np.minimum(chord * _UP, 1.0))


def chained(first: CurveTable, second: CurveTable, epsilon: Array) -> Array:
    """inf_t delta_1(t) + e^t delta_2(epsilon - t) at every epsilon, rounded up."""
    shape = (len(epsilon), len(first.epsilons))
    t = np.hstack(
        [np.broadcast_to(first.epsilons, shape), epsilon[:, None] - np.array(second.epsilons)]
    )
    rest = np.nextafter(epsilon[:, None] - t, -np.inf)  # t + rest may not exceed epsilon
    growth = np.exp(np.minimum(t, _LARGEST_EXPONENT))
    totals = first.at(t) + growth * second.at(rest)
    return np.asarray(np.minimum(totals.min(axis=1) * _UP, 1.0))


@dataclass(frozen=True)
class Spent:
    """The running total since the last redraw; `Spent()` is a fresh start."""

    epsilon: float = 0.0
    delta: float = 0.0
    gaussian: GaussianCurve | None = GaussianCurve(
        0.0, 0.0
    )  # None once a request had no such curve
    table: CurveTable = CurveTable((0.0,), (0.0,))

    def after(self, *, epsilon: float, delta: float, curve: Curve) -> "Spent":
        """The total once one more request is answered.

        Parameters
        ----------
        epsilon, delta : float
            What the request is certified at against its own reference.
        curve : Curve
            What its evidence certifies at other epsilons, in the direction of Definition 1.
        """
        total = _sum_rounded_up(self.epsilon, epsilon)
        here, there = _places(self, epsilon, delta, total)
        deltas = chained(self.table, CurveTable.of(there, curve.deltas(there)), here)
        gaussian = None
        if self.gaussian is not None and isinstance(curve, GaussianCurve):
            gaussian = self.gaussian.followed_by(curve)
            deltas = np.minimum(deltas, gaussian.deltas(here))
        if self == Spent():
            headline = delta  # its own certificate
        else:
            growth = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
            plain = (self.delta + growth * delta) * _UP
            # A delta of 1 promises nothing, and says so.
            headline = min(plain, float(deltas[here == total][0]), 1.0)
        deltas[here == total] = np.minimum(deltas[here == total], headline)
        return Spent(total, headline, gaussian, CurveTable.of(here, deltas))

    def record(self) -> dict[str, Any]:
        """The total as plain numbers, for a certificate's evidence."""
        g = self.gaussian
        return {
            "total": [self.epsilon, self.delta],
            "gaussian": None if g is None else [g.mu, g.slack],
            "epsilons": list(self.table.epsilons),
            "deltas": list(self.table.deltas),
        }

    @classmethod
    def from_record(cls, record: Any) -> "Spent":
        """Read what `record` wrote; a wrong record is a `ValueError` or `TypeError`."""
        if set(record) != set(Spent().record()):
            raise complaint("prior", f"a record of {sorted(Spent().record())}", record)
        epsilon, delta = (check_real("total", v, least=0.0) for v in record["total"])
        gaussian = record["gaussian"]
        if gaussian is not None:
            mu, slack = (check_real("gaussian", v, least=0.0) for v in gaussian)
            gaussian = GaussianCurve(mu, slack)
        epsilons, deltas = (as_numbers(name, record[name]) for name in ("epsilons", "deltas"))
        table = CurveTable(tuple(epsilons.tolist()), tuple(deltas.tolist()))
        # The table knows the total, so that a later total is never worse than the plain rule.
        if not table.at(epsilon) * (1 - _TOLERANCE) <= delta <= 1:
            raise complaint("delta", "in [0, 1] and at least that of the table", delta)
        return cls(epsilon, delta, gaussian, table)


def _sum_rounded_up(a: float, b: float) -> float:
    total, small, large = a + b, min(a, b), max(a, b)
    return total if total - large >= small else math.nextafter(total, math.inf)


# Any points of a table are valid: their places decide only how tight it is. They are chosen as for
# Gaussian mechanisms with the same (epsilon, delta). With the level x of
# a point defined by P(loss > eps) = Phi(-x), a mu-GDP curve has eps = mu (x + mu/2), and the best t
# for a total at level x is at the same level x of the first curve and at x + mu_1 of the second.
# So all tables take their points from one lattice of levels: those of one meet those of the next.


def _places(prior: Spent, epsilon: float, delta: float, total: float) -> tuple[Array, Array]:
    """Epsilons for the points of the new total's table, and of the request's."""
    before, new = _likely_mu(prior.epsilon, prior.delta), _likely_mu(epsilon, delta)
    mu = before + new
    if mu == 0.0:  # deltas of 0: there is nothing to trade
        return np.array([total]), np.array([epsilon])
    own = total / mu - mu / 2
    levels = _lattice_around(own)
    here = np.append(_epsilons(mu, levels), total)
    there = _epsilons(new, np.append(levels, own) + before)
    return np.unique(here), np.unique(there)


def _epsilons(mu: float, levels: Array) -> Array:
    return np.maximum(mu * (levels + mu / 2), 0.0)


def _lattice_around(level: float) -> Array:
    """Dense near the level and on the side of larger deltas, sparser farther off."""
    own = math.floor(level * _LEVELS_PER_UNIT)
    chosen = {
        k
        for stride, below, above in _STRIDES
        for k in range(own + below, own + above + 1)
        if k % stride == 0
    }
    return np.array(sorted(chosen)) / _LEVELS_PER_UNIT


def _likely_mu(epsilon: float, delta: float) -> float:
    """mu of the Gaussian mechanism with delta(epsilon) = delta, without any claim to safety."""
    if delta == 0.0:
        return 0.0
    delta = min(delta, 0.9)

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        x = epsilon / mu - mu / 2
        return float(ndtr(-x)) - math.exp(epsilon + float(log_ndtr(-x - mu))) - delta

    # delta_GDP <= Phi(-x) and <= mu/2 below, and is above 0.9 at the other end.
    tail = math.sqrt(-2 * math.log(delta))
    low = math.log(max(2 * epsilon / (tail + math.sqrt(tail**2 + 2 * epsilon)), 2 * delta))
    high = math.log(math.sqrt(2 * epsilon) + 6)
    if excess(low) >= 0:
        return math.exp(low)
    return math.exp(brentq(excess, low, high, xtol=1e-13, maxiter=1000))
