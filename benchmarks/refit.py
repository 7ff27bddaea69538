"""Refits beside scikit-learn's own fits, and exposures: customers, softmax on wide rows, ridge."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan
from pilu import Forgetful
from pilu.datasets.customers import Customers, make_customers
from pilu.refit.held_rows import Table
from pilu.refit.program import prepare
from pilu.refit.settings import Options
from pilu.refit.solve import solve

ALPHA = 0.01  # of softmax
ALPHAS = np.logspace(0, 4, 9)  # of ridge
CLOSE_ALPHAS = np.logspace(-3, 1, 9)  # whose errors are too close to tell without a cold run
STRICT = 1e-8
NOISE_SCALE = 4.0  # of shaped noise, for exposures


@dataclass(frozen=True)
class Heads:
    """Rows and columns of the three works."""

    customers: int
    softmax: tuple[int, int, int]
    ridge: tuple[int, int]


HEADS = {
    40_000: Heads(40_000, (4_000, 2_048, 10), (38_400, 1_537)),
    2_000: Heads(2_000, (400, 120, 4), (400, 120)),
    200: Heads(200, (60, 20, 3), (60, 12)),
}


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time fits and deletions, with scikit-learn's fits beside them."""
    heads = HEADS[size.n]
    references.wake()
    _customers(make_customers(heads.customers), plan, watch)
    _softmax(*_wide_rows(*heads.softmax), plan, watch)
    _ridge(*heads.ridge, plan, watch)
    _exposure_of_squares(*heads.ridge, plan, watch)


def _columns(table: Customers) -> Any:
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return make_column_transformer(
        (numbers, list(table.numbers)), (encoder, list(table.categories))
    )


def _logistic(**options: Any) -> LogisticRegression:
    return LogisticRegression(max_iter=100_000, **options)


def _customers(table: Customers, plan: Plan, watch: Stopwatch) -> None:
    X, y, people = table.X, table.y, table.subjects
    rows = _columns(table).fit_transform(X)
    names = list(dict.fromkeys(people.tolist()))
    few = len(names) // 100
    shaped = Forgetful(make_pipeline(_columns(table), _logistic()), noise_scale=NOISE_SCALE)
    shaped.fit(X, y, subjects=people)
    for repeat in range(plan.repeats):
        watch.time("scikit-learn, head", _logistic(tol=STRICT).fit, rows, y)
        watch.time("cold fit", Forgetful(_logistic()).fit, rows, y, subjects=people)
        model = Forgetful(make_pipeline(_columns(table), _logistic()))
        watch.time("cold fit, pipeline", model.fit, X, y, subjects=people)
        strict = make_pipeline(_columns(table), _logistic(tol=STRICT))
        watch.time("scikit-learn, pipeline", strict.fit, X, y)
        watch.time("exposure, people", shaped.exposure)
        watch.time("one person", model.unlearn, subject=names[repeat])
        some = names[few * (repeat + 1) : few * (repeat + 2)] or names[-2:-1]
        watch.time("one per cent", model.unlearn, subjects=some)


def _wide_rows(n: int, p: int, n_classes: int) -> tuple[Array, Any]:
    """Features as of a frozen network: positive, of norm one, with classes that overlap."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n)
    hidden = rng.standard_normal((n_classes, 64))[labels] + 1.2 * rng.standard_normal((n, 64))
    rows = np.maximum(hidden @ rng.standard_normal((64, p)) / 8, 0.0)
    rows += 0.1 * np.abs(rng.standard_normal((n, p)))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


def _softmax(X: Array, labels: Any, plan: Plan, watch: Stopwatch) -> None:
    goal = _gradient_reached(X, labels)
    tolerance = _tolerance(X, labels, goal)
    for repeat in range(plan.repeats):
        watch.time("scikit-learn, softmax", _logistic(C=1 / ALPHA, tol=tolerance).fit, X, labels)
        model = Forgetful(_logistic(C=1 / ALPHA))
        watch.time("cold fit, softmax", model.fit, X, labels)
        watch.time("one row, softmax", model.unlearn, [repeat])
        some = np.arange(10, 10 + max(1, len(X) // 100))
        watch.time("one per cent, softmax", model.unlearn, some)  # of a model fitted anew


def _gradient_reached(X: Array, labels: Any) -> float:
    """The gradient's norm at the solution of a refit, before noise."""
    table = Table.of(X, labels, key=bytes(32))
    options = Options(epsilon=0.1, delta=1e-9, score_noise=1e-3)  # the defaults of Forgetful
    ready = prepare(_logistic(C=1 / ALPHA), table, options)
    theta = solve(ready.objective, None, ready.radius)
    return _gradient(X, labels, *ready.coordinates.out(theta))


def _gradient(X: Array, labels: Any, coef: Array, intercept: Array) -> float:
    scores = X @ coef + intercept
    scores -= scores.max(axis=1, keepdims=True)
    slopes = np.exp(scores)
    slopes /= slopes.sum(axis=1, keepdims=True)
    slopes[np.arange(len(X)), labels] -= 1.0
    return float(np.hypot(np.linalg.norm(X.T @ slopes + ALPHA * coef), slopes.sum(0).max()))


def _tolerance(X: Array, labels: Any, goal: float) -> float:
    """The largest tolerance with which scikit-learn's gradient is as small, or the last that helps.

    Its L-BFGS may stop before, where the objective no longer changes in doubles. The reference
    then does less than is asked of it.
    """
    reached, tolerance = np.inf, 1e-5
    while tolerance > 1e-13:
        head = _logistic(C=1 / ALPHA, tol=tolerance).fit(X, labels)
        before, reached = reached, _gradient(X, labels, head.coef_.T, head.intercept_)
        if reached <= goal or reached > 0.9 * before:
            break
        tolerance /= 10
    return tolerance


def _ridge(n: int, p: int, plan: Plan, watch: Stopwatch) -> None:
    X, Y = make_data(Size(n=n, p=p, d=1, T=1, K=1))
    model = Forgetful(make_pipeline(StandardScaler(), RidgeCV(ALPHAS)))
    watch.time("cold fit, ridge", model.fit, X, Y[:, 0])
    for repeat in range(plan.repeats):
        gram = watch.time("X'X", np.matmul, X.T, X)
        watch.time("eigh", np.linalg.eigh, gram)
        watch.time("one row, ridge", model.unlearn, [repeat])
    close = Forgetful(make_pipeline(StandardScaler(), RidgeCV(CLOSE_ALPHAS))).fit(X, Y[:, 0])
    for repeat in range(plan.repeats):
        watch.time("one row, close alphas", close.unlearn, [repeat])


def _exposure_of_squares(n: int, p: int, plan: Plan, watch: Stopwatch) -> None:
    X, Y = make_data(Size(n=n, p=p, d=1, T=1, K=1))
    rng = np.random.default_rng(1)
    rows, V, weights = with_intercept(X), rng.standard_normal((p, p)), rng.standard_normal(p)
    shaped = Forgetful(Ridge(), noise_scale=NOISE_SCALE).fit(X, Y[:, 0])
    plain = Forgetful(Ridge()).fit(X, Y[:, 0])
    for _ in range(plan.repeats):
        watch.time("X V and a product", references.squared_lengths, rows, V, weights)
        watch.time("exposure, squares", shaped.exposure)
        watch.time("exposure, default noise", plain.exposure)
