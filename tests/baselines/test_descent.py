"""Descent-to-Delete: the walk step by step, and the distance that its noise hides."""

import numpy as np
import pytest

from oracles.competitors import descend_projected
from oracles.high_precision import mu_from_epsilon_mp
from pilu import LangevinRidge
from pilu.baselines import DescentToDelete, Task
from pilu.baselines.ball import Ball
from pilu.baselines.descent import distance_bound


@pytest.mark.parametrize("radius", [0.4, 3.0, "auto"])
@pytest.mark.parametrize("rows", [[4], [4, 9, 11]])
def test_step_by_step(make_task, radius, rows):
    task = make_task()
    learned = DescentToDelete(radius).fit(task)
    answer = learned.answer(rows)
    ball = answer.details()["radius"]
    settings = (task.alpha, task.step_size)
    learning = descend_projected(task.X, task.Y, *settings, 40, ball)
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-10, atol=1e-12)
    X, Y = (np.delete(values, rows, axis=0) for values in (task.X, task.Y))
    left = descend_projected(X, Y, *settings, 7, ball, start=learning)
    rng = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(1,)))
    noisy = left + answer.noise * rng.standard_normal(left.shape)
    np.testing.assert_allclose(answer.theta, noisy, rtol=1e-9, atol=1e-9)
    law = answer.predictions(task.X[:4])
    np.testing.assert_allclose(law.mean, task.X[:4] @ left, rtol=1e-9, atol=1e-11)
    spread = answer.noise**2 * np.linalg.norm(task.X[:4], axis=1) ** 2
    np.testing.assert_allclose(law.variance, spread, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 30.0])
@pytest.mark.parametrize("radius", [0.4, 5.0])
@pytest.mark.parametrize("stretch", [1.0, 1.9])
def test_the_distance_is_within_its_bound(make_task, alpha, radius, stretch):
    step_size = stretch * make_task(alpha=alpha).step_size
    task = make_task(alpha=alpha, step_size=step_size, n_steps=15)
    settings = (alpha, step_size)
    learned = descend_projected(task.X, task.Y, *settings, 15, radius)
    nearest = []
    for rows in ([i] for i in range(30)):
        X, Y = (np.delete(values, rows, axis=0) for values in (task.X, task.Y))
        left = descend_projected(X, Y, *settings, 7, radius, start=learned)
        retrained = descend_projected(X, Y, *settings, 15, radius)
        nearest.append(np.linalg.norm(left - retrained))
    assert max(nearest) <= distance_bound(Ball(task, radius), 1)


def test_the_bound_is_attained_by_a_line():
    """One parameter, steps on m alone, a gradient that stays at its largest: no slack is left."""
    X, y = np.array([[1e-6], [0.0], [0.0]]), np.array([1e6, 0.0, 0.0])
    model = LangevinRidge(alpha=0.5, step_size=0.1, n_steps=30, fit_intercept=False)
    task = Task.of(model, X, y, epsilon=1.0, n_unlearn_steps=5)
    learned = descend_projected(task.X, task.Y, 0.5, 0.1, 30, 1e3)
    left = descend_projected(0 * task.X, 0 * task.Y, 0.5, 0.1, 5, 1e3, start=learned)
    bound = distance_bound(Ball(task, 1e3), 1) - (1 - 0.05) ** 30 * 1e3
    assert np.linalg.norm(left) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("rows", [[0], [0, 1, 2]])
def test_noise_is_that_of_the_gaussian_mechanism(make_task, rows):
    task = make_task(epsilon=2.0)
    answer = DescentToDelete(3.0).fit(task).answer(rows)
    mu = float(mu_from_epsilon_mp(2.0, 1e-2))
    exact = distance_bound(Ball(task, 3.0), len(rows)) / mu
    assert exact <= answer.noise <= exact * (1 + 1e-8)
    assert (answer.epsilon, answer.delta, answer.certified) == (2.0, 1e-2, True)


def test_noise_is_never_below_rounding(diabetes):
    """Where the distance underflows, parameters still differ by their rounding."""
    for alpha, K in ((1e3, 80), (1e5, 500)):
        task = Task.of(LangevinRidge(alpha=alpha), *diabetes, epsilon=1.0, n_unlearn_steps=K)
        answer = DescentToDelete(1e3).fit(task).answer(3)
        assert answer.noise > 1000 * np.spacing(np.linalg.norm(answer.theta))


def test_no_strong_convexity_no_bound(make_task):
    with pytest.raises(ValueError, match="alpha must be > 0 for Descent-to-Delete"):
        DescentToDelete().fit(make_task(alpha=0.0))
