"""The projective residual update against the projection of a refit."""

import numpy as np
import pytest

from oracles.competitors import projective_residual, refit_without
from pilu.baselines import ProjectiveResidual

REQUESTS = [[0], [3, 17], [1, 2, 3, 4]]


@pytest.mark.parametrize("rows", REQUESTS)
@pytest.mark.parametrize("alpha", [1e-3, 2.0])
def test_it_is_the_projection_of_the_exact_update(make_task, rows, alpha):
    task = make_task(alpha=alpha)
    answer = ProjectiveResidual().fit(task).answer(rows)
    expected = projective_residual(task.X, task.Y, alpha, rows)
    np.testing.assert_allclose(answer.theta, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rows", REQUESTS)
def test_the_rows_themselves_are_predicted_as_by_the_refit(make_task, rows):
    task = make_task()
    answer = ProjectiveResidual().fit(task).answer(rows)
    left = refit_without(task.X, task.Y, task.alpha, rows)
    np.testing.assert_allclose(task.X[rows] @ answer.theta, task.X[rows] @ left, rtol=1e-9)
    distance = np.linalg.norm(answer.theta - left)
    assert answer.details()["distance"] == pytest.approx(distance, rel=1e-7)
    assert distance > 1e-4


def test_equal_rows(make_task, rng):
    X = np.vstack([rng.normal(size=(1, 4))] * 2 + [rng.normal(size=(8, 4))])
    task = make_task(data=(X, rng.normal(size=10)))
    answer = ProjectiveResidual().fit(task).answer([0, 1])
    expected = projective_residual(task.X, task.Y, task.alpha, [0, 1])
    np.testing.assert_allclose(answer.theta, expected, rtol=1e-9, atol=1e-11)


def test_it_claims_nothing(make_task):
    answer = ProjectiveResidual().fit(make_task()).answer(0)
    assert not answer.certified
    assert answer.epsilon == np.inf
    assert answer.guarantee.startswith("none")
