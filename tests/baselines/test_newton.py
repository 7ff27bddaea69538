"""The Newton step against literal steps, and its certificate against the exact divergence."""

import math

import numpy as np
import pytest

from oracles.competitors import (
    descend,
    newton_delta,
    newton_epsilon,
    newton_removal,
    refit_without,
    retained_gradient,
)
from pilu import LangevinRidge
from pilu.baselines import LeaveOneOut, NewtonStep, Task, residual_table
from pilu.baselines.newton import HORIZONS, certified_epsilon, residual_bound

REQUESTS = [[0], [29], [3, 17], [1, 2, 3, 4, 5, 6]]


@pytest.fixture
def steep(small, make_task):
    """Features of very different size: gradient steps converge slowly in some directions."""
    X, Y = small
    data = X * [1.0, 0.6, 0.3, 0.1], Y
    return lambda **settings: make_task(data=data, **settings)


def drawn(task, sigma):
    """The perturbation that a seeded task draws."""
    rng = np.random.default_rng(np.random.SeedSequence(task.random_state, spawn_key=(0,)))
    return sigma * rng.standard_normal((task.X.shape[1], task.Y.shape[1]))


@pytest.mark.parametrize("rows", REQUESTS)
def test_at_the_minimiser_it_is_leave_one_out(make_task, rows):
    task = make_task()
    answer = NewtonStep(perturbation=0.1).fit(task).answer(rows)
    share = task.alpha * (1 - len(rows) / 30)
    kept = np.delete(task.X, rows, axis=0)
    moved = np.linalg.solve(kept.T @ kept + share * np.eye(5), drawn(task, 0.1))
    expected = refit_without(task.X, task.Y, share, rows) - moved
    np.testing.assert_allclose(answer.theta, expected, rtol=1e-10, atol=1e-12)
    assert (answer.epsilon, answer.certified) == (0.0, True)
    # The residual is rounding, charged fourfold as a shift of the perturbation.
    residual = answer.details()["residual"]
    assert 0 < residual < 1e-11
    assert answer.delta == pytest.approx(math.erf(4 * residual / 0.1 / math.sqrt(8)), rel=1e-9)


def test_without_perturbation_it_is_the_closed_form_update(make_task):
    """With alpha = 0 the two regularisers agree, and so do the two updates."""
    task = make_task(alpha=0.0)
    newton = NewtonStep(perturbation=1e-3).fit(task).answer([3, 4])
    left = LeaveOneOut().fit(task).answer([3, 4])
    kept = np.delete(task.X, [3, 4], axis=0)
    moved = np.linalg.solve(kept.T @ kept, drawn(task, 1e-3))
    np.testing.assert_allclose(newton.theta, left.theta - moved, rtol=1e-10, atol=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rows", REQUESTS)
@pytest.mark.parametrize("n_steps", [1, 9, 200])
def test_after_few_steps_the_residual_is_the_learnings(make_task, rows, n_steps):
    task = make_task(n_steps=n_steps)
    b = drawn(task, 0.1)
    learned = NewtonStep(0.1, converged=False).fit(task)
    early = descend(task.X, task.Y, task.alpha, task.step_size, n_steps, linear=b)
    np.testing.assert_allclose(learned.theta, early, rtol=1e-9, atol=1e-12)
    answer = learned.answer(rows)
    step = newton_removal(task.X, task.Y, task.alpha, rows, early)
    np.testing.assert_allclose(answer.theta, step, rtol=1e-9, atol=1e-12)
    learning = task.X.T @ (task.X @ early - task.Y) + task.alpha * early + b
    retained = retained_gradient(task.X, task.Y, task.alpha, rows, answer.theta, b)
    np.testing.assert_allclose(retained, learning, rtol=1e-8, atol=1e-10)
    assert answer.details()["residual"] == pytest.approx(np.linalg.norm(learning), rel=1e-8)


def test_measured_epsilon_is_the_papers_formula_and_not_certified(make_task):
    task = make_task(n_steps=60)
    answer = NewtonStep(0.1, converged=False, accounting="measured").fit(task).answer(7)
    expected = answer.details()["residual"] / 0.1 * math.sqrt(2 * math.log(1.5 / 1e-2))
    assert answer.epsilon == pytest.approx(expected, rel=1e-12)
    assert not answer.certified
    assert answer.guarantee.startswith("none proved")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize("n_steps", [20, 60, 150, 400])
@pytest.mark.parametrize("sigma", [0.1, 3.0])
def test_the_bound_covers_the_exact_divergence(steep, n_steps, sigma, delta):
    task = steep(n_steps=n_steps, delta=delta)
    bound = certified_epsilon(task, sigma)
    settings = (task.X, task.Y, task.alpha, task.step_size, n_steps, sigma)
    exact = newton_epsilon(*settings, delta)
    assert bound >= exact
    # Mean and variance of the log-likelihood ratio, from the two dense laws.
    A = task.X.T @ task.X + task.alpha * np.eye(5)
    power = np.linalg.matrix_power(np.eye(5) - task.step_size * A, n_steps)
    spread, shift = np.eye(5) - power, power @ (task.X.T @ task.Y) / sigma
    covariance = spread @ spread
    divergence = np.trace(covariance) - 5 - np.linalg.slogdet(covariance)[1]
    divergence = (2 * divergence + np.sum(shift**2)) / 2
    variance = np.trace(np.linalg.matrix_power(covariance - np.eye(5), 2))
    variance += np.sum((spread @ shift) ** 2)
    by_hand = divergence + math.sqrt(2 * math.log(1 / delta) * variance)
    assert bound == pytest.approx(by_hand, rel=1e-6)
    answer = NewtonStep(sigma, converged=False).fit(task).answer([2, 3])
    assert answer.epsilon == bound
    assert answer.certified


def test_the_bound_at_tiny_residuals(steep):
    """What is left then is rounding, and that is in the bound."""
    task = steep(n_steps=4000)
    answer = NewtonStep(0.1, converged=False).fit(task).answer(3)
    assert answer.details()["residual"] / 0.1 < answer.epsilon < 1e-10


def test_the_measured_epsilon_is_below_the_truth(steep):
    """Why it is not certified: the delta that it leaves is near 1, not 1/100."""
    task = steep(n_steps=8)
    claimed = NewtonStep(0.1, converged=False, accounting="measured").fit(task).answer(7).epsilon
    settings = (task.X, task.Y, task.alpha, task.step_size, 8, 0.1)
    assert newton_delta(*settings, claimed) > 0.9


def test_a_direction_that_has_not_moved_cannot_be_certified(make_task):
    task = make_task(data=(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.ones(3)), alpha=0.0)
    assert certified_epsilon(task, 0.1) == math.inf


def test_steps_a_hair_beyond_the_limit():
    """A residual of 1e-9 of a huge gradient is not nothing: such steps are refused."""
    X, y = np.full((3, 1), 1e3), np.full(3, 1e9)
    settings = {"alpha": 1e-4, "n_steps": 1, "fit_intercept": False, "noise": 1.0}
    task = Task.of(LangevinRidge(**settings, step_size=(1 + 0.9e-9) / 3e6), X, y, epsilon=1.0)
    with pytest.raises(ValueError, match="step_size must be at most 1/L"):
        NewtonStep(converged=False).fit(task)
    task = Task.of(LangevinRidge(**settings), X, y, epsilon=1.0)
    answer = NewtonStep(converged=False).fit(task).answer(0)
    assert answer.epsilon > answer.details()["residual"] / 0.1


def test_rows_that_dwarf_the_others(rng):
    """Subtracting them loses digits of what is left: up to a point that is borne."""
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    X[:49] *= 1e2
    task = Task.of(LangevinRidge(alpha=0.1, fit_intercept=False), X, y, epsilon=1.0)
    rows = list(range(49))
    learned = NewtonStep(100.0).fit(task)
    answer = learned.answer(rows)
    step = newton_removal(task.X, task.Y, 0.1, rows, learned.theta)
    np.testing.assert_allclose(answer.theta, step, rtol=1e-5)
    X[:49] *= 1e4
    task = Task.of(LangevinRidge(alpha=0.1, fit_intercept=False), X, y, epsilon=1.0)
    with pytest.raises(ValueError, match="alpha must be large enough"):
        NewtonStep().fit(task).answer(rows)


def test_a_perturbation_below_rounding_is_refused(rng):
    X, y = 1e3 * rng.normal(size=(40, 3)), 1e9 * rng.normal(size=40)
    task = Task.of(LangevinRidge(alpha=1.0, noise=1e3), X, y, epsilon=1.0)
    with pytest.raises(ValueError, match="perturbation must be well above the rounding"):
        NewtonStep(0.1).fit(task).answer(0)


def test_predictions_have_the_law_of_the_released_parameters(make_task):
    points = np.random.default_rng(0).normal(size=(3, 5))
    seen = []
    for seed in range(2000):
        task = make_task(n_steps=15, random_state=seed)
        answer = NewtonStep(2.0, converged=False).fit(task).answer([3, 17])
        seen.append(points @ answer.theta)
    law = answer.predictions(points)
    error = np.sqrt(law.variance[:, None] / 2000)
    assert (np.abs(np.mean(seen, axis=0) - law.mean) < 4.5 * error).all()
    np.testing.assert_allclose(np.var(seen, axis=0).mean(axis=1), law.variance, rtol=0.12)


def test_the_papers_residual_bound_holds(make_task):
    residuals = []
    for seed in range(300):
        task = make_task(n_steps=30, random_state=seed)
        answer = NewtonStep(5.0, converged=False).fit(task).answer(1)
        residuals.append(answer.details()["residual"])
    bound = residual_bound(task, 5.0, tail=0.05)
    assert np.mean(np.array(residuals) > bound) <= 0.05
    largest = np.linalg.eigvalsh(task.X.T @ task.X)[-1] + task.alpha
    decay = (1 - task.step_size * task.alpha) ** 30
    size = np.linalg.norm(task.X.T @ task.Y) + 5 * (math.sqrt(10) + math.sqrt(2 * math.log(20)))
    assert bound == pytest.approx(largest * decay * size / task.alpha, rel=1e-6)


def test_residual_table(make_task):
    task = make_task(alpha=1e-4)
    table = residual_table(task, [4], horizons=(1, 30, 300))
    b = drawn(task, 0.1)
    for T, plain, noisy in zip((1, 30, 300), table.unperturbed, table.perturbed, strict=True):
        for linear, found in ((np.zeros_like(b), plain), (b, noisy)):
            theta = descend(task.X, task.Y, task.alpha, task.step_size, T, linear=linear)
            theta = newton_removal(task.X, task.Y, task.alpha, [4], theta)
            gradient = retained_gradient(task.X, task.Y, task.alpha, [4], theta, linear)
            assert found == pytest.approx(np.linalg.norm(gradient), rel=1e-6, abs=1e-10)
    lines = str(table).splitlines()
    assert lines[0].split() == ["T", "no", "perturbation", "sigma", "=", "0.1"]
    assert [int(line.split()[0]) for line in lines[1:]] == [1, 30, 300]
    assert len(str(residual_table(task, 4)).splitlines()) == 1 + len(HORIZONS)


def test_bad_options(make_task):
    with pytest.raises(ValueError, match="perturbation must be a finite number > 0"):
        NewtonStep(0.0)
    with pytest.raises(ValueError, match="accounting must be one of 'bound', 'measured'"):
        NewtonStep(accounting="exact")
    with pytest.raises(ValueError, match="horizons must be an integer >= 1"):
        residual_table(make_task(), 0, horizons=(0,))
    largest = 1 / make_task().step_size
    task = make_task(step_size=1.5 / largest)
    with pytest.raises(ValueError, match=r"step_size must be at most 1/L.*'auto' takes 1/L"):
        NewtonStep(converged=False).fit(task)
