"""Stores of both methods as a report sees them: new, lively, and with five hundred entries."""

import copy
import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
from sklearn.linear_model import LogisticRegression

import pilu
from pilu.accounting.curves import CurveTable, Spent
from pilu.report.data import Chain, Contents, Costs, TableNow
from pilu.store.subjects import Waiting
from pilu.tabular.scores import Score

START = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def hex_of(text):
    return hashlib.sha256(str(text).encode()).hexdigest()


@cache
def _certificates():
    """Two deletions, a redraw that forgets a person, too, and one more deletion."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X @ rng.normal(size=4) + 0.3 * rng.normal(size=60)
    model = pilu.LangevinRidge(alpha=0.1, n_steps=50).fit(X, y)
    answers = [
        model.unlearn([3, 4], epsilon=1.0, n_unlearn_steps=5),
        model.unlearn(9, epsilon=0.5, n_unlearn_steps=5),
        model.unlearn(20, method="redraw"),
        model.unlearn([30, 31, 32, 33, 34], epsilon=1.0, n_unlearn_steps=5),
    ]
    return [json.loads(answer.without_evidence().to_json()) for answer in answers]


def certificates():
    return copy.deepcopy(_certificates())


def at(days):
    return (START + timedelta(days=days)).isoformat(timespec="seconds")


def fit():
    return {
        "kind": "fit",
        "time": at(0),
        "store": hex_of("store")[:32],
        "n_rows": 60,
        "n_features": 4,
        "budget": [10.0, 20 / 60],
        "parameters_sha256": hex_of("theta"),
    }


def asked(names, days, due=None):
    return {"kind": "request", "people": people(names), "due": due, "time": at(days)}


def people(names):
    """As an entry names them: how many, and the root of their tree."""
    names = [names] if isinstance(names, str) else names
    return f"{len(names)}:{hex_of(names)}"


def answered(names, certificate, days, kind="unlearn"):
    """An entry as the log keeps it: without rows, and without what certificates repeat."""
    repeated = ("schedule", "conditional_on")
    own = {k: v for k, v in certificate.items() if k not in repeated} | {"rows": []}
    text = json.dumps({**certificate, "evidence": None}, sort_keys=True, separators=(",", ":"))
    entry = {
        "kind": kind,
        "n_rows": len(certificate["rows"]),
        "certificate": own,
        "certificate_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "time": at(days),
    }
    return {**entry, "people": people(names)} if names else entry


def waiting(name, due=None, days=0):
    return Waiting(hex_of(name)[:32], due, at(days))


def released(certificate_sha256, days):
    bound = {"sha256": hex_of(days), "certificate_sha256": certificate_sha256, "grid": 2.0**-17}
    return {"kind": "release", "time": at(days), **bound}


def model(**changes):
    usual = {
        "kind": "regression",
        "facts": ["alpha: 0.1", "step size: 0.5946"],
        "n_rows": 60,
        "rows_left": 60,
        "n_features": 4,
        "table": "people.parquet",
    }
    return {**usual, **changes}


def spent(epsilon=0.0, delta=0.0):
    """A total of which one point is known."""
    return Spent(epsilon, delta, None, CurveTable((epsilon,), (delta,)))


def chain(**changes):
    usual = {
        "budget": (10.0, 20 / 60),
        "spent": Spent(),
        "learning_noise": 0.01,
        "more_like_the_last": 3,
        "costs": costs(),
    }
    return Chain(**(usual | changes))


def contents(*, of_chain=None, **changes):
    """A Langevin store without requests, with changes."""
    entries = changes.get("entries", [fit()])
    certified = [e for e in entries if "certificate" in e]
    total = Spent()
    if certified:
        last = certified[-1]["certificate"]
        total = spent(last["total_epsilon"], last["total_delta"])
    usual = {
        "store": "customers",
        "made": at(40),
        "versions": {"pilu": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"},
        "method": "langevin",
        "model": model(rows_left=60 - sum(e.get("n_rows", 0) for e in certified)),
        "entries": [fit()],
        "head": f"{len(entries)}:{hex_of('root')}",
        "n_people_forgotten": 0,
        "pending": [],
        "undelivered": [],
        "table": TableNow(0),
        "score": None,
        "chain": chain(**({"spent": total} | (of_chain or {}))),
    }
    return Contents(**(usual | changes))


def costs(noise=None, n_subjects=None):
    if noise is None:
        noise = np.random.default_rng(1).lognormal(-4.5, 0.9, size=300)
    rows = np.random.default_rng(2).integers(1, 6, size=len(noise))
    return Costs(noise, rows, 1.0, 1 / 60, 80, n_subjects or len(noise))


def lively(**changes):
    """Five requests, three deletions, one redraw between them, two releases, two who wait."""
    first, second, redraw, third = certificates()
    entries = [
        fit(),
        asked("anna", 2, "2026-11-20"),
        asked("ben", 3),
        answered(["anna", "ben"], first, 5),
        asked("carla", 9, "2026-12-01"),
        answered(["carla"], second, 12),
        released(hex_of("second"), 13),
        answered(["dora"], redraw, 20, kind="redraw"),
        asked("emil", 24, "2026-12-06"),
        answered([f"family {k}" for k in range(5)], third, 29),
        released(hex_of("third"), 30),
        asked("fritz", 33, "2027-01-31"),
    ]
    usual = {
        "entries": entries,
        "n_people_forgotten": 9,
        "pending": [waiting("emil", "2026-12-06", 24), waiting("fritz", "2027-01-31", 33)],
        "table": TableNow(3),
        "of_chain": {"costs": costs(n_subjects=1234)},
    }
    return contents(**(usual | changes))


def crowded(n=500):
    """Five hundred certificates, a redraw at every tenth."""
    kinds, entries = certificates(), [fit()]
    for k in range(n):
        held = copy.deepcopy(kinds[2 if k % 10 == 9 else 0])
        held["rows"], held["parameters_sha256"] = [k], hex_of(f"theta {k}")
        if k % 10 != 9:
            held["total_epsilon"], held["total_delta"] = 1.0 + k % 10, (1 + k % 10) / 60
        entries.append(answered([str(k)], held, 0.5 + k / 10))
    large = model(n_rows=2000, rows_left=2000 - n)
    return contents(entries=entries, model=large, made=at(60), n_people_forgotten=n)


# Stores of refits


@cache
def _refit_certificate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    made = pilu.Forgetful(LogisticRegression()).fit(X, y).unlearn(rows=3)
    return json.loads(made.without_evidence().to_json()) | {"rows": []}


def refit_certificate(name, **changes):
    return copy.deepcopy(_refit_certificate()) | {"parameters_sha256": hex_of(name)} | changes


def refit_fit(**score):
    measured = {"metric": "ROC AUC", "value": 0.83, "constant": 0.5, "how": "cross-validation"}
    return {
        "kind": "fit",
        "time": at(0),
        "store": hex_of("store")[:32],
        "n_rows": 500,
        "n_people": 180,
        "n_features": 12,
        "model": "auto",
        "private": True,
        "score": measured | score,
        "parameters_sha256": hex_of("model"),
    }


def changed(kind, days, n_rows, score=None, names=(), **counts):
    """An entry of a refit; the score is (before, after)."""
    certificate = refit_certificate(f"model {days}")
    entry = answered(list(names), certificate, days, kind) | {"n_rows": n_rows} | counts
    how = "on rows that are left"
    measured = {"metric": "ROC AUC", "how": how}
    if score is not None:
        measured |= {"before": score[0], "value": score[1]}
    return entry | {"score": None if score is None else measured}


def score(value=0.81, spread=0.02, folds=5):
    how = "5-fold cross-validation, each person in one fold"
    return Score("ROC AUC", value, 0.5, spread, True, how, folds)


def refit(**changes):
    """A refit store without requests, with changes."""
    entries = changes.get("entries", [refit_fit()])
    usual = {
        "store": "churn",
        "made": at(40),
        "versions": {"pilu": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"},
        "method": "refit",
        "model": model(
            kind="classification, refitted after every change",
            facts=["target: churned (a class)", "model: logistic"],
            n_rows=500,
            rows_left=entries[-1].get("n_rows", 500),
            n_features=12,
        ),
        "entries": [refit_fit()],
        "head": f"{len(entries)}:{hex_of('root')}",
        "n_people_forgotten": 0,
        "pending": [],
        "undelivered": [],
        "table": TableNow(0),
        "score": score(),
        "chain": None,
    }
    return Contents(**(usual | changes))


def refit_lively(**changes):
    """Two deletions, rows that came, a release that is too old, three who wait."""
    entries = [
        refit_fit(),
        asked(["anna", "ben"], 2, "2026-11-20"),
        changed("unlearn", 4, 490, (0.86, 0.85), ["anna", "ben"], n_forgotten=10),
        {"kind": "release", "sha256": hex_of("file"), "format": "skops", "time": at(5)},
        changed("add", 9, 520, (0.84, 0.86), n_added=30),
        changed("sync", 15, 523, None, n_added=4, n_corrected=2, n_dropped=1),
        asked("emil", 24, "2026-12-06"),
        changed("unlearn", 29, 519, (0.86, 0.86), ["carla"], n_forgotten=4),
        {"kind": "return", "people": people("anna"), "time": at(30)},
        asked(["fritz", "gerda"], 33, "2027-01-31"),
    ]
    usual = {
        "entries": entries,
        "n_people_forgotten": 2,
        "pending": [
            waiting("emil", "2026-12-06", 24),
            waiting("fritz", "2027-01-31", 33),
            waiting("gerda", None, 33),
        ],
        "undelivered": [7],
        "table": TableNow(3, n_new=8, n_changed=1, n_missing=0),
    }
    model_now = refit(entries=[refit_fit()]).model
    return refit(**(usual | {"model": {**model_now, "rows_left": 519}} | changes))


def refit_crowded(n=500):
    """Five hundred deletions."""
    entries = [refit_fit()]
    for k in range(n):
        value = round(0.85 - 0.1 * k / n, 2)
        entries.append(
            changed("unlearn", 0.5 + k / 10, 5000 - k, (value, value), [str(k)], n_forgotten=1)
        )
    return refit(entries=entries, n_people_forgotten=n, made=at(60))
