"""Stores that forget by a refit: tables as companies have them, rows that come and go."""

import csv
import json
import zipfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from pilu.cli.files import ReceiptFiles

FIT = "fit orders.csv --target left --subject customer --id order"
PEOPLE = 40


def _all_orders(n=150):
    rng = np.random.default_rng(0)
    visits = rng.integers(0, 30, size=n)
    words = ["late", "parcel", "nice", "refund", "again", "broken", "happy"]
    return pa.table(
        {
            "order": [f"o{k:03d}" for k in range(n)],
            "customer": [f"c{k // 3}" for k in range(n)],
            "email": [f"c{k // 3}@example.com" for k in range(n)],
            "note": [f"{k} " + " ".join(rng.choice(words, size=4)) for k in range(n)],
            "since": [date(2020, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 900, n)],
            "newsletter": [bool(b) for b in rng.integers(0, 2, size=n)],
            "region": [None if k % 9 == 0 else ("north", "south")[k % 2] for k in range(n)],
            "visits": [None if k % 17 == 0 else int(v) for k, v in enumerate(visits)],
            "empty": [None] * n,
            "weight": 1.0 + rng.random(size=n),
            "left": ["yes" if v + 5 * rng.normal() < 12 else "no" for v in visits],
        }
    )


ORDERS = _all_orders()


def orders(n=120):
    """Rows with text, dates, booleans and missing values; three rows a customer."""
    return ORDERS.slice(0, n)


def write(table, name):
    if name.endswith(".csv"):
        pyarrow.csv.write_csv(table, name)
    else:
        pyarrow.parquet.write_table(table, name)


def without(table, *people):
    return table.filter(pa.array([name not in people for name in table["customer"].to_pylist()]))


def with_value(table, row, column, value):
    values = table[column].to_pylist()
    values[row] = value
    where = table.column_names.index(column)
    return table.set_column(where, column, pa.array(values, table[column].type))


@pytest.fixture
def table(run):
    write(orders(), "orders.csv")
    return run


@pytest.fixture
def fitted(table):
    table(f"{FIT} --out store")
    return table


# Fit


@pytest.mark.parametrize("name", ["orders.csv", "orders.parquet"])
def test_a_fit_says_what_it_did(run, name):
    write(orders(), name)
    shown = run(f"fit {name} --target left --subject customer --id order --ignore weight --out s")
    for line in (
        "s: learned from 120 rows of 40 people.",
        "  target: left (a class, text)",
        "  subject: customer",
        "  numbers: visits (missing values become the median and are flagged, then scaled)",
        "  dates: since (as numbers: days since 1970-01-01 UTC)",
        "  words: note (TF-IDF",
        "  left out: email (its 40 different values have fewer than 2 people each",
        "  left out: weight (named by --ignore)",
        "  model: logistic",
        "Score: ROC AUC 0.",
        "Note the head of the log: 1:",
    ):
        assert line in shown
    assert "clearly better than a constant (0.5)" in shown
    assert "newsletter" in shown
    assert "left out: empty" in shown
    assert "warning" not in shown


def test_a_fit_for_scripts(table):
    found = table.json(f"{FIT} --out store")
    assert (found["n_rows"], found["n_people"], found["model"]) == (120, PEOPLE, "auto")
    assert found["score"]["metric"] == "ROC AUC"
    assert found["warnings"] == []
    assert any(step.startswith("left out: email") for step in found["steps"])
    assert found["head"] == table.json("ledger store")["head"]


def test_a_model_that_is_no_better_than_a_constant(run):
    rng = np.random.default_rng(1)
    columns = {"x": rng.normal(size=90), "y": rng.normal(size=90), "who": np.arange(90) // 3}
    write(pa.table(columns), "noise.csv")
    shown = run("fit noise.csv --target y --subject who --out store")
    assert "pilu: warning: the model is not clearly better than a constant." in shown
    assert "--alpha auto or another --model" in shown
    assert run.json("fit noise.csv --target y --subject who --out again")["warnings"]


def test_all_problems_of_a_table_at_once(run, tmp_path):
    lines = [
        "order,customer,price,w,left",
        "1,anna,1,1,yes",
        "1,,inf,-1,no",
        "3,ben,2,,",
    ]
    (tmp_path / "bad.csv").write_text("\n".join(lines))
    line = "fit bad.csv --target left --subject customer --id order --weight w --out store"
    first, *problems = run(line, code=2).splitlines()
    assert first == (
        "pilu: the table has 6 problems (rows are counted from 1, without the header):"
    )
    assert all(problem.startswith("pilu:   ") for problem in problems)
    for text in (
        "column 'price': 1 value is infinite or beyond 1e+50, in row 2",
        "--ignore price",
        "--target left: 1 class is missing, in row 3. Leave such rows out.",
        "--weight w: 1 weight is missing, in row 3",
        "--weight w: 1 weight is negative, in row 2",
        "--id order: every row must have a name of its own, got 1 repeated",
        "use --subject order",
        "--subject customer: 1 name is missing, in row 2",
    ):
        assert any(text in problem for problem in problems), text
    assert not (tmp_path / "store").exists()


def test_mistyped_columns_are_named_all_at_once(table):
    line = "fit orders.csv --target Left --subject customr --id ordr --words notes --out store"
    _, *problems = table(line, code=2).splitlines()
    for option, meant in (
        ("--target Left", "left"),
        ("--subject customr", "customer"),
        ("--id ordr", "order"),
        ("--words notes", "note"),
    ):
        (problem,) = [text for text in problems if option in text]
        assert f"Did you mean '{meant}'" in problem
    assert len(problems) == 4


def test_a_pipeline_of_the_users_own(table, tmp_path):
    (tmp_path / "mine_of_a_user.py").write_text(
        "from sklearn.compose import make_column_transformer\n"
        "from sklearn.impute import SimpleImputer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n\n"
        "def make():\n"
        "    columns = make_column_transformer((SimpleImputer(), ['visits']))\n"
        "    return make_pipeline(columns, LogisticRegression())\n"
    )
    pipeline = "--pipeline mine_of_a_user.py:make"
    assert "learned from 120 rows" in table(f"{FIT} {pipeline} --out store")
    assert "Forgot 1 person with 3 rows" in table("unlearn store --subject c3 --receipt r.json")
    wrong = table.error(f"{FIT} {pipeline} --alpha 2 --model ridge --out other")
    assert wrong == "--model and --alpha must be left out with --pipeline, which has its own."
    wrong = table.error(f"{FIT} --pipeline mine_of_a_user.py:nothing --out other")
    assert "must name a function of mine_of_a_user.py, got 'nothing'" in wrong
    assert "such as mine.py:make, got mine" in table.error(f"{FIT} --pipeline mine --out other")


def test_a_penalty_and_weights(table):
    assert "penalty alpha = 3" in table(f"{FIT} --alpha 3 --out a")
    chosen = table(f"{FIT} --alpha auto --weight weight --out b")
    assert "penalty alpha chosen by cross-validation, the rows of a person together" in chosen
    assert "weight: weight" in chosen
    assert "Forgot 1 person" in table("unlearn b --subject c3 --receipt r.json")
    wrong = table.error(f"{FIT} --alpha much --out c")
    assert wrong == "--alpha must be a number or auto, got --alpha='much'."


def test_columns_by_words_and_by_levels(table):
    shown = table(f"{FIT} --words region --categories visits --ignore note --out store")
    assert "words: region" in shown
    assert "visits" in next(line for line in shown.splitlines() if "categories:" in line)


def test_options_of_the_other_method_are_refused_all_at_once(table, tmp_path):
    options = "--loss huber --threshold 1 --learning-steps 5 --classify --budget-epsilon 2"
    wrong = table.error(f"{FIT} {options} --out store")
    for option in ("--loss", "--threshold", "--learning-steps", "--classify", "--budget-epsilon"):
        assert f"{option} must come with --method langevin, got --method refit." in wrong
    wrong = table.error(f"{FIT} --model ridge --words note --method langevin --out store")
    for option in ("--model", "--words"):
        assert f"{option} must come with --method refit, got --method langevin." in wrong
    assert "--method must be refit or langevin" in table.error(f"{FIT} --method magic --out store")
    assert not (tmp_path / "store").exists()


def test_options_of_the_other_method_for_a_store(fitted):
    options = "--epsilon 1 --delta 0.1 --steps 3 --by redraw --redraw-if-needed --recollect"
    names = [word for word in options.split() if word.startswith("--")]
    wrong = fitted.error(f"unlearn store --subject c3 {options}")
    assert [name for name in names if f"{name} must be left out: store forgets" in wrong] == names
    fitted("request store --subject c3")
    assert "--steps must be left out" in fitted.error("run store --steps 3")
    assert "--epsilon must be left out" in fitted.error("quote store --subject c3 --epsilon 2")
    assert "--all must be left out" in fitted.error("quote store --all")
    assert "a refit needs no redraw" in fitted.error("redraw store")


# Forget


def test_a_quote_changes_nothing(fitted):
    before = fitted("ledger store")
    shown = fitted("quote store --subject c3 --subject c4 --subject c3")
    assert shown.startswith("2 people with 6 rows. ROC AUC on rows that are left: 0.")
    assert shown.endswith("Nothing was changed.\n")
    found = fitted.json("quote store --subject c3")
    assert (found["n_people"], found["n_rows"]) == (1, 3)
    assert found["score"].keys() >= {"metric", "value", "before"}
    assert fitted("ledger store") == before


def test_one_person(fitted, tmp_path):
    shown = fitted("unlearn store --subject c3 --receipt c3.json")
    for line in (
        "Forgot 1 person with 3 rows. The model has 117 rows now. Certificate: epsilon 0.1, ",
        "Exposure: no model that had them was released.",
        "Receipt, the only copy of the evidence: c3.json",
        "Head of the log: 2:",
        "warning: 3 row(s) of forgotten people are still in the table. `pilu table store",
    ):
        assert line in shown
    checked = fitted("verify c3.json")
    assert "It is not shown to be in any log: pass --store, or compare its head" in checked
    checked = fitted("verify c3.json --store store")
    assert "not shown to be in any log" not in checked
    assert "yes  in the log of the store" in checked
    checks = fitted.json("verify c3.json --store store --table orders.csv")
    assert checks["inputs_checked_against_data"]
    assert fitted.error("unlearn store --subject c3") == (
        "c3 was forgotten already. Nothing was changed."
    )


def test_several_people_by_options_and_a_file(fitted, tmp_path):
    (tmp_path / "names.txt").write_text("c4\n\n  c5  \nc3\n")
    line = "unlearn store --subject c3 --subject c6 --subjects names.txt --receipt night"
    done = fitted.json(line)
    assert done["kind"] == "unlearn"
    assert (done["n_people"], done["n_rows_forgotten"], done["n_rows_left"]) == (4, 12, 108)
    assert (done["epsilon"], done["delta"]) == (0.1, 1e-9)
    assert done["receipt"] == "night"
    assert done["notes"]
    assert done["head"] == fitted.json("ledger store")["head"]
    with (tmp_path / "night" / "index.csv").open() as file:
        index = {line["person"]: line["file"] for line in csv.DictReader(file)}
    assert sorted(index) == ["c3", "c4", "c5", "c6"]
    for name in index.values():
        assert "yes  in the log of the store" in fitted(f"verify night/{name} --store store")
    assert len(list((tmp_path / "night").iterdir())) == 5


def test_receipts_in_an_archive(fitted, tmp_path):
    fitted("unlearn store --subject c3 --subject c4 --receipt night.zip")
    with zipfile.ZipFile(tmp_path / "night.zip") as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    assert len(names) == 3
    assert "index.csv" in names
    assert "yes  in the log of the store" in fitted(f"verify {names[0]} --store store")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("unlearn store --subject c3 --receipt store/r.json", "must be outside of the store"),
        ("unlearn store --subject c3 --receipt orders.csv", "--receipt must be a new file"),
        ("unlearn store --subject c3 --receipt taken", "--receipt must be a file, not a folder"),
        ("unlearn store --subject c3 --subject c4 --receipt taken", "must be a new folder"),
        ("unlearn store --subject c3 --receipt nowhere/r.json", "must be in an existing folder"),
        ("unlearn store --subject c3 --sign orders.csv", "must be a private key as PEM"),
        ("run store --receipt orders.csv", "--receipt must be a new file"),
        ("add store more.csv --receipt orders.csv", "--receipt must be a new file"),
        ("correct store more.csv --receipt store/r.json", "must be outside of the store"),
    ],
)
def test_a_place_for_receipts_is_checked_before_any_work(fitted, monkeypatch, line, message):
    def never(*_, **__):
        raise AssertionError

    fitted("request store --subject c9")
    Path("taken").mkdir()
    monkeypatch.setattr("pilu.desk.refit_desk.refit", never)
    monkeypatch.setattr("pilu.desk.refit_snapshot.RefitSnapshot.read_rows", never)
    before = fitted("ledger store")
    assert message in fitted.error(line)
    assert fitted("ledger store") == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("unlearn store", "--subject or --subjects must name at least one person"),
        ("unlearn store --subjects nothing.txt", "must be a list of names: No such file"),
        ("unlearn store --subject x --subject y", "got unknown x, y. Nothing was changed"),
        ("unlearn orders.csv --subject c3", "must be a store"),
        ("request store --subject nobody", "got unknown nobody"),
        ("quote store --subject nobody", "got unknown nobody"),
        ("quote store", "exactly one of --subject and --all must be given"),
        ("unlearn store --subject c3 --table nothing.csv", "nothing.csv, where there is none"),
        ("add store nothing.csv", "nothing.csv, where there is none"),
        ("add store orders.csv", "which the store has"),
        ("add store again.csv", "have ids that the model knows, the first in row 1"),
        ("correct store strange.csv", "have ids that the model does not know. Use `pilu add`"),
        ("predict store --rows new.csv --out new.csv", "must be another file than what is read"),
        ("predict store --rows names.csv --out p.csv", "are missing"),
        ("release store --out model.pkl", "--out must be a file that ends in .json or .skops"),
        ("release store --out store/m.json", "--out must be outside of the store"),
        ("fit orders.csv --target left --out other", "Pass --subject or --id"),
        ("fit orders.csv --target left --id order --out store", "must be a new or empty folder"),
        ("fit orders.csv --target left --target visits --id order --out o", "given once"),
        ("verify model.skops", "--store must be given with a .skops file"),
        ("table store --rewrite store/t.csv", "--rewrite must be outside of the store"),
        ("table store --rewrite t.parquet", "must end in .csv"),
    ],
)
def test_errors_are_one_line_and_change_nothing(fitted, line, message):
    write(orders().slice(0, 3), "again.csv")
    write(orders(123).slice(120), "strange.csv")
    write(orders().select(["order", "customer"]), "names.csv")
    before = fitted("ledger store")
    assert message in fitted.error(line)
    assert fitted("ledger store") == before


def test_all_people_of_a_store(run):
    write(orders(6), "few.csv")
    run("fit few.csv --target weight --subject customer --ignore empty --out store")
    assert "Delete the store and the model instead" in run.error(
        "unlearn store --subject c0 --subject c1"
    )


def test_a_queue(fitted, tmp_path):
    assert "No requests are pending" in fitted("run store")
    assert fitted.json("run store") == {"pending": 0}
    (tmp_path / "names.txt").write_text("c4\nc5\n")
    shown = fitted("request store --subjects names.txt --due 2027-01-31")
    assert shown == "Queued 2 people. Pending: 2. Next: pilu run store\n"
    assert fitted.json("request store --subject c6") == {"pending": 3}
    done = fitted.json("run store --receipt night")
    assert (done["n_people"], done["n_rows_forgotten"]) == (3, 9)
    assert len(list((tmp_path / "night").glob("*.json"))) == 3
    assert "2 people asked to be forgotten (due 2027-01-31)." in fitted("ledger store")


def test_signed_receipts(fitted, tmp_path):
    keys = fitted.json("keygen --private desk.key --public desk.pub")
    assert keys == {"private": "desk.key", "public": "desk.pub"}
    fitted("unlearn store --subject c3 --receipt c3.json --sign desk.key")
    line = "verify c3.json --store store --table orders.csv --public-key desk.pub"
    checks = fitted.json(line)
    assert {name for name, good in checks.items() if not good} == {
        "parameters_checked",
        "utility_recomputed",
    }
    alone = fitted.json("verify c3.json --public-key desk.pub")
    assert alone["issuer_checked"]
    assert alone["signed_by_the_key"]
    assert not fitted.json("verify c3.json")["issuer_checked"]
    fitted("keygen --private other.key --public other.pub")
    assert "was made by the key in other.pub" in fitted.error(
        "verify c3.json --public-key other.pub"
    )
    fitted(f"{FIT} --out second")
    assert "from another store" in fitted.error("verify c3.json --store second")


@pytest.mark.parametrize("what", ["pilu.desk.refit_desk.refit", "pilu.store.store.Change.save"])
def test_nothing_is_signed_for_a_change_that_never_happened(fitted, monkeypatch, tmp_path, what):
    def fails(*_, **__):
        raise OSError(28, "No space left on device", "arrays-1")

    def never(*_, **__):
        raise AssertionError

    fitted("keygen --private desk.key --public desk.pub")
    monkeypatch.setattr(what, fails)
    monkeypatch.setattr("pilu.desk.handing_over.sign_statement", never)
    message = fitted.error("unlearn store --subject c3 --receipt c3.json --sign desk.key")
    assert message == "arrays-1: No space left on device. Nothing was changed."
    assert not (tmp_path / "c3.json").exists()
    assert "All receipts were delivered." in fitted("receipts store")
    assert len(fitted.json("ledger store")["entries"]) == 1


def test_a_receipt_of_another_entry_does_not_hold(fitted, tmp_path):
    fitted("unlearn store --subject c3 --receipt c3.json")
    record = json.loads((tmp_path / "c3.json").read_text())
    for part, name, value in (
        ("entry", "n_forgotten", 4),
        ("entry", "n_rows", 1),
        ("certificate", "epsilon", 0.01),
    ):
        forged = record | {part: record[part] | {name: value}}
        (tmp_path / "forged.json").write_text(json.dumps(forged))
        assert fitted.error("verify forged.json").startswith("forged.json: ")


# Receipts that were not delivered


def test_a_folder_that_disappears_in_between(fitted, monkeypatch, tmp_path):
    """The change is done; the receipts wait, and `receipts` writes them, signed."""
    (tmp_path / "out").mkdir()
    written = ReceiptFiles.write

    def late(self, receipts):
        (tmp_path / "out").rmdir()
        written(self, receipts)

    fitted("keygen --private desk.key --public desk.pub")
    with monkeypatch.context() as patched:
        patched.setattr(ReceiptFiles, "write", late)
        message = fitted.error("unlearn store --subject c3 --subject c4 --receipt out/night", 4)
    assert message == (
        "the change is done, but its receipts could not be handed over (out/.night.part: No such "
        "file or directory). `pilu receipts store` writes them."
    )
    shown = fitted("unlearn store --subject c3 --subject c4", code=2)
    assert "`pilu receipts store` writes them" in shown
    assert "c3, c4 were forgotten already" in shown
    found = fitted.json("receipts store --receipt again --sign desk.key")
    assert found == {"receipts": ["again"]}
    for path in (tmp_path / "again").glob("*.json"):
        line = f"verify again/{path.name} --store store --public-key desk.pub"
        assert "yes  signed by the key" in fitted(line)
    assert fitted("receipts store") == "All receipts were delivered.\n"


def test_a_full_disk_leaves_no_part_of_a_receipt(fitted, monkeypatch, tmp_path):
    def full(path, content):
        path.write_bytes(content[:10])
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("pilu.cli.files.write_new", full)
        for person in ("c3", "c4"):
            shown = fitted(f"unlearn store --subject {person} --receipt {person}.json", code=4)
            assert f"(.{person}.json.part: No space left on device)" in shown
    assert not list(tmp_path.glob("*.json*"))
    assert not list(tmp_path.glob(".*.part"))
    found = fitted.json("receipts store --receipt late.json")["receipts"]
    assert found == ["late-1.json", "late-2.json"]
    for name in found:
        assert "yes  in the log of the store" in fitted(f"verify {name} --store store")


# Rows come and go


def test_rows_are_added(fitted):
    write(orders(126).slice(120), "new.csv")
    shown = fitted("add store new.csv --receipt added.json")
    assert "6 rows learned. The model has 126 rows now." in shown
    assert "yes  in the log of the store" in fitted("verify added.json --store store")
    done = fitted.json("unlearn store --subject c41 --receipt c41.json")
    assert done["n_rows_left"] == 123


def test_rows_are_corrected(fitted):
    write(with_value(orders().slice(6, 2), 0, "visits", 29), "better.csv")
    done = fitted.json("correct store better.csv --receipt better.json")
    assert (done["kind"], done["n_people"], done["n_rows_left"]) == ("correct", 0, 120)
    assert "1 row corrected." in fitted("ledger store")
    assert fitted.json("sync store")["changed"] == 0


def test_a_sync_shows_first_and_applies_with_yes(fitted):
    table = without(with_value(orders(123), 7, "visits", 29), "c5")
    write(table, "orders.csv")
    before = fitted("ledger store")
    shown = fitted("sync store")
    assert shown.splitlines() == [
        "new:         3 rows; 1 new person",
        "changed:     1 row",
        "disappeared: 3 rows; 1 person without any row left",
        "as before:   116 rows",
        "Nothing was changed. Apply it with --yes.",
    ]
    assert fitted("ledger store") == before
    difference = fitted.json("sync store")
    assert difference == {
        "new": 3,
        "changed": 1,
        "missing": 3,
        "same": 116,
        "new_people": 1,
        "missing_people": 1,
        "forgotten_people": [],
        "applied": False,
    }
    assert "the table is not as the model knows it" in fitted.error("unlearn store --subject c9")
    done = fitted.json("sync store --yes --receipt s.json")
    assert done.items() >= (difference | {"applied": True}).items()
    assert (done["kind"], done["n_rows_left"]) == ("sync", 120)
    assert "The model follows the table already." in fitted("sync store --yes")
    assert "3 rows learned, 1 row corrected, 3 rows dropped" in fitted("ledger store")


def test_people_who_disappeared_are_forgotten_with_receipts(fitted, tmp_path):
    write(without(orders(), "c5", "c6"), "orders.csv")
    fitted("sync store --yes --forget-missing --receipt gone")
    assert len(list((tmp_path / "gone").glob("*.json"))) == 2
    write(orders(), "orders.csv")
    shown = fitted("sync store")
    assert "forgotten:   c5, c6 are in the table again. Leave them out by" in shown
    assert "The model follows the table already." in shown


def test_forgotten_people_are_not_learned_again_without_a_word(fitted):
    fitted("unlearn store --subject c3 --receipt c3.json")
    more = orders(132).slice(120)
    write(with_value(more, 0, "customer", "c3"), "more.csv")
    message = fitted.error("add store more.csv")
    assert "c3 was forgotten, and must not be learned again. Nothing was changed." in message
    assert "--without-forgotten" in message
    assert "--returned NAME" in message
    assert "returned must name people who were forgotten, got c7" in fitted.error(
        "add store more.csv --returned c7"
    )
    assert fitted.json("add store more.csv --without-forgotten")["n_rows_left"] == 128
    assert "c3 is in the table again. Leave them out by" in fitted("sync store")
    assert "c3 is in the table again, and left out.\n" in fitted("sync store --without-forgotten")
    back = fitted.json("sync store --yes --returned c3 --receipt back.json")
    assert back["applied"]
    assert back["n_rows_left"] == 132
    assert "A person came back, and may be learned again." in fitted("ledger store")


def test_a_successor_knows_who_was_forgotten(fitted):
    fitted("unlearn store --subject c3 --receipt c3.json")
    line = f"{FIT} --successor-of store"
    assert "c3 was forgotten" in fitted.error(f"{line} --out next")
    found = fitted.json(f"{line} --without-forgotten --out next")
    assert (found["n_rows"], found["n_people"]) == (117, PEOPLE - 1)
    assert fitted.json(f"{line} --returned c3 --out last")["n_rows"] == 120
    assert "c3 was forgotten already" in fitted.error("unlearn next --subject c3")


# Tables, releases, predictions, the log


def test_a_table_with_text_is_rewritten(fitted, tmp_path):
    fitted("unlearn store --subject c3 --receipt c3.json")
    shown = fitted("table store")
    assert "orders.csv: 3 rows of forgotten people (counted from 1, without the header)" in shown
    assert shown.endswith(": 10, 11, 12\n")
    assert "orders.csv: 117 rows without them" in fitted("table store --rewrite orders.csv")
    assert "c3@example.com" not in (tmp_path / "orders.csv").read_text()
    (found,) = fitted.json("table store")["tables"]
    assert found["rows"] == []
    assert "The model follows the table already" in fitted("sync store")
    assert not list(tmp_path.glob(".*part*"))


def test_all_tables_of_a_store_are_searched(fitted):
    write(with_value(orders(123).slice(120), 1, "customer", "c3"), "new.csv")
    fitted("add store new.csv --receipt added.json")
    fitted("unlearn store --subject c3 --receipt c3.json")
    found = fitted.json("table store")["tables"]
    assert [one["rows"] for one in found] == [[9, 10, 11], [1]]
    message = fitted.error("table store --rewrite new.csv")
    assert message == "--rewrite must come with --table: the store has 2 tables."
    assert "new.csv: 2 rows without them" in fitted("table store --table new.csv --rewrite new.csv")


def test_a_format_that_pilu_does_not_write(run):
    pyarrow.feather.write_feather(orders().drop_columns(["empty"]), "orders.feather")
    run("fit orders.feather --target left --subject customer --id order --out store")
    run("unlearn store --subject c3 --receipt c3.json")
    (found,) = run.json("table store")["tables"]
    assert found["rows"] == [9, 10, 11]
    message = run.error("table store --rewrite new.feather")
    assert "orders.feather must end in .parquet, .csv, .npz, .npy to be written again." in message


def test_releases(fitted, tmp_path):
    for name in ("model.json", "model.skops"):
        assert fitted.json(f"release store --out {name}")["certificate_sha256"] is None
        assert "yes  in the log of the store" in fitted(f"verify {name} --store store")
    assert "-    in the log of the store" in fitted("verify model.json")
    record = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(record | {"intercept": [0.0]}))
    assert "do not have the hash" in fitted.error("verify model.json --store store")
    with (tmp_path / "model.skops").open("ab") as file:
        file.write(b"\0")
    assert "was not released by this store, or it was changed" in fitted.error(
        "verify model.skops --store store"
    )
    shown = fitted("unlearn store --subject c3 --receipt c3.json")
    assert "2 releases had them" in shown
    assert fitted.json("release store --out again.json")["certificate_sha256"]


def test_predictions_have_ids(fitted, tmp_path):
    rows = orders(126).slice(120).drop_columns(["left"])
    write(rows, "new.csv")
    assert fitted.json("predict store --rows new.csv --out p.csv") == {"out": "p.csv", "n_rows": 6}
    fitted("predict store --rows new.csv --out p.csv --probabilities")
    with (tmp_path / "p.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["order"] for line in lines] == rows["order"].to_pylist()
    assert [line["customer"] for line in lines] == rows["customer"].to_pylist()
    for line in lines:
        likely = {c: float(line[f"probability of {c}"]) for c in ("yes", "no")}
        assert sum(likely.values()) == pytest.approx(1)
        assert line["left"] == max(likely, key=likely.get)


def test_the_log_and_the_whole_store(fitted, tmp_path):
    head = fitted.json("ledger store")["head"]
    fitted("unlearn store --subject c3 --receipt c3.json")
    shown = fitted(f"ledger store --since {head}")
    assert "Learned from 120 rows of 40 people" in shown
    assert "Forgot 1 person with 3 rows. The model has 117 rows now." in shown
    assert "The log has only grown since that head." in shown
    fitted(f"ledger store --since {head} --proof growth.json")
    assert f"begins with the log of {head}" in fitted("verify growth.json")
    assert all(fitted.json(f"verify store --since {head} --table orders.csv").values())
    (folder,) = (tmp_path / "store").glob("arrays-*")
    (folder / "digests.npy").write_bytes(b"")
    assert "digests.npy was altered or cut" in fitted.error("verify store")
