"""Toy studies for the scripts of the linear figures, and what they are held against.

`depth` has the real scene's patches with made-up features, `digits` made-up pictures, and `wide`
fewer rows than columns. Their noise is large against their parameters, so that laws can be seen.
"""

import io
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from experiments.features import Features
from experiments.linear import data
from experiments.linear.compute import rows
from experiments.linear.config import STUDIES, DepthData, MnistData, RowSet
from experiments.linear.engine import Engine
from experiments.store import FIGURES, STORES, Store

from pilu.datasets.catalogue import LabelledImages


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On a busy machine, threads wait for each other in every one of thousands of tiny layers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PILU_CACHE", str(folder))
    return folder


SMALL = {
    "size": "toy",
    "alpha": 0.05,
    "n_steps": 12,
    "n_unlearn_steps": 4,
    "noise": 0.05,
    "n_runs": 4,
    "epsilons": (0.5, 1.0, 4.0),
    "unlearn_steps": (1, 3, 8),
    "learn_steps": (5, 20),
    "newton_steps": (3, 40),
}
TOY_DEPTH = replace(
    STUDIES["full"]["depth"],
    **SMALL,
    data=DepthData(patch=50, block=2),
    row_sets={"three": RowSet((0.0, 0.5, 1.0), share=0.9), "ends": RowSet((0.0, 1.0))},
    batch_sizes=(32, 50),
)
TOY_DIGITS = replace(
    STUDIES["full"]["mnist"],
    **SMALL,
    data=MnistData(n_train=50, n_from_train=60, n_from_test=20, image_size=32),
    row_sets={"three": RowSet((0.0, 0.5, 1.0))},
)


def made_up_hypercolumns(images, patches):
    """Something of the depth, something of the place, something of nothing."""
    rng = np.random.default_rng(11)
    place = np.stack([patches.row, patches.column, patches.depth], axis=1) / 100
    mixed = place @ rng.normal(size=(3, 4)) + rng.normal(size=(len(place), 4)) / 2
    found = np.hstack([mixed, rng.normal(size=(len(place), 1))])
    return Features(found.astype(np.float32), {"network": "made up"})


def made_up_mnist():
    """Labels that the pictures know: the mean grey of a picture tells its label."""
    rng = np.random.default_rng(12)
    labels = np.arange(90) % 3
    images = (80 * labels[:, None, None] + rng.integers(0, 80, (90, 28, 28))).astype(np.uint8)
    return LabelledImages(images[:65], labels[:65], images[65:], labels[65:])


def made_up_image_features(images, network, *, size):
    rng = np.random.default_rng(13)
    grey = images.reshape(len(images), -1).mean(axis=1) / 80
    seen = np.stack([grey, np.abs(grey - 1.5)], axis=1) + rng.normal(size=(len(grey), 2)) / 3
    found = np.hstack([seen, rng.normal(size=(len(grey), 3))])
    return Features(found.astype(np.float32), {"network": network, "size": size})


@contextmanager
def made_up():
    """Features and pictures out of nothing: no test here computes or fetches any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "hypercolumns", made_up_hypercolumns)
        patch.setattr(data, "load_mnist", made_up_mnist)
        patch.setattr(data, "image_features", made_up_image_features)
        yield patch


@pytest.fixture
def made_up_data():
    with made_up():
        yield


@pytest.fixture(scope="session")
def depth():
    with made_up():
        return Engine(TOY_DEPTH, data.load_depth(TOY_DEPTH.data))


@pytest.fixture(scope="session")
def digits():
    with made_up():
        return Engine(TOY_DIGITS, data.load_digits(TOY_DIGITS.data))


@pytest.fixture(scope="session")
def wide():
    """Twelve rows of three classes, twenty columns."""
    rng = np.random.default_rng(14)
    labels = np.arange(32) % 3
    X = np.hstack([rng.normal(size=(32, 19)) + labels[:, None] / 2, np.ones((32, 1))])
    images = rng.integers(0, 256, (12, 28, 28), np.uint8)
    given = data.Data(X[:12], labels[:12], X[12:], labels[12:], {}, images)
    return Engine(TOY_DIGITS, data.with_provenance(given))


@pytest.fixture(params=["depth", "digits", "wide"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def targets_of():
    """Y, n x d, told from the labels and not by the engine."""

    def targets(engine):
        y = engine.data.y
        return np.eye(y.max() + 1)[y] if y.dtype.kind == "i" else y[:, None]

    return targets


@pytest.fixture
def take_steps():
    """Langevin steps of many runs, taken one by one: theta is runs x p x d.

    theta <- theta - eta (X'(X theta - Y) + alpha theta) + sqrt(2 eta) sigma xi   [PILU, Alg. 1]
    """

    def steps(theta, X, Y, alpha, eta, sigma, n_steps, rng):
        theta = theta.copy()
        for _ in range(n_steps):
            gradient = X.T @ (X @ theta - Y) + alpha * theta
            theta += -eta * gradient + np.sqrt(2 * eta) * sigma * rng.standard_normal(theta.shape)
        return theta

    return steps


@pytest.fixture
def run_algorithm(take_steps, targets_of):
    """Algorithm 1 taken literally: T steps on all rows, K without one; runs x p x d."""

    def run(engine, row, sigma, n_runs, seed, *, forget=True):
        study, X, Y = engine.study, engine.data.X, targets_of(engine)
        eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
        rng = np.random.default_rng(seed)
        theta = np.zeros((n_runs, X.shape[1], Y.shape[1]))
        theta = take_steps(theta, X, Y, study.alpha, eta, study.noise, study.n_steps, rng)
        left = np.arange(len(X)) != row if forget else np.ones(len(X), dtype=bool)
        K = study.n_unlearn_steps
        return take_steps(theta, X[left], Y[left], study.alpha, eta, sigma, K, rng)

    return run


@pytest.fixture
def scores_of():
    """Test RMSE, or accuracy, of every run; theta is runs x p x d."""

    def scores(engine, theta):
        found, y = engine.data.X_test @ theta, engine.data.y_test
        if y.dtype.kind == "i":
            return np.mean(np.argmax(found, axis=2) == y, axis=1)
        return np.sqrt(np.mean((found[:, :, 0] - y) ** 2, axis=1))

    return scores


@pytest.fixture
def law_gap():
    """How many standard errors two samples (runs x numbers) are apart, in mean and covariance."""

    def gap(a, b):
        means = (a.mean(axis=0) - b.mean(axis=0)) / np.sqrt(
            a.var(axis=0) / len(a) + b.var(axis=0) / len(b)
        )
        first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
        # Var of a Gaussian sample's covariance: (s_ii s_jj + s_ij^2) / n
        size = sum(
            (np.outer(np.diag(s), np.diag(s)) + s**2) / len(runs)
            for s, runs in ((first, a), (second, b))
        )
        return np.abs(means).max(), np.abs((first - second) / np.sqrt(size)).max()

    return gap


class Reproduced(NamedTuple):
    store: Store
    figures: Path
    printed: str


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """What `python -m experiments` leaves of both toys."""
    from experiments.__main__ import main  # and with it, every study

    root, printed = tmp_path_factory.mktemp("reproduced"), io.StringIO()
    found = Reproduced(Store(root / "results"), root / "figures", "")
    with made_up() as patch, redirect_stdout(printed):
        patch.setattr(rows, "N_OTHERS", 20)
        patch.setitem(STUDIES, "toy", {"depth": TOY_DEPTH, "mnist": TOY_DIGITS})
        patch.setitem(STORES, "toy", found.store)
        patch.setitem(FIGURES, "toy", found.figures)
        patch.setattr("sys.argv", ["experiments", "--size", "toy", "--studies", "depth", "mnist"])
        main()
    return found._replace(printed=printed.getvalue())
