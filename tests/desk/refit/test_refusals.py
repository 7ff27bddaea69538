"""What a refit store refuses: in one line that says why, and nothing is changed."""

import json
import sys

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from desk.refit.conftest import COLUMNS
from desk.refit.tables import frame, make_rows, write
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.model_files import dump_model, foreign_names, load_model
from pilu.desk.signing import make_keys
from pilu.exceptions import AlreadyForgotten, PiluError, RowsChanged, StoreDamaged, WrongInput


@pytest.fixture
def refused(desk):
    """Call something that must be refused in one line, with the store as it was."""

    def call(kind, words, function, *given, **options):
        before = desk.log().head, desk.store.read_state()
        with pytest.raises(kind, match=words) as caught:
            function(*given, **options)
        assert isinstance(caught.value, PiluError)
        assert type(caught.value).__name__ == "WrongTable" or "\n" not in str(caught.value)
        assert (desk.log().head, desk.store.read_state()) == before
        assert check_store(desk)

    return call


def without(rows, *people):
    return [row for row in rows if row["person"] not in people]


# Rows of people who stay


def test_rows_of_people_who_stay_are_missing(desk, rows, table, refused):
    write(without(rows, "person 1", "person 2"), table)
    words = r"^the table is not as the model knows it: 2 row\(s\) of people who stay are not there"
    refused(RowsChanged, words, desk.unlearn, "person 1")
    refused(RowsChanged, words.replace("2 ", "4 "), desk.unlearn, "person 5")
    refused(RowsChanged, "4 row", desk.dry_run, "person 5")
    assert len(desk.unlearn(["person 1", "person 2"]).receipts) == 2


def test_rows_of_people_who_stay_were_changed(desk, rows, table, refused):
    rows[7]["age"] += 1
    write(rows, table)
    refused(RowsChanged, r"1 row\(s\) of people who stay were changed", desk.unlearn, "person 1")
    desk.unlearn("person 3")  # whose row it is
    rows[9]["city"] = "Genf"
    write(rows, table)
    with pytest.raises(RowsChanged, match="1 are changed there"):
        check_store(desk, table=table)


@pytest.mark.parametrize("column", ["age", "income", "since", "city", "y"])
def test_a_change_in_any_column_is_noticed(desk, rows, table, refused, column):
    other = next(row[column] for row in rows if row[column] not in (rows[7][column], None))
    rows[7][column] = other
    write(rows, table)
    refused(RowsChanged, "1 row.*were changed", desk.unlearn, "person 1")


def test_an_id_that_changed_hands(desk, rows, table, refused):
    rows[7]["person"] = "person 20"
    write(rows, table)
    refused(RowsChanged, "1 row.* not there", desk.unlearn, "person 1")
    desk.sync()
    entry = desk.log().entries[-1].record
    assert (entry["n_added"], entry["n_dropped"], entry["n_corrected"]) == (1, 1, 0)
    assert check_store(desk, table=table)


def test_an_id_that_went_to_a_forgotten_person(desk, rows, table, refused):
    desk.unlearn("person 20")
    rows = without(rows, "person 20")
    rows[7]["person"] = "person 20"
    write(rows, table)
    refused(WrongInput, "^person 20 was forgotten, and must not be learned again", desk.sync)
    desk.sync(without_forgotten=True)
    assert desk.read().state["n_rows"] == 57
    assert check_store(desk)["forgotten_people_are_those_of_the_log"]


def test_a_person_renamed_altogether(desk, rows, table):
    for row in rows:
        row["person"] = {"person 3": "somebody else"}.get(row["person"], row["person"])
    write(rows, table)
    assert len(desk.sync(forget_missing=True).receipts) == 1
    assert check_store(desk, table=table)


# People


def test_unknown_and_forgotten_people_are_all_named_at_once(desk, refused):
    desk.unlearn(["person 1", "person 2"])
    for call in (desk.unlearn, desk.request, desk.dry_run):
        refused(AlreadyForgotten, "^person 1, person 2 were forgotten already. Nothing",
                call, ["person 1", "person 3", "person 2"])  # fmt: skip
        refused(WrongInput, "unknown nobody, anybody, and person 2 forgotten already. Nothing",
                call, ["nobody", "person 2", "anybody", "person 3"])  # fmt: skip
        refused(WrongInput, "got unknown nobody 0, .*, nobody 9 and 30 more",
                call, [f"nobody {i}" for i in range(40)])  # fmt: skip
        refused(WrongInput, "at least one name", call, [])
        refused(WrongInput, "'person 3' twice", call, ["person 3", "person 3"])


@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "\udce9", "\x00", "a\u2028b", None, 1, 1.0, b"a"]
)
def test_strange_names_are_unknown_in_one_line(desk, refused, name):
    refused(WrongInput, "^subjects must be people of the model, got unknown .+[.] Nothing",
            desk.unlearn, name)  # fmt: skip


def test_everybody(desk, rows, refused):
    everybody = sorted({row["person"] for row in rows})
    refused(WrongInput, "all 60 rows that are left belong to the people to forget", desk.unlearn,
            everybody)  # fmt: skip
    desk.request(everybody)
    refused(WrongInput, "all 60 rows that are left", desk.run)


def test_the_last_row_of_a_class(rows, table, tmp_path):
    for row in rows:
        row["y"] = "yes" if row["row"] == "row 4" else "no"
    write(rows, table)
    with Desk.fit(tmp_path / "few", table, **COLUMNS) as desk:
        head = desk.log().head
        with pytest.raises(WrongInput, match=r"at least two classes, got 1 class: \['no'\]"):
            desk.unlearn("person 2")
        assert desk.log().head == head
        desk.unlearn("person 3")
        assert check_store(desk, table=table)


def test_a_class_that_is_forgotten_leaves_no_name(rows, table, tmp_path):
    rows[4]["y"] = rows[5]["y"] = "perhaps"
    write(rows, table)
    with Desk.fit(tmp_path / "three", table, **COLUMNS) as desk:
        assert "perhaps" in desk.read().released.classes_
        desk.unlearn("person 2")
        assert desk.read().released.classes_.tolist() == ["no", "yes"]


# Tables


def test_wrong_tables(desk, rows, table, tmp_path, refused):
    ageless = write(rows, tmp_path / "ageless.csv", {"age"})
    typed = write([{**row, "age": "old"} for row in rows], tmp_path / "typed.csv")
    nameless = write([{**row, "person": None} for row in rows], tmp_path / "nameless.csv")
    doubled = write([*rows, rows[0]], tmp_path / "doubled.csv")
    (tmp_path / "empty.csv").write_text("row,person,age,income,since,city,said,weight,y\n")
    for call in (desk.sync, desk.add, desk.correct, desk.compare):
        refused(WrongInput, "'age'", call, ageless)
        refused(WrongInput, "it held numbers at the first fit and holds string now", call, typed)
        refused(WrongInput, "names are missing", call, nameless)
        refused(WrongInput, "every row must have a name of its own", call, doubled)
        refused(WrongInput, "at least one row", call, tmp_path / "empty.csv")
        refused(WrongInput, "where there is none", call, tmp_path / "nowhere.csv")
        refused(WrongInput, "must end in one of", call, tmp_path / "people.xls")
    refused(WrongInput, "must be new", desk.add, table)
    refused(WrongInput, "have ids that the model knows", desk.add, write(rows, tmp_path / "b.csv"))
    new = write(make_rows(2, first=200), tmp_path / "new.csv")
    refused(
        WrongInput, r"2 row\(s\) of .* have ids that the model does not know", desk.correct, new
    )
    rows[0]["person"] = "person 9"
    other = write(rows[:1], tmp_path / "other.csv")
    refused(WrongInput, "belongs to another person than before", desk.correct, other)


def test_nobody_is_learned_again_without_a_word(desk, rows, table, tmp_path, refused):
    desk.unlearn(["person 1", "person 2"])
    words = "^person 1, person 2 were forgotten, and must not be learned again. Nothing was changed"
    refused(WrongInput, words, desk.sync)
    back = [{**row, "row": f"new {k}"} for k, row in enumerate(rows[2:8])]
    more = write(back, tmp_path / "more.csv")
    refused(WrongInput, words, desk.add, more)
    one = words.replace("person 1, person 2 were", "person 2 was")
    refused(WrongInput, one, desk.add, more, returned=["person 1"])
    refused(WrongInput, "got person 3. Leave", desk.add, more, returned=["person 1", "person 3"])
    options = {"successor_of": tmp_path / "store"}
    refused(WrongInput, words, Desk.fit, tmp_path / "next", table, **COLUMNS, **options)
    assert not (tmp_path / "next").exists()
    named = {"target": "y", "id": "row", "ignore": ["person", "weight"]}
    refused(WrongInput, "people must be named by 'person' as in the store before, got 'row'",
            Desk.fit, tmp_path / "next", table, **named, **options)  # fmt: skip
    desk.add(more, returned="person 1", without_forgotten=True)
    assert desk.read().state["n_rows"] == 60 - 4 + 4
    assert check_store(desk)
    with Desk.fit(
        tmp_path / "next", table, **COLUMNS, **options, without_forgotten=True
    ) as successor:
        assert successor.read().state["n_rows"] == 58
        with pytest.raises(AlreadyForgotten):
            successor.unlearn("person 2")
        assert check_store(successor)


def test_forgotten_people_do_not_decide_a_successors_columns(tmp_path):
    """Of a column only they had many values of."""
    rows = make_rows(60)
    for k, row in enumerate(rows):
        row["code"] = f"c{k}" if k < 40 else f"c{k % 2}"
    people = [f"person {k}" for k in range(20)]
    table, never = write(rows, tmp_path / "a.csv"), write(rows[40:], tmp_path / "b.csv")
    Desk.fit(tmp_path / "first", table, **COLUMNS).unlearn(people)
    given = {**COLUMNS, "successor_of": tmp_path / "first", "without_forgotten": True}
    second = Desk.fit(tmp_path / "second", table, **given).read()
    third = Desk.fit(tmp_path / "third", never, **COLUMNS).read()
    assert second.layout == third.layout
    assert "code" in second.layout.kinds


def test_a_lost_table_is_not_taken_for_erased_rows(desk, table, tmp_path, refused):
    more = write(make_rows(10, first=100), tmp_path / "more.csv")
    desk.add(more)
    more.rename(tmp_path / "elsewhere.csv")
    words = r"more.csv cannot be read, and 10 row\(s\) of the model are in no other table"
    for call in (desk.sync, desk.compare):
        refused(WrongInput, words, call)
    refused(WrongInput, words, desk.sync, forget_missing=True)
    refused(RowsChanged, "more.csv is not there", desk.unlearn, "person 1")
    gone = [f"person {k}" for k in range(50, 55)]
    assert len(desk.unlearn(gone).receipts) == 5  # all who were in it
    desk.unlearn("person 1")
    table.unlink()
    refused(WrongInput, "none of the store's tables is there", desk.unlearn, "person 2")


def test_the_same_table_by_other_paths(tmp_path):
    """Without ids, nothing else would keep its rows from being learned twice."""
    rows = make_rows(60)
    table = write(rows, tmp_path / "people.csv", {"row"})
    (tmp_path / "link.csv").symlink_to(table)
    (tmp_path / "folder").mkdir()
    named = {**COLUMNS, "id": None}
    with Desk.fit(tmp_path / "store", table, **named) as desk:
        for path in (table, tmp_path / "link.csv", tmp_path / "folder" / ".." / "people.csv"):
            with pytest.raises(WrongInput, match="table must be new"):
                desk.add(path)


def test_nothing_is_written_into_the_store(desk, table, tmp_path, refused):
    refused(WrongInput, "must not be in the store", desk.release, tmp_path / "store" / "model.json")
    inside = tmp_path / "store" / "arrays-0" / "predicted.csv"
    refused(WrongInput, "must not be in the store", desk.predict_table, table, inside)


def test_files_may_be_named_by_texts(desk, tmp_path, table):
    make_keys(tmp_path / "private", tmp_path / "public")
    desk.unlearn("person 3", sign=str(tmp_path / "private"))
    desk.release(str(tmp_path / "model.json"))
    desk.predict_table(str(table), str(tmp_path / "out.csv"))
    desk.report(str(tmp_path / "report.html"))
    for name in ("model.json", "out.csv", "report.html"):
        assert (tmp_path / name).stat().st_size > 0
    with pytest.raises(WrongInput, match="must not be in the store"):
        desk.release(str(desk.folder / "model.json"))


# A receipt is for its rows


def test_a_receipt_is_for_the_rows_of_its_release(desk, rows, table, tmp_path):
    (receipt,) = desk.unlearn("person 1").receipts
    checks = check_receipt(receipt, desk, table)
    assert checks["inputs_checked_against_data"]
    for change in ({"age": 70}, {"y": "no" if rows[9]["y"] == "yes" else "yes"}):
        other = write([*rows[:9], {**rows[9], **change}, *rows[10:]], tmp_path / "other.csv")
        with pytest.raises(RowsChanged, match="1 are changed there"):
            check_receipt(receipt, desk, other)
    fewer = write(rows[:-1], tmp_path / "fewer.csv")
    with pytest.raises(RowsChanged, match="1 are not in"):
        check_receipt(receipt, desk, fewer)
    desk.unlearn("person 2")
    assert not check_receipt(receipt, desk, table)["inputs_checked_against_data"]


# The user's own pipeline

PIPELINE = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


class Halved(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.mean_ = np.asarray(X, dtype=float).mean(axis=0)
        return self

    def transform(self, X):
        return (np.asarray(X, dtype=float) - self.mean_) / 2


def make():
    columns = make_column_transformer((Halved(), ["age", "since"]))
    return make_pipeline(columns, LogisticRegression())
"""


@pytest.fixture
def used(table, tmp_path):
    """Do something as a new process would, in which the user's file is not loaded yet."""

    def use(what, *given, source=PIPELINE):
        (tmp_path / "own.py").write_text(source)
        sys.modules.pop("own", None)
        if what == "fit":
            own = f"{tmp_path / 'own.py'}:make"
            return Desk.fit(tmp_path / "own", table, **COLUMNS, pipeline=own)
        with Desk.open(tmp_path / "own") as desk:
            getattr(desk, what)(*given)
            assert check_store(desk)
            return desk.read().state["n_rows"]

    yield use
    sys.modules.pop("own", None)


def test_a_pipeline_that_was_changed_since_the_fit(used):
    used("fit").close()
    assert used("unlearn", "person 1") == 58
    changed = "^the pipeline is not the one of the fit: .*own.py was changed since"
    for old, new in (
        ("/ 2", "/ 3"),  # in a method, which no parameter shows
        ("LogisticRegression()", "LogisticRegression(C=2.0)"),
        ('["age", "since"]', '["age"]'),
    ):
        assert PIPELINE.count(old) == 1
        for what in ("sync", "release"):
            with pytest.raises(WrongInput, match=changed):
                used(what, source=PIPELINE.replace(old, new))
    assert used("release") == 58


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nowhere_to_be_found", "own.py cannot be run: ModuleNotFoundError: .*found'"),
        ("def make(:", "own.py cannot be run: SyntaxError"),
        ("make = 3", "must name a function of own.py"),
        ("def make():\n    return 3", "must return an unfitted scikit-learn estimator, got int"),
        ("def make():\n    return 1 / 0", "own.py:make failed: ZeroDivisionError"),
        (PIPELINE.replace("/ 2", "+ np.random.normal(size=2)"), "two different results on"),
        (PIPELINE.replace("LogisticRegression()", "LogisticRegression(warm_start=True)"), "warm"),
        (PIPELINE.replace("return self", "self.i_ = iter([1])\n        return self"), "be kept in"),
    ],
)
def test_pipelines_that_cannot_be_used(used, tmp_path, source, words):
    with pytest.raises(WrongInput, match=words):
        used("fit", source=source)
    assert not (tmp_path / "own").exists()


# Models with something else in them


@pytest.fixture(scope="module")
def model():
    rows = make_rows(60)
    X = frame(rows)[["age", "since"]].to_numpy()
    made = make_pipeline(StandardScaler(), FunctionTransformer(), LogisticRegression())
    return made.fit(X, [row["y"] for row in rows])


def planted(model, change):
    """The dumped model, with something else in place of its scaler."""
    record = json.loads(dump_model(model))
    steps = next(value for name, value in record["pairs"] if name == "steps")
    change(steps)
    return json.dumps(record).encode()


def an_object(name, **attributes):
    return {"kind": "object", "name": name, "pairs": list(map(list, attributes.items()))}


PLANTED = {
    "a class of another library": an_object("subprocess:Popen", args="true"),
    "reached by an import": an_object("sklearn.utils._joblib:joblib.Memory"),
    "a class of the system, by an import": an_object("numpy.lib._npyio_impl:os._wrap_close"),
    "an object that deletes files": an_object("numpy.lib.npyio:DataSource", _istmpdest=True),
    "a function": {"kind": "function", "name": "os:system"},
    "a function of a library": {"kind": "function", "name": "numpy:load"},
    "a function of Python": {"kind": "function", "name": "builtins:eval"},
    "a function as a class": {"kind": "object", "name": "builtins:print", "pairs": []},
    "a call by a dictionary": {"kind": "dict", "name": "builtins:print", "pairs": []},
    "a call by a matrix": {
        "kind": "sparse", "name": "builtins:print", "parts": [1, 2], "shape": [1],
    },
    "a function by a type": {"kind": "named", "name": "builtins:exec"},
    "a kind of its own": {"kind": "call", "name": "builtins:print", "pairs": []},
    "nothing": {"kind": "object"},
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_a_foreign_class_in_a_model_is_refused(model, what, capsys):
    content = planted(model, lambda steps: steps[0]["items"].__setitem__(1, PLANTED[what]))
    with pytest.raises(StoreDamaged, match=r"^the model of the store cannot be read: .*[.]$"):
        load_model(content)
    assert capsys.readouterr().out == ""


def test_functions_are_used_only_if_the_store_names_them(model):
    def change(steps):
        pairs = steps[1]["items"][1]["pairs"]
        next(pair for pair in pairs if pair[0] == "func")[1] = PLANTED["a function"]

    content = planted(model, change)
    assert foreign_names(content) == ["os:system"]
    with pytest.raises(StoreDamaged, match="os:system is not among the names"):
        load_model(content)


def test_what_was_dumped_is_read_again(model):
    again = load_model(dump_model(model))
    X = frame(make_rows(20, 5))[["age", "since"]].to_numpy()
    assert (again.decision_function(X) == model.decision_function(X)).all()
