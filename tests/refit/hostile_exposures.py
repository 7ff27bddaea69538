"""Small tables with people on them, made to find an exposure that is too small, and the truth.

Every table has 4 to 40 rows, 1 to 6 columns and one way of being difficult. Truths come from
minimisers in 120 digits and the dense divergence of `oracles.exposures`. Nothing here imports pilu.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    TweedieRegressor,
)
from sklearn.svm import LinearSVC

from oracles.exposures import Array, Pair, epsilon_of
from oracles.refit_laws import Exposures, Fit, design, optimum
from refit.objectives import Huber

Rng = np.random.Generator

HEADS = ("logistic", "softmax", "huber", "squared hinge", "poisson", "gamma", "tweedie")
RARE = "a class or a count on two people"
TABLES = (
    "plain",
    "separable",
    "one-hot without full rank",
    "collinear columns",
    "outliers",
    "weights over decades",
    "few rows",
    "scales over decades",
    "duplicated rows",
    RARE,
    "kinks",
)
_REQUESTS = 4  # people of a table whose truth is computed


class Case(NamedTuple):
    """One person on one table; `pair` is the truth for noise of scale 1, None if there is none."""

    person: str
    pair: Pair | None

    def epsilon(self, scale: float, delta: float) -> float:
        """The true exposure; infinite if the model without the person does not exist."""
        return math.inf if self.pair is None else epsilon_of(self.pair.scaled(scale), delta)


class Hostile(NamedTuple):
    """A fit, whose row is whose, a noise scale that makes exposures telling, and its cases."""

    name: str
    ordinary: bool  # whether nothing about it is difficult
    fit: Fit
    people: list[str]
    scale: float
    cases: list[Case]


def hostile_exposures(head: str, count: int, seed: int) -> Iterator[Hostile]:
    """Tables with `count` cases or a few more."""
    made = 0
    for number in range(100 * count):
        if made >= count:
            return
        rng = np.random.default_rng([seed, HEADS.index(head), number])
        hostile = _one(head, rng, plain=number % 4 == 0)
        if hostile is not None:
            made += len(hostile.cases)
            yield hostile


def _one(head: str, rng: Rng, *, plain: bool) -> Hostile | None:
    table = "plain" if plain else str(rng.choice(TABLES))
    X, weights = _table(table, rng)
    separable = table == "separable"
    y = _targets(
        head, X, rng, separable=separable, rare=table == "a class or a count on two people"
    )
    if y is None:
        return None
    low, high = rng.choice(
        [(-6, -2), (-2, 2), (2, 4)], p=[0.0, 1.0, 0.0] if plain else [0.3, 0.5, 0.2]
    )
    penalty = float(10 ** rng.uniform(low, high))
    fit = Fit(_head(head, penalty, rng), X, y, weights)
    if table == "kinks":
        fit = _at_kinks(fit, rng)
    people = _people(len(X), rng)
    try:
        exposures = Exposures(fit, 1.0)
    except ArithmeticError:  # no single minimiser: nothing can be fitted
        return None
    asked = rng.permutation(sorted(set(people)))[:_REQUESTS]
    cases = [Case(str(person), _pair(exposures, people, person)) for person in asked]
    lengths = np.array([np.linalg.norm(c.pair.shift) for c in cases if c.pair is not None])
    telling = lengths[lengths > 1e-3 * lengths.max(initial=0.0)]
    typical = float(np.median(telling)) if len(telling) else 1.0
    scale = float(f"{max(typical, 1e-6) * 10 ** rng.uniform(-0.7, 0.7):.3g}")
    ordinary = (
        table in ("plain", "duplicated rows", "kinks")
        and (low, high) == (-2, 2)
        and len(X) >= 20
        and all(c.pair is not None for c in cases)
    )
    return Hostile(f"{head}, {table}, {fit.head}", ordinary, fit, people, scale, cases)


def _pair(exposures: Exposures, people: list[str], person: str) -> Pair | None:
    gone = np.flatnonzero(np.array(people) == person)
    left = np.delete(exposures.fit.y, gone)
    if not len(left) or (exposures.fit.name in _COUNTS and not left.any()):
        return None
    try:
        return exposures.pair(gone)
    except ArithmeticError:
        return None


_COUNTS = ("PoissonRegressor", "TweedieRegressor")


def _table(table: str, rng: Rng) -> tuple[Array, Array | None]:
    n, p = int(rng.integers(20, 41)), int(rng.integers(1, 7))
    if table == "few rows":
        n = int(rng.integers(4, 10))
    X, weights = rng.normal(size=(n, p)), None
    if table == "one-hot without full rank":
        levels = [rng.integers(3, size=n) for _ in range(2)]
        X = np.hstack([np.eye(3)[level] for level in levels])
    elif table == "collinear columns":
        X = np.column_stack([X, X[:, 0] * (1 + 10 ** rng.uniform(-9, -1)), X.sum(axis=1)])[:, -6:]
    elif table == "outliers":
        X[rng.integers(n, size=2)] *= 10 ** rng.uniform(0.5, 1.5)
    elif table == "weights over decades":
        weights = 10 ** rng.uniform(-3, 3, size=n)
    elif table == "scales over decades":
        X = X * 10 ** rng.uniform(-3, 3, size=p) + 10 ** rng.uniform(-1, 2)
    elif table == "duplicated rows":
        X = X[rng.integers(max(2, n // 3), size=n)]
    elif rng.random() < 0.3:
        weights = rng.choice([0.5, 1.0, 2.0, 3.0], size=n)
    return X, weights


def _targets(head: str, X: Array, rng: Rng, *, separable: bool, rare: bool) -> Array | None:
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    signal = Z @ rng.normal(size=X.shape[1]) * rng.choice([0.3, 1.0])
    if not separable:
        signal = signal + rng.normal(size=len(X))
    rank = np.argsort(np.argsort(signal))
    if head in ("logistic", "softmax", "squared hinge"):
        classes = 3 if head == "softmax" or (head == "squared hinge" and rng.random() < 0.3) else 2
        smallest = 2 if rare else max(2, int(len(X) * rng.uniform(0.15, 1 / classes)))
        y = np.where(rank >= len(X) - smallest, classes - 1, rank * (classes - 1) // len(X))
        return y if len(np.unique(y)) == classes else None
    if head == "huber":
        y = signal + (rng.random(len(X)) < 0.15) * rng.normal(size=len(X)) * 10
        return np.where(rng.random(len(X)) < 0.1, 0.0, y)
    mean = np.exp(np.clip(signal, -3, 3)) * 10 ** rng.uniform(-1, 2)
    if head == "gamma":
        return mean * rng.gamma(2.0, size=len(X))
    y = rng.poisson(mean).astype(float)
    if head == "tweedie":
        y = y * rng.gamma(2.0, size=len(X))
    if rare:
        y[2:] = 0.0
    return y if np.count_nonzero(y) > 1 else None


def _head(head: str, penalty: float, rng: Rng) -> Any:
    intercept = bool(rng.random() < 0.75)
    if head in ("logistic", "softmax"):
        liblinear = head == "logistic" and rng.random() < 0.2
        options: dict[str, Any] = {"solver": "liblinear"} if liblinear else {}
        if liblinear:
            options["intercept_scaling"] = float(rng.choice([1.0, 3.0]))
        return LogisticRegression(C=1 / penalty, fit_intercept=intercept, **options)
    if head == "squared hinge":
        scaling = float(rng.choice([1.0, 3.0]))
        return LinearSVC(C=1 / penalty, fit_intercept=intercept, intercept_scaling=scaling)
    if head == "huber":
        return Huber(float(rng.choice([0.5, 1.35])), penalty, intercept)
    # scikit-learn multiplies by the sum of weights
    alpha = penalty / 30
    if head == "poisson":
        return PoissonRegressor(alpha=alpha, fit_intercept=intercept)
    if head == "gamma":
        return GammaRegressor(alpha=alpha, fit_intercept=intercept)
    return TweedieRegressor(power=1.5, alpha=alpha, link="log", fit_intercept=intercept)


def _people(n: int, rng: Rng) -> list[str]:
    """One to three rows a person, now and then six."""
    names: list[str] = []
    while len(names) < n:
        size = int(rng.choice([1, 2, 3, 6], p=[0.5, 0.25, 0.2, 0.05]))
        names += [f"p{len(names)}"] * min(size, max(1, n // 3))
    return [names[i] for i in rng.permutation(n)]


def _at_kinks(fit: Fit, rng: Rng) -> Fit:
    """Rows beyond the kink are moved onto it, which leaves the minimiser where it is.

    A residual beyond Huber's width pulls as one at the width does. A margin above 1 pulls as
    little as one of 1.
    """
    if fit.name not in ("Huber", "LinearSVC") or (
        fit.name == "LinearSVC" and len(np.unique(fit.y)) > 2
    ):
        return fit
    try:
        theta = np.array(optimum(fit).tolist(), dtype=float)[:, 0]
    except ArithmeticError:
        return fit
    X, y, scores = fit.X.copy(), fit.y.copy(), design(fit) @ theta
    if fit.name == "Huber":
        beyond = np.flatnonzero(np.abs(scores - y) > fit.head.width)[:3]
        y[beyond] = scores[beyond] - np.sign(scores - y)[beyond] * fit.head.width
    else:
        signs = np.where(y == y.max(), 1.0, -1.0)
        coef = theta[: X.shape[1]]
        beyond = np.flatnonzero(signs * scores > 1)[:3]
        X[beyond] -= np.outer((scores - signs)[beyond], coef) / (coef @ coef)
    return fit._replace(X=X, y=y)
