"""Stores that forget by Langevin steps: quotes, a budget, redraws."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from cli.shell import Shell
from pilu.desk.langevin_desk import LangevinDesk

FIT = "fit people.parquet --target y --subject person"


class LangevinShell(Shell):
    """Fits stores of this method."""

    def _done(self, line, code):
        return super()._done(f"{line} --method langevin" if line.startswith("fit ") else line, code)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return LangevinShell()


@pytest.fixture
def table(run, tmp_path):
    """Sixty rows of twenty people, features all numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    table = {f"f{k}": X[:, k] for k in range(3)}
    table |= {"y": X.sum(axis=1) + rng.normal(size=60), "person": [f"p{i // 3}" for i in range(60)]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "people.parquet")
    return run


@pytest.fixture
def fitted(table):
    table(f"{FIT} --out store --noise 0.01")
    return table


def test_the_whole_path(fitted, tmp_path):
    head = json.loads(fitted("ledger store --json"))["head"]
    quoted = json.loads(fitted("quote store --subject p3 --subject p4 --steps 1 --json"))
    assert [line["rows"] for line in quoted["quotes"]] == [3, 3]
    assert quoted["left"] == {"epsilon": 10.0, "delta": 20 / 60}
    done = fitted("unlearn store --subject p3 --steps 1 --receipt c.json")
    assert "Forgot 1 person with 3 rows: epsilon 1." in done
    assert "holds" in fitted("verify c.json")
    assert json.loads((tmp_path / "c.json").read_text())["certificate"]["evidence"]
    assert "epsilon 10" in fitted("redraw store")
    log = fitted(f"ledger store --since {head}")
    assert "Learned from 60 rows with 3 features" in log
    assert "Forgot 1 person with 3 rows: epsilon 1." in log
    assert "Redrew the parameters. The full budget is available again." in log
    assert "The log has only grown" in log


def test_all_people_are_quoted(fitted, tmp_path):
    fitted("unlearn store --subject p3 --steps 1")
    quoted = json.loads(fitted("quote store --all --steps 1 --out costs.csv --json"))
    assert len(quoted["quotes"]) == 19
    with (tmp_path / "costs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["subject"] for line in lines] == [line["subject"] for line in quoted["quotes"]]
    one = json.loads(fitted("quote store --subject p7 --steps 1 --json"))["quotes"][0]
    assert float(next(line for line in lines if line["subject"] == "p7")["noise"]) == one["noise"]
    assert "19 people at epsilon 1" in fitted("quote store --all --steps 1")


def test_a_signed_receipt_against_everything(fitted, tmp_path):
    fitted("keygen --private desk.key --public desk.pub")
    fitted("unlearn store --subject p3 --steps 1 --receipt c.json --sign desk.key")
    line = "verify c.json --store store --table people.parquet --public-key desk.pub --json"
    checks = json.loads(fitted(line))
    assert [name for name, good in checks.items() if not good] == [
        "parameters_checked",
        "utility_recomputed",
    ]
    fitted("keygen --private other.key --public other.pub")
    assert "was made by the key in other.pub" in fitted(
        "verify c.json --public-key other.pub", code=2
    )
    fitted("unlearn store --subject p4 --receipt unsigned.json")
    assert "is not signed" in fitted("verify unsigned.json --public-key desk.pub", code=2)
    fitted(f"{FIT} --out second")
    assert "from another store" in fitted("verify c.json --store second", code=2)


def test_arguments_have_the_names_of_options_and_columns_their_own(fitted, tmp_path):
    wrong = fitted("unlearn store --subject p3 --steps 0", code=2)
    assert wrong == "pilu: --steps must be an integer >= 1, got --steps=0.\n"
    for option, value, allowed in (
        ("--learning-steps", "0", "an integer >= 1"),
        ("--budget-epsilon", "-1.0", "a finite number > 0"),
        ("--budget-delta", "2.0", "in the open interval (0, 1)"),
        ("--memory", "much", "a size such as 2GB"),
    ):
        line = f"{FIT} --out other"
        wrong = fitted(f"{line} {option} {value}", code=2)
        assert f"pilu: {option} must be {allowed}, got {option}=" in wrong
    columns = {"n_steps": [1.0, 2.0, 3.0], "n_unlearn_steps": ["a", "b", "c"], "y": [0.0, 1.0, 2.0]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "odd.parquet")
    line = "fit odd.parquet --target y --id n_steps --out odd"
    assert "n_unlearn_steps" in fitted(line, code=2)


def test_a_whole_store_is_verified(fitted, tmp_path):
    head = json.loads(fitted("ledger store --json"))["head"]
    fitted("unlearn store --subject p3 --steps 1")
    checks = json.loads(fitted(f"verify store --since {head} --table people.parquet --json"))
    assert all(checks.values())
    assert "files whole" in fitted("verify store")
    (folder,) = (tmp_path / "store").glob("arrays-*")
    (folder / "theta.npy").write_bytes(b"")
    assert "theta.npy was altered or cut" in fitted("verify store", code=2)


def test_proofs_go_to_auditors(fitted, tmp_path):
    head = json.loads(fitted("ledger store --json"))["head"]
    fitted("unlearn store --subject p3 --steps 1")
    fitted(f"ledger store --since {head} --proof growth.json")
    fitted("ledger store --entry 1 --proof place.json")
    assert f"begins with the log of {head}" in fitted("verify growth.json")
    assert "is at place 1" in fitted("verify place.json")
    record = json.loads((tmp_path / "place.json").read_text())
    (tmp_path / "place.json").write_text(json.dumps(record | {"place": 0}))
    assert "is not in the log" in fitted("verify place.json", code=2)


def test_a_table_without_the_forgotten(fitted):
    assert "0 rows of forgotten people" in fitted("table store")
    fitted("unlearn store --subject p3 --steps 1")
    (found,) = fitted.json("table store")["tables"]
    assert found["rows"] == [9, 10, 11]
    assert "(counted from 1, without the header): 10, 11, 12" in fitted("table store")
    assert "57 rows without them" in fitted("table store --rewrite people.parquet")
    assert "0 rows" in fitted("table store")
    fitted("unlearn store --subject p4 --steps 1")


@pytest.mark.parametrize("loss", ["squared --classify", "logistic"])
def test_the_last_rows_of_a_class(table, loss):
    """Refused, with the option that allows it; the counts of rows are kept in the store."""
    rows = pyarrow.parquet.read_table("people.parquet")
    labels = ["rare" if i // 3 in (3, 4) else "up" if i % 2 else "down" for i in range(60)]
    where = rows.column_names.index("y")
    pyarrow.parquet.write_table(rows.set_column(where, "y", pa.array(labels)), "people.parquet")
    table(f"{FIT} --out store --noise 0.01 --loss {loss}")
    table("unlearn store --subject p3")
    for command in ("unlearn store --subject p4", "unlearn store --subject p4 --by redraw"):
        output = table(command, code=2)
        assert "the last row(s) of class 'rare'" in output
        assert output.endswith("or pass --keep-empty-classes.\n")
    assert "Forgot 1 person with 3 rows" in table("unlearn store --subject p4 --keep-empty-classes")
    assert "Forgot 1 person with 3 rows" in table("unlearn store --subject p5")


def test_a_change_that_fails_leaves_no_receipt(fitted, tmp_path, monkeypatch):
    """Receipts are made after the commit; before it, nothing is handed over."""

    def fails(self, *_, **__):
        raise OSError(28, "No space left on device", "arrays-1")

    monkeypatch.setattr("pilu.store.store.Change.save", fails)
    fitted("keygen --private desk.key --public desk.pub")
    message = fitted.error("unlearn store --subject p3 --receipt c.json --sign desk.key")
    assert message == "arrays-1: No space left on device. Nothing was changed."
    assert not (tmp_path / "c.json").exists()
    assert [p.name for p in (tmp_path / "store").glob("arrays-*")] == ["arrays-0"]


def test_a_signature_that_fails_is_made_again(fitted, tmp_path, monkeypatch):
    def fails(self, *_):
        raise OSError(28, "No space left on device", "c.json")

    fitted("keygen --private desk.key --public desk.pub")
    with monkeypatch.context() as broken:
        broken.setattr("pilu.desk.receipt.Receipt.signed", fails)
        message = fitted.error("unlearn store --subject p3 --receipt c.json --sign desk.key", 4)
    assert "the change is done" in message
    assert "(c.json: No space left on device). `pilu receipts store` writes them." in message
    assert not (tmp_path / "c.json").exists()
    fitted("receipts store --receipt c.json --sign desk.key")
    assert "yes  signed by the key" in fitted("verify c.json --public-key desk.pub --store store")


def test_two_that_want_one_receipt(fitted, tmp_path, monkeypatch):
    """The second finds the name taken: it is done, and its receipt can be written elsewhere."""
    unlearn = LangevinDesk.unlearn

    def meanwhile(self, **options):
        (tmp_path / "c.json").write_text("another one's")
        return unlearn(self, **options)

    monkeypatch.setattr(LangevinDesk, "unlearn", meanwhile)
    output = fitted.error("unlearn store --subject p3 --receipt c.json", code=4)
    assert "the change is done, but its receipts could not be handed over" in output
    assert (tmp_path / "c.json").read_text() == "another one's"
    fitted("receipts store --receipt mine.json")
    assert "yes  in the log of the store" in fitted("verify mine.json --store store")
    assert not list(tmp_path.glob(".*.part"))


def test_a_release_is_verified(fitted, tmp_path):
    fitted("release store --out model.json")
    assert "in the log of the store" in fitted("verify model.json --store store")
    record = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(record | {"intercept": [0.0]}))
    assert "model.json: the coefficients do not have" in fitted("verify model.json", code=2)


def test_what_is_spent_is_rounded_up_and_what_is_left_down(fitted):
    """delta = 1/60 = 0.016666... each, of 1/3."""
    fitted(f"{FIT} --out other --budget-delta 0.31668")
    assert "Left of the budget: epsilon 10, delta 0.3166\n" in fitted("quote other --subject p3")
    done = fitted("unlearn store --subject p3 --steps 1")
    assert "at delta 0.01667" in done
    assert "Total: epsilon 1, delta 0.01667" in done
    assert "Left of the budget: at least 2 more requests like the last" in done
    left = fitted.json("quote store --subject p4")["left"]
    assert left == {"epsilon": 9.0, "delta": pytest.approx(20 / 60 - 1 / 60)}
    fitted("unlearn store --subject p4 --steps 1 --recollect")


def test_a_report_is_written(fitted, tmp_path):
    fitted("unlearn store --subject p3 --steps 1")
    assert "Open report.html in a browser" in fitted("report store --out report.html --people 7")
    page = (tmp_path / "report.html").read_text()
    assert "1 person with 3 rows" in page
    (tmp_path / "people.parquet").unlink()  # without the table all but the costs is there
    fitted("report store --out again.html")
    assert "1 person with 3 rows" in (tmp_path / "again.html").read_text()


def test_arrays_as_tables(run, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    np.savez(tmp_path / "t.npz", X=X, y=y, who=np.arange(30))
    np.save(tmp_path / "t.npy", np.column_stack([np.arange(30), X, y]))
    np.save(tmp_path / "new.npy", X)
    run("fit t.npz --target y --id who --out a")
    run("fit t.npy --target 4 --id 0 --out b")
    for store, rows in (("a", "t.npz"), ("b", "t.npy"), ("b", "new.npy")):
        run(f"unlearn {store} --subject {len(rows)}")
        assert "30 predictions" in run(f"predict {store} --rows {rows} --out {store}.csv")


def test_columns_that_are_no_features(run, tmp_path):
    lines = ["x,note,y,who", *(f"{k % 7},text {k},{k % 5},w{k}" for k in range(20))]
    (tmp_path / "n.csv").write_text("\n".join(lines) + "\n")
    assert "leave the column out by --ignore" in run(
        "fit n.csv --target y --id who --out n", code=2
    )
    assert "with 1 feature." in run("fit n.csv --target y --id who --ignore note --out n")
    run("unlearn n --subject w4")
    assert "20 predictions" in run("predict n --rows n.csv --out p.csv")


def test_classes_from_a_csv_are_text(run, tmp_path):
    """1 and 01 are two classes, a name with a comma is one; predictions are quoted."""
    lines = ["x,kind,who"]
    kinds = ['"yes, please"', "01", "1"]
    lines += [f"{k % 7 + 0.1 * k},{kinds[k % 3]},w{k}" for k in range(30)]
    (tmp_path / "c.csv").write_text("\n".join(lines) + "\n")
    run("fit c.csv --target kind --classify --id who --out c")
    run("predict c --rows c.csv --out p.csv")
    with (tmp_path / "p.csv").open() as file:
        found = {line["kind"] for line in csv.DictReader(file)}
    assert found <= {"yes, please", "01", "1"}
    run("unlearn c --subject w4")


def test_a_certificate_without_evidence_does_not_hold_by_itself(fitted, tmp_path):
    fitted("unlearn store --subject p3 --steps 1 --receipt c.json")
    record = json.loads((tmp_path / "c.json").read_text())
    public = record["certificate"] | {"evidence": None}
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
        ("unlearn store --subject p3 --receipt nowhere/c.json", "must be in an existing folder"),
        ("unlearn store --subject p3 --receipt people.parquet", "must be a new file"),
        ("release store --out store/ledger.sqlite", "out must be outside of the store"),
        ("predict store --rows people.parquet --out people.parquet", "must be another file"),
        ("fit people.parquet --target y --out other", "without names no row can be forgotten"),
        ("unlearn store --subject p3 --epsilon -1", "epsilon must be a finite number > 0"),
        ("ledger store --since 5:xyz", "a head must"),
        ("ledger store --proof p.json", "--proof must come with either --since or --entry"),
        ("ledger store --entry 7 --proof p.json", "must be in [0, 0], got 7"),
        ("unlearn store --subject p3 --steps 0", "--steps must be an integer >= 1"),
        ("quote store", "exactly one of --subject and --all must be given"),
        ("quote store --all --subject p3", "exactly one of --subject and --all must be given"),
        ("quote store --subject p3 --subject nobody", "got unknown 'nobody'"),
        ("request store --subject nobody", "got unknown 'nobody'"),
        ("unlearn store", "--subject or --subjects must name at least one person"),
        ("add store people.parquet", "store forgets by langevin: only a store of --method refit"),
        ("correct store people.parquet", "only a store of --method refit takes rows"),
        ("sync store", "only a store of --method refit takes rows that come and go"),
        ("release store --out model.skops", "--out must be a file that ends in .json"),
        ("unlearn store --subject p3 --table nothing.csv", "table must be a file"),
        ("unlearn store --subject p3 --by hope", "--by must be one of"),
        ("unlearn store --subject p3 --delta 2", "delta must be"),
        ("unlearn store --subject p3 --sign nothing.key", "must be a private key: No such file"),
        ("unlearn store --subject p3 --sign people.parquet", "must be a private key as PEM"),
        ("report store --out store/report.html", "out must be outside of the store"),
        ("report store --out people.parquet", "must be another file than what is read"),
        ("report store --out r.html --table nothing.csv", "table must be a file"),
        ("report store --out r.html --people 0", "people must be an integer >= 1"),
        ("table store --rewrite store/t.parquet", "rewrite must be outside of the store"),
        ("table store --rewrite t.csv", "must end in .parquet"),
        ("verify nothing.json", "No such file"),
        ("quote store --subject p3 --out x.csv", "out must come with --all"),
        ("quote store --all --out people.parquet", "must be another file than what is read"),
        ("release store --out people.parquet", "must be another file than what is read"),
        (
            "release store --out nowhere/model.json",
            "--out must be in an existing folder, got --out='nowhere/model.json'",
        ),
        ("ledger store --entry 0", "entry must come with --proof"),
        ("ledger nothing", "got no such folder"),
        (f"{FIT} --out .", "a name of its own"),
        (
            "verify store --public-key desk.pub",
            "--public-key must be left out when a store is verified",
        ),
        ("fit people.parquet --target y --target y --subject person --out o", "different columns"),
        ("fit people.parquet --target person --subject y --out o", "by text or a whole number"),
        (f"{FIT} --classify --out o", "whole numbers"),
        ("fit people.parquet --target y --subject f0 --out o", "must be numeric"),
        (f"{FIT} --alpha -1 --out o", "alpha must be"),
        ("fit people.parquet --target y --id person --out o", "ids must be unique"),
        ("fit people.txt --target y --id person --out o", "table must be a file"),
        ("fit people.parquet --target z --subject person --out other", "must have a column 'z'"),
        ("fit nothing.parquet --target y --subject person --out other", "table must be a file"),
        (
            f"{FIT} --out store",
            "must be a new or empty folder",
        ),
        (
            "verify people.parquet",
            "people.parquet must be a receipt, a release, a certificate or a proof",
        ),
    ],
)
def test_errors_are_one_line_and_change_nothing(fitted, line, message):
    before = fitted("ledger store")
    assert message in fitted.error(line)
    assert fitted("ledger store") == before


def test_release_and_predict(fitted, tmp_path):
    assert "none, since nothing was changed" in fitted("release store --out model.json")
    assert len(json.loads((tmp_path / "model.json").read_text())["coefficients"][0]) == 3
    assert "60 predictions" in fitted("predict store --rows people.parquet --out out.csv")
    assert "Released the model as json" in fitted("ledger store")


def test_a_queue(fitted):
    assert "No requests are pending" in fitted("run store")
    fitted("request store --subject p3 --due 2027-01-31")
    assert "Pending: 2." in fitted("request store --subject p5")
    done = json.loads(fitted("run store --json"))
    assert (done["n_people"], done["n_rows_forgotten"]) == (2, 6)
    assert done["receipt"].startswith("receipt-")
    assert "due 2027-01-31" in fitted("ledger store")


def test_a_budget_that_is_spent_has_a_code_of_its_own(table):
    table(f"{FIT} --out store --budget-epsilon 1.2")
    table("unlearn store --subject p3 --steps 1")
    output = table("unlearn store --subject p4 --steps 1", code=3)
    assert "pilu redraw store" in output
    table("unlearn store --subject p4 --steps 1 --redraw-if-needed")


def test_a_person_who_has_all_rows(table, tmp_path):
    rows = pyarrow.parquet.read_table(tmp_path / "people.parquet")
    where = rows.column_names.index("person")
    pyarrow.parquet.write_table(
        rows.set_column(where, "person", pa.array(["p0"] * 60)), tmp_path / "one.parquet"
    )
    table("fit one.parquet --target y --subject person --out one")
    assert "must leave at least one row" in table("unlearn one --subject p0", code=2)
    assert "all rows that are left are one subject's" in table("quote one --all", code=2)
    assert "Learned from 60 rows" in table("ledger one")


def test_all_problems_are_reported_at_once(fitted):
    line = f"{FIT} --out o --threshold 1 --auxiliary-runs 8"
    wrong = fitted(line, code=2)
    assert "--auxiliary-runs must come with --loss logistic or huber" in wrong
    assert "--threshold must come with --loss huber" in wrong
    wrong = fitted("verify people.parquet --since 1:ab --public-key k", code=2)
    assert "must be a receipt" in wrong
    fitted("release store --out model.json")
    wrong = fitted("verify model.json --since 1:ab --public-key k --table people.parquet", code=2)
    for option in ("--since", "--public-key", "--table"):
        assert f"{option} must come with" in wrong
