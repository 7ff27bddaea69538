"""Learning that stopped early, totals that promise little, and the choice of a redraw."""

import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from conftest import with_ones
from pilu import LangevinHuber, LangevinLogistic, LangevinRidge, LangevinRidgeClassifier
from pilu.chains.shortfall import Shortfall
from pilu.estimators import fitted as fitted_state
from pilu.exceptions import TotalBudgetWarning, WrongInput


def said(model, X, y):
    """The two numbers of the warning; None without one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    if not caught:
        return None
    (one,) = caught
    assert one.category is ConvergenceWarning
    assert one.filename == __file__
    words = str(one.message)
    assert "Forgetful" in words
    assert "columns" in words
    reached, reachable = re.search(r"is (\S+), and (?:at least )?(\S+) at the min", words).groups()
    return float(reached), float(reachable)


def r2_after_descent(X, y, alpha, n_steps):
    """R2 of gradient descent, step by step."""
    Xa, theta = with_ones(X), np.zeros(X.shape[1] + 1)
    A, b = Xa.T @ Xa + alpha * np.eye(len(theta)), Xa.T @ y
    eta = 1 / np.linalg.eigvalsh(A)[-1]
    for _ in range(n_steps):
        theta = theta - eta * (A @ theta - b)
    return 1 - np.sum((Xa @ theta - y) ** 2) / np.sum((y - y.mean()) ** 2)


def test_unscaled_columns_warn():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    reached, reachable = said(LangevinRidge(), X, y)
    assert reached == pytest.approx(r2_after_descent(X, y, 1e-4, 800), abs=1e-3)
    minimiser = Ridge(alpha=1e-4, fit_intercept=False).fit(with_ones(X), y)
    assert reachable == pytest.approx(minimiser.score(with_ones(X), y), abs=1e-3)
    assert said(LangevinRidge(n_steps=None, alpha=1.0), X, y) is None


def test_a_useless_model_warns(rng):
    X = rng.normal(size=(300, 4)) * [1e4, 1, 1, 1]
    y = X @ [1e-4, 1, 1, 1] + 3
    model = LangevinRidge()
    reached, reachable = said(model, X, y)
    assert model.score(X, y) == pytest.approx(reached, rel=1e-2)
    assert reached < -1.0
    assert reachable > 0.99


@pytest.mark.parametrize(("n_steps", "is_far"), [(100, True), (300, True), (800, False)])
def test_ridge_warns_where_r2_is_missing(diabetes, n_steps, is_far):
    X, y = diabetes
    found = said(LangevinRidge(n_steps=n_steps), X, y)
    assert (found is not None) == is_far
    gap = 0.5177 - r2_after_descent(X, y, 1e-4, n_steps)
    assert (gap > 0.02) == is_far
    # The warning is a function of the data, not of the noise.
    assert found == said(LangevinRidge(n_steps=n_steps, random_state=7), X, y)
    assert found == said(LangevinRidge(n_steps=n_steps, noise=1e3), X, y)


def test_a_small_gap_counts_where_the_error_is_smaller_still():
    assert Shortfall(0.5, 0.53).is_large
    assert not Shortfall(0.5, 0.515).is_large
    assert Shortfall(0.98, 0.99).is_large  # twice the squared error
    assert not Shortfall(0.9995, 0.9999).is_large


def test_constant_and_zero_targets_do_not_warn(rng):
    X = rng.normal(size=(40, 3))
    assert said(LangevinRidge(), X, np.zeros(40)) is None
    assert said(LangevinRidge(), X, np.full(40, 5.0)) is None


def test_few_rows_and_a_start_count(rng):
    X, w = rng.normal(size=(12, 30)), rng.normal(size=30)
    assert said(LangevinRidge(n_steps=1, fit_intercept=False), X, X @ w)[0] < 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LangevinRidge(n_steps=1, fit_intercept=False)
        model.fit(X, X @ w, coef_init=w)  # begins at the minimiser


def test_mini_batches_warn(digits):
    X, y = digits
    options = {"alpha": 1e-2, "batch_size": 300}
    few = said(LangevinRidgeClassifier(n_steps=60, **options), X, y)
    assert few[1] > few[0] + 0.02
    assert said(LangevinRidgeClassifier(n_steps=6000, **options), X, y) is None


def test_logistic_warns_of_what_better_descent_finds():
    X, y = load_breast_cancer(return_X_y=True)
    reached, reachable = said(LangevinLogistic(), X, y)  # columns from 0.01 to 4,000
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    assert reachable > reached + 0.1
    assert said(LangevinLogistic(n_steps=2000), scaled, y) is None
    # What is called reachable is not above the minimum, which scikit-learn finds.
    few = said(LangevinLogistic(n_steps=5), scaled, y)
    other = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10**5)
    theta = other.fit(with_ones(scaled), y).coef_[0]
    margins = (2 * y - 1) * (with_ones(scaled) @ theta)
    least = np.sum(np.logaddexp(0, -margins)) + theta @ theta / 2
    constant = min(len(y) * np.log(2), np.sum(np.logaddexp(0, -(2 * y - 1.0))))
    assert few[0] < few[1] <= 1 - least / constant + 1e-3


def test_noise_is_not_taken_for_an_early_stop(diabetes):
    X, y = diabetes
    X = X * 20
    for noise in (0.01, 0.5):
        assert said(LangevinHuber(alpha=50.0, noise=noise, n_steps=500), X, y / 100) is None
    assert said(LangevinHuber(n_steps=5), X, y / 100) is not None


def test_as_an_error_it_leaves_the_estimator_unfitted(diabetes):
    model = LangevinRidge(n_steps=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            model.fit(*diabetes)
    assert not hasattr(model, "coef_")


def test_a_total_above_a_tenth_warns_and_names_the_way_out(small):
    model = LangevinRidge(alpha=1.0, n_steps=50).fit(*small)
    terms = {"delta": 0.04, "epsilon": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = model.unlearn(0, **terms)
        row = 1
        while certificate.total_delta <= 0.1:
            before = pickle.dumps(model)
            try:
                certificate = model.unlearn(row, **terms)
            except TotalBudgetWarning as warning:
                words = str(warning)
                break
            row += 1
    assert "method='redraw'" in words
    assert "Forgetful" in words
    assert f"after {row + 1} requests" in words
    assert pickle.dumps(model) == before  # as an error it changes nothing
    with pytest.warns(TotalBudgetWarning):
        certificate = model.unlearn(row, **terms)
    assert certificate.total_delta > 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.unlearn(20, method="redraw")
        assert model.unlearn(21, **terms).total_delta <= 0.1


def test_auto_redraws_by_the_sizes_of_the_fit(small, digits, monkeypatch):
    X, Y = small
    for model in (
        LangevinRidge(n_steps=None, alpha=0.1),
        LangevinRidge(solver="gradient"),
        LangevinRidge(batch_size=10),
        LangevinHuber(n_steps=20),
    ):
        model.fit(X, Y)
        certificate = model.unlearn([2, 3], method="auto")
        assert (certificate.method, certificate.epsilon) == ("redraw", 0.0)
        assert model.total_ == (0.0, 0.0)
        with pytest.raises(WrongInput, match="exactly one of"):
            model.unlearn(method="auto")
    monkeypatch.setattr(fitted_state, "_CHEAP_WORK", 1e3)
    assert model.unlearn(4, method="auto", epsilon=2.0).method == "langevin"


@pytest.mark.parametrize("outlier", [1.0, 1e6])
def test_auto_does_not_look_at_the_rows(outlier, rng, monkeypatch):
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    X[3] *= outlier
    model = LangevinRidge(alpha=0.1).fit(X, y)
    work = model.fitted_.chain.problem.redraw_work(model.fitted_.chain.schedule.segments[0])
    assert work == 10 * 6**3
    model.unlearn([3, 4, 5], method="redraw")  # nor at how many are left
    chain = model.fitted_.chain
    assert chain.problem.redraw_work(chain.schedule.segments[0]) == work
