"""Bisection returns a tested, safe end in either direction."""

import numpy as np

from pilu.accounting.search import bisect_to_safe_end


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
