"""One noise for any row: the worst row's, and Chien et al.'s."""

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest

import pilu
from oracles.calibrate import dense_mu
from oracles.competitors import chien_divergence, largest_gradient
from oracles.dense import dense_laws, sensitivity_bounds
from oracles.high_precision import mu_from_epsilon_mp
from pilu.accounting.renyi import RENYI_ORDERS as ORDERS
from pilu.baselines import Task, UniformLangevin
from pilu.baselines.ball import Ball
from pilu.baselines.uniform import worst_row_noise


def test_it_is_the_largest_of_the_rows_noises(make_task):
    task = make_task()
    model = task.langevin(task.X, task.Y)
    options = {"epsilon": 1.0, "delta": 1e-2, "n_unlearn_steps": 7, "accountant": "theorem"}
    quote = model.quote(**options)
    assert worst_row_noise(task, 1) == quote.noise.max()
    one_by_one = [model.quote([row], **options).noise[0] for row in range(30)]
    assert worst_row_noise(task, 1) == pytest.approx(max(one_by_one), rel=1e-9)


@pytest.mark.parametrize("size", [2, 3])
def test_it_serves_any_group(make_task, size):
    task = make_task()
    model = task.langevin(task.X, task.Y)
    groups = list(itertools.islice(itertools.combinations(range(30), size), 0, None, 37))
    hardest = np.argsort(model.quote(delta=1e-2, accountant="theorem").noise)[-size:].tolist()
    quote = model.quote([*groups, hardest], delta=1e-2, n_unlearn_steps=7, accountant="theorem")
    noise = worst_row_noise(task, size)
    assert quote.noise.max() <= noise <= 2 * quote.noise.max()
    learned = UniformLangevin().fit(task)
    assert learned.answer(list(groups[0])).noise == noise
    assert learned.answer(hardest).epsilon == 1.0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_by_brute_force(make_task, size):
    """Each row at a share of mu and of the slack: least noise by dense laws and bisection."""
    task = make_task(n_steps=15)
    start, segments = np.zeros((5, 2)), [(15, 0.1)]
    mu = float(mu_from_epsilon_mp(1.0, 0.5e-2)) / size
    laws = (task.X, task.Y, task.alpha, task.step_size, segments, start)
    hardest = 0.0
    for x, y in zip(task.X, task.Y, strict=True):
        s = sensitivity_bounds(x, y, *laws, 0.5e-2 / (size * 15))

        def excess(noise, s=s):
            return dense_mu(s, segments, noise, 7, task.step_size, task.alpha) - mu

        if excess(hardest) > 0:
            hardest = brentq(excess, hardest, 1e4, xtol=1e-12)
    assert worst_row_noise(task, size) == pytest.approx(hardest, rel=1e-6)


def test_noise_is_never_below_rounding(diabetes):
    task = Task.of(pilu.LangevinRidge(alpha=1e3), *diabetes, epsilon=1.0)
    for method in (UniformLangevin(), UniformLangevin("renyi", radius=1e3)):
        answer = method.fit(task).answer(3)
        step = np.sqrt(2 * task.step_size) * answer.noise
        assert step > 1000 * np.spacing(np.linalg.norm(answer.theta))


def test_other_contractions_are_refused(make_task):
    task = make_task()
    theorem = pilu.Theorem(strong_convexity="retained")
    with pytest.raises(ValueError, match="strong_convexity must be 'alpha'"):
        theorem.calibrate_any(task.law, [], None)


def test_released_parameters_have_their_law(make_task):
    """Dense steps on all rows, then on the rest; and draws from many seeds."""
    rows, seen = [3, 17], []
    for seed in range(200):
        task = make_task(random_state=seed, n_steps=10)
        answer = UniformLangevin().fit(task).answer(rows)
        seen.append(answer.theta)
    settings = (task.alpha, task.step_size)
    means, covariances = dense_laws(task.X, task.Y, *settings, [(10, 0.1)], np.zeros((5, 2)))
    X, Y = (np.delete(values, rows, axis=0) for values in (task.X, task.Y))
    means, _ = dense_laws(X, Y, *settings, [(7, answer.noise)], means[-1])
    step = np.eye(5) - task.step_size * (X.T @ X + task.alpha * np.eye(5))
    covariance = covariances[-1]
    for _ in range(7):
        covariance = step @ covariance @ step + 2 * task.step_size * answer.noise**2 * np.eye(5)
    points = np.random.default_rng(0).normal(size=(3, 5))
    law = answer.predictions(points)
    variance = np.diag(points @ covariance @ points.T)
    np.testing.assert_allclose(law.mean, points @ means[-1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(law.variance, variance, rtol=1e-9)
    drawn = (points @ np.array(seen) - law.mean) / np.sqrt(variance)[:, None]
    for sample in drawn.reshape(200, -1).T:
        assert kstest(sample, "norm").pvalue > 1e-4


@pytest.mark.parametrize("radius", [0.5, 3.0, 1e6])
def test_renyi_walks_within_the_ball(make_task, radius):
    """Learning and forgetting on the rows themselves, with the same noise and projections."""
    task = make_task()
    learned = UniformLangevin("renyi", radius=radius).fit(task)
    answer = learned.answer([4, 9])

    def walk(theta, X, Y, stream, steps):
        rng = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(stream,)))
        scale = np.sqrt(2 * task.step_size) * answer.noise
        for _ in range(steps):
            # The noise is drawn for coordinates in the eigenbasis; isotropic is isotropic.
            noise = scale * task.closed_forms.spectrum.basis @ rng.standard_normal(theta.shape)
            theta = theta - task.step_size * (X.T @ (X @ theta - Y) + task.alpha * theta) + noise
            theta = theta * min(1.0, radius / np.linalg.norm(theta))
        return theta

    learning = walk(np.zeros((5, 2)), task.X, task.Y, 0, 40)
    np.testing.assert_allclose(learned.theta, learning, rtol=1e-8, atol=1e-8)
    X, Y = (np.delete(values, [4, 9], axis=0) for values in (task.X, task.Y))
    np.testing.assert_allclose(answer.theta, walk(learning, X, Y, 1, 7), rtol=1e-8, atol=1e-8)
    assert np.linalg.norm(answer.theta) <= radius * (1 + 1e-12)


def test_gradients_on_the_ball(make_task, small):
    task = make_task(data=tuple(values[:6, :2] for values in small))
    each = [largest_gradient(x, y, 2.0) for x, y in zip(task.X, task.Y, strict=True)]
    assert Ball(task, 2.0).largest_gradients(1) == pytest.approx(max(each), rel=1e-6)
    assert Ball(task, 2.0).largest_gradients(3) == pytest.approx(sum(sorted(each)[-3:]), rel=1e-6)


def test_renyi_noise_and_groups(make_task, small):
    """Noise and epsilon from the formula in 50 digits, gradients by search, orders one by one."""
    task = make_task(data=tuple(values[:6, :2] for values in small))
    learned = UniformLangevin("renyi", radius=2.0).fit(task)
    one, two = learned.answer(0), learned.answer([0, 1])
    assert one.noise == two.noise
    each = [largest_gradient(x, y, 2.0) for x, y in zip(task.X, task.Y, strict=True)]
    for answer, M in ((one, max(each)), (two, sum(sorted(each)[-2:]))):
        settings = (M, task.alpha, task.step_size, answer.noise, 40, 7)
        spent = [float(chien_divergence(a, *settings)) + np.log(1e2) / (a - 1) for a in ORDERS]
        assert answer.epsilon == pytest.approx(min(spent), rel=1e-4)
    assert 1 - 1e-9 <= one.epsilon <= 1.0
    assert two.epsilon > 1.5
    assert "read off the data" in UniformLangevin("renyi").fit(task).answer(0).guarantee
    assert "read off the data" not in one.guarantee


def test_bad_options(make_task):
    with pytest.raises(ValueError, match="accounting must be one of 'gdp', 'renyi'"):
        UniformLangevin("rdp")
    with pytest.raises(ValueError, match="radius must be"):
        UniformLangevin("renyi", radius=-1.0)
    with pytest.raises(ValueError, match="radius must be a number > 0 or 'auto'"):
        UniformLangevin("renyi", radius="large")
    task = make_task(step_size=1.5 * make_task().step_size)
    with pytest.raises(ValueError, match="step_size must be at most 1/L"):
        UniformLangevin("renyi").fit(task)
    for accounting in ("gdp", "renyi"):
        with pytest.raises(ValueError, match="alpha must be > 0 for uniform Langevin"):
            UniformLangevin(accounting).fit(make_task(alpha=0.0))
