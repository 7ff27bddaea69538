"""GDP conversions against 60-digit arithmetic: safe always, tight almost always."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from oracles.high_precision import delta_from_mu_mp, epsilon_from_mu_mp
from pilu.accounting import delta_from_mu, epsilon_from_mu, mu_from_epsilon

MUS = np.geomspace(1e-8, 1e3, 12)
DELTAS = [1e-300, 1e-200, 1e-100, 1e-30, 1e-15, 1e-8, 1e-5, 1e-2, 0.3, 0.5]
EPSILONS = [0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 300.0]


@pytest.mark.parametrize(("mu", "delta"), list(itertools.product(MUS, DELTAS)))
def test_epsilon_is_safe_and_tight(mu, delta):
    epsilon = epsilon_from_mu(mu, delta)
    assert delta_from_mu_mp(mu, epsilon) <= delta
    if epsilon > 0:
        # 1e-9 less, for an input two ulps worse, is not private any more.
        worse = delta - 2 * np.spacing(delta)
        assert delta_from_mu_mp(mu, mpf(epsilon) * (1 - mpf("1e-9"))) > worse


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_mu_is_safe_and_tight(epsilon, delta):
    mu = mu_from_epsilon(epsilon, delta)
    with mp.workdps(400):  # at delta = 1e-300 sixty digits cancel
        assert delta_from_mu_mp(mu, epsilon) <= delta
        assert delta_from_mu_mp(mpf(mu) * (1 + mpf("1e-9")), epsilon) > delta


@pytest.mark.parametrize(("mu", "epsilon"), list(itertools.product(MUS, EPSILONS)))
def test_delta_is_safe_and_tight(mu, epsilon):
    exact = delta_from_mu_mp(mu, epsilon)
    delta = delta_from_mu(mu, epsilon)
    assert delta >= exact
    assert delta <= exact * (1 + mpf("1e-9")) or delta == 5e-324


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.3, 1.0, 1.3])
@pytest.mark.parametrize("ulps", [-1, 0, 1, 2, 1000, 10**8])
def test_epsilon_next_to_zero(mu, ulps):
    # One ulp of delta below delta(mu, 0) decides between epsilon = 0 and a tiny epsilon.
    edge = float(delta_from_mu_mp(mu, 0))
    delta = edge - ulps * np.spacing(edge)
    epsilon = epsilon_from_mu(mu, delta)
    exact = epsilon_from_mu_mp(mu, delta)
    assert exact <= epsilon <= exact * (1 + mpf("1e-9"))


@settings(deadline=None, max_examples=60)
@given(
    st.floats(1e-6, 100),
    st.floats(1e-6, 100),
    st.floats(1e-200, 0.5),
    st.floats(1e-200, 0.5),
)
def test_monotone(mu, other_mu, delta, other_delta):
    low, high = sorted([mu, other_mu])
    assert epsilon_from_mu(low, delta) <= epsilon_from_mu(high, delta) * (1 + 1e-9)
    few, many = sorted([delta, other_delta])
    assert epsilon_from_mu(mu, many) <= epsilon_from_mu(mu, few) * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-3, 50), st.floats(1e-100, 0.5))
def test_round_trip_stays_private(epsilon, delta):
    assert epsilon_from_mu(mu_from_epsilon(epsilon, delta), delta) <= epsilon * (1 + 1e-11)


def test_arrays_agree_with_scalars():
    mu = np.array([[1e-6, 0.1], [1.0, 30.0]])
    epsilon = epsilon_from_mu(mu, 1e-5)
    assert epsilon.shape == mu.shape
    for m, e in zip(mu.flat, epsilon.flat, strict=True):
        assert e == pytest.approx(epsilon_from_mu(m, 1e-5), rel=1e-11)
    assert mu_from_epsilon([0.5, 1.0], 1e-5).shape == (2,)
    assert delta_from_mu(1.0, [0.5, 1.0]).shape == (2,)


def test_ends_of_the_range():
    assert epsilon_from_mu(0.0, 1e-5) == 0.0
    assert epsilon_from_mu(np.inf, 1e-5) == np.inf
    assert delta_from_mu(0.0, 1.0) == 0.0
    assert 0 < delta_from_mu(1e-8, 100.0) <= 5e-324  # positive, however small
    assert delta_from_mu(1e3, 0.0) == 1.0
    assert 0 < delta_from_mu(1e-160, 1.0) <= 5e-324
    assert delta_from_mu(1e-300, 1e-301) > 0
    assert epsilon_from_mu(0.5, 1 - 1e-12) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: epsilon_from_mu(-1.0, 0.1), "mu must be a finite number >= 0, got mu=-1.0."),
        (lambda: epsilon_from_mu(1.0, 0.0), r"delta must be in the open interval \(0, 1\)"),
        (lambda: epsilon_from_mu(1.0, 1.0), r"delta must be in the open interval \(0, 1\)"),
        (lambda: epsilon_from_mu(np.nan, 0.1), "mu must be"),
        (lambda: delta_from_mu(np.inf, 0.1), "mu must be"),
        (lambda: mu_from_epsilon(-0.1, 0.1), "epsilon must be"),
        (lambda: mu_from_epsilon("1", 0.1), "epsilon must be a real number"),
        (lambda: mu_from_epsilon(True, 0.1), "epsilon must be a real number"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
