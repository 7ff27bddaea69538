"""What careless and hostile users do to a refit store: the result is true, or refused in words."""

import importlib
import sys
import unicodedata
from datetime import date

import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import desk_scores, make_rows, plain_scores, write
from pilu.desk import checking
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.exceptions import AlreadyForgotten, CertificateMismatch, RowsChanged, WrongInput
from pilu.store import store as store_module


def fitted(folder, rows, name="people.csv", **options):
    given = {**COLUMNS, **options}
    return Desk.fit(folder / f"store of {name}", write(rows, folder / name), **given)


# Names


def test_names_are_compared_as_text(tmp_path):
    rows = make_rows(60)
    for row, name in zip(rows, ["1", "01", "1.0", " 1", "one", "ONE"], strict=False):
        row["person"] = name
    with fitted(tmp_path, rows) as desk:
        assert len(desk.unlearn(1).receipts) == 1  # a number is its digits
        assert desk.read().state["n_rows"] == 59
        with pytest.raises(AlreadyForgotten):
            desk.unlearn("1")
        for k, name in enumerate(["01", 1.0, " 1", "ONE"]):
            desk.unlearn(name)
            assert desk.read().state["n_rows"] == 58 - k
        with pytest.raises(WrongInput, match="twice"):
            desk.unlearn(["1", 1])
        assert check_store(desk)


def test_names_in_a_typed_table_are_the_same_as_in_a_text(tmp_path):
    """Whole numbers by their digits: a forgotten 7 comes back neither as 7 nor as "7"."""
    rows = make_rows(60)
    for k, row in enumerate(rows):
        row["person"] = k // 2
    with fitted(tmp_path, rows, "people.parquet") as desk:
        desk.unlearn("7")
        more = make_rows(3, first=100, people=["7", "8", "900"])
        with pytest.raises(WrongInput, match=r"^7 was forgotten, and must not be learned again"):
            desk.add(write(more, tmp_path / "more.csv"))
        more[0]["person"] = "007"  # text as typed: somebody else
        desk.add(write(more, tmp_path / "more.csv"))
        assert check_store(desk)


def test_two_ways_to_write_a_letter_are_two_names(tmp_path):
    """Neither is guessed to be the other: both are there, and each is forgotten by its own."""
    composed, decomposed = (unicodedata.normalize(form, "Zoé") for form in ("NFC", "NFD"))
    rows = make_rows(60)
    rows[0]["person"], rows[1]["person"] = composed, decomposed
    with fitted(tmp_path, rows) as desk:
        desk.unlearn(composed)
        assert desk.read().state["n_rows"] == 59
        desk.unlearn(decomposed)
        assert desk.read().state["n_rows"] == 58


def test_a_person_without_a_name(tmp_path):
    rows = make_rows(60)
    rows[5]["person"] = ""
    with pytest.raises(WrongInput, match="1 name is missing, in row 6"):
        fitted(tmp_path, rows)


def test_a_person_in_two_stores(tmp_path):
    """Each has a key of its own: a receipt of one says nothing in the other."""
    rows = make_rows(60)
    with fitted(tmp_path, rows, "a.csv") as one, fitted(tmp_path, rows, "b.csv") as two:
        (receipt,) = one.unlearn("person 1").receipts
        with pytest.raises(CertificateMismatch, match="from another store"):
            check_receipt(receipt, two)
        (other,) = two.unlearn("person 1").receipts
        assert receipt.person.name != other.person.name


# Ids


def test_ids_that_are_used_again(tmp_path):
    """For somebody else, after the one who had them was forgotten."""
    rows = make_rows(60)
    with fitted(tmp_path, rows) as desk:
        desk.unlearn("person 1")
        new = make_rows(2, first=100, people=["somebody new"] * 2)
        for row, old in zip(new, rows[2:4], strict=True):
            row["row"] = old["row"]
        desk.add(write(new, tmp_path / "new.csv"))  # the old rows are still in the first table
        in_model = [row for row in rows if row["person"] != "person 1"] + new
        assert desk.compare(write(in_model, tmp_path / "left.csv")).is_empty
        desk.unlearn("person 2")
        assert check_store(desk, table=tmp_path / "people.csv")
        assert desk.read().state["n_rows"] == 58


def test_a_forgotten_row_hides_nobodys_row(tmp_path):
    """A later table has a forgotten person under the id of somebody who stays."""
    rows = make_rows(60)
    with fitted(tmp_path, rows) as desk:
        desk.unlearn("person 1")
        new = make_rows(2, first=100, people=["person 1", "somebody new"])
        new[0]["row"] = "row 20"
        desk.add(write(new, tmp_path / "new.csv"), without_forgotten=True)
        desk.unlearn("person 2")  # all other rows are still found
        assert desk.read().state["n_rows"] == 57
        assert check_store(desk, table=tmp_path / "people.csv")


def test_ids_only_and_a_row_that_comes_back(tmp_path):
    rows = make_rows(60)
    options = {"subject": None, "ignore": ["person", "weight"]}
    with fitted(tmp_path, rows, **options) as desk:
        desk.unlearn(["row 3", "row 4"])
        with pytest.raises(WrongInput, match=r"^row 3, row 4 were forgotten, and must not"):
            desk.sync()
        desk.sync(without_forgotten=True, returned=["row 4"])
        assert desk.read().state["n_rows"] == 59
        desk.unlearn("row 4")  # somebody who came back may leave again
        assert check_store(desk)["forgotten_people_are_those_of_the_log"]


# Equal rows


def test_equal_rows_of_two_people(tmp_path):
    """Without ids: each keeps their own, however the table is ordered."""
    rows = make_rows(40)
    twins = [{**rows[0], "person": name} for name in ("ann", "bob", "bob")]
    rows = [*twins, *rows]
    options = {"id": None, "ignore": ["row", "weight"], "words": []}
    with fitted(tmp_path, rows, **options) as desk:
        desk.unlearn("ann")
        write([rows[2], *rows[3:], rows[1]], tmp_path / "people.csv")
        assert desk.compare().is_empty
        write(rows[2:], tmp_path / "people.csv")  # bob has one left
        assert (desk.compare().n_missing, desk.compare().n_same) == (1, 41)
        with pytest.raises(RowsChanged, match="1 row"):
            desk.unlearn("person 5")
        desk.sync()
        desk.unlearn("bob")
        assert desk.read().state["n_rows"] == 40


# Tables


def test_columns_that_come_go_and_move(tmp_path):
    rows = make_rows(60)
    with fitted(tmp_path, rows) as desk:
        moved = [dict(reversed([*row.items(), ("new column", k)])) for k, row in enumerate(rows)]
        write(moved, tmp_path / "people.csv")
        assert desk.compare().is_empty  # a column that is not used is not read
        desk.unlearn("person 1")
        write(rows, tmp_path / "people.csv", {"since"})
        with pytest.raises(WrongInput, match="'since'"):
            desk.unlearn("person 2")


def test_a_column_that_looks_like_numbers_without_the_one_who_left(tmp_path):
    """Types are those of the fit, not of what a file looks like now."""
    rows = make_rows(60)
    for k, row in enumerate(rows):
        row["city"] = str(k % 3)
    rows[0]["city"] = rows[1]["city"] = "Basel"
    with fitted(tmp_path, rows) as desk:
        write(rows[2:], tmp_path / "people.csv")
        desk.unlearn("person 0")
        desk.unlearn("person 1")
        assert check_store(desk, table=tmp_path / "people.csv")


def test_a_folder_of_files(tmp_path):
    rows, folder = make_rows(60), tmp_path / "folder"
    folder.mkdir()
    for k in range(3):
        write(rows[20 * k : 20 * k + 20], folder / f"part {k}.csv")
    with Desk.fit(tmp_path / "store", folder, **COLUMNS) as desk:
        write(make_rows(4, first=100), folder / "part 3.csv")
        (folder / "part 1.csv").unlink()
        assert (desk.compare().n_new, desk.compare().n_missing) == (4, 20)
        assert len(desk.sync(forget_missing=True).receipts) == 10
        assert check_store(desk, table=folder)


def test_a_row_under_another_spelling_is_somebody_else(tmp_path):
    """Nothing of a forgotten row is kept by which it could be recognised."""
    rows = make_rows(60)
    with fitted(tmp_path, rows) as desk:
        desk.unlearn("person 1")
        again = [{**row, "person": "Person 1", "row": f"again {row['row']}"} for row in rows[2:4]]
        desk.add(write(again, tmp_path / "again.csv"))
        assert desk.read().state["n_rows"] == 60
        desk.unlearn("Person 1")
        assert check_store(desk)


# Corrections


def test_a_correction_wins_over_the_table(tmp_path):
    rows = make_rows(60)
    with fitted(tmp_path, rows, words=[]) as desk:
        for age in (30, 70):
            corrected = {**rows[9], "age": age}
            desk.correct(write([corrected], tmp_path / f"corrected {age}.csv"))
        left = [*rows[:9], corrected, *rows[10:]]
        at = make_rows(10, 99)
        words = "said" in desk.read().layout.kinds
        found, truth = desk_scores(desk, at, tmp_path), plain_scores(left, at, words=words)
        assert abs(found - truth).max() < 0.012
        assert desk.compare().is_empty
        assert check_store(desk, table=write(left, tmp_path / "left.csv"))
        with pytest.raises(RowsChanged, match="1 are changed"):
            check_store(desk, table=write(rows, tmp_path / "without.csv"))


# Time and requests


def test_a_clock_that_goes_back(tmp_path, monkeypatch):
    """The log is in the order of its entries, whatever the clock says."""
    times = iter([f"20{year}-01-01T00:00:00+00:00" for year in (40, 30, 20, 10, 50)])
    monkeypatch.setattr(store_module, "now", lambda: next(times))
    with fitted(tmp_path, make_rows(60)) as desk:
        desk.request("person 1", due=date(2031, 1, 1))
        desk.request("person 2")
        assert [one.due for one in desk.pending()] == ["2031-01-01", None]
        assert len(desk.run().receipts) == 2
        assert check_store(desk)
        assert desk.pending() == []


def test_asking_twice_and_leaving_otherwise(tmp_path):
    rows = make_rows(60)
    with fitted(tmp_path, rows) as desk:
        desk.request(["person 1", "person 2"], due=date(2030, 1, 1))
        desk.request("person 1", due=date(2029, 1, 1))
        assert [one.due for one in desk.pending()] == ["2029-01-01", "2030-01-01"]
        desk.unlearn("person 1")
        write([row for row in rows if row["person"] not in ("person 1", "person 2")],
              tmp_path / "people.csv")  # fmt: skip
        desk.sync()  # drops their rows, and does not answer their request
        assert len(desk.pending()) == 1
        (receipt,) = desk.run().receipts
        assert receipt.person.record["rows"] == 0
        assert desk.run() is None
        assert check_store(desk)
        with pytest.raises(AlreadyForgotten):
            desk.request("person 2")


def test_a_dry_run_changes_nothing(desk, tmp_path):
    before = {p: p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()}
    dry = desk.dry_run(["person 1", "person 2"])
    assert (dry.n_people, dry.n_rows) == (2, 4)
    assert before == {p: p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()}


# Pipelines


def test_a_pipeline_that_imports_a_module_of_the_user(tmp_path, monkeypatch):
    """It works where Python finds the module, and is refused in words where it does not."""
    (tmp_path / "own_helpers.py").write_text("COLUMNS = ['age', 'since']\n")
    (tmp_path / "own_pipeline.py").write_text(
        "from own_helpers import COLUMNS\n"
        "from sklearn.compose import make_column_transformer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "def make():\n"
        "    columns = make_column_transformer((StandardScaler(), COLUMNS))\n"
        "    return make_pipeline(columns, LogisticRegression())\n"
    )
    own, rows = f"{tmp_path / 'own_pipeline.py'}:make", make_rows(60)
    with pytest.raises(WrongInput, match="cannot be run: ModuleNotFoundError: No module named"):
        fitted(tmp_path, rows, pipeline=own)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        with fitted(tmp_path, rows, pipeline=own) as desk:
            desk.unlearn("person 1")
            assert check_store(desk)
        for name in ("own_pipeline", "own_helpers"):
            sys.modules.pop(name)
        (tmp_path / "own_helpers.py").write_text("COLUMNS = ['age', 'income']\n# changed\n")
        importlib.invalidate_caches()
        with (
            Desk.open(tmp_path / "store of people.csv") as desk,
            pytest.raises(WrongInput, match="the pipeline is not the one of the fit"),
        ):
            desk.unlearn("person 2")
    finally:
        for name in ("own_pipeline", "own_helpers"):
            sys.modules.pop(name, None)


MODELS = [
    ("logistic", "auto"),
    ("svm", 1.0),
    ("svm", "auto"),
    ("ridge", "auto"),
    ("poisson", "auto"),
    ("poisson", 1.0),
    ("gamma", 1.0),
    ("auto", 10.0),
]


@pytest.mark.parametrize(("model", "alpha"), MODELS)
def test_every_model(tmp_path, model, alpha):
    rows = make_rows(60, target="class" if model in ("logistic", "svm", "auto") else "number")
    if model in ("poisson", "gamma"):
        for row in rows:
            row["y"] = round(abs(row["y"])) + 1
    options = {"model": model, "alpha": alpha, "ignore": ["weight", "said"]}
    with fitted(tmp_path, rows, **options) as desk:
        (receipt,) = desk.unlearn("person 1").receipts
        assert check_receipt(receipt, desk, tmp_path / "people.csv")["inputs_checked_against_data"]
        desk.release(tmp_path / "model.json")
        assert desk.predict_table(tmp_path / "people.csv", tmp_path / "out.csv") == 60
        desk.add(write(make_rows_like(rows, model), tmp_path / "more.csv"))
        assert checking.check_store(desk)


def make_rows_like(rows, model):
    more = make_rows(4, first=100, target="class" if isinstance(rows[0]["y"], str) else "number")
    for row in more:
        if model in ("poisson", "gamma"):
            row["y"] = round(abs(row["y"])) + 1
    return more
