"""A refit as one of the compared methods, against scikit-learn's own fits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import pilu
from pilu.baselines import Refit, Task


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_answer_is_the_minimiser_without_the_rows(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 4)), rng.integers(n_classes, size=150)
    model = pilu.LangevinLogistic(alpha=2.0, n_steps=20, fit_intercept=False)
    task = Task.of(model, X, y, epsilon=1.0)
    answer = Refit().fit(task).answer([5, 6])
    left = np.delete(np.arange(150), [5, 6])
    theirs = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(X[left], y[left])
    assert np.abs(answer.theta - theirs.coef_.T).max() < 0.01
    assert (answer.epsilon, answer.certified) == (1.0, True)
    assert answer.rows_touched >= 4 * len(left)  # a gradient at the start and at the answer


def test_the_expected_error_is_that_of_many_draws():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3)) * [1.0, 30.0, 0.1]
    y = X @ [1.0, 0.1, 5.0] + rng.normal(size=200)
    task = Task.of(pilu.LangevinRidge(alpha=3.0, fit_intercept=False), X, y, epsilon=1.0)
    learned = Refit(score_noise=0.3).fit(task)
    draws = np.array([learned.answer(0).theta for _ in range(400)])[:, :, 0]
    law = learned.answer(0).predictions(X[:5])
    mean = Ridge(3.0, fit_intercept=False).fit(X[1:], y[1:]).predict(X[:5])
    np.testing.assert_allclose(law.mean[:, 0], mean, atol=1e-6)
    found = (draws @ X[:5].T).var(axis=0)
    np.testing.assert_allclose(law.variance, found, rtol=0.35)  # 5 deviations of 400 draws


def test_no_regularisation_is_refused():
    X, y = np.random.default_rng(2).normal(size=(30, 2)), np.arange(30.0)
    frame = pilu.compare(
        X, y, 0, epsilon=1.0, model=pilu.LangevinRidge(alpha=0.0), methods=["refit"]
    )
    assert "refused: alpha must be > 0" in frame["guarantee"][0]
