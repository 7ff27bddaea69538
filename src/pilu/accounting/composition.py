"""What several deletions promise together (docs/guarantee.md, "Repeated requests").

The chain of comparisons runs from the real law over "without the first request" to "without any of
them". From the curve delta_1 of the total so far and the curve delta_2 of the next request,

    delta(eps) <= inf_t delta_1(t) + e^t delta_2(eps - t),

the plain rule delta_1 + e^{eps_1} delta_2 being the case t = eps_1. A total is carried on as a
small table of its curve (`accounting.curve_table`). Where all requests so far have Gaussian curves
mu_j-GDP with slack_j,

    delta(eps) <= delta_GDP(mu_1 + ... + mu_m, eps) + sum_j Phi(mu_1 + ... + mu_{j-1} - z_{slack_j})

because t -> Phi(Phi^-1(t) + mu) is concave and vanishes at 0, hence subadditive. The smallest
counts.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from pilu._checks import as_numbers, check_real, complaint
from pilu.accounting.curve_table import CurveTable, chained
from pilu.accounting.curves import Curve, GaussianCurve

__all__ = ["Spent"]

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_TOLERANCE = 1e-9
_LEVELS_PER_UNIT = 6
# Which levels get a point: every so many, from so far below to so far above the total's own.
_STRIDES = ((1, -8, 3), (2, -16, 7), (4, -24, 16))

_NO_LOSS = CurveTable((0.0,), (0.0,))
_NO_GAUSSIAN_LOSS = GaussianCurve(0.0, 0.0)


@dataclass(frozen=True)
class Spent:
    """The running total since the last redraw; `Spent()` is a fresh start."""

    epsilon: float = 0.0
    delta: float = 0.0
    gaussian: GaussianCurve | None = _NO_GAUSSIAN_LOSS  # None once a request had no such curve
    table: CurveTable = _NO_LOSS

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
