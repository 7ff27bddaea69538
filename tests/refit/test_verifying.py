"""`pilu.verify` with data: fit from scratch, and look whether the release lies where it should."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pilu
from pilu import CertificateMismatch, Forgetful
from pilu.exceptions import WrongInput


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2.0, 3.0, size=n)),
            "c": rng.choice(["red", "blue", "green"], size=n),
        }
    )
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X["a"])), "yes", "no")
    return X, y


def pipeline(head=None):
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(sparse_output=False), ["c"]),
    )
    return make_pipeline(columns, LogisticRegression() if head is None else head)


@pytest.fixture
def released():
    X, y = table()
    model = Forgetful(pipeline(), random_state=0).fit(X, y)
    return model, model.unlearn(rows=[3, 4]), X.drop(index=[3, 4]), np.delete(y, [3, 4])


def test_an_honest_release_passes(released):
    model, certificate, X, y = released
    checks = pilu.verify(certificate, model, X, y)
    assert checks["parameters_checked"]
    assert checks["inputs_checked_against_data"]
    assert checks["rows_checked"]
    assert checks["transformers_identical"]
    plain = pilu.verify(certificate, model.released_, X, y)
    assert plain["parameters_checked"]
    assert not plain["rows_checked"]  # row hashes are keyed, and a plain pipeline has no key
    assert model.verify(certificate)["issuer_checked"]


def test_every_head_and_search_passes():
    X, y = table()
    numbers = X[["a", "b"]].fillna(0.0)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=3)
    for program, target in (
        (make_pipeline(StandardScaler(), RidgeCV()), numbers["a"] + numbers["b"]),
        (make_pipeline(StandardScaler(), search), numbers["b"]),
        (LogisticRegression(), np.arange(len(y)) % 3),
    ):
        model = Forgetful(program).fit(numbers, target)
        certificate = model.unlearn(rows=[0])
        left = numbers[1:], np.asarray(target)[1:]
        assert pilu.verify(certificate, model, *left)["parameters_checked"]
    model = Forgetful(make_pipeline(StandardScaler(), search)).fit(numbers, numbers["b"])
    certificate = model.unlearn(rows=[0])
    left = numbers[1:], np.asarray(numbers["b"])[1:]
    with pytest.raises(CertificateMismatch, match="program"):
        pilu.verify(certificate, model.released_, *left)
    assert pilu.verify(certificate, model.released_, *left, program=model.estimator)


def test_other_rows_are_noticed(released):
    model, certificate, X, y = released
    with pytest.raises(CertificateMismatch, match="238 rows of the release, got 237"):
        pilu.verify(certificate, model, X[1:], y[1:])
    other = X.copy()
    other.iloc[0, 0] += 1.0
    with pytest.raises(CertificateMismatch, match="rows are not those"):
        pilu.verify(certificate, model, other, y)
    with pytest.raises(CertificateMismatch, match=r"columntransformer|noise"):
        pilu.verify(certificate, model.released_, other, y)


def tamper(name, model):
    released = copy.deepcopy(model.released_)
    columns, head = released[0], released[-1]
    scaler = columns.named_transformers_["pipeline"][-1]
    if name == "mean":
        scaler.mean_ += 1e-3
    elif name == "category":
        columns.named_transformers_["onehotencoder"].categories_[0][0] = "black"
    elif name == "coefficient":
        head.coef_[0, 0] += 0.05
    elif name == "intercept":
        head.intercept_ += 0.05
    elif name == "classes":
        head.classes_ = np.array(["no", "maybe"])
    return released


@pytest.mark.parametrize("name", ["mean", "category", "coefficient", "intercept", "classes"])
def test_a_changed_release_is_noticed(released, name, monkeypatch):
    model, certificate, X, y = released
    changed = tamper(name, model)
    with pytest.raises(CertificateMismatch, match="not the one that was released"):
        pilu.verify(certificate, changed, X, y)
    # even if the issuer signs the changed model: then the fit from scratch notices
    monkeypatch.setattr(
        "pilu.estimators.verifying.hash_of_release", lambda _: certificate.parameters_sha256
    )
    with pytest.raises(CertificateMismatch, match=r"step|farther|class names"):
        pilu.verify(certificate, changed, X, y)


def test_a_release_without_its_noise_is_noticed(monkeypatch):
    """A model published without the stated noise would give the solver's history away."""

    class Silent:
        private = True

        def normal(self, shape):
            return np.zeros(shape)

    X, y = table()
    model = Forgetful(pipeline()).fit(X, y)
    monkeypatch.setattr("pilu.estimators.forgetful.gaussian_source", lambda *_: Silent())
    certificate = model.unlearn(rows=[0])
    with pytest.raises(CertificateMismatch, match="nearer"):
        pilu.verify(certificate, model, X[1:], y[1:])


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = Forgetful(Ridge()).fit(X, y)
    alarms = 0
    for _ in range(300):
        certificate = model.correct(X[:1], y[:1], rows=[0])
        try:
            pilu.verify(certificate, model, X, y, false_alarm=0.3)
        except CertificateMismatch:
            alarms += 1
    # 0.3 bounds the rate; each of the three tests has 0.1. Binomial(300, 0.3) is below 120.
    assert 15 < alarms < 120


def test_what_cannot_be_checked_is_said(released):
    model, certificate, X, y = released
    assert pilu.verify(certificate, model)["parameters_checked"]
    assert not pilu.verify(certificate)["parameters_checked"]
    with pytest.raises(WrongInput, match="together"):
        pilu.verify(certificate, model, X)
    with pytest.raises(WrongInput, match="evidence"):
        pilu.verify(certificate.without_evidence(), model, X, y)
    other = model.correct(X.iloc[:1], y[:1], rows=[0])
    assert model.verify(other)
    with pytest.raises(CertificateMismatch, match="latest release"):
        model.verify(certificate)
