"""Tampered certificates, models and rows are noticed by what exists to notice them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pilu
from pilu import Certificate, CertificateMismatch, Forgetful
from pilu.exceptions import RowsChanged, WrongInput
from pilu.refit.evidence import hash_of_release
from refit.tampering import (
    careful_certificates,
    careless_certificates,
    tampered_models,
    tampered_tables,
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=50), "b": RNG.normal(size=50) * 1e3})
FRAME["city"] = pd.Categorical(RNG.choice(["Bern", "Oslo"], size=50))
TARGET = FRAME["a"].to_numpy() + (FRAME["city"] == "Oslo") + RNG.normal(size=50)


def columns():
    return make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["city"]))


MODELS = {
    "ridge": (Ridge(), TARGET),
    "logistic": (LogisticRegression(), np.where(TARGET > 0, "yes", "no")),
    "softmax": (LogisticRegression(), np.digitize(TARGET, [-0.5, 1.0])),
    "poisson": (PoissonRegressor(), np.floor(np.abs(TARGET))),
}


@pytest.fixture(scope="module", params=MODELS)
def forgotten(request):
    head, y = MODELS[request.param]
    model = Forgetful(make_pipeline(columns(), head)).fit(FRAME, y)
    return model, model.unlearn(rows=[3, 11]), y


def test_a_certificate_that_contradicts_itself_is_noticed(forgotten):
    _, certificate, _ = forgotten
    assert pilu.verify(Certificate.from_json(certificate.to_json()))["epsilon_recomputed"]
    accepted, tried = [], 0
    for name, text in careless_certificates(certificate):
        tried += 1
        try:
            pilu.verify(Certificate.from_json(text))
        except (CertificateMismatch, WrongInput):
            continue
        accepted.append(name)
    assert not accepted
    assert tried > 60


def test_a_consistent_forgery_is_another_certificate(forgotten):
    """`pilu.verify(certificate)` says what it did not check, and the forgery has another hash."""
    _, certificate, _ = forgotten
    for _, forged in careful_certificates(certificate):
        assert forged.sha256 != certificate.sha256
        checks = pilu.verify(forged)
        assert not checks["parameters_checked"]
        assert not checks["inputs_checked_against_data"]
        assert not checks["issuer_checked"]


def test_a_changed_model_has_another_hash(forgotten):
    model, certificate, _ = forgotten
    assert hash_of_release(model.released_) == certificate.parameters_sha256
    unnoticed, tried = [], 0
    for name, tampered in tampered_models(model.released_):
        tried += 1
        if hash_of_release(tampered) == certificate.parameters_sha256:
            unnoticed.append(name)
    assert not unnoticed
    assert tried > 15
    assert hash_of_release(model.released_) == certificate.parameters_sha256


def test_the_hash_of_a_release_is_the_same_after_pickling(forgotten):
    model, certificate, _ = forgotten
    loaded = pickle.loads(pickle.dumps(model))
    assert hash_of_release(loaded.released_) == certificate.parameters_sha256


def test_changed_rows_are_noticed_when_they_are_attached(forgotten):
    """A missing row is allowed, and then has to be named in the next request."""
    model, _, y = forgotten
    left = model.remaining_
    X, y = FRAME.iloc[left], y[left]
    for name, other, target in tampered_tables(X, y):
        if name in ("names of columns", "no rows"):  # known faults, see test_faults.py
            continue
        loaded = pickle.loads(pickle.dumps(model))
        try:
            loaded.attach(other, target)
        except (RowsChanged, WrongInput):
            assert name != "a row dropped"
            continue
        assert name == "a row dropped"
        with pytest.raises(WrongInput, match="missing from the attached table"):
            loaded.unlearn(rows=[int(left[-1])])
