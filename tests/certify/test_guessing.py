"""How often a guess is right, against attackers who know both laws, and against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from pilu.accounting.curves import CurveTable, GaussianCurve, Spent
from pilu.certify.guessing import (
    guess_bound,
    guess_from_mu,
    guess_from_point,
    guess_from_total,
    percent,
)


def normal_cdf(x):
    with mpmath.workdps(50):
        return mpmath.ncdf(mpmath.mpf(x))


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.01991642339275777, 0.5, 2.0, 9.0])
def test_under_gdp_it_is_the_best_test_of_two_normals(mu):
    exact = normal_cdf(mpmath.mpf(mu) / 2)
    assert exact <= guess_from_mu(mu) <= float(exact) * (1 + 1e-10)


def test_an_attacker_who_knows_both_normals_comes_close_and_not_past_it():
    rng, mu, n = np.random.default_rng(0), 0.8, 400_000
    ours, theirs = rng.normal(mu, 1, n), rng.normal(0, 1, n)
    right = ((ours > mu / 2).mean() + (theirs <= mu / 2).mean()) / 2
    assert right == pytest.approx(guess_from_mu(mu), abs=4 / math.sqrt(n))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delta", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.3, 5.0])
@pytest.mark.parametrize("both", [False, True])
def test_a_point_allows_no_better_test(epsilon, delta, both):
    # All pairs (P(S), Q(S)) that the inequalities allow, on a grid.
    p, q = np.meshgrid(np.linspace(0, 1, 1001), np.linspace(0, 1, 1001))
    allowed = p <= np.exp(epsilon) * q + delta + 1e-12
    if both:  # for S and for its complement, in both directions
        e = np.exp(epsilon)
        allowed &= (1 - q) <= e * (1 - p) + delta + 1e-12
        allowed &= (1 - p) <= e * (1 - q) + delta + 1e-12
        allowed &= q <= e * p + delta + 1e-12
    best = (1 + (p - q)[allowed].max()) / 2
    stated = guess_from_point(epsilon, delta, both=both)
    assert best - 1e-9 <= stated <= best + 2e-3


def test_a_pair_of_laws_in_one_direction_refutes_the_bound_of_both():
    """Two outcomes: P is within (1, 0) of Q in one direction, and never in the other."""
    e = math.e
    q = np.array([1 / e, 1 - 1 / e])
    p = np.array([1.0, 0.0])
    assert (p <= e * q + 1e-15).all()
    right = (1 + np.abs(p - q).sum() / 2) / 2
    assert right > guess_from_point(1.0, 0.0, both=True) + 0.05
    assert right == pytest.approx(guess_from_point(1.0, 0.0, both=False))


def hockey_stick(mu, epsilon):
    """By quadrature of (p - e^epsilon q)+ for two normals."""
    x = np.linspace(-15, 15 + mu, 400_001)
    p, q = (np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (mu, 0.0))
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x))


def test_the_points_of_a_curve_prove_more_than_one_of_them():
    mu, epsilons = 0.55, [0.05, 0.3, 1.0, 2.0]
    deltas = [hockey_stick(mu, e) + 1e-9 for e in epsilons]
    spent = Spent(2.0, deltas[-1], None, CurveTable(tuple(epsilons), tuple(deltas)))
    exact = float(normal_cdf(mu / 2))
    stated, from_one = guess_from_total(spent), guess_from_point(2.0, deltas[-1], both=False)
    assert exact <= stated <= exact + 0.02
    assert from_one > 0.93  # what epsilon and delta alone prove
    chords = [guess_from_point(e, d, both=False) for e, d in zip(epsilons, deltas, strict=True)]
    assert stated == pytest.approx(min(chords), rel=1e-9)


def test_the_gaussian_curve_of_a_total_counts_with_its_slack():
    table = CurveTable((3.0,), (0.01,))
    spent = Spent(3.0, 0.01, GaussianCurve(0.6, 0.002), table)
    exact = float(normal_cdf(0.3)) + 0.001
    assert exact <= guess_from_total(spent) <= exact + 1e-9
    better = Spent(3.0, 0.01, GaussianCurve(6.0, 0.2), CurveTable((0.0,), (0.03,)))
    assert guess_from_total(better) == pytest.approx(0.515)
    assert guess_from_total(Spent()) == 0.5


def record(**changes):
    scope = {"reverse_delta": None, "conditional_on_earlier_requests": False}
    usual = {"method": "langevin", "scope": scope, "mu": None, "epsilon": 1.0, "delta": 0.01}
    return {**usual, "total_epsilon": 1.0, "total_delta": 0.01, **changes}


def test_each_method_by_what_it_proves():
    assert guess_bound(record(method="redraw")) == 0.5
    assert guess_bound(record(method="refit", mu=0.3)) == guess_from_mu(0.3)
    one = guess_bound(record())
    assert one == pytest.approx(1 - 0.99 / math.e / 2)
    scope = {"reverse_delta": 0.03, "conditional_on_earlier_requests": False}
    assert guess_bound(record(scope=scope)) == pytest.approx(1 - 0.97 / (1 + math.e))
    # A second request: its own epsilon says nothing about the total.
    later = {"reverse_delta": 0.03, "conditional_on_earlier_requests": True}
    found = guess_bound(record(scope=later, total_epsilon=2.0, total_delta=0.02))
    assert found == pytest.approx(1 - 0.98 * math.exp(-2) / 2)
    total = Spent(2.0, 0.02, None, CurveTable((0.0, 2.0), (0.25, 0.02)))
    bounded = record(scope=later, total_epsilon=2.0, total_delta=0.02)
    assert guess_bound(bounded, total) == pytest.approx(0.625)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5, "50"), (0.50001, "50.1"), (0.613, "61.3"), (0.6130001, "61.4"), (0.9999, "100")],
)
def test_shares_are_rounded_up(share, text):
    assert percent(share) == text
