"""Small tables on which solvers and bounds go wrong, one for each way, with every head."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    TweedieRegressor,
)
from sklearn.svm import LinearSVC

from refit.objectives import Array, Huber

Rng = np.random.Generator
_ROWS = 24


def hostile_problems(seed: int) -> Iterator[tuple[str, Any, Array, Array, Array | None]]:
    """(name, unfitted head, X, y, sample_weight): every table below with every head below.

    At most 24 rows, 6 columns and 3 classes. Each class keeps a row with weight, and counts are not
    all zero, so that every minimiser exists; penalties are 1e-8 (C = 1e8) or 1, drawn by `seed`.
    """
    rng = np.random.default_rng(seed)
    for table, X, weights in _tables(rng):
        signal = _standardised(X) @ rng.normal(size=X.shape[1])
        if table != "separable classes":
            signal = signal + rng.normal(size=len(X))
        smallest = 2 if table == "a class with two rows" else max(1, len(X) // 3)
        for kind, head, y in _heads(rng, signal, smallest):
            yield f"{table}: {kind}", head, X, y, weights


def _tables(rng: Rng) -> Iterator[tuple[str, Array, Array | None]]:
    def plain(columns: int = 4, rows: int = _ROWS) -> Array:
        return rng.normal(size=(rows, columns))

    yield "separable classes", plain(), None
    X = plain()
    X[:, 2], X[:, 3] = X[:, 0] + X[:, 1], X[:, 0] * (1 + 1e-9)
    yield "collinear columns", X, None
    yield "a class with two rows", plain(), None
    yield "weights over ten decades", plain(), 10 ** rng.uniform(-5, 5, size=_ROWS)
    # Two one-hot groups of three: with the intercept, two dependent directions.
    groups = rng.permuted(np.tile(np.arange(_ROWS) % 3, (2, 1)), axis=1)
    yield "one-hot without full rank", np.hstack([np.eye(3)[g] for g in groups]), None
    yield "scales from 1e-6 to 1e6", plain() * 10.0 ** np.array([-6, -2, 2, 6]), None
    yield "mean 1e6, deviation 1", plain() + 1e6, None
    yield (
        "constant columns",
        np.column_stack([plain(2), np.full(_ROWS, 3.0), np.zeros(_ROWS)]),
        None,
    )
    yield "duplicated rows", np.repeat(plain(rows=_ROWS // 4), 4, axis=0), None
    without = np.ones(_ROWS)
    without[-_ROWS // 4 :] = 0  # fewer than a class has
    yield "rows without weight", plain(), without
    yield "more columns than rows", plain(6, rows=5), None


def _heads(rng: Rng, signal: Array, smallest: int) -> Iterator[tuple[str, Any, Array]]:
    n = len(signal)
    rank = np.argsort(np.argsort(signal))
    two = np.where(rank >= n - smallest, "yes", "no")
    three = np.where(rank >= n - smallest, 7, np.where(rank >= (n - smallest) // 2, 3, 1))
    count = rng.poisson(np.exp(np.clip(signal, -3, 3))).astype(float)
    count[0] += 1
    amount = np.exp(np.clip(signal, -5, 5)) * rng.gamma(2.0, size=n)

    def penalty() -> float:
        return float(rng.choice([1e-8, 1.0]))

    yield "ridge", Ridge(penalty()), signal
    yield "ridge, two targets", Ridge([penalty(), penalty()]), np.column_stack([signal, signal**2])
    yield "ridge classifier", RidgeClassifier(penalty(), class_weight="balanced"), three
    yield "logistic", LogisticRegression(C=1 / penalty()), two
    yield "logistic, balanced", LogisticRegression(C=1 / penalty(), class_weight="balanced"), two
    yield "softmax", LogisticRegression(C=1 / penalty(), class_weight={1: 2.0, 7: 0.5}), three
    yield (
        "logistic without intercept",
        LogisticRegression(C=1 / penalty(), fit_intercept=False),
        two,
    )
    liblinear = LogisticRegression(C=1 / penalty(), solver="liblinear", intercept_scaling=10.0)
    yield "liblinear", liblinear, two
    yield "squared hinge", LinearSVC(C=1 / penalty(), intercept_scaling=3.0), two
    yield "squared hinge, three", LinearSVC(C=1 / penalty(), class_weight="balanced"), three
    yield "poisson", PoissonRegressor(alpha=penalty()), count
    yield "gamma", GammaRegressor(alpha=penalty()), amount
    yield "tweedie", TweedieRegressor(power=1.5, alpha=penalty()), count * amount
    yield "huber", Huber(width=0.5, alpha=penalty()), signal


def _standardised(X: Array) -> Array:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
