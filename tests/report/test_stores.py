"""The report of real stores, of both methods: what it reads, and what it never says."""

import hashlib
import json
import re
import tarfile
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from pilu.data.table import Columns
from pilu.datasets import make_customers
from pilu.desk import Desk, LangevinDesk
from pilu.exceptions import PiluError
from pilu.report.page import render
from report.test_page import Page


@pytest.fixture(scope="module")
def frame():
    X, y, people, *_ = make_customers(420)
    return X.assign(churned=y, customer=[f"Herr {name}" for name in people], row=range(420))


@pytest.fixture(scope="module")
def people(frame):
    return list(dict.fromkeys(frame.customer))


@pytest.fixture(scope="module")
def desk(frame, people, tmp_path_factory):
    """Three people were forgotten, two wait, rows came and changed since."""
    folder = tmp_path_factory.mktemp("refit")
    table = folder / "customers.parquet"
    first = frame[:400]
    first.to_parquet(table)
    names = {"target": "churned", "subject": "customer", "id": "row"}
    with Desk.fit(folder / "store", table, **names) as made:
        made.unlearn(people[:2])
        made.unlearn(people[5])
        made.request(people[7], due=date(2020, 5, 17))
        made.request(people[8])
        kept = frame[~frame.customer.isin(people[:2])].copy()  # of the third, rows are left
        kept.loc[kept.index[20], "age"] = 99.0
        kept.to_parquet(table)
        yield made


@pytest.fixture(scope="module")
def html(desk):
    return desk.report(None, None, people=10)


def test_it_counts_what_a_clerk_would_count(desk, frame, people):
    found = desk.contents(None, 10)
    assert (found.method, found.chain) == ("refit", None)
    assert found.n_people_forgotten == 3
    gone = frame[:400].customer.isin([*people[:2], people[5]])
    assert found.n_rows_forgotten == gone.sum()
    assert found.model["rows_left"] == 400 - gone.sum()
    assert [one.due for one in found.overdue] == ["2020-05-17"]
    assert len(found.pending) == 2
    assert found.undelivered == []
    assert found.table.n_forgotten == (frame.customer == people[5]).sum()
    left = frame[400:][~frame[400:].customer.isin([*people[:2], people[5]])]
    assert found.table.n_new == len(left)
    assert (found.table.n_changed, found.table.n_missing) == (1, 0)


def test_no_name_and_no_path_is_in_it(desk, html, people, tmp_path_factory):
    for name in people:
        assert name not in html
        assert name.removeprefix("Herr ") not in html
    assert str(desk.folder.parent) not in html
    page = Page(html)
    waiting = [line[0]["text"] for line in page.tables["waiting"][1:]]
    assert waiting == [one.name for one in desk.pending()]


def test_the_guess_is_by_the_last_certificate(desk, html):
    mu = desk.log().certified.certificate["mu"]
    right = 100 * norm.cdf(mu / 2)
    said = float(re.search(r"right at most ([\d.]+) %", html)[1])
    assert right <= said <= right + 0.1


def test_the_score_now_is_one_of_rows_that_were_not_seen(frame, people, tmp_path):
    table = tmp_path / "customers.parquet"
    numbers = ["tenure", "monthly", "usage", "calls"]
    some = frame[[*numbers, "churned", "customer", "row"]].fillna(0.0)
    some.to_parquet(table)
    names = {"target": "churned", "subject": "customer", "id": "row"}
    with Desk.fit(tmp_path / "store", table, **names) as desk:
        desk.unlearn(people[:2])
        found = desk.contents(None, 10)
    # By hand: folds of people, other ones than pilu's, and a plain logistic regression.
    kept = some[~some.customer.isin(people[:2])]
    fold = kept.customer.map({name: k % 5 for k, name in enumerate(dict.fromkeys(kept.customer))})
    X = (kept[numbers] - kept[numbers].mean()) / kept[numbers].std()
    scores = []
    for k in range(5):
        model = LogisticRegression().fit(X[fold != k], kept.churned[fold != k])
        scores.append(roc_auc_score(kept.churned[fold == k], model.decision_function(X[fold == k])))
    assert found.score_now == pytest.approx(np.mean(scores), abs=0.06)


def test_a_table_that_is_gone_or_broken_is_said(frame, people, tmp_path):
    table = tmp_path / "customers.parquet"
    frame[:200].to_parquet(table)
    names = {"target": "churned", "subject": "customer", "id": "row"}
    with Desk.fit(tmp_path / "store", table, **names) as desk:
        table.write_bytes(b"no table")
        for _ in range(2):  # broken, then gone
            found = desk.contents(None, 10)
            assert (found.table, found.score) == (None, None)
            assert "was not found or could not be read" in render(found)
            with pytest.raises((PiluError, OSError)):  # one that is named must be there
                desk.contents(table, 10)
            table.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("langevin")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    X[5] *= 6  # somebody whose deletion needs noise
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["y"] = X @ rng.normal(size=4) + 0.3 * rng.normal(size=80)
    frame["who"], frame["row"] = [f"Frau {k // 2:03d}" for k in range(80)], range(80)
    table = folder / "people.parquet"
    frame.to_parquet(table)
    columns = Columns(("y",), id="row", subject="who")
    with LangevinDesk.create(
        folder / "ridge", table, columns, alpha=0.1, n_steps=50, noise=0.01
    ) as made:
        made.unlearn("Frau 001", epsilon=1.0, n_unlearn_steps=3)
        made.unlearn("Frau 002", epsilon=1.0, n_unlearn_steps=3)
        made.request("Frau 009", due=date(2020, 1, 1))
        yield made


def test_a_langevin_store_keeps_its_budget_and_costs(chain):
    found = chain.contents(None, 10)
    assert found.chain.budget == (10.0, 0.25)
    assert found.chain.left == chain.left()
    assert (found.n_people_forgotten, found.n_rows_forgotten) == (2, 4)
    assert found.model["rows_left"] == 76
    assert found.table.n_forgotten == 4
    assert len(found.chain.costs.noise) == 10
    page = Page(render(found))
    assert [line[3]["text"] for line in page.tables["certificates"][1:]] == ["2", "2"]
    assert "8 left of 10" in page.text
    assert "Frau" not in page.text
    assert "contradicts" not in page.text


def test_its_curve_proves_more_than_epsilon_and_delta(chain):
    state = chain.store.read_state()["model"]["spent"]
    (epsilon, delta), html = state["total"], chain.report(None, None, people=3)
    said = float(re.search(r"right at most ([\d.]+) %", html)[1])
    alone = 100 * (1 - (1 - delta) * np.exp(-epsilon) / 2)
    # The tests that the points of the running total allow, on a grid of false alarms.
    q = np.linspace(0, 1, 200_001)
    points = zip(state["epsilons"], state["deltas"], strict=True)
    most = np.min([np.ones_like(q), *(np.exp(e) * q + d for e, d in points)], axis=0)
    best = 100 * np.max(1 + most - q) / 2
    if state["gaussian"] is not None:
        mu, slack = state["gaussian"]
        best = min(best, 100 * (norm.cdf(mu / 2) + slack / 2))
    assert best - 1e-3 <= said <= best + 0.1
    assert said < alone - 5


FORMATS = Path(__file__).parents[1] / "desk" / "formats"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", ["regression", "logistic"])
def test_stores_of_earlier_formats_have_pages(tmp_path, number, kind):
    """Their entries have whole certificates, with rows, and the keyed names themselves."""
    with tarfile.open(FORMATS / f"desk-{number}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / kind
    with Desk.open(folder / "store") as desk:
        entries = [entry.record for entry in desk.log().entries]
        found = desk.contents(folder / "people.csv", 5)
    rows = {row for e in entries for row in e.get("certificate", {}).get("rows", ())}
    names = {name for e in entries for name in e.get("subjects", ())}
    assert rows
    assert (found.n_rows_forgotten, found.n_people_forgotten) == (len(rows), len(names))
    page = Page(render(found))
    certified = [e for e in entries if "certificate" in e]
    for line, entry in zip(page.tables["certificates"][1:], certified, strict=True):
        text = json.dumps(entry["certificate"], sort_keys=True, separators=(",", ":"))
        assert line[10]["exact"] == [hashlib.sha256(text.encode()).hexdigest()]
    assert all(name in page.text for name in names)
