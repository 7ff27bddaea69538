"""The closed-form update against refits, and what it leaves wrong after T steps."""

import numpy as np
import pytest

from oracles.competitors import descend, refit, refit_without
from pilu.baselines import LeaveOneOut

REQUESTS = [[0], [29], [3, 17], [1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("rows", REQUESTS)
@pytest.mark.parametrize("alpha", [1e-3, 0.5, 100.0])
def test_at_the_minimiser_it_is_the_refit(make_task, rows, alpha):
    task = make_task(alpha=alpha)
    learned = LeaveOneOut().fit(task)
    np.testing.assert_allclose(learned.theta, refit(task.X, task.Y, alpha), rtol=1e-10, atol=1e-12)
    answer = learned.answer(rows)
    left = refit_without(task.X, task.Y, alpha, rows)
    np.testing.assert_allclose(answer.theta, left, rtol=1e-10, atol=1e-12)
    assert (answer.epsilon, answer.delta, answer.certified) == (0.0, 0.0, True)


def test_equal_rows_and_more_columns_than_rows(make_task, rng):
    X = np.vstack([rng.normal(size=(4, 9))] * 2)
    task = make_task(data=(X, rng.normal(size=8)), alpha=0.3)
    left = LeaveOneOut().fit(task).answer([0, 4]).theta
    expected = refit_without(task.X, task.Y, 0.3, [0, 4])
    np.testing.assert_allclose(left, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", REQUESTS)
def test_after_few_steps_the_learning_residual_stays(make_task, rows):
    task = make_task(n_steps=12)
    answer = LeaveOneOut(converged=False).fit(task).answer(rows)
    assert answer.epsilon == np.inf
    assert not answer.certified
    early = descend(task.X, task.Y, task.alpha, task.step_size, 12)
    learning = task.X.T @ (task.X @ early - task.Y) + task.alpha * early
    X, Y = (np.delete(values, rows, axis=0) for values in (task.X, task.Y))
    retained = X.T @ (X @ answer.theta - Y) + task.alpha * answer.theta
    np.testing.assert_allclose(retained, learning, rtol=1e-9, atol=1e-11)
    found = answer.details()
    assert found["residual"] == pytest.approx(np.linalg.norm(learning), rel=1e-9)
    retrained = descend(X, Y, task.alpha, task.step_size, 12)
    assert found["distance"] == pytest.approx(np.linalg.norm(answer.theta - retrained), rel=1e-8)
    assert found["distance"] > 1e-3  # two point masses apart: nothing hides them


def test_a_row_that_carries_the_problem_is_refused(make_task):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1e6]])
    task = make_task(data=(X, np.ones(3)), alpha=1e-3, fit_intercept=False)
    with pytest.raises(ValueError, match=r"alpha must be large enough.*what is left.*retrain"):
        LeaveOneOut().fit(task).answer(2)


def test_dependent_features_without_regularisation_are_refused(make_task):
    X = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    task = make_task(data=(X, np.ones(3)), alpha=0.0)
    with pytest.raises(ValueError, match=r"alpha must be large enough.*larger alpha"):
        LeaveOneOut().fit(task)


@pytest.mark.parametrize("apart", [1e-6, 1e-7])
def test_nearly_dependent_features_are_refused(make_task, rng, apart):
    """A solution with a few digits is not the refit "up to rounding"."""
    Z = rng.normal(size=(30, 2))
    X = np.hstack([Z, Z + apart * rng.normal(size=(30, 2))])
    with pytest.raises(ValueError, match="five digits"):
        LeaveOneOut().fit(make_task(data=(X, rng.normal(size=30)), alpha=0.0))


def test_what_may_only_be_true_or_false():
    with pytest.raises(ValueError, match="converged must be True or False, got converged='no'"):
        LeaveOneOut(converged="no")
