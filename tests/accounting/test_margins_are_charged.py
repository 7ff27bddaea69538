"""Answers stand above the truth by the margins of docs/margins.md, not only by luck of rounding.

A comparison `truth <= answer` alone passes without a margin on most inputs. Here the truth is
formed in 50 digits, and the answer must exceed it by about the margin that is documented.
"""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from oracles.high_precision import delta_from_mu_mp, epsilon_from_mu_mp
from pilu.accounting import (
    GaussianCurve,
    GaussianPair,
    NoisyChain,
    PrivacyCurve,
    delta_from_mu,
    epsilon_from_mu,
    gaussians,
    mu_from_sensitivities,
    ncx2_upper_quantile,
)
from pilu.accounting.cumulants import largest_loss
from pilu.accounting.curves import CurveTable, chained
from pilu.accounting.endless import N_WINDOWS, pooled_steps
from pilu.accounting.renyi import renyi_epsilon
from pilu.accounting.shifted import Blocks, extra_noise_for_each, later_variance
from pilu.certify.exact import closeness
from pilu.certify.guessing import guess_from_mu, guess_from_point


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def excess(answer, truth):
    """By how much an answer is above the truth, relative."""
    return float(mpf(float(answer)) / truth - 1)


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.2, 0.3, 1.0, 8.0])
@pytest.mark.parametrize("quotient", [0.0, 0.7, 5.0, 30.0])
def test_the_rounding_of_the_gaussian_mechanism(mu, quotient):
    epsilon = quotient * mu
    truth = delta_from_mu_mp(mu, epsilon)
    assert 2e-13 < excess(delta_from_mu(mu, epsilon), truth) < 1e-11


def test_the_cancellation_near_epsilon_zero():
    for mu in (1e-3, 0.3, 1.3):
        delta = float(delta_from_mu_mp(mu, 0)) * (1 - 1e-9)
        assert 1e-12 < excess(epsilon_from_mu(mu, delta), epsilon_from_mu_mp(mu, delta)) < 1e-11


def test_sums_and_chords_of_curves():
    assert GaussianCurve(0.0, 0.3).deltas(np.zeros(1))[0] >= 0.3 * (1 + 9e-13)
    both = GaussianCurve(0.1, 0.02).followed_by(GaussianCurve(0.2, 0.03))
    z = mp.sqrt(2) * mp.erfinv(2 * mpf(0.03) - 1)
    slack = mpf(0.02) + mp.ncdf(mpf(0.1) + z)
    assert 5e-13 < excess(both.mu, mpf(0.1) + mpf(0.2)) < 2e-12
    assert 5e-13 < excess(both.slack, slack) < 2e-12
    table, other = CurveTable((1.0,), (0.1,)), CurveTable((0.5,), (0.2,))
    chord = 1 - (1 - mpf(0.1)) * mp.exp(mpf(0.3) - 1)
    assert 5e-13 < excess(table.at(0.3), chord) < 2e-12
    total = chained(table, other, np.array([1.5]))[0]
    # t + rest stays one double below epsilon, where the second curve is steeper.
    assert 1.6e-12 < excess(total, mpf(0.1) + mp.e * mpf(0.2)) < 3e-12


def test_a_chain_of_useless_curves_has_a_delta_of_one():
    useless = CurveTable((1.0,), (0.9,))
    assert chained(useless, useless, np.array([0.0, 2.0])).tolist() == [1.0, 1.0]


def test_the_largest_loss_of_narrower_laws():
    x, a2, half = np.array([[-0.5, -0.25]]), np.array([[0.3, 0.0]]), np.array([[0.5, 2.0]])
    truth = mpf(0.3) - mp.log(mpf(0.5)) / 2 - 2 * mp.log(mpf(0.75))
    assert 5e-13 < excess(largest_loss(x, a2, half)[0], truth) < 2e-12
    pair = GaussianPair(x[0], a2[0], [1, 4])
    assert pair.delta(float(truth) * 0.9) > 0.0
    assert pair.delta(float(truth) * (1 + 1e-9)) == 0.0


def test_certificates_use_the_proved_error_of_the_quadrature(monkeypatch):
    pair = GaussianPair([0.5], [0.3], 1)
    monkeypatch.setattr(gaussians.Remainder, "__call__", lambda self, *parts: np.array([np.inf]))
    for certified in (pair.delta, pair.log_delta, PrivacyCurve(pair, both=False).log_delta):
        with pytest.raises(ArithmeticError):
            certified(0.5)


@pytest.mark.parametrize("both", [False, True])
def test_a_law_that_is_known_nearly_costs_e0_and_its_tail(both):
    mu, e0, tail = 0.5, 0.25, 1e-3
    curve = PrivacyCurve(GaussianPair([0.0], [mu**2], 1), both, e0, math.log(tail))
    for epsilon in (0.25, 0.8, 2.0):
        truth = mp.exp(mpf(e0)) * delta_from_mu_mp(mu, mpf(epsilon) - mpf(e0))
        truth += mpf(tail) * (mp.exp(mpf(epsilon)) if both else 1)
        assert 0 <= excess(curve.delta(epsilon), truth) < 1e-8
    at_e0 = mp.exp(mpf(e0)) * delta_from_mu_mp(mu, 0) + mpf(tail) * (mp.exp(e0) if both else 1)
    for epsilon in (0.0, 0.1, 0.2):
        truth = at_e0 + mp.exp(mpf(e0)) - mp.exp(mpf(epsilon))
        assert 0 <= excess(curve.delta(epsilon), truth) < 1e-8


def test_sums_over_steps_and_blocks():
    # One step with mass, then one that only pays; all numbers are exact.
    assert 9e-13 < excess(mu_from_sensitivities([1.0, 0.0], [1.0, 3.0], 1.0), mpf(0.5)) < 2e-12
    blocks = Blocks(np.array([1.0, 2.0, 3.0]), np.ones(3))
    assert 9e-13 < excess(blocks.mu(), mp.sqrt(14)) < 2e-12
    assert 9e-13 < excess(blocks.mu_as_pooled(8.0), mp.sqrt(1 + 4 + 1)) < 2e-12
    coarse = blocks.coarsened(2)
    assert coarse.masses.tolist() == [3.0, 3.0]
    assert 1.05e-12 < excess(coarse.mu(), mp.sqrt(14)) < 2e-12  # 5/14 of another margin
    # Two blocks, masses 1 and 3: mu = 2 needs 4 = 1 + 9/(1 + extra), mu = 1 that all pool.
    two = Blocks(np.array([1.0, 3.0]), np.ones(2))
    assert 2e-12 < excess(two.extra_for(2.0) + 1, mpf(3)) < 1e-11
    assert 2e-12 < excess(two.extra_for(1.0) + 2, mpf(16)) < 1e-11
    steps = np.array([[1.0, 1.0]]), np.ones(2)
    extra, reached = extra_noise_for_each(*steps, 1.0, 0.5)
    assert 2e-12 < excess(extra[0] + 2, mpf(16)) < 1e-11
    assert two.mu(two.extra_for(2.0)) <= 2.0
    assert reached[0] <= 0.5
    for c, n in ((0.5, 3), (1.0, 7)):
        exact = sum(mpf(c) ** (2 * j) for j in range(n)) / mpf(c) ** (2 * n)
        assert -2e-12 < excess(later_variance(n, c), exact) < -9e-13


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_infinitely_many_steps(length):
    c, last = 0.75, 2.0
    bounds = np.append(np.ones(N_WINDOWS), last)
    (mass, *_), (variance, *_) = pooled_steps(bounds, np.empty(0), length, 0.5, c)
    q = mpf(c) ** int(length)
    inside, past = (1 - q**N_WINDOWS) / (1 - mpf(c)), q**N_WINDOWS / ((1 - mpf(c)) * (1 - q))
    assert 9e-13 < excess(mass, inside + last * past) < 2e-12
    assert -2e-12 < excess(variance, mpf(0.5) / (1 - mpf(c) ** 2)) < -9e-13


def test_renyi_bounds():
    cost = mp.log(1 / mpf(1e-5)) / 7
    assert 5e-13 < excess(renyi_epsilon(2.0, 3, 1e-5, [8.0]), 3 + cost) < 2e-12
    chain = NoisyChain(3.0, 0.2, 0.05, 100, 20)
    rate = mpf(0.2) * mpf(0.05)
    unit = 8 * 9 / mpf(0.2) * (1 - mp.exp(-100 * rate)) * mp.exp(-20 * rate / 8)
    assert 5e-13 < excess(chain.divergences(1.0, [8.0])[0], unit) < 2e-12
    assert 5e-13 < excess(chain.epsilon(20.0, 1e-5, [8.0]), unit / 400 + cost) < 4e-12
    assert 1.4e-12 < excess(chain.noise(3.0, 1e-5, [8.0]), mp.sqrt(unit / (3 - cost))) < 1e-11


def test_quantiles():
    # One degree of freedom: P(chi^2 > q) = 2 Phi(-sqrt q).
    for tail in (0.3, 1e-3, 1e-12):
        truth = 2 * mp.erfinv(1 - mpf(tail)) ** 2
        assert 1.7e-12 < excess(ncx2_upper_quantile(tail, 1, 0.0), truth) < 3e-12
    far = ncx2_upper_quantile(0.9, 3, 4.0**12)  # beyond the library: df + nc, the second moment
    assert 1.5e-14 < excess(far, mpf(4) ** 12 + 3) < 3e-14


def test_how_often_a_guess_is_right():
    assert 9e-13 < excess(guess_from_mu(1.0), mp.ncdf(mpf(0.5))) < 2e-12
    truth = 1 - mpf(0.98) * mp.exp(-mpf(1.5)) / 2
    assert 9e-13 < excess(guess_from_point(1.5, 0.02, both=False), truth) < 2e-12


@pytest.mark.parametrize(("shift", "covariance"), [(1e-6, 0.0), (1e-6, 2e-7), (1e-9, 3e-2)])
def test_closeness_is_chernoffs_bound_at_its_own_order(shift, covariance):
    outputs, log_tail = 3, -60.0
    square = mpf(shift) ** 2 + mpf(outputs) / 2 * mpf(covariance) ** 2
    found = closeness(shift, covariance, outputs, log_tail)
    # Every order a with (a - 1) covariance <= 1/2 is valid; `more` is a - 1.
    limit = 1 / (2 * mpf(covariance)) if covariance else mp.inf
    more = min(mp.sqrt(60 / square), limit)
    orders = [more, *(more * mpf(2) ** k for k in np.arange(-9, 9, 0.1))]
    bounds = [(1 + m) * square + 60 / m for m in orders if m <= limit]
    assert min(bounds) * (1 - mpf("1e-4")) <= found <= min(bounds) * (1 + mpf("1e-4"))
    assert 5e-13 < excess(found, (1 + more) * square + 60 / more) < 2e-12
