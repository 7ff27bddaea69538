"""Certificates that were altered, relabelled, moved to another model or made up are refused.

`resealed` is what a forger can do without the model: alter fields and make all hashes anew. Such a
certificate may agree with itself; a model or a store must still refuse it.
"""

import copy
import dataclasses
import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import pilu
from pilu import Certificate, CertificateMismatch, LangevinLogistic, LangevinRidge
from pilu.certify import certificate as certificate_module
from pilu.certify import promises as promises_module

REQUEST = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 6}
KINDS = ("exact", "theorem", "redraw", "later", "mini-batches", "logistic")


def fitted(seed=None, **options):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    if options.pop("logistic", False):
        model = LangevinLogistic(n_steps=20, noise=0.1, n_auxiliary_runs=4, random_state=seed)
        return model.fit(X, np.where(y > 0, "a", "b"))
    return LangevinRidge(alpha=0.1, n_steps=30, noise=0.1, random_state=seed, **options).fit(X, y)


def issued(kind, seed=None):
    """A model and its last certificate."""
    options = {"mini-batches": {"batch_size": 10}, "logistic": {"logistic": True}}.get(kind, {})
    model = fitted(seed, **options)
    if kind == "redraw":
        return model, model.unlearn(3, method="redraw")
    if kind == "later":
        model.unlearn(7, **REQUEST)
    accountant = {"accountant": "theorem"} if kind == "theorem" else {}
    return model, model.unlearn([3, 4], **REQUEST, **accountant)


def canonical(record):
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def resealed(certificate, **changes):
    """Other fields, and every hash that anybody can compute made anew."""
    record = {**json.loads(certificate.to_json()), **changes}
    fields = {name: record[name] for name in record if "evidence" not in name}
    record["evidence"] = {
        **record["evidence"],
        "fields_sha256": hashlib.sha256(canonical(fields)).hexdigest(),
    }
    record["evidence_sha256"] = hashlib.sha256(canonical(record["evidence"])).hexdigest()
    return Certificate.from_json(json.dumps(record))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_accepts_what_it_issued_and_nothing_else(kind):
    model, certificate = issued(kind)
    checks = model.verify(certificate)
    assert checks["issuer_checked"]
    assert checks["parameters_checked"]
    assert checks["evidence_bound_to_fields"]
    assert not pilu.verify(certificate)["issuer_checked"]
    assert pickle.loads(pickle.dumps(model)).verify(certificate)["issuer_checked"]
    # Consistent by itself, with the right parameters, and never issued
    forged = resealed(certificate, versions={**certificate.versions, "pilu": "9"})
    pilu.verify(forged)
    with pytest.raises(CertificateMismatch, match="did not issue it"):
        model.verify(forged)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_has_forgotten_nothing_accepts_nothing(kind):
    options = {"mini-batches": {"batch_size": 10}, "logistic": {"logistic": True}}.get(kind, {})
    model, (_, foreign) = fitted(**options), issued(kind)
    with pytest.raises(CertificateMismatch, match="not those of the certificate"):
        model.verify(foreign)
    # A twin shares parameters and key, so its certificate can name what this model holds.
    probe = copy.copy(model).unlearn(method="redraw")
    theta = model.fitted_.chain.theta
    held = pilu.certify.certificate.hash_of_parameters(theta, model.fitted_.source.key)
    assert probe.parameters_sha256 != held
    for certificate in (foreign, probe):
        forged = resealed(certificate, parameters_sha256=held)
        pilu.verify(forged)
        with pytest.raises(CertificateMismatch, match="did not issue it"):
            model.verify(forged)
    assert 3 in model.remaining_


ALTERED = {
    "noise": lambda c: {
        "noise": c["noise"] / 2,
        "schedule": [*c["schedule"][:-1], [c["n_unlearn_steps"], c["noise"] / 2]],
    },
    "K": lambda c: {"n_unlearn_steps": 60, "schedule": [*c["schedule"][:-1], [60, c["noise"]]]},
    "T": lambda c: {"schedule": [[300, c["schedule"][0][1]], *c["schedule"][1:]]},
    "learning noise": lambda c: {"schedule": [[c["schedule"][0][0], 9.0], *c["schedule"][1:]]},
    "rows": lambda c: {"rows": [0, 1]},
    "more rows": lambda c: {"rows": [*c["rows"], 9]},
    "target": lambda c: {"epsilon_target": 5.0},
    "parameters": lambda c: {"parameters_sha256": "0" * 64},
    "numerical error": lambda c: {"numerical_error": {}},
    "versions": lambda c: {"versions": {}},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ALTERED)
def test_altered_fields_do_not_belong_to_the_evidence(kind, change):
    _, certificate = issued(kind)
    record = json.loads(certificate.to_json())
    altered = Certificate.from_json(json.dumps({**record, **ALTERED[change](record)}))
    with pytest.raises(CertificateMismatch):
        pilu.verify(altered)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seeded_run_cannot_be_relabelled_private(kind):
    _, seeded = issued(kind, seed=3)
    _, private = issued(kind)
    assert (seeded.scope["private"], private.scope["private"]) == (False, True)
    for certificate, other in ((seeded, private), (private, seeded)):
        scope = {**other.scope, "reverse_delta": certificate.scope["reverse_delta"]}
        with pytest.raises(CertificateMismatch, match="scope's statement about private noise"):
            pilu.verify(resealed(certificate, scope=scope))


@pytest.mark.parametrize("row", [-1, 1.5, True, "3", None])
def test_rows_are_positions(row):
    _, certificate = issued("exact")
    record = json.loads(certificate.to_json())
    with pytest.raises(CertificateMismatch):
        Certificate.from_json(json.dumps({**record, "rows": [row]}))
    with pytest.raises(CertificateMismatch):
        pilu.verify(dataclasses.replace(certificate, rows=(row,)))


def places(value, path=()):
    """Where a record has numbers."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places(part, (*path, key))
    elif isinstance(value, list):
        for key, part in enumerate(value):
            yield from places(part, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def replaced(record, path, value):
    record = copy.deepcopy(record)
    target = record
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return record


@pytest.mark.parametrize("kind", KINDS)
def test_every_malformed_number_is_a_mismatch(kind):
    _, certificate = issued(kind)
    record = json.loads(certificate.to_json())
    found = list(places(record))
    assert len(found) > 8
    for path in found:
        for value in ("1e999", "-1e999", "NaN", "Infinity", "[]", '"1"', "null", "1" + "0" * 400):
            text = json.dumps(replaced(record, path, "HERE")).replace('"HERE"', value)
            with pytest.raises(CertificateMismatch):
                pilu.verify(Certificate.from_json(text))


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, None, "x", [1.0], {}])
def test_malformed_numbers_in_memory_are_a_mismatch(value):
    _, certificate = issued("exact")
    for place in ("directions", "epsilon_error", "log_tail", "prior", "nonce", "fields_sha256"):
        evidence = {**certificate.evidence, place: value}
        with pytest.raises(CertificateMismatch):
            pilu.verify(dataclasses.replace(certificate, evidence=evidence))
    for field in ("epsilon", "delta", "noise", "schedule", "rows", "scope", "total_delta"):
        with pytest.raises(CertificateMismatch):
            pilu.verify(dataclasses.replace(certificate, **{field: value}))


@pytest.mark.parametrize("kind", ["exact", "theorem", "redraw"])
def test_the_first_format_is_read_and_said_to_be_unbound(kind):
    path = Path(__file__).parent / "formats" / f"certificate-1-{kind}.json"
    certificate = Certificate.from_json(path.read_text())
    checks = pilu.verify(certificate)
    assert checks["epsilon_recomputed"]
    assert not checks["evidence_bound_to_fields"]
    assert Certificate.from_json(certificate.to_json()) == certificate
    with pytest.raises(CertificateMismatch):  # a later one cannot pass for an earlier one
        pilu.verify(dataclasses.replace(certificate, schema="pilu.certificate/2"))


@pytest.mark.parametrize("kind", ["exact", "theorem", "redraw"])
def test_rewording_a_sentence_alters_no_certificate(kind, monkeypatch):
    path = Path(__file__).parent / "formats" / f"certificate-1-{kind}.json"
    _, issued_now = issued(kind)
    before = issued_now.words
    monkeypatch.setattr(certificate_module, "limits_of", lambda record: ("Other words.",))
    monkeypatch.setattr(promises_module, "_entropy", lambda private: ["Others too."])
    assert issued_now.words != before
    for certificate in (issued_now, Certificate.from_json(path.read_text())):
        assert pilu.verify(certificate)["epsilon_recomputed"]


def test_a_certificate_is_made_of_booleans_numbers_and_names():
    for kind in KINDS:
        _, certificate = issued(kind)
        assert not [value for value in certificate.scope.values() if isinstance(value, str)]
        assert all(isinstance(sentence, str) for sentence in certificate.words)
        assert len(certificate.words) > 6
