"""Every head against scikit-learn's own fit at a tight tolerance."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from pilu import Forgetful
from pilu.refit.held_rows import Table
from pilu.refit.program import prepare, release
from pilu.refit.settings import Options

CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
COUNTS = DIABETES[0], np.maximum(DIABETES[1] // 20, 1.0)
TWO_TARGETS = DIABETES[0], np.column_stack([DIABETES[1], DIABETES[1] ** 2 / 100])

HEADS = [
    (Ridge(alpha=2.0, solver="cholesky"), DIABETES),
    (Ridge(alpha=2.0, fit_intercept=False, solver="cholesky"), DIABETES),
    (Ridge(alpha=[1.0, 5.0], solver="cholesky"), TWO_TARGETS),
    (RidgeCV(alphas=[0.1, 1.0, 10.0, 100.0]), DIABETES),
    (RidgeClassifier(class_weight="balanced", solver="cholesky"), CANCER),
    (RidgeClassifier(solver="cholesky"), IRIS),
    (RidgeClassifierCV(alphas=[0.1, 1.0, 10.0]), IRIS),
    (LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000), CANCER),
    (
        LogisticRegression(C=0.1, class_weight="balanced", solver="newton-cholesky", tol=1e-12),
        CANCER,
    ),
    (LogisticRegression(fit_intercept=False, solver="newton-cholesky", tol=1e-12), CANCER),
    (LogisticRegression(solver="liblinear", tol=1e-12, max_iter=100000, random_state=0), CANCER),
    (LogisticRegression(C=0.1, solver="newton-cg", tol=1e-9, max_iter=10000), IRIS),
    (
        LogisticRegressionCV(
            Cs=[0.01, 0.1, 1.0],
            solver="newton-cholesky",
            tol=1e-12,
            scoring="neg_log_loss",
            use_legacy_attributes=False,
            l1_ratios=(0.0,),
        ),
        CANCER,
    ),
    (LinearSVC(C=0.1, dual=False, tol=1e-14, max_iter=100000), CANCER),
    (LinearSVC(C=0.01, dual=False, tol=1e-14, max_iter=100000, class_weight="balanced"), IRIS),
    (PoissonRegressor(solver="newton-cholesky", tol=1e-12, max_iter=1000), COUNTS),
    (GammaRegressor(solver="newton-cholesky", tol=1e-12, max_iter=1000), COUNTS),
    (TweedieRegressor(power=1.5, solver="newton-cholesky", tol=1e-12, max_iter=1000), COUNTS),
]


class NoNoise:
    private = False

    def normal(self, shape):
        return np.zeros(shape)


def scores(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    predicted = model.predict(X)
    name = type(model[-1]).__name__
    return np.log(predicted) if name.startswith(("Poisson", "Gamma", "Tweedie")) else predicted


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize(("head", "data"), HEADS, ids=lambda v: type(v).__name__)
def test_the_minimiser_is_scikit_learns(head, data, weighted):
    """Before noise is added, scores agree to 1e-6 of their spread."""
    X, y = data
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X)) if weighted else None
    pipeline = make_pipeline(StandardScaler(), head)
    table = Table.of(X, y, weights, key=b"k")
    prepared = prepare(pipeline, table, Options(epsilon=0.1, delta=1e-9, score_noise=1e-5))
    model = release(prepared, None, NoNoise()).estimator
    name = f"{type(head).__name__.lower()}__sample_weight"
    expected = pipeline.fit(X, y, **({} if weights is None else {name: weights}))
    theirs = scores(expected, X)
    np.testing.assert_allclose(scores(model, X), theirs, rtol=0, atol=1e-6 * theirs.std())
    assert np.shape(model[-1].coef_) == np.shape(expected[-1].coef_)
    assert np.shape(model[-1].intercept_) == np.shape(expected[-1].intercept_)
    for chosen in ("alpha_", "C_"):
        if hasattr(expected[-1], chosen):
            assert np.array_equal(getattr(model[-1], chosen), getattr(expected[-1], chosen))
    if hasattr(expected, "classes_"):
        assert np.array_equal(model.classes_, expected.classes_)
        assert np.array_equal(model.predict(X), expected.predict(X))


def test_noise_is_what_the_certificate_states():
    X, y = CANCER
    model = Forgetful(make_pipeline(StandardScaler(), LogisticRegression(tol=1e-12)))
    model.fit(X, y)
    certificate = model.unlearn(rows=[0])
    retrained = make_pipeline(
        StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-12)
    ).fit(X[1:], y[1:])
    changes = []
    for _ in range(20):
        model.unlearn(rows=[int(model.remaining_[-1])])
        model.add(X[-1:], y[-1:])
        changes.append(model.decision_function(X[1:]) - retrained.decision_function(X[1:]))
    assert 0.0005 < np.std(changes) < 0.002  # score_noise is 1e-3
    Z = StandardScaler().fit_transform(X[1:])
    centred = Z - Z.mean(axis=0)
    scale = 2.0 ** (np.floor(np.log2(np.abs(centred).max(axis=0))) + 1)
    norm = np.sqrt((np.hstack([centred / scale, np.ones((len(Z), 1))]) ** 2).sum(axis=1).mean())
    eighth = 2.0 ** (np.floor(8 * np.log2(1e-3 / norm)) / 8)  # not above
    assert certificate.noise == pytest.approx(eighth, rel=1e-9)
