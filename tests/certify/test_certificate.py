"""Certificates go to JSON and back, can be separated from their evidence, and notice tampering."""

import dataclasses
import json
import math
from collections.abc import Mapping

import numpy as np
import pytest

import pilu
from oracles.high_precision import epsilon_from_mu_mp
from pilu import Certificate, CertificateMismatch, LangevinRidge


def fitted(seed=None, **options):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = LangevinRidge(n_steps=30, noise=0.1, random_state=seed, **options)
    return model.fit(X, y)


@pytest.fixture
def model():
    return fitted()


@pytest.fixture
def certificates(model):
    """A first and a later certificate; the later one is that of the model's parameters."""
    return tuple(
        model.unlearn(rows, epsilon=epsilon, accountant="theorem")
        for rows, epsilon in ((3, 1.0), ([7, 8], 0.5))
    )


def count_numbers(value):
    if isinstance(value, Mapping):
        return sum(map(count_numbers, value.values()))
    if isinstance(value, tuple):
        return sum(map(count_numbers, value))
    return 1


def test_every_promised_field_is_there(certificates):
    names = {f.name for f in dataclasses.fields(Certificate)}
    promised = (
        "schema method accountant epsilon epsilon_target delta noise n_unlearn_steps schedule rows "
        "total_epsilon total_delta conditional_on parameters_sha256 numerical_error scope evidence "
        "versions mu"
    )
    assert set(promised.split()) <= names
    first, later = certificates
    assert first.rows == (3,)
    assert later.rows == (7, 8)
    assert first.epsilon <= first.epsilon_target == 1.0
    assert first.delta == 1 / 40
    assert first.versions["pilu"] == pilu.__version__
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.epsilon = 0.1


def test_json_round_trip(certificates):
    for certificate in certificates:
        again = Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert again.sha256 == certificate.sha256


def test_a_certificate_is_shown_in_a_line_without_its_evidence(certificates):
    first, later = certificates
    assert repr(first) == "Certificate(langevin, 1 row, epsilon 1, delta 0.025)"
    assert repr(later).startswith("Certificate(langevin, 2 rows, total epsilon 1.5, total delta ")
    shown = float(repr(later)[:-1].split()[-1])
    assert later.total_delta <= shown < 1.01 * later.total_delta


def test_evidence_is_small_separable_and_recomputes_epsilon(certificates):
    for certificate in certificates:
        own = {k: v for k, v in certificate.evidence.items() if k != "prior"}
        assert count_numbers(own) <= 12
        assert count_numbers(certificate.evidence["prior"]) <= 4 + 2 * 25
        checks = pilu.verify(certificate)
        assert checks["epsilon_recomputed"]
        assert checks["inputs_checked_against_data"] is False
        bare = certificate.without_evidence()
        assert bare.evidence is None
        assert bare.sha256 == certificate.sha256
        assert not pilu.verify(bare)["epsilon_recomputed"]
        assert "blocks" not in bare.to_json()
        assert bare.with_evidence(certificate.evidence) == certificate
    with pytest.raises(CertificateMismatch, match="another certificate"):
        certificates[0].without_evidence().with_evidence(certificates[1].evidence)


def test_evidence_by_hand(certificates):
    # mu^2 = sum mass^2/variance over blocks, the last with the unlearning noise added.
    c = certificates[0]
    e = c.evidence
    K, contraction = c.n_unlearn_steps, e["contraction"]
    extra = sum(2 * e["step_size"] * c.noise**2 / contraction ** (2 * i) for i in range(1, K + 1))
    blocks = [list(b) for b in e["blocks"]]
    blocks[-1][1] += extra
    mu = math.sqrt(sum(mass**2 / variance for mass, variance in blocks))
    assert c.mu == pytest.approx(mu, rel=1e-11)
    assert c.epsilon == pytest.approx(float(epsilon_from_mu_mp(mu, c.delta / 2)), rel=1e-9)


def test_many_blocks_are_coarsened_upwards(rng):
    # Where learning noise suffices nothing pools, and growing residuals give many blocks.
    X, y = rng.normal(size=(50, 2)) * [1.0, 0.02], np.zeros(50)
    X[4] = [0.0, 0.1]
    model = LangevinRidge(alpha=1e-6, n_steps=30, noise=20.0, fit_intercept=False).fit(X, y)
    certificate = model.unlearn(4, epsilon=8.0, delta=0.01, n_unlearn_steps=5, accountant="theorem")
    assert not certificate.checks["closed_form_feasible"]
    assert len(certificate.evidence["blocks"]) == 5
    assert count_numbers(certificate.evidence["blocks"]) == 10
    assert model.verify(certificate)["epsilon_recomputed"]


def altered(certificate, path, value):
    record = json.loads(certificate.to_json())
    target = record
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["epsilon"], 0.1),
        (["epsilon"], 0.99999),
        (["epsilon"], -1.0),
        (["epsilon_target"], 0.01),
        (["delta"], 1e-9),
        (["delta"], 0.5),
        (["delta"], 1.5),
        (["noise"], 1e-3),
        (["noise"], 1e3),
        (["mu"], 0.01),
        (["mu"], None),
        (["n_unlearn_steps"], 3),
        (["schedule", 0, 1], 0.0),
        (["schedule", -1, 0], 81),
        (["schedule"], []),
        (["rows"], [3, 3]),
        (["rows"], []),
        (["total_epsilon"], 0.2),
        (["total_delta"], 1e-12),
        (["conditional_on"], ["0" * 64]),
        (["evidence", "blocks", 0, 0], 1e-9),
        (["evidence", "contraction"], 0.5),
        (["evidence", "prior"], [1.0, 1.0]),
        (["evidence", "prior", "total"], [1.0, 1e-5]),
        (["accountant", "delta_split"], 0.9),
        (["accountant", "name"], "wishful"),
        (["method"], "hope"),
    ],
)
def test_altered_certificates_are_refused(certificates, path, value):
    with pytest.raises(CertificateMismatch):
        pilu.verify(Certificate.from_json(altered(certificates[0], path, value)))


def test_altered_evidence_with_a_matching_hash_is_still_refused(certificates):
    c = certificates[0]
    for changes in (
        {"blocks": [[0.0, 1.0]]},
        {"blocks": [[1.0, -1.0]]},
        {"blocks": "none"},
        {"contraction": 2.0},
        {"step_size": float("1e9")},
        {"prior": [1.0, 0.1, 0.1, 0.1]},
        {"prior": None},
        {"prior": {**c.evidence["prior"], "total": [1.0, 0.1]}},
    ):
        evidence = {**c.evidence, **changes}
        forged = dataclasses.replace(
            c, evidence=evidence, evidence_sha256=pilu.certify.certificate.sha256_of(evidence)
        )
        with pytest.raises(CertificateMismatch):
            pilu.verify(forged)


@pytest.mark.parametrize("accountant", ["exact", "theorem"])
@pytest.mark.parametrize(
    "change",
    [
        lambda prior: {"deltas": [d / 2 for d in prior["deltas"]], "gaussian": None},
        lambda prior: {"deltas": [min(2 * d, 1.0) for d in prior["deltas"]]},
        lambda prior: {"deltas": prior["deltas"][::-1]},
        lambda prior: {"deltas": prior["deltas"][:-1]},
        lambda prior: {"deltas": [-d for d in prior["deltas"]]},
        lambda prior: {"epsilons": prior["epsilons"][::-1]},
        lambda prior: {"epsilons": [e - 1.0 for e in prior["epsilons"]]},
        lambda prior: {"epsilons": [2 * e for e in prior["epsilons"]]},
        lambda prior: {"total": [prior["total"][0] / 2, prior["total"][1]]},
        lambda prior: {"gaussian": [-1.0, 0.0]},
        lambda prior: {"total": [0.0, 0.0], "gaussian": [0.0, 0.0], "epsilons": [0], "deltas": [0]},
    ],
)
def test_altered_priors_with_a_matching_hash_are_refused(accountant, change):
    model = fitted()
    options = {"delta": 1e-4, "n_unlearn_steps": 1, "accountant": accountant}
    model.unlearn(3, **options)
    c = model.unlearn(5, **options)
    prior = {**c.evidence["prior"], **change(c.evidence["prior"])}
    evidence = {**c.evidence, "prior": prior}
    forged = dataclasses.replace(
        c, evidence=evidence, evidence_sha256=pilu.certify.certificate.sha256_of(evidence)
    )
    assert pilu.verify(c)["total_recomputed"]
    with pytest.raises(CertificateMismatch):
        pilu.verify(forged)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"epsilon": 1.0}',
        "NaN",
    ],
)
def test_what_is_not_a_certificate_is_refused(text):
    with pytest.raises(CertificateMismatch):
        Certificate.from_json(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], "pilu.certificate/99"),
        (["epsilon"], "1.0"),
        (["epsilon"], True),
        (["rows"], "3"),
        (["rows"], [1.5]),
        (["schedule"], [[1]]),
        (["evidence"], []),
        (["scope"], None),
        (["surprise"], 1),
    ],
)
def test_wrong_types_and_fields_are_refused(certificates, path, value):
    with pytest.raises(CertificateMismatch):
        Certificate.from_json(altered(certificates[0], path, value))
    with pytest.raises(CertificateMismatch, match="not valid JSON"):
        Certificate.from_json(certificates[0].to_json().replace('"mu":', '"mu":NaN,"mu":'))


def test_model_checks_the_parameters_hash(model, certificates):
    first, later = certificates
    assert model.verify(later)["parameters_checked"]
    with pytest.raises(CertificateMismatch, match="has changed since"):
        model.verify(first)
    with pytest.raises(CertificateMismatch, match=r"got str\. Read its JSON by .*from_json"):
        pilu.verify(later.to_json())


def test_totals_are_the_headline_of_a_later_certificate(certificates):
    first, later = certificates
    assert first.conditional_on == ()
    assert (first.total_epsilon, first.total_delta) == (first.epsilon, first.delta)
    assert later.conditional_on == (first.sha256,)
    assert later.total_epsilon == pytest.approx(first.epsilon + later.epsilon)
    assert later.total_delta > later.delta
    assert later.total_delta <= first.delta + math.exp(first.epsilon) * later.delta * (1 + 1e-9)
    assert later.scope["conditional_on_earlier_requests"]
    assert any("conditional" in words for words in later.words)
    assert not pilu.verify(later)["unconditional"]


def test_redraw_certificate(model, certificates):
    certificate = model.unlearn(20, method="redraw")
    assert (certificate.epsilon, certificate.delta) == (0.0, 0.0)
    assert (certificate.total_epsilon, certificate.total_delta) == (0.0, 0.0)
    assert certificate.conditional_on == ()
    assert certificate.schedule == ((30, 0.1),)
    assert certificate.scope["equal_to_retraining"]
    assert model.verify(certificate)["total_recomputed"]
    forged = dataclasses.replace(certificate, delta=0.1)
    with pytest.raises(CertificateMismatch):
        pilu.verify(forged)
    assert model.unlearn(21).conditional_on == ()


def test_scope_says_whether_the_noise_is_private(model):
    private = model.unlearn(0)
    assert private.scope["private"] is True
    assert pilu.verify(private)["noise_is_private"]
    seeded = fitted(seed=0).unlearn(0)
    assert seeded.scope["private"] is False
    assert any("NOT PRIVATE" in words for words in seeded.words)
    assert not pilu.verify(seeded)["noise_is_private"]
    for name, value in private.scope.items():
        assert value is False or not name.startswith("covers_")


def test_reverse_direction_is_stated(model):
    c = model.unlearn(0, epsilon=1.0, delta=1e-3, accountant="theorem")
    assert c.scope["reverse_delta"] == pytest.approx(5e-4 + math.exp(c.epsilon) * 5e-4)
