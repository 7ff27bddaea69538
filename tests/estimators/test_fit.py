"""Fitting: the paper's objective, its shapes, dtypes and starts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from conftest import with_ones
from oracles.dense import dense_laws
from pilu import LangevinRidge, LangevinRidgeClassifier


@pytest.mark.parametrize("solver", ["spectral", "gradient"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_converges_to_sklearns_ridge_on_the_augmented_rows(solver, fit_intercept, small):
    X, Y = small
    model = LangevinRidge(
        alpha=2.0, n_steps=2000, noise=1e-7, solver=solver, fit_intercept=fit_intercept
    ).fit(X, Y)
    augmented = with_ones(X) if fit_intercept else X
    ridge = Ridge(alpha=2.0, fit_intercept=False).fit(augmented, Y)
    np.testing.assert_allclose(model.coef_, ridge.coef_[:, :4], atol=1e-5)
    if fit_intercept:
        np.testing.assert_allclose(model.intercept_, ridge.coef_[:, 4], atol=1e-5)
    else:
        np.testing.assert_array_equal(model.intercept_, 0.0)
    np.testing.assert_allclose(model.predict(X), ridge.predict(augmented), atol=1e-5)


def test_shapes_follow_scikit_learn(small):
    X, Y = small
    one = LangevinRidge(n_steps=50).fit(X, Y[:, 0])
    assert one.coef_.shape == (4,)
    assert isinstance(one.intercept_, float)
    assert one.predict(X).shape == (30,)
    many = LangevinRidge(n_steps=50).fit(X, Y)
    assert many.coef_.shape == (2, 4)
    assert many.intercept_.shape == (2,)
    assert many.predict(X).shape == (30, 2)


def test_unfitted_models_say_so(small):
    for call in (
        lambda m: m.predict(small[0]),
        lambda m: m.quote(),
        lambda m: m.unlearn(0),
        lambda m: m.certified_epsilon(0, noise=1.0),
        lambda m: m.verify(None),
        lambda m: m.attach(*small),
        lambda m: m.total_,
    ):
        for model in (LangevinRidge(), LangevinRidgeClassifier()):
            with pytest.raises(NotFittedError):
                call(model)
    assert not hasattr(LangevinRidge(), "coef_")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_any_dtype_is_accumulated_in_float64(dtype, rng):
    X = (100 * rng.normal(size=(300, 3))).astype(dtype)
    y = rng.normal(size=300)
    model = LangevinRidge(n_steps=20, noise=0.1).fit(X, y)
    exact = with_ones(X.astype(np.float64))
    gram = exact.T @ exact
    np.testing.assert_allclose(model.fitted_.chain.problem.statistics.gram, gram, rtol=1e-13)
    assert model.step_size_ == pytest.approx(1 / np.linalg.eigvalsh(gram + 1e-4 * np.eye(4))[-1])
    assert model.fitted_.source.rows.X is X  # referred to, not copied
    model.unlearn(5)


def test_more_columns_than_rows(rng):
    X, y = rng.normal(size=(8, 20)), rng.normal(size=8)
    model = LangevinRidge(alpha=0.1, n_steps=30, noise=0.2).fit(X, y)
    certificate = model.unlearn(3)
    assert model.verify(certificate)["parameters_checked"]
    model.unlearn([0, 1], method="redraw")
    # Directions outside the row space move too: theirs is the noise of the eigenvalue alpha.
    draws = np.array(
        [LangevinRidge(alpha=0.1, n_steps=30, noise=0.2).fit(X, y).coef_ for _ in range(300)]
    )
    _, cov = dense_laws(
        with_ones(X), y[:, None], 0.1, model.step_size_, [(30, 0.2)], np.zeros((21, 1))
    )
    ratio = draws.var(axis=0).sum() / np.trace(cov[-1][:20, :20])
    assert abs(ratio - 1) < 0.1


def test_constant_and_duplicate_columns_are_fine(rng):
    X = rng.normal(size=(40, 3))
    X = np.hstack([X, X[:, :1], np.ones((40, 1)), np.zeros((40, 1))])
    model = LangevinRidge(n_steps=40, noise=0.1).fit(X, rng.normal(size=40))
    model.verify(model.unlearn(3))


def test_start(small):
    X, Y = small
    start = np.arange(8.0).reshape(2, 4)
    eta = LangevinRidge(n_steps=1).fit(X, Y).step_size_
    Xa = with_ones(X)
    for given, full in (
        (start, np.vstack([start.T, np.zeros(2)])),
        (np.hstack([start, [[5.0], [6.0]]]), np.vstack([start.T, [5.0, 6.0]])),
    ):
        model = LangevinRidge(n_steps=2, noise=1e-8).fit(X, Y, coef_init=given)
        expected = dense_laws(Xa, Y, 1e-4, eta, [(2, 0.0)], full)[0][-1]
        np.testing.assert_allclose(model.coef_.T, expected[:4], atol=1e-6)
        np.testing.assert_allclose(model.intercept_, expected[4], atol=1e-6)
    single = LangevinRidge(n_steps=2).fit(X, Y[:, 0], coef_init=start[0])
    assert np.isfinite(single.coef_).all()


def test_random_state_repeats_and_entropy_does_not(small):
    X, Y = small
    seeded = [LangevinRidge(n_steps=5, random_state=3).fit(X, Y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*seeded)
    private = [LangevinRidge(n_steps=5).fit(X, Y).coef_ for _ in range(2)]
    assert (private[0] != private[1]).all()
    # Two requests of one seeded model do not reuse noise.
    model = LangevinRidge(n_steps=5, noise=0.1, random_state=3).fit(X, Y)
    before = model.coef_
    model.unlearn(1, method="redraw")
    once = model.coef_
    model.unlearn(method="redraw")
    assert (once != before).all()
    assert (model.coef_ != once).all()


def test_clone_forgets_the_fit(small):
    model = LangevinRidge(alpha=0.3, n_steps=7).fit(*small)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


def test_classifier(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in range(10)])
    model = LangevinRidgeClassifier(alpha=1.0).fit(X, names[y])
    assert list(model.classes_) == sorted(names)
    assert model.decision_function(X).shape == (1797, 10)
    assert model.score(X, names[y]) > 0.9
    binary = LangevinRidgeClassifier(alpha=1.0).fit(X[y < 2], names[y[y < 2]])
    scores = binary.decision_function(X[y < 2])
    assert scores.shape == (sum(y < 2),)
    np.testing.assert_array_equal(binary.predict(X[y < 2]) == "digit 1", scores > 0)


def test_pandas_and_a_fixed_transform_in_a_pipeline(small):
    X, Y = small
    frame = pd.DataFrame(X, columns=list("abcd"), index=[f"person {i}" for i in range(30)])
    model = LangevinRidge(n_steps=20, noise=0.1).fit(frame, Y[:, 0])
    assert list(model.feature_names_in_) == list("abcd")
    assert model.unlearn(ids="person 7").rows == (7,)
    scale = FunctionTransformer(lambda A: A / 3.0)  # fixed in advance: nothing to forget in it
    pipeline = make_pipeline(scale, LangevinRidge(n_steps=20, noise=0.1)).fit(X, Y[:, 0])
    certificate = pipeline[-1].unlearn(3)
    assert certificate.scope["covers_preprocessing_fitted_with_the_row"] is False
