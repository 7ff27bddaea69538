"""A model of Motorcycle on a made-up second scene: against Algorithm 1 step by step."""

import numpy as np
import pytest
from experiments.linear import data
from experiments.linear.compute import other_scene
from experiments.linear.engine import ACCOUNTANTS

from oracles.calibrate import dense_noise
from pilu.chains.predictions import Predictions
from pilu.datasets import load_motorcycle, patch_targets
from pilu.datasets.depth import DepthImages


@pytest.fixture(scope="module")
def scene():
    """Three times 300 x 400 pixels; the depth is unknown in a corner."""
    rng = np.random.default_rng(31)
    depth = 1 + np.add.outer(np.arange(900), np.arange(1200)) / 3000
    depth[:150, :150] = np.nan
    images = rng.integers(0, 256, (1, 900, 1200, 3), dtype=np.uint8)
    return DepthImages(images, depth[None])


@pytest.fixture
def other(scene, made_up_data, monkeypatch):
    monkeypatch.setattr(other_scene, "load_aloe", lambda: scene)


@pytest.fixture
def table(other, depth):
    return other_scene.compute(depth)["other_scene"]


def standardised_by_hand(engine):
    """Rows and depths of the second scene, in the units of Motorcycle's training part."""
    settings, size = engine.study.data, engine.study.data.patch
    known = patch_targets(load_motorcycle().depth, size)
    features = data.hypercolumns(None, known).values.astype(float)
    kept = [
        features[i]
        for i, column in enumerate(known.column)
        if column // (size * settings.block) % settings.period != settings.held_out
    ]
    patches = patch_targets(other_scene.shrunk(other_scene.load_aloe(), 3).depth, size)
    values = data.hypercolumns(None, patches).values.astype(float)
    values = (values - np.mean(kept, axis=0)) / np.std(kept, axis=0)
    return np.hstack([values, np.ones((len(values), 1))]), patches


def test_a_shrunk_scene_is_that_of_a_loop(rng):
    images = rng.integers(0, 256, (2, 8, 10, 3), dtype=np.uint8)
    depth = rng.uniform(1, 2, (2, 8, 10))
    found = other_scene.shrunk(DepthImages(images, depth), 3)
    assert found.images.dtype == np.uint8
    assert found.images.shape == (2, 2, 3, 3)
    for n, i, j in np.ndindex(2, 2, 3):
        tile = images[n, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3].reshape(9, 3).astype(float)
        np.testing.assert_array_equal(found.images[n, i, j], np.round(tile.mean(axis=0)))
        assert found.depth[n, i, j] == depth[n, 3 * i + 1, 3 * j + 1]


def test_every_model_row_and_accountant_is_there(table, depth):
    after = table[table["model"] == "after"]
    assert list(table["model"][:3]) == ["constant", "own", "before"]
    asked = [(row, accountant) for row in depth.rows() for accountant in ACCOUNTANTS]
    assert list(zip(after["row"], after["accountant"], strict=True)) == asked


def test_noises_are_those_of_motorcycle(table, depth):
    """The theorem's by brute force on Motorcycle's rows, the exact as the model quotes it."""
    study, X, Y = depth.study, depth.data.X, depth.data.y[:, None]
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    start, segments, K = np.zeros((X.shape[1], 1)), [(study.n_steps, study.noise)], 4
    noise = table.set_index(["row", "accountant"])["noise"]
    for row in depth.rows():
        by_force = dense_noise(X, Y, [row], study.alpha, eta, segments, start, 1.0, 1 / len(X), K)
        assert noise[row, "theorem"] == pytest.approx(by_force, rel=1e-7)
        quote = depth.model.quote([row], n_unlearn_steps=K, accountant="exact")
        assert noise[row, "exact"] == pytest.approx(quote.noise[0], rel=1e-9)


def test_the_constant_knows_motorcycle_only(table, depth):
    _, patches = standardised_by_hand(depth)
    constant = table.iloc[0]
    y = patches.depth
    assert constant["metres"] == pytest.approx(np.sqrt(np.mean((y - depth.data.y.mean()) ** 2)))
    assert constant["scaled"] == pytest.approx(np.sqrt(np.mean((y - np.median(y)) ** 2)))
    assert constant["aligned"] == pytest.approx(y.std())
    assert constant["correlation"] == 0
    assert (table["patches"] == len(y)).all()


def check_scores(line, mean, variance, y):
    """The scores, from the moments of the predictions."""
    assert line["metres"] == pytest.approx(np.sqrt(np.mean((mean - y) ** 2 + variance)))
    b = np.median(y) / np.median(mean)
    assert line["scaled"] == pytest.approx(np.sqrt(np.mean((b * mean - y) ** 2 + b**2 * variance)))
    # The best a + b m in expectation: normal equations with E m^2 = mean^2 + variance.
    square = np.mean(mean**2 + variance)
    normal = np.array([[1, mean.mean()], [mean.mean(), square]])
    a, b = np.linalg.solve(normal, [y.mean(), np.mean(mean * y)])
    aligned = np.sqrt(np.mean((a + b * mean - y) ** 2 + b**2 * variance))
    assert line["aligned"] == pytest.approx(aligned)
    assert line["correlation"] == pytest.approx(np.corrcoef(mean, y)[0, 1])


def moments(X, y, study, forget=None, noise=None):
    """Mean and covariance of theta after Algorithm 1, step by step with dense matrices."""
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    mean, covariance = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    parts = [(X, y, study.noise, study.n_steps)]
    if forget is not None:
        parts.append((np.delete(X, forget, 0), np.delete(y, forget), noise, study.n_unlearn_steps))
    for rows, targets, sigma, n_steps in parts:
        turn = np.eye(X.shape[1]) - eta * (rows.T @ rows + study.alpha * np.eye(X.shape[1]))
        for _ in range(n_steps):
            mean = turn @ mean + eta * rows.T @ targets
            covariance = turn @ covariance @ turn + 2 * eta * sigma**2 * np.eye(X.shape[1])
    return mean, covariance


def predictions(X, theta):
    mean, covariance = theta
    return X @ mean, np.sum(X @ covariance * X, axis=1)


def test_before_is_algorithm_1(table, depth):
    X, patches = standardised_by_hand(depth)
    theta = moments(depth.data.X, depth.data.y, depth.study)
    check_scores(table.iloc[2], *predictions(X, theta), patches.depth)


def test_after_is_algorithm_1(table, depth):
    X, patches = standardised_by_hand(depth)
    for _, line in table[table["model"] == "after"].iterrows():
        theta = moments(depth.data.X, depth.data.y, depth.study, int(line["row"]), line["noise"])
        check_scores(line, *predictions(X, theta), patches.depth)


def test_its_own_models_do_not_know_what_they_predict(table, depth):
    """Learned on the other columns alone, in units of those."""
    settings, size = depth.study.data, depth.study.data.patch
    patches = patch_targets(other_scene.shrunk(other_scene.load_aloe(), 3).depth, size)
    values, y = data.hypercolumns(None, patches).values.astype(float), patches.depth
    block = patches.column // size // settings.block % settings.period
    mean, variance = np.full(len(y), np.nan), np.full(len(y), np.nan)
    for k in set(block):
        kept, out = block != k, block == k
        units = values[kept].mean(axis=0), values[kept].std(axis=0)
        X = np.hstack([(values - units[0]) / units[1], np.ones((len(y), 1))])
        theta = moments(X[kept], y[kept], depth.study)
        mean[out], variance[out] = predictions(X[out], theta)
    check_scores(table.iloc[1], mean, variance, y)


def test_an_alignment_is_least_squares(rng):
    y, m = rng.uniform(1, 2, (50, 1)), rng.uniform(3, 5, (50, 1))
    found = other_scene.scores(Predictions(m, np.zeros(50)), y)
    slope, offset = np.polyfit(m[:, 0], y[:, 0], 1)
    left = np.sqrt(np.mean((offset + slope * m - y) ** 2))
    assert found["aligned"] == pytest.approx(left)
    assert other_scene.scores(Predictions(2 - m, np.zeros(50)), y)["aligned"] == pytest.approx(left)
