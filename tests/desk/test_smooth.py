"""Stores of other losses than ridge, against the estimators in memory."""

import csv as csv_files
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from desk.conftest import N, rows_of
from pilu import LangevinHuber, LangevinLogistic
from pilu.accounting.gdp import mu_from_epsilon
from pilu.cli.app import app
from pilu.data.table import Columns
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.costs import quote_everyone
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.release import release_record
from pilu.exceptions import BudgetSpent

STEPS = {"n_steps": 60, "noise": 0.02, "alpha": 1.0}
ASKED = {"n_unlearn_steps": 5, "epsilon": 1.0, "delta": 1 / N}
KINDS = ("logistic", "softmax", "huber")


def targets(kind, y):
    if kind == "huber":
        return y
    names = np.array(["low", "high"] if kind == "logistic" else ["low", "middle", "top"])
    return names[np.digitize(y, [0.0] if kind == "logistic" else [-1.0, 1.0])]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def path(kind, rows, arrow_table, tmp_path):
    column = pa.array(targets(kind, rows[1]))
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(arrow_table.set_column(4, "y", column), path, row_group_size=7)
    return path


@pytest.fixture
def desk(kind, path, tmp_path):
    columns = Columns(("y",), "row_id", "person", classify=kind != "huber")
    loss = "huber" if kind == "huber" else "logistic"
    with LangevinDesk.create(tmp_path / "store", path, columns, loss=loss, **STEPS) as made:
        yield made


@pytest.fixture
def model(kind, rows):
    estimator = LangevinHuber if kind == "huber" else LangevinLogistic
    return estimator(**STEPS).fit(rows[0], targets(kind, rows[1]))


def test_quotes_are_those_in_memory_a_little_coarser(desk, model):
    """Noise within what simulated means and a grid of an eighth of an octave explain."""
    people, groups = ["person number 3", "person number 7"], [[9, 10, 11], [21, 22, 23]]
    here = desk.quote(people, **ASKED).noise
    there = model.quote(groups, **ASKED).noise
    assert np.all(here > 0.9 * there)
    assert np.all(here < 1.2 * there)
    assert np.allclose(8 * np.log2(here), np.round(8 * np.log2(here)))
    everybody = quote_everyone(desk.read(), **ASKED)
    assert len(everybody.names) == N // 3
    assert everybody.noise[3] == pytest.approx(here[0], rel=0.1)


def test_a_request_from_fit_to_report(desk, path, kind, rows, tmp_path):
    receipts = []
    outcome = desk.unlearn("person number 3", deliver=receipts.extend, **ASKED)
    certificate = outcome.certificate
    assert rows_of(outcome) == (9, 10, 11)
    assert certificate.epsilon == certificate.epsilon_target == 1.0
    assert certificate.accountant["coarse"] is True
    assert certificate.accountant["loss"]["name"] == kind
    assert certificate.mu == pytest.approx(mu_from_epsilon(1.0, 0.5 / N))  # of the target
    (receipt,) = receipts
    checks = check_receipt(receipt, desk, path)
    assert checks["epsilon_recomputed"]
    assert not checks["inputs_checked_against_data"]  # means were simulated
    found = check_store(desk, table=path)
    assert found["rows_and_statistics_are_those_of_the_table"]
    assert not found["eigenbasis_is_that_of_the_statistics"]
    again = desk.unlearn("person number 5", **ASKED).certificate
    assert again.total_epsilon == pytest.approx(2.0)
    assert len(again.conditional_on) == 1
    assert desk.redraw().certificate.epsilon == 0.0
    assert desk.left()[0] == 10.0
    predicted = desk.predict(rows[0])
    truth = targets(kind, rows[1])
    if kind == "huber":
        assert np.abs(predicted - truth).mean() < np.abs(truth).mean()
    else:
        assert np.mean(predicted == truth) > 0.6
    record = desk.release()
    assert record["grid"] < 0.01


def test_nothing_of_rows_or_runs_is_kept(desk):
    desk.unlearn("person number 3", **ASKED)
    state = desk.read().state["model"]
    assert set(state["parameters"]) >= {"n_auxiliary_runs"}
    (folder,) = desk.store.folder.glob("arrays-*")
    held = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    assert all(array.dtype != np.float64 or array.size <= 3 * 5 for array in held.values())
    # step size and curvature stand on a grid, so that they tell little of who was there
    step = 8 * np.log2(state["step_size"])
    assert step == pytest.approx(round(step))
    assert state["largest_curvature"] == pytest.approx(1 / state["step_size"])


def test_a_budget_that_is_spent(desk):
    with pytest.raises(BudgetSpent):
        desk.unlearn("person number 3", epsilon=11.0, delta=1 / N, n_unlearn_steps=5)
    found = desk.unlearn(
        "person number 3", epsilon=11.0, delta=1 / N, n_unlearn_steps=5, redraw_if_needed=True
    )
    assert found.certificate.method == "redraw"


def test_a_release_is_on_a_grid_below_the_noise(desk):
    model = desk.read().model
    grid = release_record(model, ["a"] * 4, None)["grid"]
    chain = model.fitted_.chain
    assert grid == pytest.approx(2.0 ** np.floor(np.log2(grid)))
    assert grid <= np.sqrt(2 * chain.step_size) * STEPS["noise"] / 1000


def test_the_command_line(path, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loss = ["--loss", "huber", "--threshold", "0.7"] if kind == "huber" else ["--loss", "logistic"]
    run = CliRunner().invoke
    line = f"fit {path} --target y --id row_id --subject person --method langevin"
    line = f"{line} --out s --json".split()
    found = run(app, [*line, *loss, "--learning-steps", "50", "--auxiliary-runs", "8"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["loss"]["name"] == kind
    asked = ["unlearn", "s", "--subject", "person number 3", "--steps", "5"]
    done = run(app, [*asked, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.output)["accountant"]["auxiliary_runs"] == 8
    assert run(app, ["verify", "s", "--table", str(path)]).exit_code == 0
    assert run(app, ["quote", "s", "--all"]).exit_code == 0
    assert run(app, ["report", "s", "--out", "r.html"]).exit_code == 0
    words = "Huber regression" if kind == "huber" else "logistic regression"
    assert f"{words}, from" in (tmp_path / "r.html").read_text()


def test_probabilities_of_classes_by_the_command_line(desk, path, kind, rows, tmp_path):
    store, out = tmp_path / "store", tmp_path / "predicted.csv"
    line = ["predict", str(store), "--rows", str(path), "--out", str(out), "--probabilities"]
    found = CliRunner().invoke(app, line)
    if kind == "huber":
        assert found.exit_code == 2
        assert "the model of this store has none" in " ".join(found.output.split())
        assert not out.exists()
        return
    assert found.exit_code == 0, found.output
    with out.open(newline="") as file:
        lines = list(csv_files.DictReader(file))
    model = desk.read().model
    scores = rows[0] @ model.coef_.T + model.intercept_
    if kind == "logistic":
        scores = np.column_stack([np.zeros(N), scores])
    weights = np.exp(scores)
    likely = weights / weights.sum(axis=1, keepdims=True)
    for c, name in enumerate(model.classes_):
        column = [float(line[f"probability of {name}"]) for line in lines]
        np.testing.assert_allclose(column, likely[:, c], rtol=1e-11)
    assert [line["y"] for line in lines] == model.classes_[scores.argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--loss hinge", "loss must be one of 'squared', 'logistic', 'huber'"),
        ("--loss logistic --alpha 0", "alpha must be a finite number > 0"),
        ("--loss logistic --alpha -1", "alpha must be a finite number > 0"),
        ("--loss logistic --threshold 1", "threshold must come with --loss huber"),
        ("--auxiliary-runs 8", "auxiliary-runs must come with --loss logistic or huber"),
        ("--loss logistic --auxiliary-runs 0", "auxiliary-runs must be an integer >= 1, got"),
        ("--loss logistic --scheduler local", "scheduler must be left out for the logistic loss"),
        ("--loss huber --classify", "the target must be a number, not a class, for the huber loss"),
    ],
)
def test_wrong_options(options, complaint, csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = f"fit {csv} --target y --id row_id --subject person --method langevin --out s {options}"
    found = CliRunner().invoke(app, line.split())
    assert found.exit_code == 2
    assert complaint in " ".join(found.output.split())
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("loss", ["--loss logistic", "--classify"])
def test_labels_that_are_missing_or_no_classes(loss, rows, arrow_table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = np.array(["a", "b"])[(rows[1] > 0).astype(int)].tolist()
    for name, column, words in (
        ("empty", ["", *labels[1:]], "every row must have a class, got an empty one"),
        ("numbers", rows[1], "must have fewer classes than there are rows, got 60"),
    ):
        pyarrow.csv.write_csv(arrow_table.set_column(4, "y", pa.array(column)), f"{name}.csv")
        line = f"fit {name}.csv --target y --id row_id --subject person --method langevin"
        line = f"{line} --out s {loss}"
        found = CliRunner().invoke(app, line.split())
        assert found.exit_code == 2
        assert words in " ".join(found.output.split())
        assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("loss", ["--loss huber", "--loss squared"])
def test_features_past_what_is_proved(loss, arrow_table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    huge = pa.array(np.full(N, 1e160))
    pyarrow.csv.write_csv(arrow_table.set_column(0, "f0", huge), "huge.csv")
    line = f"fit huge.csv --target y --id row_id --subject person --method langevin --out s {loss}"
    found = CliRunner().invoke(app, line.split())
    assert found.exit_code == 2
    assert "features must have its largest magnitude in" in " ".join(found.output.split())
