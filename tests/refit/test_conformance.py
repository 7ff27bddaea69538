"""`Forgetful` among scikit-learn's own: its checks, searches around it, routing, frames."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import pilu
from pilu import Forgetful

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=60)
c = np.where(y > 0, "yes", "no")

# A scaler that is not given weights differs between weights and repeated rows, in any Pipeline.
UNWEIGHTED = {"check_sample_weight_equivalence_on_dense_data": "the scaler is not weighted"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Ridge(), {}),
        (LogisticRegression(), {}),
        (make_pipeline(StandardScaler(), Ridge()), UNWEIGHTED),
        (make_pipeline(StandardScaler(), LogisticRegression()), UNWEIGHTED),
    ],
    ids=["ridge", "logistic", "scaled ridge", "scaled logistic"],
)
def test_scikit_learns_checks(estimator, expected):
    """Exactly the listed ones fail; one that begins to pass is to be taken off the list."""
    results = check_estimator(
        Forgetful(estimator, random_state=0),
        on_fail=None,
        on_skip=None,
        expected_failed_checks=expected,
    )
    failed = {r["check_name"] for r in results if r["status"] in ("failed", "xfail")}
    assert failed == set(expected)
    assert sum(r["status"] == "passed" for r in results) > 45


def test_clones_and_representations():
    model = Forgetful(make_pipeline(StandardScaler(), Ridge(alpha=3.0)), epsilon=0.5)
    copy = clone(model.fit(X, y))
    assert copy.get_params()["estimator__ridge__alpha"] == 3.0
    assert not copy.__sklearn_is_fitted__()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    for name in ("released_", "noise_scale_", "noise_penalty_", "coef_"):
        assert not hasattr(copy, name)
        with pytest.raises(NotFittedError, match="Call"):
            getattr(copy, name)
    assert "epsilon=0.5" in repr(copy)
    assert is_regressor(model)
    assert is_classifier(Forgetful(LogisticRegression()))
    assert not hasattr(model, "predict_proba")
    assert hasattr(Forgetful(LogisticRegression()), "predict_proba")


@pytest.mark.parametrize("head", [Ridge(), LogisticRegression()])
def test_a_search_around_it_and_cross_validation(head):
    target = y if isinstance(head, Ridge) else c
    parameter = "alpha" if isinstance(head, Ridge) else "C"
    grid = {f"estimator__{parameter}": [1e-3, 1.0, 1e3]}
    search = GridSearchCV(Forgetful(head), grid, cv=3).fit(X, target)
    plain = GridSearchCV(head, {parameter: [1e-3, 1.0, 1e3]}, cv=3).fit(X, target)
    assert np.allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=0.02
    )
    certificate = search.best_estimator_.unlearn(rows=[0])
    assert pilu.verify(certificate)["epsilon_recomputed"]
    frame = pd.DataFrame(X, columns=list("abc"))
    assert np.allclose(
        cross_val_score(Forgetful(head), frame, target),
        cross_val_score(head, frame, target),
        atol=0.1,
    )
    assert cross_val_predict(Forgetful(head), X, target).shape == (60,)


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_metadata_is_routed_to_it():
    people = [f"person {i // 2}" for i in range(60)]
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            Forgetful(Ridge())
            .set_fit_request(sample_weight=True, subjects=True, sample_ids=True)
            .set_score_request(sample_weight=True)
        )
        params = {
            "sample_weight": np.linspace(0.5, 2.0, 60),
            "subjects": people,
            "sample_ids": [f"row {i}" for i in range(60)],
        }
        scores = cross_val_score(model, X, y, params=params, cv=3)
        search = GridSearchCV(model, {"estimator__alpha": [1.0, 10.0]}, cv=3).fit(X, y, **params)
    assert np.isfinite(scores).all()
    certificate = search.best_estimator_.unlearn(subject="person 4")
    assert certificate.rows == (8, 9)
    assert search.best_estimator_.unlearn(ids=["row 3"]).rows == (3,)


def test_it_can_be_a_step_of_a_pipeline():
    outer = make_pipeline(StandardScaler(), Forgetful(Ridge())).fit(X, y)
    assert outer.score(X, y) > 0.8


def test_frames_in_and_frames_between_steps():
    frame = pd.DataFrame(X, columns=list("abc"))
    estimator = make_pipeline(StandardScaler(), Ridge()).set_output(transform="pandas")
    model = Forgetful(estimator).fit(frame, y)
    model.unlearn(rows=[0])
    assert model.feature_names_in_.tolist() == list("abc")
    assert model.released_[-1].feature_names_in_.tolist() == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])
    with sklearn.config_context(transform_output="pandas"):
        again = Forgetful(make_pipeline(StandardScaler(), Ridge())).fit(frame, y)
        again.unlearn(rows=[0])
        assert np.abs(again.predict(frame) - model.predict(frame)).max() < 0.1


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_predict_the_same(protocol):
    model = Forgetful(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, c)
    loaded = pickle.loads(pickle.dumps(model, protocol=protocol))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.fitted_.table is None
    unfitted = pickle.loads(pickle.dumps(Forgetful(Ridge()), protocol=protocol))
    assert unfitted.fit(X, y).score(X, y) > 0.8
