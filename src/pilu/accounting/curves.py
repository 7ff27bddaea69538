"""A privacy curve: two Gaussians, one or both directions, and what is not known of them.

Where the true P is only known up to a law P^ that is close to it in Renyi divergence,

    P(S) <= e^{e0} P^(S) + tail      and      P^(S) <= e^{e0} P(S) + tail,

so the divergence of P and Q at eps is at most e^{e0} times that of P^ and Q at eps - e0, plus the
tail (times e^eps in the reverse direction).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pilu._checks import check_probability
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.search import safe_root

__all__ = ["PrivacyCurve", "closeness"]

_FARTHEST = 1e4  # an epsilon beyond which no certificate is of use


def closeness(shift: float, covariance: float, outputs: int, log_tail: float) -> float:
    """e0 for laws whose whitened means and covariances differ by `shift` and `covariance`.

    D_alpha(P || P^) <= alpha (shift^2 + d covariance^2 / 2) while (alpha - 1) covariance <= 1/2;
    with t = max(shift, sqrt(d) covariance) and alpha = 1 + 1/(2t) the loss exceeds
    e0 = t (2 |log_tail| + 2) with probability at most e^log_tail.
    """
    t = max(shift, math.sqrt(outputs) * covariance)
    if not t <= 0.1:
        raise ArithmeticError(f"the two laws are known only up to {t:.2g}: too coarse to certify.")
    return t * (2 * abs(log_tail) + 2)


@dataclass(frozen=True)
class PrivacyCurve:
    """delta as a function of epsilon, never too small."""

    pair: GaussianPair
    both: bool
    epsilon_error: float = 0.0
    log_tail: float = -math.inf

    def log_delta(self, epsilon: float, enough: float = -math.inf) -> float:
        """log delta(epsilon), rounded up; 0 where nothing can be said.

        A cheaper upper bound will do where it is below `enough`.
        """
        if self.pair.is_trivial and self.log_tail == -math.inf:
            return -math.inf
        if epsilon < self.epsilon_error:
            return 0.0
        at = epsilon - self.epsilon_error
        enough -= self.epsilon_error + 1.0  # room for the tail and for e0
        value = self.pair.log_delta(at, enough)
        if self.both:
            value = max(value, self.pair.reversed().log_delta(at, enough))
        tail = self.log_tail + epsilon  # the worse direction's share
        top = max(value + self.epsilon_error, tail)
        if top == -math.inf:
            return top
        rest = math.exp(value + self.epsilon_error - top) + math.exp(tail - top)
        return min(top + math.log(rest) + 1e-15, 0.0)

    def delta(self, epsilon: float) -> float:
        """delta(epsilon), rounded up."""
        return min(math.exp(self.log_delta(epsilon)) * (1 + 1e-15), 1.0)

    def epsilon(self, delta: float) -> float:
        """Least epsilon, rounded up, with delta(epsilon) <= delta."""
        target = math.log(check_probability("delta", delta)) - 1e-14
        return _least_epsilon(lambda e: self.log_delta(e, target) - target, self.epsilon_error)


def _least_epsilon(excess: Callable[[float], float], start: float) -> float:
    if excess(0.0) <= 0:
        return 0.0
    if excess(start) <= 0:  # below its error the curve says nothing
        return start
    low, high = start, start + 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > _FARTHEST:
            return math.inf
    return safe_root(excess, low, high, tolerance=1e-12 * max(high, 1e-3))
