"""Totals over requests, against chains of Gaussians whose end-to-end divergence is known."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy.stats import norm

from oracles.high_precision import delta_from_mu_mp, mu_from_epsilon_mp
from pilu.accounting import GaussianCurve, GaussianPair, PrivacyCurve, Spent, epsilon_from_mu


def gdp_delta(mu, epsilon):
    """delta_GDP straight from its definition, good to 1e-10 for the sizes used here."""
    x = epsilon / mu
    return norm.cdf(mu / 2 - x) - np.exp(epsilon) * norm.cdf(-mu / 2 - x)


class Anonymous:
    """A curve that does not say it is Gaussian, so that only the tables can be used."""

    def __init__(self, mu):
        self.mu = mu
        self.evaluations = 0

    def deltas(self, epsilons):
        self.evaluations += len(epsilons)
        return np.array([float(delta_from_mu_mp(self.mu, e)) for e in epsilons]) * (1 + 1e-15)


def totals(requests):
    spent, found = Spent(), []
    for epsilon, delta, curve in requests:
        spent = spent.after(epsilon=epsilon, delta=delta, curve=curve)
        found.append(spent)
    return found


def plain_rule(pairs):
    epsilon, delta = 0.0, 0.0
    for e, d in pairs:
        epsilon, delta = epsilon + e, delta + math.exp(epsilon) * d
    return delta


def request(epsilon, delta):
    mu = float(mu_from_epsilon_mp(epsilon, delta))
    return epsilon, delta, Anonymous(mu)


def test_a_first_request_is_its_own_total():
    curve = GaussianCurve(0.2, 5e-6)
    spent = Spent().after(epsilon=1.0, delta=1e-5, curve=curve)
    assert (spent.epsilon, spent.delta, spent.gaussian) == (1.0, 1e-5, curve)
    assert spent.table.at(1.0) <= 1e-5 * (1 + 1e-11)


def test_two_requests_by_hand():
    first = Spent().after(epsilon=1.0, delta=1e-5, curve=GaussianCurve(0.2, 5e-6))
    second = first.after(epsilon=0.5, delta=2e-5, curve=GaussianCurve(0.1, 1e-5))
    plain = 1e-5 + math.e * 2e-5
    z = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(1e-5))  # Phi(-z) = 1e-5
    gaussian = float(delta_from_mu_mp(0.3, 1.5)) + 5e-6 + float(mp.ncdf(0.2 - z))
    t = np.linspace(0, 1.5, 3001)
    curves = (gdp_delta(0.2, t) + 5e-6 + np.exp(t) * (gdp_delta(0.1, 1.5 - t) + 1e-5)).min()
    assert second.epsilon == 1.5
    assert second.delta == pytest.approx(min(plain, gaussian, curves), rel=0.02)
    assert second.delta <= min(plain, gaussian) * (1 + 1e-9)


def test_total_bounds_the_true_divergence_of_a_chain():
    # P_0 = N(0, 1) against P_m = N(sum mu, 1): a chain of m pure mu-GDP links.
    mus, spent, delta = [0.3, 0.5, 0.2, 0.4], Spent(), 1e-3
    for mu in mus:
        curve = GaussianCurve(mu, 0.0)
        spent = spent.after(epsilon=epsilon_from_mu(mu, delta), delta=delta, curve=curve)
    truth = float(delta_from_mu_mp(sum(mus), spent.epsilon))
    assert truth <= spent.delta <= truth * (1 + 1e-9)  # the Gaussian rule is exact here


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 1e-3), (2.0, 1e-7)])
def test_curves_find_the_infimum(n, epsilon, delta):
    # By brute force over a fine grid of t; for Gaussians that is delta_GDP(sum mu, eps) again.
    _, _, curve = request(epsilon, delta)
    grid = np.linspace(0, n * epsilon, 600 * n + 1)
    link = gdp_delta(curve.mu, np.maximum(grid, 1e-12))
    best = link
    for _ in range(n - 1):
        best = np.array(
            [(best[: k + 1] + np.exp(grid[: k + 1]) * link[k::-1]).min() for k in range(len(grid))]
        )
    found = totals([(epsilon, delta, curve)] * n)[-1].delta
    assert best[-1] == pytest.approx(gdp_delta(n * curve.mu, n * epsilon), rel=1e-3)
    assert gdp_delta(n * curve.mu, n * epsilon) <= found <= 1.07 * best[-1]
    assert found < plain_rule([(epsilon, delta)] * n)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-5), (1.0, 1e-3), (0.1, 1e-5), (3.0, 1e-6), (0.2, 1e-8)]
)
def test_ten_requests_stay_tight(epsilon, delta):
    link = request(epsilon, delta)
    found = totals([link] * 10)
    for m, spent in enumerate(found, start=1):
        truth = float(delta_from_mu_mp(m * link[2].mu, spent.epsilon))
        assert truth * (1 - 1e-12) <= spent.delta <= 1.07 * truth
        assert len(spent.table.epsilons) <= 25
    assert link[2].evaluations <= 10 * 25
    assert found[-1].delta < plain_rule([(epsilon, delta)] * 10)


def test_requests_of_different_size_stay_tight():
    links = [request(e, d) for e, d in ((1.0, 1e-5), (0.2, 1e-3), (2.0, 1e-6), (0.7, 1e-4))]
    for m, spent in enumerate(totals(links), start=1):
        truth = float(delta_from_mu_mp(sum(c.mu for _, _, c in links[:m]), spent.epsilon))
        assert truth * (1 - 1e-12) <= spent.delta <= 1.1 * truth


sizes = st.tuples(st.floats(0.01, 4.0), st.floats(-9.0, -0.5).map(lambda x: 10**x), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=5))
def test_totals_are_never_below_the_truth_nor_above_the_plain_rule(links):
    # P = N(sum mu, 1), W1 = N(mu_2 + ..., 1), ..., N(0, 1): the true curve is delta_GDP(sum mu).
    mus, requests = [], []
    for mu, delta, named in links:
        curve = GaussianCurve(mu, 0.0) if named else Anonymous(mu)
        requests.append((float(epsilon_from_mu(mu, delta)), delta, curve))
        mus.append(mu)
    for m, spent in enumerate(totals(requests), start=1):
        truth = float(delta_from_mu_mp(sum(mus[:m]), spent.epsilon))
        plain = plain_rule((e, d) for e, d, _ in requests[:m])
        assert spent.delta >= min(truth, 1.0) * (1 - 1e-13)
        assert spent.delta <= min(plain * (1 + 1e-9), 1.0)
        for epsilon in np.linspace(0, 1.5 * spent.epsilon + 0.1, 7):
            bound = float(spent.table.at(epsilon))
            assert bound >= float(delta_from_mu_mp(sum(mus[:m]), epsilon)) * (1 - 1e-13)


def test_a_table_bounds_its_curve_everywhere():
    # Wider and narrower laws than the reference, so that nothing is Gaussian differential privacy.
    curve = PrivacyCurve(GaussianPair([0.4, -0.2], [0.1, 0.3], 1), both=False)
    epsilon = curve.epsilon(1e-4)
    table = Spent().after(epsilon=epsilon, delta=1e-4, curve=curve).table
    for e in np.linspace(0, 2.5 * epsilon, 41):
        assert table.at(e) >= curve.delta(e) * (1 - 1e-12)


def test_equal_laws_cost_nothing():
    nothing = PrivacyCurve(GaussianPair([0.0], [0.0], 1), both=False)
    link = request(1.0, 1e-5)
    for requests in ([(0.0, 1e-5, nothing), link], [link, (0.0, 1e-5, nothing)]):
        spent = totals(requests)[-1]
        assert spent.epsilon == 1.0
        assert spent.delta == pytest.approx(1e-5, rel=0.02)
        assert spent.delta >= 1e-5 * (1 - 1e-9)
    assert totals([(0.0, 1e-5, nothing)] * 3)[-1].delta < 1e-290


def test_a_curve_that_cannot_be_evaluated_leaves_the_plain_rule():
    class Mute:
        def deltas(self, epsilons):
            return np.ones(len(epsilons))

    spent = totals([(1.0, 1e-5, Mute()), (0.5, 1e-4, Mute())])[-1]
    assert spent.delta == pytest.approx(1e-5 + math.e * 1e-4)


def test_plain_rule_where_it_is_the_smaller():
    # Two failures without any mu: the Gaussian rule must not beat what is true.
    spent = totals([(0.0, 0.1, GaussianCurve(0.0, 0.1))] * 2)[-1]
    assert spent.delta == pytest.approx(0.2)
    assert spent.delta >= 0.2


@pytest.mark.parametrize("curve", [GaussianCurve(7.0, 0.2), Anonymous(7.0)])
def test_a_total_that_promises_nothing_says_so(curve):
    spent = totals([(30.0, 0.4, curve)] * 40)[-1]
    assert spent.delta == 1.0
    assert math.isfinite(spent.epsilon)


def test_epsilons_whose_exponential_overflows():
    spent = totals([(900.0, 1e-5, GaussianCurve(30.0, 0.0)), request(1.0, 1e-5)])[-1]
    assert spent.epsilon == 901.0
    assert float(delta_from_mu_mp(30.27, 901.0)) <= spent.delta < 1e-3


def test_total_never_falls_with_another_request():
    spent, last = Spent(), 0.0
    for _ in range(12):
        spent = spent.after(epsilon=1.0, delta=1e-4, curve=GaussianCurve(0.25, 5e-5))
        assert spent.delta >= last
        last = spent.delta
    assert np.isfinite(spent.gaussian.mu)


def test_totals_of_epsilon_are_rounded_up():
    spent = totals([(0.1, 1e-5, GaussianCurve(0.01, 0.0)), (0.2, 1e-5, GaussianCurve(0.02, 0.0))])
    assert mp.mpf(spent[-1].epsilon) >= mp.mpf(0.1) + mp.mpf(0.2)
    assert spent[-1].epsilon == pytest.approx(0.3, rel=1e-15)


def test_a_record_goes_to_json_and_back_without_loss():
    for spent in (Spent(), *totals([request(1.0, 1e-5), request(0.3, 1e-4)])):
        assert Spent.from_record(json.loads(json.dumps(spent.record()))) == spent


@pytest.mark.parametrize(
    "change",
    [
        {"total": [1.0]},
        {"total": [-1.0, 1e-5]},
        {"total": [1.0, math.nan]},
        {"total": [1.0, 1.5]},
        {"total": [1.0, 1e-9]},  # less than the table says
        {"gaussian": [-0.1, 0.0]},
        {"gaussian": [0.1]},
        {"gaussian": [math.inf, 0.0]},
        {"epsilons": []},
        {"epsilons": [0.0, 1.0]},
        {"epsilons": [0.0, 2.0, 1.0]},
        {"epsilons": [-0.5, 1.0, 2.0]},
        {"epsilons": [0.0, 1.0, math.inf]},
        {"epsilons": [0.0, 1.0, math.nan]},
        {"epsilons": "012"},
        {"deltas": [0.1, 1e-5, 2e-5]},
        {"deltas": [0.1, 1e-5, -1e-5]},
        {"deltas": [1.1, 1e-5, 1e-6]},
        {"deltas": [0.1, math.nan, 1e-6]},
        {"deltas": [0.1, 1e-5]},
        {"deltas": None},
        {"epsilons": list(range(99)), "deltas": [0.0] * 99},
        {"more": 1},
    ],
)
def test_malformed_records_are_refused(change):
    record = {
        "total": [1.0, 1e-5],
        "gaussian": None,
        "epsilons": [0.0, 1.0, 2.0],
        "deltas": [0.1, 1e-5, 1e-6],
    }
    Spent.from_record(record)
    with pytest.raises((ValueError, TypeError)):
        Spent.from_record({**record, **change})
