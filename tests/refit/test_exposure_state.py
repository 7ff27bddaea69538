"""What exposure leaves as it was: models, pickles, rows; and which preprocessing it covers."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)

from pilu import Forgetful
from pilu.exceptions import RowsNotAttached, WrongInput
from refit.exposure_tables import N, content_of, labels, pairs, ridge, table

# What stays as it was


NEW = {
    "max_exposure": 2.0,
    "exposure_delta": 1e-5,
    "exposure_quantile": 0.9,
    "noise_scale": 3.0,
    "fold_scaler": True,
}


def test_new_parameters_are_cloned_and_listed():
    model = Forgetful(Ridge(), **NEW)
    for one in (model, clone(model), copy.deepcopy(model)):
        assert NEW.items() <= one.get_params().items()
    assert set(inspect.signature(Forgetful).parameters) == set(model.get_params(deep=False))
    assert model.set_params(max_exposure=None).get_params()["max_exposure"] is None
    plain = Forgetful(Ridge()).get_params()
    assert (plain["max_exposure"], plain["noise_scale"], plain["fold_scaler"]) == (
        None,
        None,
        False,
    )


@pytest.mark.parametrize("options", [{}, {"noise_scale": 2.0}, {"max_exposure": 5.0}])
def test_exposure_changes_nothing(options):
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = Forgetful(pipeline, random_state=0, **options).fit(X, labels(y), subjects=pairs())
    before, state = content_of(model), model.fitted_
    first = model.exposure()
    model.exposure([0, [3, 4]], exact=True)
    assert content_of(model) == before
    assert model.fitted_ is state
    np.testing.assert_array_equal(model.exposure().epsilon, first.epsilon)


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
@pytest.mark.parametrize("options", [{}, {"noise_scale": 2.0}, {"max_exposure": 5.0}])
def test_a_loaded_model_answers_as_before_once_its_rows_are_there(options):
    X, y = table()
    ids = [f"r{i}" for i in range(N)]
    model = Forgetful(make_pipeline(StandardScaler(), Ridge()), random_state=0, **options)
    model.fit(X, y, sample_ids=ids, subjects=pairs())
    model.unlearn(rows=[3])
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.noise_scale_ == model.noise_scale_
    for call in (loaded.exposure, lambda: loaded.plan_exposure(table())):
        with pytest.raises(
            RowsNotAttached, match=r"Pass those that are left: model\.attach\(X, y\)"
        ):
            call()
    order = np.random.default_rng(0).permutation(np.delete(np.arange(N), 3))
    loaded.attach(X[order], y[order], sample_ids=[ids[i] for i in order])
    again, before = loaded.exposure(), model.exposure()
    assert again.names == before.names
    assert again.requests == before.requests
    np.testing.assert_allclose(again.epsilon, before.epsilon, rtol=1e-6)


def test_rows_that_an_attached_table_lacks_must_be_forgotten_first():
    X, y = table()
    model = pickle.loads(pickle.dumps(ridge()))
    model.attach(X[1:], y[1:])
    with pytest.raises(WrongInput, match=r"row\(s\) 0 are missing from the attached table"):
        model.exposure()
    model.unlearn([0])
    assert model.exposure().names == tuple(range(1, N))


@pytest.mark.parametrize("options", [{}, {"noise_scale": 2.0}, {"max_exposure": 5.0}])
@pytest.mark.parametrize("ask", ["exposure", "unlearn", "add", "plan_exposure"])
def test_an_interrupt_changes_nothing(monkeypatch, options, ask):
    X, y = table()
    model = Forgetful(LogisticRegression(), random_state=0, **options).fit(X, labels(y))
    before, state = content_of(model), model.fitted_
    calls = {
        "exposure": model.exposure,
        "unlearn": lambda: model.unlearn([2]),
        "add": lambda: model.add(X[:1] + 1, labels(y)[:1]),
        "plan_exposure": lambda: model.plan_exposure((X, labels(y)), max_exposure=[5.0], n_draws=2),
    }

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pilu.refit.solve.newton", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls[ask]()
    assert content_of(model) == before
    assert model.fitted_ is state
    calls[ask]()


# Preprocessing

CITIES = ["Bern", "Oslo", "Rome"]


def cities():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.normal(40, 9, N), "city": rng.choice(CITIES, N)}), table()[1]


@pytest.mark.parametrize(
    ("transformer", "covers"),
    [
        (None, True),
        (StandardScaler(), False),
        (Normalizer(), True),
        (FunctionTransformer(np.tanh), True),
        (SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), True),
        (SimpleImputer(), False),
        (make_pipeline(Normalizer(), StandardScaler()), False),
    ],
)
def test_what_covers_numeric_preprocessing(transformer, covers):
    head = Ridge()
    estimator = head if transformer is None else make_pipeline(transformer, head)
    model = Forgetful(estimator, noise_scale=1.0).fit(*table())
    assert model.exposure([0]).covers_preprocessing is covers


@pytest.mark.parametrize(
    ("encoder", "covers"),
    [
        (OneHotEncoder(), False),
        (OneHotEncoder(categories=[CITIES]), True),
        (OneHotEncoder(categories=[CITIES], drop="first"), True),
        (OneHotEncoder(categories=[CITIES], drop="if_binary"), False),
        (OneHotEncoder(categories=[CITIES], min_frequency=2), False),
    ],
)
def test_an_encoder_is_covered_if_its_categories_are_given(encoder, covers):
    columns = make_column_transformer((encoder, ["city"]), remainder="passthrough")
    model = Forgetful(make_pipeline(columns, Ridge()), noise_scale=1.0).fit(*cities())
    assert model.exposure([0]).covers_preprocessing is covers
    scaled = make_column_transformer((encoder, ["city"]), (StandardScaler(), ["age"]))
    model = Forgetful(make_pipeline(scaled, Ridge()), noise_scale=1.0).fit(*cities())
    assert model.exposure([0]).covers_preprocessing is False


def folded(head, X, y, **options):
    options = {"noise_scale": 1.0, "random_state": 0, **options}
    return Forgetful(make_pipeline(StandardScaler(), head), fold_scaler=True, **options).fit(X, y)


@pytest.mark.parametrize("head", [Ridge(), LogisticRegression()])
def test_a_folded_model_predicts_as_the_pipeline_with_the_same_noise(head):
    X, y = table()
    X = X * np.array([1.0, 100.0, 0.01]) + np.array([5.0, -300.0, 0.0])
    target = y if isinstance(head, Ridge) else labels(y)
    model = folded(head, X, target)
    assert model.exposure([0]).covers_preprocessing is True
    assert type(model.released_) is type(head)
    open_ = Forgetful(make_pipeline(StandardScaler(), head), noise_scale=1.0, random_state=0)
    open_.fit(X, target)
    scaler, last = (step for _, step in open_.released_.steps)
    coef = last.coef_ / scaler.scale_
    scores = X @ np.ravel(coef) + last.intercept_ - scaler.mean_ @ np.ravel(coef)
    mine = model.predict(X) if isinstance(head, Ridge) else model.decision_function(X)
    # The seed and the law of the noise are the same, up to the proved radius.
    np.testing.assert_allclose(mine, np.ravel(scores), atol=1e-3)
    np.testing.assert_allclose(X @ np.ravel(model.coef_) + model.intercept_, mine, rtol=1e-9)


@pytest.mark.parametrize("head", [Ridge(), LogisticRegression()])
def test_a_folded_model_keeps_no_scaler(head):
    X, y = table()
    X = X * np.array([1.0, 100.0, 0.01]) + np.array([5.0, -300.0, 0.0])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = folded(head, frame, y if isinstance(head, Ridge) else labels(y))
    model.unlearn([3])
    left = StandardScaler().fit(np.delete(X, 3, axis=0))
    both = StandardScaler().fit(X)
    for content in (pickle.dumps(model), pickle.dumps(model.released_)):
        assert b"mean_" not in content
        assert b"scale_" not in content.replace(b"noise_scale_", b"")
        for scaler in (left, both):
            for value in (*scaler.mean_, *scaler.scale_, *scaler.var_):
                assert np.float64(value).tobytes() not in content
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.predict(frame[:2])  # warns of no missing names


def test_a_folded_scaler_depends_on_rows_without_weight():
    X, y = table()
    X[5] *= 50
    weights = np.ones(N)
    weights[5] = 0.0
    model = Forgetful(
        make_pipeline(StandardScaler(), Ridge(30.0)), fold_scaler=True, noise_scale=0.3
    )
    assert model.fit(X, y, sample_weight=weights).exposure([5]).epsilon[0] > 1.0
