"""Chien et al.'s bound: the formula in 50 digits, and the divergences of chains under it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.competitors import chien_divergence, gaussian_chain_divergence
from pilu.accounting import NoisyChain, mu_from_sensitivities
from pilu.accounting.renyi import RENYI_ORDERS

CHAINS = [
    NoisyChain(3.0, 0.2, 0.05, 100, 20),
    NoisyChain(1e4, 1e-4, 1e-5, 800, 80),
    NoisyChain(0.1, 1.0, 1.0, 1, 0),
]


@pytest.mark.parametrize("chain", CHAINS)
def test_the_formula(chain):
    orders = [1.01, 2.0, 30.0, 1e5]
    M, m, eta, T, K = chain
    for order, found in zip(orders, chain.divergences(0.7, orders), strict=True):
        exact = chien_divergence(order, M, m, eta, 0.7, T, K)
        assert exact <= found <= exact * (1 + 1e-11)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-9])
def test_least_noise(chain, epsilon, delta):
    noise = chain.noise(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= chain.epsilon(noise, delta) <= epsilon
    M, m, eta, T, K = chain
    spent = min(
        float(chien_divergence(a, M, m, eta, noise, T, K)) + math.log(1 / delta) / (a - 1)
        for a in RENYI_ORDERS[::7]
    )
    assert chain.epsilon(noise, delta) <= spent * (1 + 1e-9)


@given(
    st.floats(1e-3, 1.0),
    st.floats(1e-2, 1.0),
    st.integers(1, 60),
    st.integers(0, 30),
    st.floats(1.01, 40.0),
)
def test_two_chains_on_a_line_are_within_the_bound(rate, share, T, K, order):
    """Curvature a >= m, a constant difference of gradients: the divergence has a closed form."""
    eta, a = 0.5, rate / 0.5
    m = share * a
    exact = gaussian_chain_divergence(order, a, 2.0, eta, 0.9, T, K)
    bound = NoisyChain(2.0, m, eta, T, K).divergences(0.9, [order])[0]
    assert exact <= bound


@given(st.floats(1e-6, 1.0), st.integers(1, 3000))
def test_learning_is_within_half_of_it(rate, T):
    """Shifted interpolation gives mu-GDP for any such chains, and a mu^2 / 2 at order a."""
    eta, m = 0.1, rate / 0.1
    mu = mu_from_sensitivities(np.full(T, eta * 2.0), np.full(T, 2 * eta * 0.9**2), 1 - eta * m)
    bound = NoisyChain(2.0, m, eta, T, 0).divergences(0.9, [3.0])[0]
    assert 3.0 * mu**2 / 2 <= 0.5 * bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sensitivity": -1.0}, "sensitivity must be"),
        ({"strong_convexity": 0.0}, "strong_convexity must be"),
        ({"step_size": 0.0}, "step_size must be a finite number > 0"),
        ({"step_size": 6.0}, "step_size must be at most 1/strong_convexity = 5"),
        ({"n_steps": 0}, "n_steps must be"),
        ({"n_unlearn_steps": -1}, "n_unlearn_steps must be"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        CHAINS[0]._replace(**changes).divergences(1.0)


def test_underflow_is_on_the_safe_side():
    assert NoisyChain(1.0, 1.0, 1.0, 1, 5000).noise(1.0, 1e-2, orders=[2.0, 8.0]) > 0
    assert NoisyChain(0.0, 1.0, 1.0, 1, 1).noise(1.0, 1e-2) == 0.0


def test_no_noise_is_enough_at_few_orders():
    with pytest.raises(ValueError, match=r"epsilon must be above 4\.61.*larger orders"):
        CHAINS[0].noise(1.0, 1e-2, orders=[2.0])
    with pytest.raises(ValueError, match="orders must be"):
        CHAINS[0].noise(1.0, 1e-2, orders=[1.0])
