"""Cyclic mini-batches against literal steps over contiguous rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.linear.compute import minibatches
from experiments.linear.engine import Engine

from oracles.minibatch import cyclic_laws, cyclic_noise
from pilu import LangevinRidge
from pilu.certify.accountant import Target

N = 121  # rows of the toy: neither 32 nor 50 divides it


def largest_batch(X, b, alpha):
    """1 / eta: the largest curvature of any batch."""
    starts = range(0, len(X), b)
    return max(np.linalg.norm(X[first : first + b], 2) ** 2 for first in starts) + alpha


def step_on(theta, X, Y, k, b, alpha, eta, left_out=None):
    """Step k without noise: batch k mod M, b rows after (k mod M) b, but for one that is out."""
    M = math.ceil(len(X) / b)
    batch = range(k % M * b, min((k % M + 1) * b, len(X)))
    gradient = alpha * theta
    for j in batch:
        if j != left_out:
            gradient = gradient + np.outer(X[j], X[j] @ theta - Y[j])
    return theta - eta * gradient


def fitted(engine, b, T=1, **changes):
    study = engine.study
    settings = {"alpha": study.alpha, "noise": study.noise, "batch_size": b} | changes
    model = LangevinRidge(n_steps=T, fit_intercept=False, random_state=1, **settings)
    return model.fit(engine.data.X, engine.data.y)


@pytest.fixture(params=[32, 50])
def b(request):
    return request.param


@pytest.fixture
def problem(depth, targets_of, b):
    X, alpha = depth.data.X, depth.study.alpha
    return X, targets_of(depth), b, alpha, 1 / largest_batch(X, b, alpha)


def test_learning_stops_at_the_first_cycle_that_is_good_enough(depth, problem):
    X, Y, b, alpha, eta = problem
    aim = minibatches.training_error(depth, minibatches.full_batch_mean(depth))
    T, reached = minibatches.matched_steps(depth, fitted(depth, b), aim)
    M, theta, errors = math.ceil(N / b), np.zeros((X.shape[1], 1)), []
    for k in range(T):
        theta = step_on(theta, X, Y, k, b, alpha, eta)
        errors.append(np.sqrt(np.mean((X @ theta - Y) ** 2)))
    assert T % M == 0
    assert T > M
    assert errors[-1] == pytest.approx(reached, rel=1e-9)
    assert reached <= aim
    assert all(error > aim for error in errors[M - 1 : -1 : M])


def test_the_aim_is_the_error_of_the_full_batch(depth, targets_of):
    X, Y, study = depth.data.X, targets_of(depth), depth.study
    theta, eta = np.zeros((X.shape[1], 1)), 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    for _ in range(study.n_steps):
        theta = theta - eta * (X.T @ (X @ theta - Y) + study.alpha * theta)
    found = minibatches.full_batch_mean(depth)
    np.testing.assert_allclose(found, theta, rtol=1e-9)
    squares = [(x @ theta - y).item() ** 2 for x, y in zip(X, Y, strict=True)]
    by_hand = math.sqrt(sum(squares) / N)
    assert minibatches.training_error(depth, theta) == pytest.approx(by_hand)


def test_an_aim_out_of_reach_is_not_tried_for_ever(depth, monkeypatch):
    monkeypatch.setattr(minibatches, "MOST_CYCLES", 5)
    with pytest.raises(SystemExit, match="5 cycles do not reach"):
        minibatches.matched_steps(depth, fitted(depth, 50), 0.0)


@pytest.mark.parametrize("forgotten", [None, 0, 49, 50, 120])
@pytest.mark.parametrize("first", [0, 7])
def test_a_walk_without_noise_goes_batch_by_batch(depth, problem, forgotten, first, rng):
    X, Y, b, alpha, eta = problem
    law = fitted(depth, b).fitted_.law
    start = rng.normal(size=(X.shape[1], 3))
    theta = start.copy()
    for k in range(first, first + 6):
        theta = np.stack(
            [step_on(run[:, None], X, Y, k, b, alpha, eta, forgotten)[:, 0] for run in theta.T],
            axis=1,
        )
    steps = range(first, first + 6)
    found = minibatches.walk(depth, law, start.copy(), steps, 0.0, rng, forgotten)
    np.testing.assert_allclose(found, theta, rtol=1e-9, atol=1e-12)
    assert law.step_size == pytest.approx(eta)


def test_runs_have_the_law_of_the_chain(depth, problem):
    """Mean and covariance of theta after learning, and after unlearning, step by step."""
    X, Y, b, alpha, eta = problem
    many, K, row, sigma = 4000, depth.study.n_unlearn_steps, 60, 0.3
    engine, T = Engine(replace(depth.study, n_runs=many), depth.data), 2 * math.ceil(N / b)
    law = fitted(engine, b, T).fitted_.law
    learned = minibatches.learning_runs(engine, law)
    rng = np.random.default_rng(41)
    left = minibatches.walk(engine, law, learned.copy(), range(T, T + K), sigma, rng, row)
    start, noise = np.zeros((X.shape[1], 1)), engine.study.noise
    means, covariances = cyclic_laws(X, Y, alpha, eta, b, [(T, noise)], start)
    assert max(gaps(learned, means[T], covariances[T])) < 5
    mean, covariance = means[T], covariances[T]
    for k in range(T, T + K):
        maps = [step_on(e[:, None], X, 0 * Y, k, b, alpha, eta, row) for e in np.eye(X.shape[1])]
        A = np.hstack(maps)
        mean = step_on(mean, X, Y, k, b, alpha, eta, row)
        covariance = A @ covariance @ A.T + 2 * eta * sigma**2 * np.eye(len(A))
    assert max(gaps(left, mean, covariance)) < 5
    assert max(gaps(left, mean, 1.2 * covariance)) > 5


def gaps(theta, mean, covariance):
    """Standard errors between runs (p x R) and the law that they should have."""
    R, variances = theta.shape[1], np.diag(covariance)
    means = np.abs(theta.mean(axis=1) - mean[:, 0]) / np.sqrt(variances / R)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / R)
    return means.max(), (np.abs(np.cov(theta) - covariance) / error).max()


def test_scores_are_those_of_runs_without_the_row(depth, b, scores_of):
    law = fitted(depth, b, 6).fitted_.law
    learned = minibatches.learning_runs(depth, law)
    kept = learned.copy()
    scores = minibatches.unlearning_scores(depth, law, learned, 5, 0.2, [1, 2])
    np.testing.assert_array_equal(learned, kept)  # other requests start there too
    theta = minibatches.walk(
        depth, law, kept, range(6, 10), 0.2, np.random.default_rng([1, 2]), forgotten=5
    )
    np.testing.assert_allclose(scores, scores_of(depth, theta.T[:, :, None]))


@pytest.mark.parametrize("accountant", ["theorem", "exact"])
def test_noise_is_what_the_model_quotes(depth, b, accountant):
    rows, K = depth.rows(), depth.study.n_unlearn_steps
    T = 3 * math.ceil(N / b)
    model = fitted(depth, b, T)
    found = minibatches.calibrated(depth, model.fitted_.law, rows)
    for epsilon in depth.study.epsilons:
        quote = model.quote(rows, epsilon=epsilon, n_unlearn_steps=K, accountant=accountant)
        noises = [found[row, accountant, epsilon] for row in rows]
        np.testing.assert_allclose(noises, quote.noise, rtol=1e-9)


def test_noise_of_the_theorem_by_brute_force(depth, problem):
    X, Y, b, alpha, eta = problem
    row, T = depth.rows()[-1], 2 * math.ceil(N / b)
    found = minibatches.calibrated(depth, fitted(depth, b, T).fitted_.law, [row])
    segments, start = [(T, depth.study.noise)], np.zeros((X.shape[1], 1))
    by_force = cyclic_noise(
        X, Y, [row], alpha, eta, b, segments, start, 1.0, 1 / N, 0.5, depth.study.n_unlearn_steps
    )
    assert found[row, "theorem", 1.0] == pytest.approx(by_force, rel=1e-6)


def test_a_noise_below_the_floor_is_raised_to_it(depth, monkeypatch):
    law = fitted(depth, 50, 6).fitted_.law
    before = minibatches.calibrated(depth, law, depth.rows()[:1])
    monkeypatch.setattr(minibatches, "set_target", lambda law, *asked: Target(*asked, 0.3))
    after = minibatches.calibrated(depth, law, depth.rows()[:1])
    for place, noise in before.items():
        assert after[place] == pytest.approx(max(noise, 0.3) if noise > 0 else 0.0)
    assert 0 < min(noise for noise in before.values() if noise) < 0.3 < max(before.values())


@pytest.fixture(scope="module")
def tables(depth):
    return minibatches.compute(depth)


def test_curves_are_complete(depth, tables):
    table, study = tables["minibatches"], depth.study
    places = table.set_index(["batch_size", "row", "accountant", "epsilon"]).index
    assert places.is_unique
    assert len(places) == 2 * 3 * 2 * len(study.epsilons)
    assert set(table["row"]) == set(depth.rows())
    steps = tables["cost"].set_index("batch_size")["learning_steps"]
    for b, some in table.groupby("batch_size"):
        assert (some["learning_steps"] == steps[b]).all()
    for _, some in table.groupby(["batch_size", "row", "accountant"]):
        assert (np.diff(some.sort_values("epsilon")["noise"]) <= 0).all()
    assert table[table["noise"] > 0]["mean"].is_unique  # each request by itself


def test_curves_are_calibrated_for_the_steps_that_were_matched(depth, tables):
    for b, some in tables["minibatches"].groupby("batch_size"):
        model = fitted(depth, int(b), int(some["learning_steps"].iloc[0]))
        for line in some[some["epsilon"] == 1.0].itertuples():
            quote = model.quote([line.row], n_unlearn_steps=4, accountant=line.accountant)
            assert line.noise == pytest.approx(quote.noise[0], rel=1e-9)


def test_costs_are_counted_in_examples(depth, tables):
    table = tables["cost"]
    assert list(table["batch_size"]) == [32, 50, N]
    for line in table.itertuples():
        assert line.unlearning_steps == 4
        assert line.learning_cost == line.batch_size * line.learning_steps
        assert line.unlearning_cost == 4 * line.batch_size
        assert line.total_cost == line.learning_cost + line.unlearning_cost
    full = table.iloc[-1]
    assert full["learning_steps"] == depth.study.n_steps
    assert (table["training_error"] <= full["training_error"]).all()
    papers = minibatches.cost(512, 5625, 80, 0.49)  # a line of the paper's table
    assert [papers[f"{part}_cost"] for part in ("learning", "unlearning", "total")] == [
        2_880_000,
        40_960,
        2_920_960,
    ]
