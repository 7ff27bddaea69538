"""Predictions before, after and by a redraw, against dense steps that share no code."""

import numpy as np
import pytest

from oracles.predictions import chance_of_label, law_of_run
from pilu.chains.predictions import Predictions, expected_accuracy, expected_rmse
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import RowSource
from pilu.ridge import forecast as forecast_module
from pilu.ridge.forecast import RidgeForecast
from pilu.ridge.law import RidgeLaw
from pilu.ridge.problem import RidgeProblem


def problem(rng, n, p, d, segments, alpha, *, zero_start, power=0.5):
    X = rng.normal(size=(n, p)) * np.arange(1.0, p + 1) ** -power
    Y, points = rng.normal(size=(n, d)), rng.normal(size=(6, p))
    found = RidgeProblem.fit(RowSource.of(X, Y, fit_intercept=False), alpha, d)
    start = np.zeros((p, d)) if zero_start else rng.normal(size=(p, d))
    schedule = Schedule(tuple(Segment(*s) for s in segments))
    return X, Y, points, RidgeLaw(found.spectrum, 0.9 / found.spectrum.largest, schedule, start)


def compare(found, X, Y, alpha, law, phases, points):
    mean, covariance = law_of_run(X, Y, alpha, law.step_size, phases, law.start)
    np.testing.assert_allclose(found.mean, points @ mean, rtol=1e-8, atol=1e-9)
    variances = [v @ covariance @ v for v in points]
    np.testing.assert_allclose(found.variance, variances, rtol=1e-8, atol=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("rows", [[3], [2, 5, 7], [4, 4 + 9]])
@pytest.mark.parametrize(
    ("n", "p", "segments", "zero_start"),
    [
        (30, 4, [(20, 0.3)], True),
        (30, 4, [(20, 0.3), (6, 1.5), (3, 0.0)], False),
        (18, 25, [(15, 0.3), (4, 0.8)], False),  # more columns than rows
        (260, 120, [(90, 0.1), (20, 0.6)], False),  # through the Krylov space for one row
        (40, 130, [(60, 0.1)], False),
    ],
)
def test_predictions(n, p, segments, zero_start, rows, d, rng):
    alpha, K, noise = 0.07, 9, 0.7
    X, Y, points, law = problem(rng, n, p, d, segments, alpha, zero_start=zero_start)
    every, left = list(range(n)), [i for i in range(n) if i not in rows]
    forecast = RidgeForecast(law, points, K)
    learned = [(every, steps, s) for steps, s in segments]
    compare(forecast.before, X, Y, alpha, law, learned, points)
    found = forecast.without(X[rows], Y[rows])
    for sigma in (0.0, noise):
        after = [*learned, (left, K, sigma)]
        compare(found.after(K).at(sigma), X, Y, alpha, law, after, points)
    compare(found.after(1).at(noise), X, Y, alpha, law, [*learned, (left, 1, noise)], points)
    compare(found.redraw, X, Y, alpha, law, [(left, *segments[0])], points)


@pytest.mark.parametrize(
    ("power", "steps", "alpha"), [(0.0, 300, 1e-4), (0.5, 800, 1e-4), (1.5, 2000, 1e-6)]
)
def test_the_krylov_space_is_large_enough(power, steps, alpha, rng, monkeypatch):
    X, Y, points, law = problem(
        rng, 300, 160, 2, [(steps, 0.1)], alpha, zero_start=True, power=power
    )
    X, Y = X.copy(), Y.copy()
    for row in (0, 1):
        small = RidgeForecast(law, points, 80).without(X[[row]], Y[[row]])
        assert len(small._space.own.values) < 160
        with monkeypatch.context() as patch:
            patch.setattr(forecast_module, "_GROWTH", (10**6,))  # the full eigenbasis
            full = RidgeForecast(law, points, 80).without(X[[row]], Y[[row]])
        assert len(full._space.own.values) == 160
        for one, other in (
            (small.after(80).at(0.3), full.after(80).at(0.3)),
            (small.redraw, full.redraw),
        ):
            np.testing.assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(one.variance, other.variance, rtol=1e-8)


def test_rows_that_leave_no_trace(rng):
    X, Y, points, law = problem(rng, 20, 4, 1, [(10, 0.3)], 0.1, zero_start=True)
    forecast = RidgeForecast(law, points, 5)
    every = list(range(20))
    for nothing in (forecast.without(0 * X[:1], Y[:1]), forecast.without(X[:0], Y[:0])):
        compare(nothing.redraw, X, Y, 0.1, law, [(every, 10, 0.3)], points)
        after = [(every, 10, 0.3), (every, 5, 2.0)]
        compare(nothing.after(5).at(2.0), X, Y, 0.1, law, after, points)


@pytest.mark.parametrize("classes", [2, 3, 10, 40])
def test_accuracy_by_quadrature(classes, rng):
    n = 12
    mean, labels = rng.normal(size=(n, classes)), rng.integers(-1, classes, size=n)
    variance = np.exp(rng.uniform(-6, 4, size=n))
    found = expected_accuracy(Predictions(mean, variance), labels)
    chances = [
        chance_of_label(m, v**0.5, int(c)) for m, v, c in zip(mean, variance, labels, strict=True)
    ]
    assert found == pytest.approx(np.mean(chances), abs=1e-9)


def test_without_variance_the_plain_scores(rng):
    mean, labels = rng.normal(size=(50, 4)), rng.integers(-1, 4, size=50)
    mean[7] = 0.0  # a tie goes to the first class, as in `predict`
    labels[7] = 0
    still = Predictions(mean, np.zeros(50))
    assert expected_accuracy(still, labels) == np.mean(np.argmax(mean, axis=1) == labels)
    nearly = Predictions(np.delete(mean, 7, axis=0), np.full(49, 1e-16))
    still = Predictions(np.delete(mean, 7, axis=0), np.zeros(49))
    others = np.delete(labels, 7)
    assert expected_accuracy(nearly, others) == pytest.approx(expected_accuracy(still, others))
    Y = rng.normal(size=(50, 4))
    plain = np.sqrt(np.mean((mean - Y) ** 2))
    assert expected_rmse(Predictions(mean, np.zeros(50)), Y) == pytest.approx(plain, rel=1e-14)
