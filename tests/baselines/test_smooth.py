"""Every method on losses that are not squares, against loops over rows."""

import math

import numpy as np
import pytest

import pilu
from baselines.rows_by_hand import (
    KINDS,
    THRESHOLD,
    drawn,
    full_gradient,
    problem,
    row_gradient,
    slope,
    walk,
    without,
    zeros,
)
from oracles.calibrate import dense_mu
from oracles.competitors import chien_divergence
from oracles.high_precision import delta_from_mu_mp, mu_from_epsilon_mp
from pilu.accounting.renyi import RENYI_ORDERS as ORDERS
from pilu.baselines import (
    DPGD,
    DescentToDelete,
    Langevin,
    LeaveOneOut,
    ProjectiveResidual,
    Redraw,
    Retraining,
    Task,
    UniformLangevin,
    residual_table,
)
from pilu.baselines.ball import Ball
from pilu.baselines.descent import distance_bound
from pilu.baselines.dp_gd import clipped_gradient, gradient_norms, residual_limits
from pilu.baselines.newton import certified_epsilon, residual_bound
from pilu.baselines.uniform import any_row_noise, worst_row_noise
from pilu.estimators.smooth import SmoothRegressor
from pilu.losses import Huber, Logistic, Softmax, Squared

# What a task holds.


def test_targets_and_loss(make_smooth):
    task = make_smooth("logistic")
    X, y = problem("logistic")
    np.testing.assert_array_equal(task.X, np.hstack([X, np.ones((30, 1))]))
    np.testing.assert_array_equal(task.Y[:, 0], np.where(y == "b", 1.0, -1.0))
    assert task.loss == Logistic()
    assert make_smooth("huber").loss == Huber(THRESHOLD)
    task = make_smooth("softmax")
    np.testing.assert_array_equal(task.Y, y_hot := (problem("softmax")[1][:, None] == list("abc")))
    assert task.loss == Softmax()
    assert y_hot.sum() == 30


@pytest.mark.parametrize("kind", KINDS)
def test_the_curvature_is_never_above_its_bound(make_smooth, kind):
    """By differences of gradients, which is all that a step meets."""
    task, rng = make_smooth(kind), np.random.default_rng(0)
    for scale in (0.1, 1.0, 5.0):
        a, b = (scale * rng.normal(size=zeros(task).shape) for _ in range(2))
        moved = full_gradient(kind, a, task.X, task.Y, 0.5)
        moved = moved - full_gradient(kind, b, task.X, task.Y, 0.5)
        assert np.linalg.norm(moved) <= task.largest * np.linalg.norm(a - b)


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("logistic", 1.0), ("softmax", math.sqrt(2)), ("huber", THRESHOLD * math.sqrt(2))],
)
def test_gradients_are_within_their_bound(make_smooth, kind, bound):
    task, rng = make_smooth(kind), np.random.default_rng(1)
    assert task.gradient_bound == pytest.approx(bound, rel=1e-12)
    slopes = [
        np.linalg.norm(slope(kind, scale * rng.normal(size=len(y)), y))
        for scale in (1.0, 30.0, 300.0)
        for y in task.Y
    ]
    assert 0.95 * bound < max(slopes) <= task.gradient_bound
    x = np.linalg.norm(task.X, axis=1)
    assert Ball(task, math.inf).largest_gradients(2) == pytest.approx(bound * sum(np.sort(x)[-2:]))
    # on a ball: less where the ball is small
    theta = rng.normal(size=(200, *zeros(task).shape))
    theta *= 0.1 / np.linalg.norm(theta, axis=(1, 2))[:, None, None]
    found = [
        np.linalg.norm(row_gradient(kind, t, a, y))
        for t in theta
        for a, y in zip(task.X, task.Y, strict=True)
    ]
    on_ball = Ball(task, 0.1).largest_gradients(1)
    assert max(found) <= on_ball <= Ball(task, math.inf).largest_gradients(1)


def test_the_square_has_no_bound(make_task):
    assert make_task().gradient_bound == math.inf


# Clipped steps.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clipping", [0.3, 1e6])
def test_dp_gd_step_by_step(make_smooth, kind, clipping):
    task = make_smooth(kind)
    learned = DPGD(clipping).fit(task)
    answer = learned.answer([4, 9])
    shape = learned.theta.shape

    def steps(theta, X, Y, noises):
        for noise in noises:
            total = task.alpha * theta + noise
            for x, y in zip(X, Y, strict=True):
                gradient = row_gradient(kind, theta, x, y)
                norm = np.linalg.norm(gradient)
                total = total + (gradient * (clipping / norm) if norm > clipping else gradient)
            theta = theta - task.step_size * total
        return theta

    learning = steps(zeros(task), task.X, task.Y, drawn(0, 40, shape, answer.noise))
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-8, atol=1e-8 * answer.noise)
    after = steps(learning, *without(task, [4, 9]), drawn(1, 7, shape, answer.noise))
    np.testing.assert_allclose(answer.theta, after, rtol=1e-8, atol=1e-8 * answer.noise)
    assert answer.rows_touched == 7 * 28
    same_as_ridge = clipping * math.sqrt(47) / float(mu_from_epsilon_mp(1.0, 1e-2))
    assert answer.noise == pytest.approx(same_as_ridge, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_clipping_counts_each_row_with_at_most_the_threshold(make_smooth, kind):
    task, rng = make_smooth(kind), np.random.default_rng(0)
    theta = rng.normal(size=zeros(task).shape)
    norms = [
        np.linalg.norm(row_gradient(kind, theta, x, y)) for x, y in zip(task.X, task.Y, strict=True)
    ]
    np.testing.assert_allclose(gradient_norms(theta, task.X, task.Y, task.loss), norms, rtol=1e-10)
    for x, y in zip(task.X, task.Y, strict=True):
        one = x[None], y[None]
        limits = residual_limits(one[0], 0.2)
        assert np.linalg.norm(clipped_gradient(theta, *one, limits, task.loss)) <= 0.2


def test_the_quantile_is_that_of_the_gradient_norms_after_learning(make_smooth):
    task = make_smooth("softmax")
    theta = walk("softmax", zeros(task), task.X, task.Y, task, 40)
    norms = [
        np.linalg.norm(row_gradient("softmax", theta, x, y))
        for x, y in zip(task.X, task.Y, strict=True)
    ]
    answer = DPGD().fit(task).answer(5)
    assert answer.details()["clipping"] == pytest.approx(np.quantile(norms, 0.75), rel=1e-8)


# Descent-to-Delete.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.4, "auto"])
def test_descent_step_by_step(make_smooth, kind, radius):
    task = make_smooth(kind)
    learned = DescentToDelete(radius).fit(task)
    answer = learned.answer([4, 9])
    ball = math.inf if radius == "auto" else radius
    assert answer.details()["radius"] == ball
    learning = walk(kind, zeros(task), task.X, task.Y, task, 40, radius=ball)
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-9, atol=1e-11)
    left = walk(kind, learning, *without(task, [4, 9]), task, 7, radius=ball)
    noisy = left + drawn(1, 1, left.shape, answer.noise)[0]
    np.testing.assert_allclose(answer.theta, noisy, rtol=1e-8, atol=1e-8 * answer.noise)
    mu = float(mu_from_epsilon_mp(1.0, 1e-2))
    needed = distance_bound(Ball(task, ball), 2) / mu
    assert needed <= answer.noise <= needed * (1 + 1e-8)
    assert ("longest row" in answer.guarantee) == (radius == "auto")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.01, 3.0])
@pytest.mark.parametrize("radius", [0.4, math.inf])
@pytest.mark.parametrize("stretch", [1.0, 1.9])
def test_the_distance_is_within_its_bound(make_smooth, kind, alpha, radius, stretch):
    task = make_smooth(kind, alpha=alpha, n_steps=12)
    task = make_smooth(kind, alpha=alpha, n_steps=12, step_size=stretch * task.step_size)
    learned = walk(kind, zeros(task), task.X, task.Y, task, 12, radius=radius)
    for rows in ([3], [8], [11], [29], [12, 13, 14]):
        kept = tuple(without(task, rows))
        left = walk(kind, learned, *kept, task, 7, radius=radius)
        retrained = walk(kind, zeros(task), *kept, task, 12, radius=radius)
        assert np.linalg.norm(left - retrained) <= distance_bound(Ball(task, radius), len(rows))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.01, 0.5, 20.0])
def test_how_far_steps_reach(make_smooth, kind, alpha):
    """Steps from zero, the rows left out one by one."""
    task = make_smooth(kind, alpha=alpha)
    first = np.sum(
        [
            np.linalg.norm(row_gradient(kind, zeros(task), *row))
            for row in zip(task.X, task.Y, strict=True)
        ]
    )
    for n_steps in (1, 5, 40):
        bound = Ball(task, math.inf).reach(n_steps)
        assert bound <= task.step_size * n_steps * first * (1 + 1e-9)
        for row in range(3, 30, 9):
            left = walk(kind, zeros(task), *without(task, [row]), task, n_steps)
            assert np.linalg.norm(left) <= bound
    assert Ball(task, 2.0).reach(40) == 2.0


# Uniform Langevin.


@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_row_is_the_hardest_of_the_quote(make_smooth, kind):
    task = make_smooth(kind)
    model = task.langevin(task.X, task.Y)
    options = {"epsilon": 1.0, "delta": 1e-2, "n_unlearn_steps": 7}
    assert worst_row_noise(task, 1) == pytest.approx(model.quote(**options).noise.max(), rel=1e-9)
    groups = [[3, 4], [8, 17], [20, 29]]
    hardest = np.argsort(model.quote(**options).noise)[-2:].tolist()
    assert worst_row_noise(task, 2) >= model.quote([*groups, hardest], **options).noise.max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accounting", ["gdp", "lipschitz"])
def test_uniform_langevin_step_by_step(make_smooth, kind, accounting):
    task = make_smooth(kind)
    learned = UniformLangevin(accounting).fit(task)
    answer = learned.answer([4, 9])
    shape, unit = learned.theta.shape, math.sqrt(2 * task.step_size)
    learning = walk(kind, zeros(task), task.X, task.Y, task, 40, drawn(0, 40, shape, unit * 0.1))
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-9, atol=1e-10)
    noises = drawn(1, 7, shape, unit * answer.noise)
    after = walk(kind, learning, *without(task, [4, 9]), task, 7, noises)
    np.testing.assert_allclose(answer.theta, after, rtol=1e-8, atol=1e-8)
    assert answer.rows_touched == 7 * 28
    assert answer.predictions is None


@pytest.mark.parametrize("size", [1, 3])
def test_the_lipschitz_noise_by_brute_force(make_smooth, size):
    """Constant sensitivities: the (QP) by its minmax form, and the least noise by its target."""
    task = make_smooth("logistic")
    s = np.full(40, task.step_size * size * np.linalg.norm(task.X, axis=1).max())
    noise, target = any_row_noise(task, size), float(mu_from_epsilon_mp(1.0, 1e-2))
    for factor, within in ((1.0, True), (1 - 1e-6, False)):
        mu = dense_mu(s, [(40, 0.1)], noise * factor, 7, task.step_size, task.alpha)
        assert (mu <= target) == within


def test_what_concentration_saves(make_smooth):
    """A row whose gradient is small all along costs less than one nothing is known of."""
    task = make_smooth("logistic", noise=0.01)
    model = task.langevin(task.X, task.Y)
    noises = model.quote(epsilon=1.0, delta=1e-2, n_unlearn_steps=7).noise
    assert np.median(noises) < 0.9 * any_row_noise(task, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.5, "auto"])
def test_renyi_step_by_step(make_smooth, kind, radius):
    task = make_smooth(kind)
    learned = UniformLangevin("renyi", radius=radius).fit(task)
    answer, shape = learned.answer([4, 9]), learned.theta.shape
    ball, unit = math.inf if radius == "auto" else radius, math.sqrt(2 * task.step_size)
    noises = drawn(0, 40, shape, unit * answer.noise)
    learning = walk(kind, zeros(task), task.X, task.Y, task, 40, noises, ball)
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-8, atol=1e-8)
    noises = drawn(1, 7, shape, unit * answer.noise)
    after = walk(kind, learning, *without(task, [4, 9]), task, 7, noises, ball)
    np.testing.assert_allclose(answer.theta, after, rtol=1e-8, atol=1e-8)
    if radius == "auto":
        constant = {"logistic": 1.0, "softmax": math.sqrt(2), "huber": THRESHOLD * math.sqrt(2)}
        M = constant[kind] * np.sort(np.linalg.norm(task.X, axis=1))[-2:].sum()
        settings = (M, task.alpha, task.step_size, answer.noise, 40, 7)
        spent = [float(chien_divergence(a, *settings)) + np.log(1e2) / (a - 1) for a in ORDERS]
        assert answer.epsilon == pytest.approx(min(spent), rel=1e-9)
    assert learned.answer(0).epsilon == pytest.approx(1.0, rel=1e-9)


# pilu, retraining, refusals.


@pytest.mark.parametrize("kind", KINDS)
def test_pilu_and_retraining_are_the_estimators_own(make_smooth, kind):
    task, (X, y) = make_smooth(kind), problem(kind)
    settings = {"alpha": 0.5, "n_steps": 40, "noise": 0.1, "random_state": 3}
    if kind == "huber":
        settings["threshold"] = THRESHOLD
    estimator = pilu.LangevinHuber if kind == "huber" else pilu.LangevinLogistic

    def theta(model):
        return np.vstack([model.coef_.T, model.intercept_])

    model = estimator(**settings).fit(X, y)
    learned = Langevin("theorem").fit(task)
    np.testing.assert_allclose(learned.theta, theta(model), rtol=1e-9, atol=1e-11)
    answer = learned.answer([4, 9])
    certificate = model.unlearn([4, 9], epsilon=1.0, delta=1e-2, n_unlearn_steps=7)
    assert answer.noise == pytest.approx(certificate.noise, rel=1e-9)
    assert (answer.epsilon, answer.delta) == (certificate.epsilon, certificate.delta)
    np.testing.assert_allclose(answer.theta, theta(model), rtol=1e-8, atol=1e-9)
    assert learned.answer([4, 9]).noise == answer.noise  # the first answer changed nothing
    # the step size stays that of the task
    kept = estimator(**settings, step_size=task.step_size)
    kept = kept.fit(*(np.delete(values, [4, 9], axis=0) for values in (X, y)))
    retrained = Retraining().fit(task).answer([4, 9])
    np.testing.assert_allclose(retrained.theta, theta(kept), rtol=1e-8, atol=1e-9)
    assert (retrained.epsilon, retrained.certified) == (0.0, True)
    assert retrained.rows_touched == 40 * 28
    redrawn = Redraw().fit(task).answer([4, 9])
    noises = drawn(1, 40, redrawn.theta.shape, math.sqrt(2 * task.step_size) * 0.1)
    again = walk(kind, zeros(task), *without(task, [4, 9]), task, 40, noises)
    np.testing.assert_allclose(redrawn.theta, again, rtol=1e-8, atol=1e-9)
    assert redrawn.epsilon == 0.0


def test_ridge_formulas_refuse(make_smooth):
    task = make_smooth("logistic")
    for method in (LeaveOneOut(), LeaveOneOut(converged=False), ProjectiveResidual()):
        with pytest.raises(ValueError, match=r"model must be a LangevinRidge or .* logistic loss"):
            method.fit(task)
    assert task.closed_forms is None
    for use in (
        lambda: residual_table(task, 3),
        lambda: certified_epsilon(task, 0.1),
        lambda: residual_bound(task, 0.1, 0.05),
    ):
        with pytest.raises(ValueError, match="formula is exact for squares only"):
            use()
    with pytest.raises(ValueError, match="accountant must be 'theorem' for the logistic loss"):
        Langevin("exact").fit(task).answer(3)
    with pytest.raises(ValueError, match="step_size must be at most 1/L"):
        UniformLangevin("renyi").fit(make_smooth("logistic", step_size=1.5 * task.step_size))
    with pytest.raises(ValueError, match="batch_size must be None in a comparison"):
        make_smooth("logistic", batch_size=5)
    with pytest.raises(ValueError, match="at least one row of every class"):
        task.rows(np.flatnonzero(task.Y[:, 0] < 0))


class Squares(SmoothRegressor):
    def make_loss(self, n_outputs):
        return Squared()


def test_squares_as_a_smooth_loss_are_ridge(small, make_task):
    """The same methods through the rows and through the eigenbasis."""
    ridge = make_task(step_size=(1 - 1e-10) * make_task().step_size)  # 1/L, rounding aside
    settings = {"alpha": 0.5, "n_steps": 40, "noise": 0.1, "random_state": 3}
    model = Squares(**settings, step_size=ridge.step_size)
    task = Task.of(model, *small, epsilon=1.0, delta=1e-2, n_unlearn_steps=7)
    assert task.largest == pytest.approx(ridge.largest, rel=1e-9)
    for method in (DescentToDelete(2.0), DPGD(), DPGD(1.0, "renyi"), Retraining()):
        here, there = method.fit(task), method.fit(ridge)
        np.testing.assert_allclose(here.theta, there.theta, rtol=1e-8, atol=1e-9)
        one, other = here.answer([4, 9]), there.answer([4, 9])
        assert one.noise == pytest.approx(other.noise, rel=1e-9)
        assert one.epsilon == pytest.approx(other.epsilon, rel=1e-9)
        np.testing.assert_allclose(one.theta, other.theta, rtol=1e-7, atol=1e-8)
    renyi = UniformLangevin("renyi", radius=2.0)
    noises = [renyi.fit(which).answer(3).noise for which in (task, ridge)]
    assert noises[0] == pytest.approx(noises[1], rel=1e-9)
    for method in (DescentToDelete(), UniformLangevin("renyi")):
        with pytest.raises(ValueError, match="radius must be a number for the squared loss"):
            method.fit(task)
    for which in (task, ridge):
        with pytest.raises(ValueError, match="accounting must be 'gdp' or 'renyi' for the squared"):
            UniformLangevin("lipschitz").fit(which)


def test_a_simulated_claim(make_smooth):
    """Descent-to-Delete's two runs are Gaussians: their exact delta is below the claim's."""
    for kind in KINDS:
        task = make_smooth(kind)
        kept = tuple(without(task, [4]))
        learned = walk(kind, zeros(task), task.X, task.Y, task, 40)
        left = walk(kind, learned, *kept, task, 7)
        retrained = walk(kind, zeros(task), *kept, task, 40)
        noise = DescentToDelete().fit(task).answer(4).noise
        apart = np.linalg.norm(left - retrained) / noise
        assert float(delta_from_mu_mp(apart, 1.0)) <= 1e-2


def test_a_lipschitz_certificate_holds_for_a_linear_chain():
    """Scores so small that the loss is linear: both runs are Gaussian with known laws."""
    X, y = np.array([[1e-4], [1e-6], [1e-6]]), np.array([1, 0, 1])
    settings = {"alpha": 0.5, "noise": 1e-4, "n_steps": 30, "step_size": 0.1}
    model = pilu.LangevinLogistic(**settings, fit_intercept=False, random_state=0)
    task = Task.of(model, X, y, epsilon=0.01, delta=1e-2, n_unlearn_steps=5)
    noise = any_row_noise(task, 1)
    c = 1 - 0.1 * 0.5
    # the mean's difference after T steps is eta |x| / 2 (1 + c + ...), half of what is feared
    shift = 0.1 * 1e-4 / 2 * (1 - c**30) / (1 - c) * c**5
    variance = 2 * 0.1 * 1e-8 * (1 - c**60) / (1 - c**2) * c**10
    variance += 2 * 0.1 * noise**2 * (1 - c**10) / (1 - c**2)
    assert float(delta_from_mu_mp(shift / math.sqrt(variance), 0.01)) <= 1e-2


class Bowl(Squared):
    """A loss that is not known to be non-negative."""

    name = "bowl"


class Bowls(SmoothRegressor):
    def make_loss(self, n_outputs):
        return Bowl()


def test_steps_of_an_unknown_loss_reach_as_far_as_their_slopes(small):
    settings = {"epsilon": 1.0, "n_unlearn_steps": 7}
    known, unknown = (Task.of(kind(0.5), *small, **settings) for kind in (Squares, Bowls))
    assert Ball(known, math.inf).reach(500) < Ball(unknown, math.inf).reach(500)
    theta = np.zeros((5, 2))
    for _ in range(500):
        pull = unknown.X.T @ (unknown.X @ theta - unknown.Y)
        theta = theta - unknown.step_size * (pull + 0.5 * theta)
    assert np.linalg.norm(theta) <= Ball(known, math.inf).reach(500)
