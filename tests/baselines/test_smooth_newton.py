"""Second derivatives of losses, and Newton steps that leave a residual."""

import math
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import pilu
from baselines.rows_by_hand import drawn, full_gradient, refit, row_gradient, walk, without, zeros
from oracles.high_precision import delta_from_mu_mp, mu_from_epsilon_mp
from pilu.baselines import NewtonStep, Task
from pilu.baselines.newton_smooth import Removal, curvature_of, hessian
from pilu.losses import Logistic, Softmax

# Second derivatives.


def test_the_logistic_constant():
    """The largest third derivative, by mpmath: at s = (3 +- sqrt 3) / 6."""
    with mp.workdps(40):
        z = mp.log((3 + mp.sqrt(3)) / (3 - mp.sqrt(3)))
        found = abs(mp.diff(lambda t: mp.log(1 + mp.exp(-t)), z, 3))
        constant = mp.mpf(curvature_of(Logistic()).lipschitz)
        assert found <= constant * (1 + mp.mpf(10) ** -20)
        assert abs(found - constant) < mp.mpf(10) ** -14
    z = np.linspace(-40, 40, 400_001)
    s = 1 / (1 + np.exp(-z))
    assert np.max(s * (1 - s) * np.abs(1 - 2 * s)) <= curvature_of(Logistic()).lipschitz


def test_the_softmax_constant():
    """Third central moments over many probabilities and unit directions, some near the worst."""
    constant, rng = curvature_of(Softmax()).lipschitz, np.random.default_rng(0)
    seen = 0.0
    for C in (2, 3, 5, 10):
        p = rng.dirichlet(np.full(C, 0.3), size=4000)
        u = rng.normal(size=(4000, C)) * rng.choice([0.05, 1.0], size=(4000, C))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        centred = u - np.sum(p * u, axis=1, keepdims=True)
        seen = max(seen, float(np.max(np.abs(np.sum(p * centred**3, axis=1)))))
    assert 0.9 * constant < seen <= constant
    s = (3 - math.sqrt(3)) / 6  # attained by two scores, one against the other
    u = np.array([1.0, -1.0]) / math.sqrt(2)
    centred = u - (s * u[0] + (1 - s) * u[1])
    assert s * centred[0] ** 3 + (1 - s) * centred[1] ** 3 == pytest.approx(constant, rel=1e-12)


def test_the_page_gives_these_constants():
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text()
    assert f"1/(6 sqrt 3) = {curvature_of(Logistic()).lipschitz:.4f}" in page
    assert f"2 sqrt 2/(6 sqrt 3) = {curvature_of(Softmax()).lipschitz:.4f}" in page


@pytest.mark.parametrize("loss", [Logistic(), Softmax()])
def test_weights_are_derivatives_and_lipschitz(loss):
    curvature, rng = curvature_of(loss), np.random.default_rng(2)
    C = 1 if isinstance(loss, Logistic) else 4
    z = 2 * rng.normal(size=(500, C))
    y = np.eye(C)[rng.integers(C, size=500)] if C > 1 else rng.choice([-1.0, 1.0], size=(500, 1))
    W, h = curvature.weights(z), 1e-6
    for c in range(C):
        ahead, behind = z.copy(), z.copy()
        ahead[:, c] += h
        behind[:, c] -= h
        slopes = (loss.gradient(ahead, y) - loss.gradient(behind, y)) / (2 * h)
        np.testing.assert_allclose(W[:, :, c], slopes, atol=1e-8)
    moved = z + rng.normal(size=z.shape) * rng.choice([1e-3, 1.0], size=(500, 1))
    change = np.linalg.norm(curvature.weights(moved) - W, ord=2, axis=(1, 2))
    assert (change <= curvature.lipschitz * np.linalg.norm(moved - z, axis=1) + 1e-15).all()


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_the_hessian_by_differences(make_smooth, kind):
    task, rng = make_smooth(kind), np.random.default_rng(0)
    theta = rng.normal(size=zeros(task).shape)
    H = hessian(curvature_of(task.loss), task.X, theta, 0.5)
    for direction in np.eye(theta.size):
        h = 1e-6 * direction.reshape(theta.shape)
        ahead = full_gradient(kind, theta + h, task.X, task.Y, 0.5)
        behind = full_gradient(kind, theta - h, task.X, task.Y, 0.5)
        np.testing.assert_allclose(
            H @ direction, ((ahead - behind) / 2e-6).ravel(), rtol=1e-6, atol=1e-7
        )


# Newton steps.

REQUESTS = [[0], [29], [3, 17], [4, 5, 6, 7, 8, 9]]


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_the_newton_method_learns_scikit_learns_minimiser(make_smooth, kind):
    task = make_smooth(kind)
    learned = NewtonStep().fit(task)
    np.testing.assert_allclose(
        learned.theta, refit(kind, task.X, task.Y, task.alpha), rtol=1e-5, atol=1e-6
    )
    gradient = full_gradient(kind, learned.theta, task.X, task.Y, task.alpha)
    assert np.linalg.norm(gradient) < 1e-11


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("converged", [True, False])
@pytest.mark.parametrize("rows", REQUESTS)
def test_the_newton_step_by_hand(make_smooth, kind, converged, rows):
    task = make_smooth(kind)
    learned = NewtonStep(converged=converged).fit(task)
    if not converged:
        early = walk(kind, zeros(task), task.X, task.Y, task, 40)
        np.testing.assert_allclose(learned.theta, early, rtol=1e-9, atol=1e-11)
    answer = learned.answer(rows)
    share = task.alpha / 30
    X, Y = without(task, rows)
    p, C = learned.theta.shape
    H = (30 - len(rows)) * share * np.eye(p * C)
    for x in X:
        z = x @ learned.theta
        s = 1 / (1 + np.exp(-z)) if kind == "logistic" else np.exp(z) / np.sum(np.exp(z))
        W = np.diag(s * (1 - s)) if C == 1 else np.diag(s) - np.outer(s, s)
        H += np.kron(np.outer(x, x), W)
    pull = len(rows) * share * learned.theta
    for i in rows:
        pull = pull + row_gradient(kind, learned.theta, task.X[i], task.Y[i])
    left = learned.theta + np.linalg.solve(H, pull.ravel()).reshape(p, C)
    noisy = left + drawn(1, 1, left.shape, answer.noise)[0]
    np.testing.assert_allclose(answer.theta, noisy, rtol=1e-8, atol=1e-9)
    residual = np.linalg.norm(full_gradient(kind, left, X, Y, task.alpha - len(rows) * share))
    details = answer.details()
    assert details["residual"] == pytest.approx(residual, rel=1e-6, abs=1e-11)
    assert residual <= details["residual_bound"]
    # the claim: within `distance` of the retained minimiser, and noise for that
    exact = refit(kind, X, Y, task.alpha - len(rows) * share)
    apart = np.linalg.norm(left - exact)
    assert apart <= details["distance"] + 1e-6
    mu = float(mu_from_epsilon_mp(1.0, 1e-2))
    needed = details["distance"] / mu
    assert needed <= answer.noise <= needed * (1 + 1e-8)
    assert float(delta_from_mu_mp(apart / answer.noise, 1.0)) <= 1e-2
    assert (answer.epsilon, answer.delta, answer.certified) == (1.0, 1e-2, True)


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_residuals_are_below_their_bound(make_smooth, kind):
    """Over random problems, where the step starts anywhere; and the bound is no idle one."""
    ratios = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        task = make_smooth(kind, seed=seed, alpha=float(10 ** rng.uniform(-3, 1)), n_steps=1)
        theta = rng.normal(size=zeros(task).shape) * rng.choice([0.01, 0.3, 2.0])
        rows = rng.choice(np.arange(3, 30), size=rng.integers(1, 5), replace=False)
        b = 0.1 * rng.normal(size=theta.shape)
        perturbed = replace(task.objective, b=b)
        removal = Removal(perturbed, curvature_of(task.loss), rows, theta)
        X, Y = without(task, rows)
        gradient = full_gradient(kind, removal.left, X, Y, removal.strong_convexity) + b
        found, bound = np.linalg.norm(gradient), removal.residual_bound
        assert found <= removal.residual * (1 + 1e-12)
        assert found <= bound
        learning = full_gradient(kind, theta, task.X, task.Y, task.alpha) + b
        ratios.append(np.linalg.norm(gradient - learning) / (bound - np.linalg.norm(learning)))
    assert 0.01 < max(ratios) <= 1


def test_objective_perturbation_is_not_certified(make_smooth):
    task = make_smooth("logistic")
    b = drawn(0, 1, (5, 1), 0.1)[0]
    for converged in (True, False):
        learned = NewtonStep(0.1, converged=converged, accounting="measured").fit(task)
        gradient = full_gradient("logistic", learned.theta, task.X, task.Y, task.alpha) + b
        assert (np.linalg.norm(gradient) < 1e-11) == converged
        answer = learned.answer([3, 4])
        residual = full_gradient("logistic", answer.theta, *without(task, [3, 4]), 0.5 * 28 / 30)
        size = np.linalg.norm(residual + b)
        expected = size / 0.1 * math.sqrt(2 * math.log(1.5 / 1e-2))
        assert answer.epsilon == pytest.approx(expected, rel=1e-6)
        assert size <= answer.details()["residual_bound"]
        assert not answer.certified
        assert answer.guarantee.startswith("none proved")
    assert NewtonStep(accounting="measured").name == "Newton step (measured)"


def test_newton_refusals(make_smooth):
    for method in (NewtonStep(), NewtonStep(converged=False, accounting="measured")):
        with pytest.raises(ValueError, match=r"loss must be logistic or softmax.*Huber's jumps"):
            method.fit(make_smooth("huber"))
    with pytest.raises(ValueError, match=r"perturbation must be left at .* with accounting='bound"):
        NewtonStep(0.5).fit(make_smooth("logistic"))


def test_separable_classes_far_apart():
    """Newton's method from zero overshoots here without damping."""
    X = np.array([[1e3], [2e3], [-1e3], [-3e3], [5e3]])
    y = np.array([1, 1, 0, 0, 1])
    model = pilu.LangevinLogistic(alpha=1e-4, n_steps=5, fit_intercept=False, random_state=0)
    task = Task.of(model, X, y, epsilon=1.0)
    learned = NewtonStep().fit(task)
    gradient = full_gradient("logistic", learned.theta, task.X, task.Y, 1e-4)
    assert np.linalg.norm(gradient) < 1e-9
    assert learned.answer(1).certified


def test_problems_too_large_or_too_hard_for_newton(make_smooth, monkeypatch):
    monkeypatch.setattr("pilu.baselines.newton_smooth._MOST_STEPS", 1)
    with pytest.raises(ArithmeticError, match=r"not found in 1 Newton steps\. Pass a larger alpha"):
        NewtonStep().fit(make_smooth("logistic"))
    monkeypatch.setattr("pilu.baselines.newton_smooth._MOST_PARAMETERS", 14)
    with pytest.raises(ValueError, match="at most 14 parameters for a Newton step, got X='15'"):
        NewtonStep().fit(make_smooth("softmax"))
