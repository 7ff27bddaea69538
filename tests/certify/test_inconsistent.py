"""Certificates whose hashes agree and whose numbers cannot all be true: each is refused by name."""

import dataclasses
import hashlib
import json
import math
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import pilu
from pilu import Certificate, CertificateMismatch, Forgetful, LangevinLogistic, LangevinRidge

REQUEST = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 6}


@cache
def issued(kind):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    if kind == "refit":
        return Forgetful(Ridge(), random_state=0).fit(X, y).unlearn(rows=[3])
    if kind == "logistic":
        model = LangevinLogistic(n_steps=20, noise=0.1, n_auxiliary_runs=4)
        return model.fit(X, np.where(y > 0, "a", "b")).unlearn(3, **REQUEST)
    model = LangevinRidge(alpha=0.1, n_steps=30, noise=0.1).fit(X, y)
    if kind == "redraw":
        return model.unlearn(3, method="redraw")
    if kind == "later":
        model.unlearn(7, **REQUEST)
    return model.unlearn([3, 4], **REQUEST, accountant="theorem" if kind == "theorem" else "exact")


def sha256(record):
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def forged(kind, change):
    """A certificate whose record was changed, with all its hashes made anew."""
    record = json.loads(issued(kind).to_json())
    change(record)
    fields = {name: record[name] for name in record if "evidence" not in name}
    record["evidence"]["fields_sha256"] = sha256(fields)
    record["evidence_sha256"] = sha256(record["evidence"])
    return Certificate.from_json(json.dumps(record))


def put(*path, value):
    """A change of one place of the record."""

    def change(record):
        for name in path[:-1]:
            record = record[name]
        record[path[-1]] = value(record[path[-1]]) if callable(value) else value

    return change


def both(*changes):
    def change(record):
        for each in changes:
            each(record)

    return change


def options(**values):
    return lambda record: record["accountant"].update(values)


def repeated(segments):
    return [segments[0], *segments]


def share(name, part):
    """delta_tails or delta_means as a part of delta_s, the other one what is left."""

    def change(record):
        terms = record["accountant"]
        slack = terms["delta_split"] * record["delta"]
        other = {"delta_tails": "delta_means", "delta_means": "delta_tails"}[name]
        terms.update({name: part * slack, other: (1 - part) * slack})

    return change


FIELDS = [
    ("exact", put("total_epsilon", value=-1e-9), "negative or infinite"),
    ("exact", put("total_epsilon", value=1e300), "negative or infinite"),
    ("exact", put("parameters_sha256", value="0" * 63), "parameters_sha256 is not a hash"),
    ("exact", put("epsilon", value=1.0001), "epsilon exceeds epsilon_target"),
    ("exact", put("method", value="retrain"), "method 'retrain' is not known"),
    ("exact", put("schedule", value=[]), "the schedule is empty, or a refit's"),
    ("refit", put("schedule", value=[[3, 1.0]]), "the schedule is empty, or a refit's"),
    ("exact", put("schedule", 0, 0, value=0), "a segment without steps"),
    ("exact", put("schedule", 0, 1, value=0.0), "no learning noise"),
    ("later", put("schedule", 1, 1, value=-0.1), "negative noise"),
    ("exact", put("rows", value=[3, 3]), "a row is listed twice"),
    ("exact", put("scope", "reverse_delta", value=None), "the scope contradicts"),
    ("exact", put("scope", "conditional_on_earlier_requests", value=True), "the scope contradicts"),
    ("theorem", put("scope", "reverse_delta", value=1e-3), "the scope contradicts"),
    (
        "exact",
        both(put("delta", value=1.0), put("scope", "reverse_delta", value=1.0)),
        r"delta is not in \(0, 1\)",
    ),
    (
        "exact",
        both(put("delta", value=0.0), put("scope", "reverse_delta", value=0.0)),
        r"delta is not in \(0, 1\)",
    ),
    ("theorem", put("mu", value=-0.1), "mu is negative"),
    ("exact", put("mu", value=0.5), "mu is stated"),
    ("exact", put("n_unlearn_steps", value=7), "the schedule's last segment"),
    ("exact", put("noise", value=9.0), "the schedule's last segment"),
    ("exact", put("schedule", value=repeated), "one segment for learning and one for every"),
    ("exact", put("checks", "batches_visited", value=True), "do not match batch_size"),
    ("exact", put("accountant", "name", value="moments"), "is not known"),
]
THEOREM = [
    ("theorem", options(group="max"), "the options are not the theorem's"),
    ("theorem", options(strong_convexity="beta"), "the options are not the theorem's"),
    ("theorem", put("mu", value=None), "mu is missing"),
    ("theorem", put("mu", value=lambda mu: 1.001 * mu), "epsilon is smaller than mu implies"),
    ("logistic", share("delta_tails", 0.0), "the parts of delta_s are out of range"),
    ("logistic", share("delta_means", 0.0), "the parts of delta_s are out of range"),
    ("logistic", share("delta_tails", 1.5), "the parts of delta_s are out of range"),
    ("logistic", share("delta_means", 1.5), "the parts of delta_s are out of range"),
    ("logistic", options(delta_tails=0.0), "the parts of delta_s are out of range"),
    ("logistic", options(delta_means=0.0), "the parts of delta_s are out of range"),
    ("logistic", options(delta_tails=1e-9), r"delta_tails \+ delta_means"),
    ("logistic", options(auxiliary_runs=0), "auxiliary_runs is not a positive integer"),
    ("logistic", options(auxiliary_runs=2.0), "auxiliary_runs is not a positive integer"),
    ("logistic", options(loss={}), "the loss has no name"),
    ("logistic", options(loss="logistic"), "the loss has no name"),
    ("logistic", options(group="joint"), "the options are only valid for ridge"),
    ("logistic", options(auxiliary_runs=5), "the terms differ from those in the evidence"),
    *(
        ("theorem", put("evidence", *path, value=value), "the evidence is out of range")
        for path, value in [
            (("blocks",), [[1.0]]),
            (("blocks",), [1.0, 2.0]),
            (("blocks", 0, 0), -1e-9),
            (("contraction",), 0.0),
            (("contraction",), 1.0001),
            (("step_size",), 0.0),
        ]
    ),
    ("theorem", put("evidence", "blocks", 0, 0, value=lambda m: 1.001 * m), "mu is stated"),
]
EXACT = [
    ("exact", put("evidence", "directions", value=[[0.1, 0.1]]), "the evidence is out of range"),
    ("exact", put("evidence", "directions", value=[0.1] * 3), "the evidence is out of range"),
    ("exact", put("evidence", "epsilon_error", value=-1e-9), "the evidence is out of range"),
    ("exact", put("evidence", "epsilon_error", value=1e-3), "epsilon is stated"),
    # Off by more than another machine's rounding, on the unsafe side, and far off on the other.
    ("exact", put("epsilon", value=lambda e: e * (1 - 3e-9)), "epsilon is stated"),
    ("exact", both(put("epsilon", value=1.001), put("epsilon_target", value=1.1)), "epsilon is"),
    ("exact", put("total_epsilon", value=lambda e: e * (1 - 1e-8)), "total_epsilon is stated"),
    ("later", put("total_delta", value=lambda d: d * (1 - 1e-8)), "total_delta is stated"),
    ("later", put("conditional_on", value=[]), "scope|segment|prior"),
    ("exact", put("evidence", "prior", "total", value=[1.0, 1e-3]), "prior"),
]
OTHERS = [
    *(
        ("redraw", put(name, value=value), "a redraw must have")
        for name, value in [
            ("total_epsilon", 1.0),
            ("total_delta", 1e-3),
            ("epsilon_target", 0.1),
            ("noise", 0.1),
            ("n_unlearn_steps", 1),
            ("mu", 0.1),
        ]
    ),
    ("redraw", put("schedule", value=repeated), "a redraw must have"),
    ("redraw", put("accountant", "name", value="exact"), "a redraw must have"),
    ("refit", put("noise", value=0.0), "mu or noise is not positive"),
    ("refit", put("mu", value=0.0), "mu or noise is not positive"),
    ("refit", put("mu", value=None), "mu or noise is not positive"),
    ("refit", put("n_unlearn_steps", value=1), "a refit must have no total"),
    ("refit", put("total_delta", value=lambda d: d / 2), "a refit must have no total"),
    ("refit", put("accountant", "name", value="exact"), "a refit must have no total"),
    ("refit", put("evidence", "radius", value=0.0), "the radius is not positive"),
    ("refit", put("evidence", "radius", value=lambda r: 1.001 * r), "below twice the radius"),
    ("refit", put("evidence", "radius", value=lambda r: 0.999 * r), "is not that of the radius"),
    ("refit", put("evidence", "strong_convexity", value="hope"), "strong convexity is not known"),
    ("refit", put("evidence", "rows_sha256", value="0" * 63), "rows_sha256 is not a hash"),
    (
        "refit",
        both(*(put(name, value=0.01) for name in ("epsilon", "epsilon_target", "total_epsilon"))),
        "mu and delta need a larger epsilon",
    ),
]


@pytest.mark.parametrize(("kind", "change", "words"), [*FIELDS, *THEOREM, *EXACT, *OTHERS])
def test_what_cannot_be_true_is_refused(kind, change, words):
    with pytest.raises(CertificateMismatch, match=words):
        pilu.verify(forged(kind, change))


@pytest.mark.parametrize("kind", ["exact", "theorem", "later", "logistic", "redraw", "refit"])
def test_unchanged_it_is_accepted_and_bound_to_its_evidence(kind):
    assert pilu.verify(forged(kind, lambda record: None))["epsilon_recomputed"]
    certificate = issued(kind)
    with pytest.raises(CertificateMismatch, match="does not have the hash"):
        pilu.verify(dataclasses.replace(certificate, evidence_sha256="0" * 64))
    changed = json.loads(certificate.to_json()) | {"versions": {}}
    with pytest.raises(CertificateMismatch, match="belongs to other numbers"):
        pilu.verify(Certificate.from_json(json.dumps(changed)))


def test_one_auxiliary_run_is_enough():
    terms = put("evidence", "terms", "auxiliary_runs", value=1)
    pilu.verify(forged("logistic", both(options(auxiliary_runs=1), terms)))


def earlier(**changes):
    """Evidence of one earlier release of row 3, whose epsilon follows from the options alone."""
    person = {"rows": [3], "n_releases": 1, "delta": 1e-4, "each": [0.5]}
    people = [person | {"epsilon": 0.5, "follows_from": "caps"} | changes]
    return lambda record: record["evidence"].update(
        earlier={"covers_preprocessing": True, "people": people}
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (earlier(epsilon=0.0), "the epsilon of earlier releases is not positive"),
        (earlier(epsilon=-1.0), "the epsilon of earlier releases is not positive"),
        (earlier(follows_from="hope"), "not known what an epsilon follows from"),
        (earlier(follows_from=None), "an epsilon of earlier releases is missing"),
        (earlier(epsilon=None), "an epsilon of earlier releases is missing"),
        (earlier(rows=[3, 4]), "an earlier release is of other rows"),
        (earlier(rows=[]), "an earlier release is of other rows"),
        (earlier(n_releases=0, each=[]), "a person was in no earlier release"),
        (earlier(n_releases=1.0), "a person was in no earlier release"),
        (earlier(n_releases=2), "one epsilon, or none, for each"),
        (earlier(each=[-0.5]), "one epsilon, or none, for each"),
        (earlier(delta=0.0), "the delta of earlier releases"),
        (earlier(delta=1.0), "the delta of earlier releases"),
    ],
)
def test_what_earlier_releases_cannot_have_told_is_refused(change, words):
    pilu.verify(forged("refit", earlier()))
    pilu.verify(forged("refit", earlier(epsilon=None, follows_from=None, each=[None])))
    with pytest.raises(CertificateMismatch, match=words):
        pilu.verify(forged("refit", change))


def test_what_is_not_checked_is_false():
    checks = pilu.verify(issued("exact"))
    assert checks["noise_is_private"]
    assert checks["unconditional"]
    assert not pilu.verify(issued("later"))["unconditional"]
    bare = pilu.verify(issued("exact").without_evidence())
    assert bare["fields_consistent"]
    assert not bare["epsilon_recomputed"]
    assert not bare["evidence_matches_hash"]


def test_the_reverse_direction_of_the_theorem_pays_for_its_bounds():
    certificate = issued("theorem")
    slack = certificate.accountant["delta_split"] * certificate.delta
    # The sensitivity bounds may fail with probability `slack` on the run with the rows.
    exact = certificate.delta - slack + math.exp(certificate.epsilon) * slack
    assert certificate.scope["reverse_delta"] == pytest.approx(exact, rel=1e-12)
