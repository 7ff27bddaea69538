"""Many noisy steps by Renyi divergences: the paper's DP-GD, also exactly, and Langevin unlearning.

A step of DP-GD adds N(0, sigma^2 I) to a sum in which one row counts with norm at most C;
z = sigma / C is the noise multiplier. n steps, whatever each has seen of those before, cost

    Renyi, at order a:   n a / (2 z^2), epsilon = that + log(1/delta)/(a - 1)   [PILU, app. DP-GD]
    exactly:             mu-GDP with mu = sqrt(n) / z.

The first is an upper bound at every order, so the least over a grid is one too.

Langevin unlearning, for any row [Chien et al. 2024].  Two projected noisy chains with step
eta <= 1/L on m-strongly convex objectives whose gradients differ by at most M while learning
(T steps) and agree while unlearning (K steps), one noise sigma throughout, each step adding
N(0, 2 eta sigma^2 I), have a divergence of order a of at most

    a M^2 / (m sigma^2) (1 - e^{-m eta T}) e^{-m eta K / a}.

The first factors are the learning's, the last is what unlearning takes off (a log-Sobolev
inequality); docs/baselines.md proves both.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu._checks import as_numbers, check_integer, check_probability, check_real, complaint
from pilu.accounting.gdp import epsilon_from_mu, mu_from_epsilon
from pilu.accounting.search import bisect_to_safe_end

Array = NDArray[np.float64]

# The best orders of huge epsilons are the smallest, those of tiny epsilons the largest.
RENYI_ORDERS = tuple(
    float(order)
    for order in np.concatenate([np.arange(101, 1100) / 100, np.geomspace(11, 1e6, 400)])
)

_UP = 1 + 1e-12  # for the rounding of a few operations
_LEAST = 1e-290  # where digits are lost to underflow


def renyi_divergences(
    noise_multiplier: float, n_steps: int, orders: ArrayLike = RENYI_ORDERS
) -> Array:
    """Renyi divergence of n steps at every order: n a / (2 z^2)."""
    z, n = _check(noise_multiplier, n_steps)
    return np.asarray(n * _check_orders(orders) / (2 * z * z))


def renyi_epsilon(
    noise_multiplier: float, n_steps: int, delta: float, orders: ArrayLike = RENYI_ORDERS
) -> float:
    """epsilon of n steps by the paper's formula: the least over the orders, rounded up."""
    spent = renyi_divergences(noise_multiplier, n_steps, orders) + _conversion_cost(delta, orders)
    return float(np.min(spent)) * _UP


def renyi_noise(
    epsilon: float, delta: float, n_steps: int, orders: ArrayLike = RENYI_ORDERS
) -> float:
    """Least noise multiplier, rounded up, with renyi_epsilon <= epsilon.

    Raises
    ------
    ValueError
        Where no noise is enough, because log(1/delta)/(a - 1) exceeds epsilon at every order.
    """
    _check_epsilon_reachable(epsilon, delta, orders)

    def enough(noise: Array) -> NDArray[np.bool_]:
        return np.array([renyi_epsilon(float(z), n_steps, delta, orders) <= epsilon for z in noise])

    low, high = np.array([0.0]), np.array([1.0])
    while not enough(high).all():
        low, high = high, 2 * high
    return float(bisect_to_safe_end(enough, low, high, rtol=1e-12)[0])


def gaussian_epsilon(noise_multiplier: float, n_steps: int, delta: float) -> float:
    """Least epsilon of n steps, rounded up: they are one Gaussian mechanism."""
    z, n = _check(noise_multiplier, n_steps)
    return float(epsilon_from_mu(math.sqrt(n) / z * _UP, check_probability("delta", delta)))


def gaussian_noise(epsilon: float, delta: float, n_steps: int) -> float:
    """Least noise multiplier, rounded up, with which n steps are (epsilon, delta)-private."""
    mu = float(mu_from_epsilon(epsilon, delta))
    return math.sqrt(check_integer("n_steps", n_steps, least=1)) / mu * _UP


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
        spent = self.divergences(noise, orders) + _conversion_cost(delta, orders)
        return float(np.min(spent)) * _UP

    def noise(self, epsilon: float, delta: float, orders: ArrayLike = RENYI_ORDERS) -> float:
        """Least noise, rounded up, with which epsilon suffices at some order."""
        _check_epsilon_reachable(epsilon, delta, orders)
        room = epsilon / _UP**2 - _conversion_cost(delta, orders)
        squares = self._at_unit_noise(orders)[room > 0] / room[room > 0]
        return math.sqrt(float(np.min(squares))) * _UP

    def _at_unit_noise(self, orders: ArrayLike) -> Array:
        alphas = _check_orders(orders)
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


def _conversion_cost(delta: float, orders: ArrayLike) -> Array:
    """log(1/delta)/(a - 1): what turning a divergence of order a into epsilon costs."""
    return np.asarray(-math.log(check_probability("delta", delta)) / (_check_orders(orders) - 1))


def _check_epsilon_reachable(epsilon: float, delta: float, orders: ArrayLike) -> None:
    """Refuse an epsilon that is no larger than the cost of the conversion at every order."""
    check_real("epsilon", epsilon, above=0.0)
    least = float(np.min(_conversion_cost(delta, orders)))
    if not least < epsilon * (1 - 1e-9):
        raise complaint(
            "epsilon",
            f"above {least:.3g}, the cost of delta at the largest order",
            epsilon,
            "Ask for a larger epsilon or delta, or pass larger orders.",
        )


def _check(noise_multiplier: float, n_steps: int) -> tuple[float, int]:
    return (
        check_real("noise_multiplier", noise_multiplier, above=0.0),
        check_integer("n_steps", n_steps, least=1),
    )


def _check_orders(orders: ArrayLike) -> Array:
    """Renyi orders: finite numbers > 1."""
    alphas = np.atleast_1d(as_numbers("orders", orders))
    if alphas.size == 0 or not (np.isfinite(alphas) & (alphas > 1)).all():
        raise complaint("orders", "finite numbers > 1", alphas.tolist()[:3])
    return alphas
