"""The command line from end to end, as a user types it."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from pilu.cli.app import app

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    table = {f"f{k}": X[:, k] for k in range(3)}
    table |= {"y": X.sum(axis=1) + rng.normal(size=60), "person": [f"p{i // 3}" for i in range(60)]}
    pyarrow.parquet.write_table(pa.table(table), "people.parquet")

    def call(line, code=0):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == code, result.output
        return result.output

    return call


@pytest.fixture
def fitted(run):
    run("fit people.parquet --target y --subject person --out store --noise 0.01")
    return run


def test_the_whole_path(fitted, tmp_path):
    head = json.loads(fitted("ledger store --json"))["head"]
    quoted = json.loads(fitted("quote store --subject p3 --subject p4 --steps 1 --json"))
    assert [line["rows"] for line in quoted["quotes"]] == [3, 3]
    assert quoted["left"] == {"epsilon": 10.0, "delta": 20 / 60}
    told = fitted("unlearn store --subject p3 --steps 1 --receipt c.json")
    assert "Forgot 3 row(s) by langevin" in told
    assert "holds" in fitted("verify c.json")
    assert json.loads((tmp_path / "c.json").read_text())["evidence"]
    assert "epsilon 10" in fitted("redraw store")
    log = fitted(f"ledger store --since {head}")
    assert "learned 60 rows" in log
    assert "The log has only grown" in log


def test_a_certificate_without_evidence_does_not_hold_by_itself(fitted, tmp_path):
    fitted("unlearn store --subject p3 --steps 1 --receipt c.json")
    record = json.loads((tmp_path / "c.json").read_text())
    public = record["entry"]["certificate"]
    (tmp_path / "public.json").write_text(json.dumps(public))
    assert "must have its evidence" in fitted("verify public.json", code=2)


def test_what_is_quoted_is_what_is_done(fitted):
    quoted = json.loads(fitted("quote store --subject p3 --steps 1 --json"))["quotes"][0]
    done = json.loads(fitted("unlearn store --subject p3 --steps 1 --json"))
    assert done["noise"] == quoted["noise"]
    assert done["evidence"] is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("unlearn store --subject nobody", "got unknown 'nobody'"),
        ("unlearn nothing --subject p3", "must be a store"),
        ("unlearn store --subject p3 --receipt store/c.json", "outside of the store"),
        (
            "unlearn store --subject p3 --receipt nowhere/c.json",
            "must be in a folder that is there",
        ),
        ("unlearn store --subject p3 --receipt people.parquet", "must be a new file"),
        ("release store --out store/ledger.sqlite", "out must be outside of the store"),
        ("predict store --rows people.parquet --out people.parquet", "must be another file"),
        ("fit people.parquet --target y --out other", "without names nobody can be forgotten"),
        ("unlearn store --subject p3 --epsilon -1", "epsilon must be a finite number > 0"),
        ("ledger store --since 5:xyz", "a head must"),
        ("fit people.parquet --target z --subject person --out other", "must have a column 'z'"),
        ("fit nothing.parquet --target y --subject person --out other", "table must be a file"),
        (
            "fit people.parquet --target y --subject person --out store",
            "must be a new or empty folder",
        ),
        ("verify people.parquet", "people.parquet must be a receipt, a certificate or a proof"),
    ],
)
def test_errors_are_one_line_and_change_nothing(fitted, capfd, line, message):
    before = fitted("ledger store")
    output = fitted(line, code=2)
    assert message in output
    assert output.startswith("pilu: ")
    assert len(output.strip().splitlines()) == 1
    assert fitted("ledger store") == before


def test_release_and_predict(fitted, tmp_path):
    assert "nobody was forgotten yet" in fitted("release store --out model.json")
    assert len(json.loads((tmp_path / "model.json").read_text())["coefficients"][0]) == 3
    assert "60 predictions" in fitted("predict store --rows people.parquet --out out.csv")
    assert "released" in fitted("ledger store")


def test_a_queue(fitted):
    assert "Nobody waits" in fitted("run store")
    fitted("request store --subject p3 --due 2027-01-31")
    assert "2 wait(s)" in fitted("request store --subject p5")
    done = json.loads(fitted("run store --json"))
    assert done["rows"] == [9, 10, 11, 15, 16, 17]
    assert "due 2027-01-31" in fitted("ledger store")


def test_a_budget_that_is_spent_has_a_code_of_its_own(run):
    run("fit people.parquet --target y --subject person --out store --budget-epsilon 1.2")
    run("unlearn store --subject p3 --steps 1")
    output = run("unlearn store --subject p4 --steps 1", code=3)
    assert "pilu redraw store" in output
    run("unlearn store --subject p4 --steps 1 --redraw-if-needed")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command):
    assert f"pilu {command} " in run(f"{command} --help")


def test_debug_shows_the_traceback(tmp_path):
    command = [sys.executable, "-m", "pilu", "--debug", "ledger", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in found.stderr
    command.remove("--debug")
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr
    assert found.returncode == 2


def test_help_and_ledger_import_nothing_heavy():
    program = (
        "import sys, pilu.cli.app, pilu.deletion.ledger; "
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'pyarrow') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr
