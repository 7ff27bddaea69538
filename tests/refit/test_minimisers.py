"""The oracle of minimisers against scikit-learn's own fits, and against its own objective."""

from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.svm import LinearSVC

from refit.minimisers import (
    DIGITS,
    Huber,
    hostile_problems,
    leave_one_out_alpha,
    minimiser,
    objective,
    row_weights,
)

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 4)) + 0.5
SIGNAL = X @ np.array([1.0, -0.5, 0.3, 0.0]) + RNG.normal(size=60)
TWO = np.where(SIGNAL > 0.3, "b", "a")
FOUR = np.digitize(SIGNAL, [-0.8, 0.3, 1.2]) * 2
COUNT = RNG.poisson(np.exp(SIGNAL / 2)).astype(float)
AMOUNT = np.exp(SIGNAL / 2) * RNG.gamma(3.0, size=60)
PAIR = np.column_stack([SIGNAL, X[:, 1] ** 2])
WEIGHT = RNG.uniform(0.1, 3, size=60) * (np.arange(60) % 7 > 0)

TIGHT = {"tol": 1e-12, "max_iter": 10_000}
# liblinear's primal solver stops at a relative gain of 1e-12 whatever `tol` says: 1e-7 in `coef_`.
LIBLINEAR = {"tol": 1e-11, "max_iter": 1_000_000, "dual": True, "random_state": 0}
INTERCEPT = [True, False]


def logistic(**options):
    # newton-cholesky gives up below 1e-12, where its line search sees only rounding.
    return LogisticRegression(**{"solver": "newton-cholesky", **TIGHT, "tol": 1e-11, **options})


def benign():
    for fit in INTERCEPT:
        yield Ridge(0.7, fit_intercept=fit), SIGNAL
        yield Ridge(0.7, fit_intercept=fit, solver="lsqr", **TIGHT), SIGNAL
        yield Ridge([0.3, 4.0], fit_intercept=fit), PAIR
        yield Ridge(0.3, fit_intercept=fit), SIGNAL[:, None]
        yield logistic(C=0.4, fit_intercept=fit), TWO
        yield logistic(C=5.0, fit_intercept=fit), FOUR
        yield logistic(solver="newton-cg", fit_intercept=fit), FOUR
        yield (
            PoissonRegressor(alpha=0.2, fit_intercept=fit, solver="newton-cholesky", **TIGHT),
            COUNT,
        )
    glm = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
    yield GammaRegressor(alpha=0.1, **glm), AMOUNT
    for power in (1.0, 1.3, 1.7, 2.0):
        yield TweedieRegressor(power=power, alpha=0.05, **glm), AMOUNT
    for weights, y in product([None, "balanced"], [TWO, FOUR]):
        yield RidgeClassifier(0.5, class_weight=weights), y
        yield RidgeClassifier(0.5, class_weight=weights, fit_intercept=False), y
        yield logistic(class_weight=weights), y
        yield LinearSVC(C=0.3, class_weight=weights, intercept_scaling=2.5, **LIBLINEAR), y
        yield LinearSVC(C=0.3, class_weight=weights, fit_intercept=False, **LIBLINEAR), y
    liblinear = {"C": 2.0, "solver": "liblinear", **LIBLINEAR}
    yield logistic(intercept_scaling=4.0, class_weight="balanced", **liblinear), TWO
    yield logistic(fit_intercept=False, **liblinear), TWO
    for make in (logistic, lambda **o: LinearSVC(**LIBLINEAR, **o), RidgeClassifier):
        yield make(class_weight={"a": 3.0, "b": 0.2}), TWO
        yield make(class_weight={0: 3.0, 2: 0.2, 4: 0.9, 6: 1.5}), FOUR


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize(("head", "y"), list(benign()), ids=lambda v: type(v).__name__)
def test_scikit_learn_agrees_on_benign_data(head, y, weights):
    coef, intercept = minimiser(head, X, y, weights)
    head.fit(X, y, sample_weight=weights)
    assert np.shape(coef) == np.shape(head.coef_)
    assert np.shape(intercept) == np.shape(head.intercept_)
    np.testing.assert_allclose(np.array(coef, dtype=float), head.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.array(intercept, dtype=float), head.intercept_, rtol=0, atol=1e-8)


def test_another_minimiser_agrees_on_huber():
    head = Huber(width=0.4, alpha=0.3)

    def smooth(theta):
        r = SIGNAL - X @ theta[:-1] - theta[-1]
        inside = np.abs(r) <= head.width
        losses = np.where(inside, r**2 / 2, head.width * np.abs(r) - head.width**2 / 2)
        first = -WEIGHT * np.clip(r, -head.width, head.width)
        gradient = np.append(X.T @ first + head.alpha * theta[:-1], first.sum())
        return WEIGHT @ losses + head.alpha / 2 * theta[:-1] @ theta[:-1], gradient

    found = minimize(smooth, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-9})
    coef, intercept = minimiser(head, X, SIGNAL, WEIGHT)
    np.testing.assert_allclose(np.append(coef, intercept).astype(float), found.x, atol=1e-7)


def gradient(head, X, y, coef, intercept, weights):
    """Central differences of `objective`, good to 100 digits: a bend nearer than h costs h only."""
    with mp.workdps(3 * DIGITS):
        h = mpf(10) ** -100
        flat = np.ravel(coef)
        free = np.ravel(intercept) if head.fit_intercept else np.array([], dtype=object)

        def at(moved):
            b = moved[flat.size :] if head.fit_intercept else mpf(0)
            return objective(head, X, y, moved[: flat.size], b, weights)

        here = np.concatenate([flat, free])
        for k in range(here.size):
            up, down = here.copy(), here.copy()
            up[k], down[k] = up[k] + h, down[k] - h
            yield (at(up) - at(down)) / (2 * h)


def check_stationary(head, X, y, weights):
    coef, intercept = minimiser(head, X, y, weights)
    assert max(abs(g) for g in gradient(head, X, y, coef, intercept, weights)) < mpf("1e-40")
    if isinstance(head, LogisticRegression) and len(coef) > 1:
        with mp.workdps(DIGITS):
            gauge = [*coef.sum(axis=0), np.sum(intercept)]
            assert max(map(abs, gauge)) < mpf("1e-50")


def hostile(seeds):
    return [
        pytest.param(*rest, id=f"{name} {seed}")
        for seed in seeds
        for name, *rest in hostile_problems(seed)
    ]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("head", "X", "y", "weights"), hostile([0]))
def test_the_gradient_vanishes_on_hostile_data(head, X, y, weights):
    check_stationary(head, X, y, weights)


@pytest.mark.slow
@pytest.mark.parametrize(("head", "X", "y", "weights"), hostile(range(1, 6)))
def test_the_gradient_vanishes_on_more_hostile_data(head, X, y, weights):
    check_stationary(head, X, y, weights)


def test_hostile_problems_are_as_small_as_promised_and_repeat():
    for first, again in zip(hostile_problems(3), hostile_problems(3), strict=True):
        (name, head, X, y, weights), (_, _, same, _, _) = first, again
        assert len(X) <= 24, name
        assert X.shape[1] <= 6, name
        np.testing.assert_array_equal(X, same)
        if hasattr(head, "class_weight"):
            kept = y if weights is None else y[weights > 0]
            assert set(kept) == set(y), name


def test_balanced_counts_rows_or_weights():
    # Two rows of "a", one of "b" with weight 6.
    y, weights = np.array(["a", "a", "b"]), np.array([1.0, 1.0, 6.0])
    by_rows = weights * [0.75, 0.75, 1.5]
    by_weight = weights * [2.0, 2.0, 8 / 12]
    balanced = {"class_weight": "balanced"}
    np.testing.assert_array_equal(row_weights(RidgeClassifier(**balanced), y, weights), [by_rows])
    for head in (LogisticRegression(**balanced), LinearSVC(**balanced)):
        np.testing.assert_allclose(row_weights(head, y, weights), [by_weight], rtol=1e-15)


def leave_one_out_cases():
    alphas = (3.0, 0.01, 30.0, 0.3, 300.0)
    for fit in INTERCEPT:
        yield RidgeCV(alphas, fit_intercept=fit), SIGNAL
        yield RidgeCV(alphas, fit_intercept=fit), PAIR
        yield RidgeCV(alphas, fit_intercept=fit, gcv_mode="svd"), SIGNAL
        yield RidgeClassifierCV(alphas, fit_intercept=fit), TWO
        yield RidgeClassifierCV(alphas, fit_intercept=fit), FOUR
    yield RidgeCV(alphas, alpha_per_target=True), PAIR
    yield RidgeCV(alphas, alpha_per_target=True, scoring="neg_mean_absolute_error"), PAIR
    yield RidgeCV(alphas, scoring="neg_mean_squared_error"), SIGNAL
    yield RidgeCV(alphas, scoring="r2"), PAIR
    yield RidgeClassifierCV(alphas, class_weight="balanced"), FOUR
    yield RidgeClassifierCV(alphas, class_weight={"a": 4.0, "b": 0.5}), TWO
    yield RidgeClassifierCV(alphas, class_weight="balanced", scoring="accuracy"), FOUR
    yield RidgeClassifierCV(alphas, scoring="accuracy"), TWO


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", [None, WEIGHT + 0.01], ids=["", "weights"])
@pytest.mark.parametrize(("head", "y"), list(leave_one_out_cases()), ids=lambda v: type(v).__name__)
def test_leave_one_out_takes_scikit_learns_alpha(head, y, weights):
    rows = slice(0, 30)
    some = None if weights is None else weights[rows]
    alpha, scores = leave_one_out_alpha(head, X[rows], y[rows], some)
    head.fit(X[rows], y[rows], sample_weight=some)
    np.testing.assert_array_equal(alpha, head.alpha_)
    np.testing.assert_allclose(np.max(scores, axis=0), head.best_score_, rtol=1e-10)


def test_leave_one_out_scores_every_alpha_and_counts_rows_without_weight():
    alphas, weights = [0.1, 10.0], WEIGHT[:20]
    assert (weights == 0).any()
    head = RidgeCV(alphas, store_cv_results=True).fit(X[:20], SIGNAL[:20], sample_weight=weights)
    _, scores = leave_one_out_alpha(head, X[:20], SIGNAL[:20], weights)
    np.testing.assert_allclose(scores, -head.cv_results_.mean(axis=0), rtol=1e-11)


def test_ties_go_to_the_first_alpha():
    # No column says anything about y, and all are orthogonal to it: every alpha fits the same.
    y = np.zeros(12)
    head = RidgeCV([5.0, 0.1, 1.0]).fit(X[:12], y)
    alpha, scores = leave_one_out_alpha(head, X[:12], y)
    assert alpha == head.alpha_ == 5.0
    assert (scores == 0).all()


def test_two_classes_under_a_metric_are_always_right():
    # A fault of scikit-learn 1.9.1 that the oracle repeats: one output has one argmax.
    head = RidgeClassifierCV([300.0, 0.1], scoring="accuracy").fit(X, TWO)
    assert head.best_score_ == 1.0
    assert head.alpha_ == 300.0 == leave_one_out_alpha(head, X, TWO)[0]


@pytest.mark.parametrize(
    "head",
    [
        LogisticRegression(l1_ratio=0.5, solver="saga"),
        LogisticRegression(C=np.inf),
        LinearSVC(loss="hinge"),
        LinearSVC(multi_class="crammer_singer"),
        TweedieRegressor(power=0),
        TweedieRegressor(power=1.5, link="identity"),
        Ridge(positive=True),
    ],
)
def test_other_objectives_are_refused(head):
    with pytest.raises(ValueError, match=r"penalty|covered|power"):
        minimiser(head, X, TWO if hasattr(head, "class_weight") else SIGNAL)


def test_no_minimiser_is_an_error():
    with pytest.raises(ArithmeticError, match="no single minimiser"):
        minimiser(Ridge(0.0), np.ones((3, 2)), np.arange(3.0))
    # Half of the rows far above, half far below: every intercept between them is as good.
    with pytest.raises(ArithmeticError, match="no single minimiser"):
        minimiser(Huber(width=0.1), np.zeros((4, 1)), np.array([-9.0, -9.0, 9.0, 9.0]))
