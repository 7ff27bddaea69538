"""The searches return a tested, safe end."""

import numpy as np
import pytest

from pilu.accounting.gdp import epsilon_from_mu
from pilu.accounting.noise_search import likely_epsilon
from pilu.accounting.search import bisect_to_safe_end, newton_to_safe_end


def test_safe_end_from_above_and_below():
    roots = np.array([1e-12, 0.5, 3e7])
    above = bisect_to_safe_end(lambda t: t >= roots, np.zeros(3), np.full(3, 1e9))
    assert (above >= roots).all()
    np.testing.assert_allclose(above, roots, rtol=1e-11)
    below = bisect_to_safe_end(lambda t: t <= roots, np.full(3, 1e9), np.full(3, 1e-20))
    assert (below <= roots).all()
    np.testing.assert_allclose(below, roots, rtol=1e-11)


def test_only_tested_values_are_returned():
    seen = []

    def is_safe(t):
        seen.append(t.copy())
        return t >= 0.3

    end = bisect_to_safe_end(is_safe, np.array([0.0]), np.array([1.0]))
    assert any(t == end for t in seen)


def falling(roots, seen=None):
    """log(root / t), whose value at the root is rounded either way."""

    def excess(t, rows):
        if seen is not None:
            seen.update(zip(rows.tolist(), t.tolist(), strict=True))
        return np.log(roots[rows] / t), 1 / t, np.full(len(t), 1e-15)

    return excess


def test_newton_ends_a_little_beyond_the_root_at_a_tested_value():
    roots = np.array([1e-6, 0.5, 3.0, 900.0, 3.0])
    guess = np.array([1e-5, 0.4, 3.0, 1.0, 9000.0])
    seen = {}
    ends, doubts = newton_to_safe_end(falling(roots, seen), guess, np.zeros(5), most=1e4)
    assert (ends >= roots).all()
    assert (ends - roots <= 1.1e-10 * roots + 1.1e-13).all()
    assert (ends - roots <= doubts * (1 + 1e-3) + 1e-15).all()
    assert [seen[i] for i in range(5)] == ends.tolist()


def test_newton_stays_between_its_floor_and_the_most():
    roots, floor = np.array([0.5, 5.0, 200.0, 0.5]), np.array([1.0, 1.0, 1.0, 300.0])
    ends, _ = newton_to_safe_end(falling(roots), np.full(4, 3.0), floor, most=100.0)
    assert ends[0] == 1.0
    assert 5.0 <= ends[1] <= 5.0 * (1 + 2e-10)
    assert ends[2] == ends[3] == np.inf


def test_newton_gives_up_where_there_is_no_value_and_survives_wrong_slopes():
    def excess(t, rows):
        value = np.where(rows == 0, np.nan, np.where(t >= 2.0, -np.inf, 1.0))
        return value, np.where(rows == 1, -1.0, 0.0), np.zeros(len(t))

    ends, _ = newton_to_safe_end(excess, np.full(3, 1.0), np.zeros(3), most=1e4)
    assert np.isnan(ends[0])
    assert (ends[1:] >= 2.0).all()
    np.testing.assert_allclose(ends[1:], 2.0, rtol=1e-9)


def test_a_likely_epsilon_is_near_the_safe_one_and_never_fails():
    for mu in np.geomspace(1e-12, 1e4, 60):
        for delta in (1e-300, 1e-30, 1e-9, 1e-3, 0.3, 0.999):
            guess, safe = likely_epsilon(float(mu), delta), float(epsilon_from_mu(mu, delta))
            assert guess == pytest.approx(safe, rel=1e-3, abs=1e-6), (mu, delta)
