"""Stores as a report sees them: with a history, new, and with five hundred certificates."""

import copy
import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np

import pilu
from pilu.desk.costs import Costs
from pilu.report.contents import Contents

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


def asked(name, days, due=None):
    return {"kind": "request", "subject": hex_of(name), "due": due, "time": at(days)}


def answered(names, certificate, days, kind="unlearn"):
    subjects = sorted(map(hex_of, names))
    return {"kind": kind, "subjects": subjects, "certificate": certificate, "time": at(days)}


def released(certificate_sha256, days):
    bound = {"sha256": hex_of(days), "certificate_sha256": certificate_sha256, "grid": 2.0**-17}
    return {"kind": "release", "time": at(days), **bound}


def contents(**changes):
    """A store without requests, with changes."""
    entries = changes.get("entries", [fit()])
    certified = [e["certificate"] for e in entries if "certificate" in e]
    rows = {row for held in certified for row in held["rows"]}
    spent = (certified[-1]["total_epsilon"], certified[-1]["total_delta"]) if certified else (0, 0)
    usual = {
        "store": "customers",
        "made": at(40),
        "versions": {"pilu": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"},
        "model": {
            "kind": "regression",
            "n_rows": 60,
            "rows_left": 60 - len(rows),
            "n_features": 4,
            "n_outputs": 1,
            "alpha": 0.1,
            "step_size": 0.5946,
            "learning_steps": 50,
            "learning_noise": 0.01,
            "table": "/data/people.parquet",
        },
        "budget": (10.0, 20 / 60),
        "spent": spent,
        "entries": [fit()],
        "head": f"{len(entries)}:{hex_of('root')}",
        "pending": [],
        "still_in_table": 0,
        "costs": costs(),
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
    pending = [(hex_of("emil"), "2026-12-06"), (hex_of("fritz"), "2027-01-31")]
    usual = {
        "entries": entries,
        "pending": pending,
        "still_in_table": 3,
        "costs": costs(n_subjects=1234),
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
        entries.append(answered([k], held, 0.5 + k / 10))
    model = {**contents().model, "n_rows": 2000, "rows_left": 2000 - n}
    return contents(entries=entries, model=model, made=at(60))
