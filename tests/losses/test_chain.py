"""The estimators' chains against a loop with the same draws, and against what they converge to."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from conftest import with_ones
from losses.plain import CASES, FORMS, THRESHOLD, model_for, problem_for, walk
from pilu import LangevinHuber, LangevinLogistic
from pilu.chains.chain import SeededGaussian

SEED = 11


def fitted(name, **options):
    options = {"alpha": 0.4, "n_steps": 25, "noise": 0.3, "random_state": SEED} | options
    if name in ("logistic", "softmax"):
        model = LangevinLogistic(**options)
    elif name.startswith("huber"):
        model = LangevinHuber(threshold=THRESHOLD, **options)
    else:
        model = model_for(name, **options)
    X, y, Y = problem_for(name)
    model.fit(X, y)
    return model, (with_ones(X) if model.fit_intercept else X), Y


def expected_path(model, name, X, Y, segments, stream, theta=None, **options):
    case = FORMS[name]
    theta = np.zeros((X.shape[1], case.n_scores)) if theta is None else theta
    normal = SeededGaussian(SEED, stream).normal
    run = (case.gradient, model.alpha, model.step_size_, segments, normal, model.batch_size)
    return walk(theta, X, Y, *run, **options)[-1]


def theta_of(model):
    coef = np.atleast_2d(model.coef_).T
    return np.vstack([coef, np.atleast_1d(model.intercept_)]) if model.fit_intercept else coef


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("b", [None, 24, 7, 1])
def test_learning_unlearning_and_a_redraw_are_loops(name, b):
    """25 steps of batches of 7 (four of them) end in the middle of a turn."""
    model, X, Y = fitted(name, batch_size=b)
    theta = expected_path(model, name, X, Y, [(25, 0.3)], 0)
    np.testing.assert_allclose(theta_of(model), theta, rtol=1e-10, atol=1e-12)
    live = np.ones(24, dtype=bool)
    for stream, rows in ((1, [3]), (2, [8, 20])):
        options = {"keep_empty_classes": True} if hasattr(model, "classes_") else {}
        certificate = model.unlearn(rows, n_unlearn_steps=6, epsilon=5.0, **options)
        live[rows] = False
        segments, first = [(6, certificate.noise)], 25 + 6 * (stream - 1)
        theta = expected_path(model, name, X, Y, segments, stream, theta, live=live, first=first)
        size = np.abs(theta).max()
        np.testing.assert_allclose(theta_of(model), theta, rtol=1e-9, atol=1e-12 * (1 + size))
    model.unlearn(5, method="redraw", **options)
    live[5] = False
    theta = expected_path(model, name, X, Y, [(25, 0.3)], 3, live=live)
    np.testing.assert_allclose(theta_of(model), theta, rtol=1e-10, atol=1e-12)
    assert model.schedule_ == ((25, 0.3),)


@pytest.mark.parametrize("name", ["logistic", "huber of two"])
def test_a_start_no_intercept_and_a_step_size_of_ones_own(name):
    case, (X, y, Y) = CASES[name], problem_for(name)
    start = np.arange(3.0 * case.n_scores).reshape(case.n_scores, 3)
    model, _, _ = fitted(name, fit_intercept=False)
    model.set_params(step_size=1.5 * model.step_size_).fit(X, y, coef_init=start)
    theta = expected_path(model, name, X, Y, [(25, 0.3)], 0, start.T)
    np.testing.assert_allclose(theta_of(model), theta, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "huber", "softmax"])
def test_the_step_size_is_one_over_the_curvature(name):
    model, X, _ = fitted(name)
    largest = np.linalg.eigvalsh(X.T @ X)[-1]
    smoothness = {"logistic": 0.25, "huber": 1.0, "softmax": 0.5}[name]
    assert model.step_size_ == pytest.approx(1 / (0.4 + smoothness * largest), rel=1e-9)
    assert model.step_size_ <= 1 / (0.4 + smoothness * largest) * (1 + 1e-14)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scikit_learns_logistic_regression_is_approached(name, fit_intercept):
    X, y, _ = problem_for(name, n=60)
    model = LangevinLogistic(0.5, n_steps=3000, noise=1e-7, fit_intercept=fit_intercept).fit(X, y)
    whole = with_ones(X) if fit_intercept else X
    reference = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=5000)
    reference.fit(whole, y)
    np.testing.assert_allclose(theta_of(model).T, reference.coef_, atol=2e-6)
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(whole), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(model.predict(X), reference.predict(whole))


@pytest.mark.parametrize("name", ["huber", "huber of two"])
def test_the_minimiser_of_hubers_objective_is_approached(name):
    """With one row far off, so that some residuals are beyond the threshold and some are not."""
    X, y, Y = problem_for(name)
    Y[4] += 30.0
    y = Y[:, 0] if Y.shape[1] == 1 else Y
    model = LangevinHuber(0.5, threshold=THRESHOLD, n_steps=4000, noise=1e-7).fit(X, y)
    whole = with_ones(X)

    def objective(flat):
        r = np.abs(whole @ flat.reshape(4, -1) - Y)
        inside = r**2 / 2
        return np.sum(np.where(r <= THRESHOLD, inside, THRESHOLD * (r - THRESHOLD / 2))) + (
            0.25 * flat @ flat
        )

    best = minimize(objective, np.zeros(4 * Y.shape[1]), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(theta_of(model), best.x.reshape(4, -1), atol=1e-5)
    beyond = np.abs(whole @ theta_of(model) - Y) > THRESHOLD
    assert 0 < beyond.sum() < beyond.size


def test_auxiliary_runs_do_not_touch_the_chain():
    X, y, _ = problem_for("logistic")
    few, many = (
        LangevinLogistic(n_steps=20, noise=0.1, n_auxiliary_runs=R, random_state=4).fit(X, y)
        for R in (2, 50)
    )
    np.testing.assert_array_equal(few.coef_, many.coef_)
    many.quote([3])
    np.testing.assert_array_equal(few.coef_, many.coef_)
    few.unlearn(3, method="redraw")
    many.unlearn(3, method="redraw")
    np.testing.assert_array_equal(few.coef_, many.coef_)
