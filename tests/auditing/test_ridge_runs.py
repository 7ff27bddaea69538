"""Certified ridge regression, audited by the best test there is."""

import numpy as np
import pytest
from scipy.stats import kstest

from oracles.dense import dense_laws
from oracles.pairs import contour_delta
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.auditing import RidgeRuns, audit


@pytest.fixture
def runs(small):
    model = LangevinRidge(alpha=0.5, n_steps=40, noise=0.1).fit(*small)
    certificate_noise = model.quote([[4, 9]], delta=1e-2, n_unlearn_steps=7).noise[0]
    return RidgeRuns(model, [4, 9], noise=certificate_noise, n_unlearn_steps=7)


def dense(runs, learned_without):
    """Laws of the two runs, step by step."""
    source = runs.model.fitted_.source
    X, Y = np.hstack([source.rows.X, np.ones((30, 1))]), source.rows.Y
    left = [np.delete(values, [4, 9], axis=0) for values in (X, Y)]
    settings = (0.5, runs.model.step_size_)
    first = left if learned_without else (X, Y)
    means, covariances = dense_laws(*first, *settings, [(40, 0.1)], np.zeros((5, 2)))
    means, _ = dense_laws(*left, *settings, [(7, runs.noise)], means[-1])
    step = np.eye(5) - settings[1] * (left[0].T @ left[0] + 0.5 * np.eye(5))
    covariance = covariances[-1]
    for _ in range(7):
        covariance = step @ covariance @ step + 2 * settings[1] * runs.noise**2 * np.eye(5)
    return means[-1], covariance


def test_runs_have_the_laws_of_definition_1(runs):
    for method, learned_without in ((runs.unlearned, False), (runs.retrained, True)):
        mean, covariance = dense(runs, learned_without)
        draws = np.array([method(seed) for seed in range(400)]).reshape(400, 5, 2)
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, (draws - mean).transpose(1, 0, 2).reshape(5, -1))
        for sample in white:
            assert kstest(sample, "norm").pvalue > 1e-4


def test_the_score_is_the_log_likelihood_ratio(runs):
    draws = np.array([runs.unlearned(seed) for seed in range(5)])
    expected = np.zeros(5)
    for sign, learned_without in ((1, False), (-1, True)):
        mean, covariance = dense(runs, learned_without)
        precision = np.linalg.inv(covariance)
        for k, theta in enumerate(draws.reshape(5, 5, 2)):
            for output in range(2):
                away = (theta - mean)[:, output]
                log_det = np.linalg.slogdet(covariance)[1]
                expected[k] -= sign * (away @ precision @ away + log_det) / 2
    np.testing.assert_allclose(runs.log_ratio(draws), expected, rtol=1e-6, atol=1e-8)


def test_the_curve_is_the_exact_accountants(runs):
    """Dense matrices here, a Krylov space there: at the quoted noise the target is met exactly."""
    deltas = runs.pair.delta(1.0), runs.pair.reversed().delta(1.0)
    assert max(deltas) <= 1e-2 * (1 + 1e-6)
    assert max(deltas) == pytest.approx(1e-2, rel=1e-5)
    x, a2 = runs.pair.excesses, runs.pair.squared_shifts
    exact = float(contour_delta(x, a2, [2] * 5, 0.5))
    assert runs.pair.delta(0.5) == pytest.approx(exact, rel=1e-6)


def test_the_test_approaches_the_exact_curve(runs):
    n = 8_000
    above = runs.log_ratio(np.array([runs.unlearned(seed) for seed in range(n)]))
    below = runs.log_ratio(np.array([runs.retrained(seed + n) for seed in range(n)]))
    for epsilon in (0.0, 0.3, 1.0):
        hits, alarms = np.mean(above > epsilon), np.mean(below > epsilon)
        spread = np.sqrt((hits * (1 - hits) + np.exp(2 * epsilon) * alarms * (1 - alarms)) / n)
        found = hits - np.exp(epsilon) * alarms
        assert abs(found - runs.pair.delta(epsilon)) < 4 * spread


@pytest.mark.parametrize("row", [3, 700])
def test_certified_digits_audited(digits, row):
    """The lower bound never exceeds the certificate."""
    X, y = digits
    model = LangevinRidgeClassifier(alpha=1.0, n_steps=100).fit(X, y)
    quote = model.quote([row], epsilon=1.0)
    runs = RidgeRuns(model, row, noise=quote.noise[0], n_unlearn_steps=80)
    kinds = (runs.unlearned, runs.retrained)
    outputs = [
        np.array([run(seed + 300 * k) for seed in range(300)]) for k, run in enumerate(kinds)
    ]
    for distinguisher in (runs.likelihood_ratio, "logistic"):
        found = audit(*outputs, delta=quote.delta[0], seed=row, distinguisher=distinguisher)
        assert found.epsilon_lower <= 1.0
        assert found.epsilon_lower_reverse <= 1.0


def test_too_little_noise_is_found_out(digits):
    """A hundredth of the noise under the same claim: the audit refutes it."""
    X, y = digits
    model = LangevinRidgeClassifier(alpha=1.0, n_steps=100).fit(X, y)
    quote = model.quote([3], epsilon=1.0)
    runs = RidgeRuns(model, 3, noise=quote.noise[0] / 100, n_unlearn_steps=80)
    found = audit(
        runs.unlearned,
        runs.retrained,
        delta=quote.delta[0],
        seed=0,
        n_runs=300,
        distinguisher=runs.likelihood_ratio,
    )
    assert found.epsilon_lower > 1.0


def test_more_columns_than_rows(rng):
    X, y = rng.normal(size=(8, 12)), rng.normal(size=8)
    model = LangevinRidge(alpha=0.5, n_steps=20, noise=0.2).fit(X, y)
    noise = model.quote([2], delta=1e-2, n_unlearn_steps=5).noise[0]
    runs = RidgeRuns(model, 2, noise=noise, n_unlearn_steps=5)
    deltas = runs.pair.delta(1.0), runs.pair.reversed().delta(1.0)
    assert max(deltas) == pytest.approx(1e-2, rel=1e-4)


def test_models_that_will_not_do(small):
    model = LangevinRidge(alpha=0.5, n_steps=20, noise=0.2, batch_size=10).fit(*small)
    with pytest.raises(ValueError, match="batch_size=None"):
        RidgeRuns(model, 3, noise=1.0, n_unlearn_steps=5)
    model = LangevinRidge(alpha=0.5, n_steps=20, noise=0.2).fit(*small)
    with pytest.raises(ValueError, match=r"noise must be a finite number > 0.*nothing to audit"):
        RidgeRuns(model, 3, noise=0.0, n_unlearn_steps=5)
    with pytest.raises(ValueError, match="rows must be in"):
        RidgeRuns(model, 30, noise=1.0, n_unlearn_steps=5)
    model.unlearn(3)
    with pytest.raises(ValueError, match="must not have forgotten any rows"):
        RidgeRuns(model, 4, noise=1.0, n_unlearn_steps=5)
