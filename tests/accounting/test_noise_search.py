"""The search for the least noise, on a mechanism whose answer is known in 60 digits."""

import math

import numpy as np
import pytest
from mpmath import mp

from oracles.high_precision import delta_from_mu_mp, mu_from_epsilon_mp
from pilu.accounting.noise_search import NoiseSearch, nearly_gaussian_log_delta

EPSILON, DELTA, SIZE = 0.8, 1e-5, 3.0


class Mechanism:
    """A shift of SIZE under Gaussian noise; an excess of 1e-7 is there for the series to see."""

    excess = 1e-7

    def __init__(self):
        self.evaluations = 0

    def rough(self, noise, n_steps):
        self.evaluations += 1
        return np.array([self.excess]), np.array([self.squared_shift(noise, n_steps)])

    def moments(self, noise, n_steps):
        a2, x = self.squared_shift(noise, n_steps), self.excess
        return a2, x * a2, x * x * a2, x * x

    def squared_shift(self, noise, n_steps):
        return (SIZE / noise) ** 2


def searched(guess, floor=-50.0, series=False, both=True):
    difference = Mechanism()
    search = NoiseSearch(difference, 1, 5, EPSILON, DELTA, both=both, series=series)
    return search.log_noise(guess, floor), search, difference


@pytest.fixture(scope="module")
def truth():
    return math.log(SIZE / float(mu_from_epsilon_mp(EPSILON, DELTA)))


def steepness(log_noise):
    """-d log delta / d log noise."""
    with mp.workdps(50):
        slope = mp.diff(lambda t: mp.log(delta_from_mu_mp(SIZE / mp.exp(t), EPSILON)), log_noise)
        return -float(slope)


@pytest.mark.parametrize("series", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("off", [0.0, 1e-3, -0.05, 2.5, -2.5, 8.0])
def test_the_least_noise_is_found_from_any_guess(off, both, series, truth):
    found, search, difference = searched(truth + off, series=series, both=both)
    assert found == pytest.approx(truth, abs=1e-6)
    assert search.steepness == pytest.approx(steepness(truth), rel=0.02)
    assert search.used_series == series
    if series:
        assert difference.evaluations <= (0 if abs(off) < 1 else 12)  # far off it does not hold
    elif abs(off) < 0.1:
        assert difference.evaluations <= 4  # the secant's two or three


def test_a_noise_below_the_floor_is_not_looked_for(truth):
    found, _, _ = searched(truth + 2.0, floor=truth + 1.0)
    assert found == truth + 1.0
    assert searched(truth + 1.5, floor=truth + 1.0)[0] == truth + 1.0


def test_the_likely_slope_is_that_of_the_mechanism(truth):
    _, search, _ = searched(truth)
    assert search._likely_slope(truth) == pytest.approx(-steepness(truth), rel=1e-4)


def test_the_series_to_second_order():
    # Excesses so large that terms of second order count and those of third order do not.
    A, epsilon = 0.5, 0.6
    for x in (2e-3, -2e-3):
        with mp.workdps(30):
            # One output: log dP/dQ is quadratic in a normal variable; delta by direct quadrature.
            v, a = 1 + x, math.sqrt(A)

            def excess(t, v=v, a=a):
                p = mp.npdf(t, a, mp.sqrt(v))
                return max(p - mp.exp(epsilon) * mp.npdf(t), mp.mpf(0))

            edge = epsilon / a + a / 2
            root = mp.findroot(
                lambda t, v=v, a=a: mp.log(mp.npdf(t, a, mp.sqrt(v)) / mp.npdf(t)) - epsilon, edge
            )
            truth = float(mp.log(mp.quad(excess, [root, root + 2, root + 6, root + 14])))
        found = nearly_gaussian_log_delta(A, x * A, x * x * A, x * x, 1, epsilon, both=False)
        first = nearly_gaussian_log_delta(A, x * A, 0.0, 0.0, 1, epsilon, both=False)
        assert found == pytest.approx(truth, abs=3e-8)
        assert abs(first - truth) > 3e-7
