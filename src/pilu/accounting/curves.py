"""Privacy curves of two Gaussians, in one or both directions, with the error of their laws.

If P is known only up to a law P^ that is close to it in Renyi divergence,

    P(S) <= e^{e0} P^(S) + tail      and      P^(S) <= e^{e0} P(S) + tail,

so the divergence of P and Q at eps >= e0 is at most e^{e0} times that of P^ and Q at eps - e0, plus
the tail (times e^eps in the reverse direction). Below e0 the slope helps: delta(eps) is at most
delta(e0) + e^e0 - e^eps, because P(S) - e^eps Q(S) changes by at most that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pilu._checks import check_real, complaint
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu
from pilu.accounting.search import safe_root
from pilu.exceptions import BeyondPrecision

__all__ = ["CoarseCurve", "Curve", "GaussianCurve", "PrivacyCurve", "closeness"]

Array = NDArray[np.float64]

_UP = 1 + 1e-12
_FARTHEST_ERROR = 700.0  # its exponential is still a double
# Rungs of a ladder of Gaussian curves, as octaves of mu: few below, where deltas are small.
_RUNGS = np.array([-3.0, -2.0, -1.0, *(k / 4 for k in range(17))])
_FARTHEST = 1e4  # an epsilon beyond which no certificate is useful


class Curve(Protocol):
    """What a request is certified at, as a function of epsilon."""

    def deltas(self, epsilons: Array) -> Array:
        """delta at every epsilon >= 0, never too small; 1 if nothing is known."""
        ...


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


def closeness(shift: float, covariance: float, outputs: int, log_tail: float) -> float:
    """e0 for laws whose whitened means and covariances differ by `shift` and `covariance`.

    D_alpha(P || P^) <= alpha t^2, t^2 = shift^2 + d covariance^2 / 2, while
    (alpha - 1) covariance <= 1/2. By Chernoff's bound the loss exceeds
    e0 = alpha t^2 + |log_tail| / (alpha - 1) with probability at most e^log_tail; alpha is chosen.
    """
    size, tail = math.hypot(shift, math.sqrt(outputs / 2) * covariance), abs(log_tail)
    if not max(size, covariance) <= 0.1:
        raise BeyondPrecision(
            f"the two laws are known only up to {size:.2g}: too coarse to certify. Use more noise."
        )
    if size == 0.0:
        return 0.0
    more = min(math.sqrt(tail) / size, 1 / (2 * covariance) if covariance > 0 else math.inf)
    return ((1 + more) * size**2 + tail / more) * _UP


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
        if self.pair.is_trivial and self.log_tail == -math.inf:
            return -math.inf
        if epsilon < self.epsilon_error:
            if self.epsilon_error > _FARTHEST_ERROR:
                return 0.0
            rest = math.expm1(self.epsilon_error - epsilon) * math.exp(epsilon)
            delta = self.delta(self.epsilon_error) + rest * _UP
            return min(math.log(delta) + 1e-15, 0.0)
        at = epsilon - self.epsilon_error
        enough -= self.epsilon_error + 1.0  # room for the tail and for e0
        value = self.pair.log_delta(at, enough)
        if self.both:
            value = max(value, self.pair.reversed().log_delta(at, enough))
        tail = self.log_tail + (epsilon if self.both else 0.0)  # the worse direction's share
        top = max(value + self.epsilon_error, tail)
        if top == -math.inf:
            return top
        rest = math.exp(value + self.epsilon_error - top) + math.exp(tail - top)
        return min(top + math.log(rest) + 1e-15, 0.0)

    def delta(self, epsilon: float) -> float:
        """delta(epsilon), rounded up."""
        log_delta = self.log_delta(epsilon)
        # What underflows is still positive.
        least = 0.0 if log_delta == -math.inf else 5e-324
        return min(max(math.exp(log_delta) * (1 + 1e-15), least), 1.0)

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

    def epsilon(self, delta: float) -> float:
        """Least epsilon, rounded up, with delta(epsilon) <= delta."""
        if not 0.0 < delta < 1.0:
            raise complaint("delta", "in (0, 1)", delta)
        target = math.log(delta) - 1e-14

        def excess(epsilon: float) -> float:
            try:
                return self.log_delta(epsilon, target) - target
            except ArithmeticError:  # then delta may be 1
                return -target

        return _least_epsilon(excess, self.epsilon_error)


def _least_epsilon(excess: Callable[[float], float], start: float) -> float:
    if excess(0.0) <= 0:
        return 0.0
    if excess(start) <= 0:  # below its error the curve is of no use
        return start
    low, high = start, start + 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > _FARTHEST:
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
