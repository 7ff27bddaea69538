"""Many Gaussian steps against Google's dp-accounting and 60-digit conversions."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from oracles.high_precision import delta_from_mu_mp
from pilu.accounting.renyi import (
    RENYI_ORDERS,
    gaussian_epsilon,
    gaussian_noise,
    renyi_divergences,
    renyi_epsilon,
    renyi_noise,
)

STEPS = [1, 80, 880]


def composed(noise_multiplier, n_steps, orders=RENYI_ORDERS):
    accountant = RdpAccountant(list(orders))
    return accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier), n_steps)


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("noise", [0.5, 3.0, 200.0])
def test_renyi_divergences_of_every_order(n_steps, noise):
    found = renyi_divergences(noise, n_steps)
    np.testing.assert_allclose(found, composed(noise, n_steps)._rdp, rtol=1e-12)


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_papers_conversion_is_never_below_a_tighter_one(n_steps, delta):
    for noise in (5.0, 50.0):
        paper = renyi_epsilon(noise, n_steps, delta)
        by_hand = min(
            n_steps * a / (2 * noise**2) + np.log(1 / delta) / (a - 1) for a in RENYI_ORDERS
        )
        assert paper == pytest.approx(by_hand, rel=1e-11)
        assert paper >= by_hand
        assert paper >= composed(noise, n_steps).get_epsilon(delta)
        assert paper >= gaussian_epsilon(noise, n_steps, delta)


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_least_noise(n_steps, epsilon, delta):
    exact = gaussian_noise(epsilon, delta, n_steps)
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta) * np.sqrt(n_steps)
    assert exact == pytest.approx(theirs, rel=1e-6)
    assert delta_from_mu_mp(np.sqrt(n_steps) / exact, epsilon) <= delta
    assert gaussian_epsilon(exact, n_steps, delta) == pytest.approx(epsilon, rel=1e-9)
    paper = renyi_noise(epsilon, delta, n_steps)
    assert paper > exact
    assert renyi_epsilon(paper, n_steps, delta) <= epsilon
    assert renyi_epsilon(paper * (1 - 1e-9), n_steps, delta) > epsilon
    # With all orders at hand the least noise has a closed form.
    log = np.log(1 / delta)
    best = np.sqrt(n_steps / 2) * (np.sqrt(log + epsilon) + np.sqrt(log)) / epsilon
    assert best * (1 - 1e-12) <= paper <= best * (1 + 1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: renyi_epsilon(0.0, 5, 1e-3), "noise_multiplier must be a finite number > 0"),
        (lambda: renyi_epsilon(1.0, 0, 1e-3), "n_steps must be an integer >= 1"),
        (lambda: renyi_epsilon(1.0, 5, 1.0), "delta must be in the open interval"),
        (lambda: renyi_epsilon(1.0, 5, 1e-3, [1.0]), "orders must be finite numbers > 1"),
        (lambda: renyi_epsilon(1.0, 5, 1e-3, []), "orders must be finite numbers > 1"),
        (lambda: renyi_noise(0.0, 1e-3, 5), "epsilon must be a finite number > 0"),
        (lambda: renyi_noise(0.5, 1e-3, 5, [2.0, 3.0]), "epsilon must be above 3.45, the cost"),
        (lambda: gaussian_noise(1.0, 1e-3, 0), "n_steps must be an integer >= 1"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
