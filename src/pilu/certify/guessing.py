"""How often an observer can be right, by what a certificate proves.

Somebody sees the released parameters and must say, at even odds, whether they came from P (the
store) or from Q (the comparison, which never had the person). Who answers P on a set S is right
with probability (1 + P(S) - Q(S)) / 2, so nobody is right more often than

    (1 + TV) / 2,    TV = sup_S P(S) - Q(S) = delta(0),

where delta(epsilon) = sup_S P(S) - e^epsilon Q(S) is the privacy curve. What is known of the curve
bounds TV:

    mu-GDP                                   2 Phi(mu/2) - 1, so (1 + TV)/2 = Phi(mu/2)
    mu-GDP but for an event of slack         2 Phi(mu/2) - 1 + slack
    a point, P(S) <= e^eps Q(S) + delta      1 - (1 - delta) e^-eps
    a point in both directions               1 - 2 (1 - delta) / (1 + e^eps)

The third takes Q(S) >= (P(S) - delta) e^-eps, which is worst at P(S) = 1. It is the chord of the
curve from (e^epsilon, delta) = (0, 1) to the point, so `CurveTable.at(0)` is the best over all
points. The fourth adds the third's premise for S and, exchanged, for the complement of S. A running
total is certified in one direction only, so it does not use the fourth.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pilu.accounting.curves import Spent
from pilu.accounting.gdp import delta_from_mu

_UP = 1 + 1e-12


def guess_from_mu(mu: float) -> float:
    """Phi(mu/2), rounded up: how often a guess is right, at most, under mu-GDP.

    >>> round(guess_from_mu(1.0), 4)
    0.6915
    """
    return _right(float(delta_from_mu(mu, 0.0)))


def guess_from_point(epsilon: float, delta: float, *, both: bool) -> float:
    """The same from one point of the curve; `both` if it holds in both directions.

    >>> round(guess_from_point(1.0, 0.0, both=False), 4), round(
    ...     guess_from_point(1.0, 0.0, both=True), 4
    ... )
    (0.8161, 0.7311)
    """
    misses = (1.0 - min(delta, 1.0)) * math.exp(-epsilon)
    if both:
        misses *= 2.0 / (1.0 + math.exp(-epsilon))
    return _right(1.0 - misses)


def guess_from_total(spent: Spent) -> float:
    """The same from all that a running total knows of its curve."""
    variations = [float(spent.table.at(0.0))]
    if spent.gaussian is not None:
        variations.append(float(spent.gaussian.deltas(np.zeros(1))[0]))
    return _right(min(variations))


def guess_bound(certificate: Mapping[str, Any], total: Spent | None = None) -> float:
    """How often a guess is right, at most, by a certificate as a record.

    Without the running total, certificates of a chain are bounded by their total epsilon and delta
    alone, which is true but far larger.
    """
    method, scope = certificate["method"], certificate["scope"]
    if method == "redraw":
        return 0.5
    if method == "refit":
        return guess_from_mu(float(certificate["mu"]))
    bounds = [
        guess_from_point(certificate["total_epsilon"], certificate["total_delta"], both=False)
    ]
    if total is not None:
        bounds.append(guess_from_total(total))
    reverse = scope["reverse_delta"]
    if reverse is not None and not scope["conditional_on_earlier_requests"]:
        delta = max(certificate["delta"], reverse)
        bounds.append(guess_from_point(certificate["epsilon"], delta, both=True))
    return min(bounds)


def percent(share: float) -> str:
    """A share in per cent, rounded up to a tenth.

    >>> percent(0.50391), percent(0.5)
    ('50.4', '50')
    """
    return f"{min(math.ceil(round(1000 * share, 9)) / 10, 100):g}"


def _right(variation: float) -> float:
    return min((1.0 + max(variation, 0.0)) / 2.0 * _UP, 1.0) if variation > 0 else 0.5
