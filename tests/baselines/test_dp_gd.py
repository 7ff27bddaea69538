"""DP-GD against a literal loop over rows, and its noise against Google's dp-accounting."""

from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from oracles.competitors import descend, dp_gd
from pilu.accounting.renyi import RENYI_ORDERS
from pilu.baselines import DPGD
from pilu.baselines.dp_gd import clipped_gradient, gradient_norms, residual_limits


def noises(seed, stream, count, shape, sigma):
    """The noise that a seeded task draws, step by step."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    return [sigma * rng.standard_normal(shape) for _ in range(count)]


@pytest.mark.parametrize("clipping", [0.3, 4.0, 1e6])
def test_learning_and_forgetting_step_by_step(make_task, clipping):
    task = make_task()
    learned = DPGD(clipping).fit(task)
    answer = learned.answer([4, 9])
    settings = (task.alpha, task.step_size, clipping)
    shape = learned.theta.shape
    by_rows = dp_gd(
        task.X, task.Y, *settings, np.zeros(shape), noises(3, 0, 40, shape, answer.noise)
    )
    np.testing.assert_allclose(learned.theta, by_rows, rtol=1e-9, atol=1e-9)
    X, Y = (np.delete(values, [4, 9], axis=0) for values in (task.X, task.Y))
    after = dp_gd(X, Y, *settings, by_rows, noises(3, 1, 7, shape, answer.noise))
    np.testing.assert_allclose(answer.theta, after, rtol=1e-9, atol=1e-9)
    assert answer.rows_touched == 7 * 28


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.integers(1, 4))
def test_a_row_counts_with_at_most_the_threshold(seed, C, d):
    rng = np.random.default_rng(seed)
    X, Y, theta = rng.normal(size=(6, 3)), rng.normal(size=(6, d)), 5 * rng.normal(size=(3, d))
    limits = residual_limits(X, C)
    others = clipped_gradient(theta, X[1:], Y[1:], limits[1:])
    share = clipped_gradient(theta, X, Y, limits) - others
    own = X[:1].T @ (X[:1] @ theta - Y[:1])
    norm = np.linalg.norm(own)
    assert np.linalg.norm(share) <= C + 1e-12 * np.linalg.norm(others)
    expected = own * min(1, C / norm)
    np.testing.assert_allclose(share, expected, atol=1e-9 * max(norm, np.linalg.norm(others), C))


def test_the_quantile_is_that_of_the_gradient_norms_after_learning(make_task):
    task = make_task()
    theta = descend(task.X, task.Y, task.alpha, task.step_size, task.n_steps)
    norms = [
        np.linalg.norm(np.outer(x, x @ theta - y)) for x, y in zip(task.X, task.Y, strict=True)
    ]
    np.testing.assert_allclose(gradient_norms(theta, task.X, task.Y), norms, rtol=1e-12)
    answer = DPGD().fit(task).answer(0)
    assert answer.details()["clipping"] == pytest.approx(np.quantile(norms, 0.75), rel=1e-9)
    assert "read off the data" in answer.guarantee
    assert "read off the data" not in DPGD(2.0).fit(task).answer(0).guarantee


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_noise_against_dp_accounting(make_task, epsilon):
    task, steps = make_task(epsilon=epsilon), 47
    exact = DPGD(2.0).fit(task).answer(0)
    multiplier = exact.noise / 2.0
    theirs = dp_accounting.get_sigma_gaussian(epsilon, 1e-2) * np.sqrt(steps)
    assert multiplier == pytest.approx(theirs, rel=1e-6)
    paper = DPGD(2.0, "renyi").fit(task).answer(0)
    spent = [steps * a / (2 * (paper.noise / 2) ** 2) for a in RENYI_ORDERS]
    accountant = RdpAccountant(list(RENYI_ORDERS))
    accountant.compose(dp_accounting.GaussianDpEvent(paper.noise / 2), steps)
    np.testing.assert_allclose(spent, accountant._rdp, rtol=1e-12)
    by_hand = min(s + np.log(1e2) / (a - 1) for s, a in zip(spent, RENYI_ORDERS, strict=True))
    assert epsilon * (1 - 1e-9) <= by_hand <= epsilon
    assert paper.noise > exact.noise


def test_a_group_pays_for_its_size(make_task):
    task = make_task()
    learned = DPGD(2.0).fit(task)
    one, three = learned.answer(5), learned.answer([5, 6, 7])
    assert three.noise == one.noise
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_accounting.GaussianDpEvent(one.noise / 6.0), 47)
    assert three.epsilon == pytest.approx(accountant.get_epsilon(1e-2), rel=1e-3)
    by_renyi = DPGD(2.0, "renyi").fit(task).answer([5, 6, 7])
    multiplier = by_renyi.noise / 6.0
    spent = [47 * a / (2 * multiplier**2) + np.log(1e2) / (a - 1) for a in RENYI_ORDERS]
    assert by_renyi.epsilon == pytest.approx(min(spent), rel=1e-9)


@pytest.mark.parametrize("clipping", [0.0, -1.0, np.nan, "median"])
def test_bad_thresholds(clipping):
    with pytest.raises(ValueError, match="clipping must be"):
        DPGD(clipping)


def test_noise_is_never_below_rounding(make_task):
    """An epsilon that asks for next to no noise: what is added can still be seen."""
    task = replace(make_task(), epsilon=1e12)  # past what pilu itself takes
    learned = DPGD(1e-9).fit(task)
    answer = learned.answer(0)
    assert task.step_size * answer.noise > 1000 * np.spacing(np.linalg.norm(learned.theta))


def test_a_row_whose_square_underflows_is_clipped():
    X, Y = np.full((1, 1), 1e-170), np.full((1, 1), 1e50)
    gradient = clipped_gradient(np.zeros((1, 1)), X, Y, residual_limits(X, 1e-150))
    assert np.abs(gradient) <= 1e-150


def test_a_row_of_zeros_counts_for_nothing():
    X, Y = np.zeros((2, 3)), np.ones((2, 1))
    gradient = clipped_gradient(np.ones((3, 1)), X, Y, residual_limits(X, 0.5))
    np.testing.assert_array_equal(gradient, np.zeros((3, 1)))


def test_rows_without_gradients_have_no_quantile(make_task):
    task = make_task(data=(np.eye(4), np.zeros(4)))
    with pytest.raises(ValueError, match="clipping must be a number > 0"):
        DPGD().fit(task)
