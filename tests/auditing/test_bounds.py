"""Limits on error rates against SciPy's and against the binomial law; what runs can prove."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from pilu.auditing import most_provable
from pilu.auditing.bounds import Counts, runs_needed, upper_limit


@given(st.integers(1, 3000), st.floats(0, 1), st.sampled_from([0.05, 0.025, 1e-4]))
def test_limits_are_those_of_clopper_and_pearson(trials, share, level):
    errors = round(share * trials)
    found = float(upper_limit(errors, trials, level))
    theirs = binomtest(errors, trials).proportion_ci(1 - 2 * level, method="exact").high
    assert found == pytest.approx(theirs, rel=1e-7)
    if errors < trials:
        assert binom.cdf(errors, trials, found) <= level


def test_bounds_by_hand():
    counts = Counts(7, 400, 30, 500)
    a, b = upper_limit(7, 400, 0.025), upper_limit(30, 500, 0.025)
    assert counts.mu(0.05) == pytest.approx(norm.isf(a) - norm.ppf(b), rel=1e-6)
    a, b = upper_limit(7, 400, 0.045), upper_limit(30, 500, 0.005)
    assert counts.epsilon(0.05, 0.01) == pytest.approx(math.log((1 - b - 0.01) / a), rel=1e-6)
    a, b = upper_limit(7, 400, 0.005), upper_limit(30, 500, 0.045)
    assert counts.epsilon_reverse(0.05, 0.01) == pytest.approx(
        math.log((1 - a - 0.01) / b), rel=1e-6
    )


@pytest.mark.parametrize("counts", [Counts(50, 100, 50, 100), Counts(100, 100, 100, 100)])
def test_a_test_that_guesses_proves_nothing(counts):
    assert counts.mu(0.05) == 0
    assert counts.epsilon(0.05, 1e-3) == 0
    assert counts.epsilon_reverse(0.05, 1e-3) == 0


@pytest.mark.parametrize("mu", [0.0, 1.0, 3.0])
def test_bounds_hold_as_often_as_stated(mu):
    """Two Gaussians, a threshold that was fixed beforehand, 4,000 times sixty runs."""
    rng = np.random.default_rng(5)
    alarms = rng.binomial(60, norm.sf(mu / 2), 4000)
    misses = rng.binomial(60, norm.cdf(-mu / 2), 4000)
    wrong = np.sum(Counts(alarms, 60, misses, 60).mu(0.1) > mu)
    assert binomtest(int(wrong), 4000, 0.1, alternative="greater").pvalue > 1e-3
    # epsilon of this very test, which is what the counts are about
    rate = norm.sf(mu / 2)
    truth = max(math.log((1 - rate - 0.01) / rate), 0.0)
    wrong = np.sum(Counts(alarms, 60, misses, 60).epsilon(0.1, 0.01) > truth + 1e-12)
    assert binomtest(int(wrong), 4000, 0.1, alternative="greater").pvalue > 1e-3


def test_what_a_hundred_runs_can_prove():
    mu, epsilon = most_provable(100, 1 / 500)
    assert mu == pytest.approx(3.6, abs=0.05)
    assert epsilon == pytest.approx(3.4, abs=0.05)
    assert most_provable(10_000, 1 / 500)[1] > epsilon + 4


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_least_number_of_runs(confidence):
    n = runs_needed(confidence)
    assert most_provable(n, 1e-3, confidence)[0] > 0
    assert n == 1 or most_provable(n - 1, 1e-3, confidence)[0] == 0
