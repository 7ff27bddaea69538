"""What several deletions promise together (docs/guarantee.md, "Repeated requests").

The chain of comparisons runs from the real law over "without the first request" to "without any of
them". With the m-th request's mu_m and failure probability slack_m:

    delta(eps) <= delta_GDP(mu_1 + ... + mu_m, eps) + sum_j Phi(mu_1 + ... + mu_{j-1} - z_{slack_j})

because t -> Phi(Phi^-1(t) + mu) is concave and vanishes at 0, hence subadditive. Beside it stands
the plain rule (eps_1 + eps_2, delta_1 + e^eps_1 delta_2), which needs no mu; the smaller delta
counts.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

from pilu.accounting.gdp import delta_from_mu

__all__ = ["Spent"]

_UP = 1 + 1e-12


@dataclass(frozen=True)
class Spent:
    """The running total since the last redraw; `Spent()` is a fresh start."""

    epsilon: float = 0.0
    delta: float = 0.0
    mu: float | None = 0.0  # None once a request spoke of no mu
    slack: float = 0.0

    def after(self, *, epsilon: float, delta: float, mu: float | None, slack: float) -> "Spent":
        """The total once one more request, certified by itself at (epsilon, delta), is answered.

        Parameters
        ----------
        epsilon, delta : float
            What the request is certified at against its own reference.
        mu, slack : float
            The same certificate in parts, where it has them: mu-GDP outside an event of
            probability `slack`.
        """
        total_epsilon = self.epsilon + epsilon
        if self == Spent():
            return Spent(total_epsilon, delta, mu, slack)
        growth = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        plain = (self.delta + growth * delta) * _UP
        if self.mu is None or mu is None:
            return Spent(total_epsilon, min(plain, 1.0), None, 0.0)
        total_mu = (self.mu + mu) * _UP
        total_slack = self.slack
        if slack > 0:
            total_slack += float(ndtr(self.mu + ndtri(slack))) * _UP
        gaussian = (float(delta_from_mu(total_mu, total_epsilon)) + total_slack) * _UP
        # A delta of 1 promises nothing, and says so.
        return Spent(total_epsilon, min(plain, gaussian, 1.0), total_mu, total_slack)
