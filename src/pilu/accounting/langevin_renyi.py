"""Langevin unlearning by Renyi divergences, for any row [Chien et al. 2024].

Two projected noisy chains with step eta <= 1/L on m-strongly convex objectives whose gradients
differ by at most M while learning (T steps) and agree while unlearning (K steps), one noise sigma
throughout, each step adding N(0, 2 eta sigma^2 I), have a divergence of order a of at most

    a M^2 / (m sigma^2) (1 - e^{-m eta T}) e^{-m eta K / a}.

The first factors are the learning's, the last is what unlearning takes off (a log-Sobolev
inequality); docs/baselines.md proves both.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu._checks import check_integer, check_real, complaint
from pilu.accounting.gaussian_steps import (
    RENYI_ORDERS,
    check_epsilon_reachable,
    check_orders,
    conversion_cost,
)

__all__ = ["NoisyChain"]

Array = NDArray[np.float64]

_UP = 1 + 1e-12  # for the rounding of a few operations
_LEAST = 1e-290  # where digits are lost to underflow


class NoisyChain(NamedTuple):
    """What the bound knows of two chains.

    `sensitivity` is M, `strong_convexity` m; steps are T and K.
    """

    sensitivity: float
    strong_convexity: float
    step_size: float
    n_steps: int
    n_unlearn_steps: int

    def divergences(self, noise: float, orders: ArrayLike = RENYI_ORDERS) -> Array:
        """The bound at every order."""
        return self._at_unit_noise(orders) / check_real("noise", noise, above=0.0) ** 2

    def epsilon(self, noise: float, delta: float, orders: ArrayLike = RENYI_ORDERS) -> float:
        """epsilon at delta: the least over the orders of divergence + log(1/delta)/(a - 1)."""
        spent = self.divergences(noise, orders) + conversion_cost(delta, orders)
        return float(np.min(spent)) * _UP

    def noise(self, epsilon: float, delta: float, orders: ArrayLike = RENYI_ORDERS) -> float:
        """Least noise, rounded up, with which epsilon suffices at some order."""
        check_epsilon_reachable(epsilon, delta, orders)
        room = epsilon / _UP**2 - conversion_cost(delta, orders)
        squares = self._at_unit_noise(orders)[room > 0] / room[room > 0]
        return math.sqrt(float(np.min(squares))) * _UP

    def _at_unit_noise(self, orders: ArrayLike) -> Array:
        alphas = check_orders(orders)
        M = check_real("sensitivity", self.sensitivity, least=0.0)
        m = check_real("strong_convexity", self.strong_convexity, above=0.0)
        rate = m * check_real("step_size", self.step_size, above=0.0)
        if rate > 1:
            raise complaint("step_size", f"at most 1/strong_convexity = {1 / m:g}", self.step_size)
        learned = -math.expm1(-rate * check_integer("n_steps", self.n_steps, least=1))
        K = check_integer("n_unlearn_steps", self.n_unlearn_steps, least=0)
        with np.errstate(under="ignore"):
            bound = alphas * M**2 / m * learned * np.exp(-rate * K / alphas) * _UP
        return np.asarray(np.maximum(bound, _LEAST if M > 0 else 0.0))
