"""What each column of a table is taken for, and layouts as records."""

import json
import string
from datetime import date, datetime, time, timedelta

import numpy as np
import pyarrow as pa
import pytest

from pilu.exceptions import WrongInput
from pilu.tabular import Layout, lay_out

N = 60


def table_of(**columns):
    """Sixty rows with a target and a number."""
    base = {"y": ["yes", "no"] * (N // 2), "x": list(range(N))}
    return pa.table(base | columns)


def letters(i):
    """A word for each number."""
    return "w" + string.ascii_lowercase[i // 26] + string.ascii_lowercase[i % 26]


def test_kinds_by_type():
    table = table_of(
        i=pa.array(range(N), pa.uint8()),
        f=pa.array([0.5] * N, pa.float32()),
        d=pa.array(range(N)).cast(pa.decimal128(20, 0)),
        b=[True, None, False] * (N // 3),
        day=[date(2020, 1, 1)] * N,
        at=pa.array([datetime(2020, 1, 1)] * N, pa.timestamp("ns", tz="Europe/Rome")),
        s=["a", "b", None] * (N // 3),
        g=pa.array(["a", "b", None] * (N // 3)).dictionary_encode(),
        g7=pa.array([7, 8, None] * (N // 3)).dictionary_encode(),
    )
    layout = lay_out(table, target="y")
    assert list(layout.kinds.items()) == [
        *(("x", "number"), ("i", "number"), ("f", "number"), ("d", "number"), ("b", "boolean")),
        *(("day", "date"), ("at", "date"), ("s", "category"), ("g", "category"), ("g7", "number")),
    ]
    assert layout.left_out == {}


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2]] * N,
        [{"a": 1}] * N,
        [b"raw"] * N,
        [time(12, 0)] * N,
        [timedelta(days=1)] * N,
        pa.nulls(N),
    ],
)
def test_columns_without_a_use_are_left_out_with_a_reason(values):
    layout = lay_out(table_of(odd=values), target="y")
    assert list(layout.kinds) == ["x"]
    assert list(layout.left_out) == ["odd"]
    assert "not supported" in layout.left_out["odd"] or "no values" in layout.left_out["odd"]


def kind_of(values, **options):
    layout = lay_out(table_of(text=values), target="y", **options)
    return layout.kinds.get("text", "left out")


def sentence(i):
    return f"{letters(i)} went {letters(i + 1)}"


def test_the_rules_for_text_at_their_edges():
    few, many = [letters(i % 20) for i in range(N)], [letters(i % 21) for i in range(N)]
    assert len(set(few)) == 20
    assert len(set(many)) == 21
    assert kind_of([f"one two three {v}" for v in few]) == "category"  # 20 different values
    assert kind_of([f"one two {v}" for v in many]) == "words"  # 21, of 3 words
    assert kind_of([f"two {v}" for v in many]) == "category"  # 21 of 2 words, 60/21 > 2 rows each
    assert kind_of([f"a {letters(i % 30)}" for i in range(N)]) == "category"  # 2 rows each
    assert kind_of([f"a {letters(i % 31)}" for i in range(N)]) == "left out"  # fewer
    assert kind_of([letters(i) + "@example.org" for i in range(N)]) == "left out"
    assert kind_of([sentence(i) for i in range(N)]) == "words"
    assert kind_of([""] * N) == "category"  # nothing in it


def test_long_names_that_repeat_are_no_free_text():
    # 21 values of three words, each in 11 rows: fewer than a tenth as many as rows.
    values = [f"the city {letters(i % 21)}" for i in range(21 * 11)]
    table = pa.table({"y": ["a", "b", "c"] * 77, "text": values})
    assert lay_out(table, target="y").kinds == {"text": "category"}
    shorter = table.slice(0, 210)  # exactly a tenth
    assert lay_out(shorter, target="y").kinds == {"text": "words"}


def test_what_names_a_person_is_left_out_although_it_repeats():
    who = [f"p{i // 2}" for i in range(N)]  # 30 people with 2 rows each
    mail = [f"{name}@example.org" for name in who]
    shared = [f"s{(i // 2) % 22 if i % 2 else (i // 2 + 9) % 22}" for i in range(N)]
    table = table_of(who=who, mail=mail, shared=shared)
    layout = lay_out(table, target="y", subject="who")
    assert layout.kinds == {"x": "number", "shared": "category"}
    assert "fewer than 2 people each" in layout.left_out["mail"]
    without = lay_out(table, target="y", ignore=["who"])
    assert without.kinds["mail"] == "category"  # two rows each, and nobody says whose


def test_options_override_the_rules():
    mail = [letters(i) for i in range(N)]
    options = {"words": ["mail"], "categories": ["zip", "flag", "note"], "ignore": ["x"]}
    notes = [sentence(i) for i in range(N)]
    table = table_of(mail=mail, zip=list(range(N)), flag=[True, False] * (N // 2), note=notes)
    layout = lay_out(table, target="y", **options)
    kinds = {"mail": "words", "zip": "category", "flag": "category", "note": "category"}
    assert layout.kinds == kinds
    assert layout.by_text == {"zip": "number", "flag": "boolean"}
    assert layout.left_out == {"x": "named by --ignore"}
    assert set(layout.texts) == {"y", "note", "mail"}


@pytest.mark.parametrize(
    ("target", "model", "task", "labels"),
    [
        (["a", "b"] * 30, "auto", "class", "text"),
        ([True, False] * 30, "auto", "class", "boolean"),
        ([0, 1] * 30, "auto", "class", "whole"),
        ([0.0, 1.0] * 30, "auto", "class", "whole"),
        ([0.0, 0.5] * 30, "auto", "number", None),
        ([0, 1, 2] * 20, "auto", "number", None),
        ([0, 1, 2] * 20, "logistic", "class", "whole"),
        ([i % 20 for i in range(N)], "svm", "class", "whole"),
        ([0, 1] * 30, "ridge", "number", None),
        ([True, False] * 30, "ridge", "number", None),
        ([0, 1] * 30, "poisson", "number", None),
    ],
)
def test_the_task_follows_from_target_and_model(target, model, task, labels):
    layout = lay_out(table_of(y=target), target="y", model=model)
    assert (layout.task, layout.labels) == (task, labels)


def full_layout():
    table = table_of(
        zip=list(range(N)),
        who=[f"p{i // 2}" for i in range(N)],
        row=[f"r{i}" for i in range(N)],
        w=[1.0] * N,
        raw=[b"x"] * N,
        a=["u", "v"] * (N // 2),
    )
    roles = {"subject": "who", "id": "row", "weight": "w"}
    return lay_out(table, target="y", categories=["zip"], **roles)


def test_columns_to_read_and_names():
    layout = full_layout()
    assert sorted(layout.columns) == sorted(["row", "who", "y", "w", "x", "zip", "a"])
    assert layout.names == ("row", "who")
    assert set(layout.texts) == {"row", "who", "y", "a"}


def test_a_record_is_lossless_json_even_with_sorted_keys():
    layout = full_layout()
    text = json.dumps(layout.record(), sort_keys=True)
    again = Layout.from_record(json.loads(text))
    assert again == layout
    assert list(again.kinds) == list(layout.kinds) == ["x", "zip", "a"]
    assert again.record() == layout.record()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", "numbers"),
        ("labels", None),
        ("labels", "float"),
        ("bound", "low"),
        ("kinds", [["x", "vector"]]),
        ("kinds", {"x": "number"}),
        ("kinds", [["x", "number"], ["x", "number"]]),
        ("kinds", [["y", "number"]]),
        ("kinds", []),
        ("subject", 3),
        ("subject", "x"),
        ("by_text", [["x", "number"]]),
        ("by_text", [["zip", "date"]]),
    ],
)
def test_records_that_no_layout_has_are_refused(name, value):
    with pytest.raises(WrongInput):
        Layout.from_record(full_layout().record() | {name: value})


def test_records_with_other_fields_are_refused():
    record = full_layout().record()
    for wrong in ([], {}, record | {"more": 1}, {k: v for k, v in record.items() if k != "bound"}):
        with pytest.raises(WrongInput, match="a record of a layout must have"):
            Layout.from_record(wrong)


def test_a_table_must_be_arrow_and_a_model_known():
    with pytest.raises(WrongInput, match=r"pyarrow\.Table"):
        lay_out({"y": np.ones(3)}, target="y")
    with pytest.raises(WrongInput, match="model must be one of"):
        lay_out(table_of(), target="y", model="forest")
