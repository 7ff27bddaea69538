"""log delta of many curves at once against 50 digits, and against one curve at a time."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from oracles.pairs import contour_delta
from pilu.accounting import GaussianPair, PrivacyCurve, many_curves
from pilu.accounting.gaussians import LARGEST_EXCESS
from pilu.accounting.many_curves import log_deltas


def likely_curve(rng):
    """A curve as of a request: a few excesses of both signs, shifts, and errors."""
    m = rng.integers(1, 9)
    x = rng.choice([-1, 1], m) * 10.0 ** rng.uniform(-8, -1, m)
    a2 = 10.0 ** rng.uniform(-6, -0.5, m)
    error = float(rng.choice([0.0, 10.0 ** rng.uniform(-9, -3)]))
    tail = -math.inf if error == 0 else float(rng.uniform(-80, -30))
    pair = GaussianPair(x, a2, rng.integers(1, 4, m))
    return PrivacyCurve(pair, bool(rng.integers(2)), error, tail)


def true_log_delta(curve, epsilon):
    """The bound of the module `curves`, both terms, with 50 digits of the divergence."""
    pair, at = curve.pair, epsilon - curve.epsilon_error
    x, a2 = ([mpf(v) for v in part] for part in (pair.excesses, pair.squared_shifts))
    value = contour_delta(x, a2, pair.counts, at)
    if curve.both:
        back = [-v / (1 + v) for v in x], [a / (1 + v) for a, v in zip(a2, x, strict=True)]
        value = max(value, contour_delta(*back, pair.counts, at))
    tail = mp.exp(mpf(curve.log_tail) + (epsilon if curve.both else 0))
    return mp.log(mp.exp(curve.epsilon_error) * value + tail)


def test_never_below_the_truth_and_close_to_it(rng, monkeypatch):
    curves = [likely_curve(rng) for _ in range(12)]

    def refuse(*_):
        raise ArithmeticError

    monkeypatch.setattr(PrivacyCurve, "log_delta", refuse)  # only what is resolved together
    resolved = 0
    for epsilon in (0.3, 1.0):
        for curve, found in zip(curves, log_deltas(curves, epsilon, -math.inf), strict=True):
            if not math.isnan(found):
                truth = true_log_delta(curve, epsilon)
                assert truth <= found <= truth + 1e-8
                resolved += 1
    assert resolved > 18


def test_as_one_at_a_time(rng):
    curves = [likely_curve(rng) for _ in range(300)]
    alone = [curve.log_delta(1.0) for curve in curves]
    found = np.array(log_deltas(curves, 1.0, -math.inf))
    seen = np.array(alone) > -700  # beyond, each is the guard at a point of its own
    np.testing.assert_allclose(found[seen], np.array(alone)[seen], rtol=0, atol=1e-8)
    assert (found[~seen] < -600).all()


def test_what_cannot_be_evaluated_together_is_left_to_the_curve(rng):
    nothing = GaussianPair([0.0], [0.0], 1)
    wide = GaussianPair([2 * LARGEST_EXCESS], [0.1], 1)
    curves = [
        likely_curve(rng),
        PrivacyCurve(nothing, True),
        PrivacyCurve(nothing, True, 1e-3, -40.0),
        PrivacyCurve(GaussianPair([0.1], [0.1], 1), True, 2.0, -40.0),  # its error is above epsilon
        PrivacyCurve(wide, True),
        likely_curve(rng),
    ]
    found = log_deltas(curves, 1.0, -math.inf)
    assert math.isnan(found.pop(4))
    with pytest.raises(ArithmeticError):
        curves.pop(4).log_delta(1.0)
    assert found == pytest.approx([curve.log_delta(1.0) for curve in curves], rel=1e-9)


def test_an_integral_that_is_not_resolved_is_no_answer(rng, monkeypatch):
    curves = [likely_curve(rng) for _ in range(8)]
    alone = [curve.log_delta(1.0) for curve in curves]
    monkeypatch.setattr(many_curves, "_NODES", 16)  # far too few
    assert log_deltas(curves, 1.0, -math.inf) == alone
