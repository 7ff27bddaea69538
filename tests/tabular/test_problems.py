"""Everything that is wrong with a table is said at once, with the option that helps."""

import math
import pickle
from datetime import date

import pyarrow as pa
import pytest

from pilu.exceptions import WrongInput, WrongTable
from pilu.tabular import lay_out


def problems(table, **options):
    with pytest.raises(WrongTable) as error:
        lay_out(pa.table(table), **({"target": "y"} | options))
    return error.value.problems


def starts(found, expected):
    assert [p[: len(e)] for p, e in zip(found, expected, strict=True)] == expected


GOOD = {"y": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]}


def test_many_problems_at_once():
    table = {
        "left": ["yes", None, "yes", ""],
        "customer": ["a", None, "b", "b"],
        "row": ["1", "2", "2", "1"],
        "weight": [1.0, -1.0, math.nan, math.inf],
        "income": [1.0, math.inf, -math.inf, 1e60],
        "tags": [[1]] * 4,
        "day": [date(2020, 1, 1)] * 4,
        "Plan Name": ["a"] * 4,
    }
    roles = {"target": "left", "subject": "customer", "id": "row", "weight": "weight"}
    lists = {"ignore": ["plan_name"], "words": ["income"], "categories": ["tags", "day", "row"]}
    found = problems(table, **roles, **lists)
    starts(
        found,
        [
            "--ignore plan_name: there is no column 'plan_name'. Did you mean 'Plan Name'?",
            "column 'row' is named by --id and by --categories. Name it once.",
            "--words income: the column must hold text, got double.",
            "--categories tags: the column must hold text or numbers, got list<",
            "--categories day: the column must hold text or numbers, got date32[day].",
            "--target left: 2 classes are missing, the first in row 2.",
            "--weight weight: 1 weight is missing, in row 3.",
            "--weight weight: 1 weight is negative, in row 2.",
            "--weight weight: 1 weight is infinite, in row 4.",
            "--id row: every row must have a name of its own, got 2 repeated, the first '2' in "
            "row 3 as in row 2.",
            "--subject customer: 1 name is missing, in row 2.",
            "--target left: there must be at least 2 classes, got 'yes' only.",
        ],
    )
    assert "--subject row" in found[9]


def test_infinite_features_are_counted_with_the_way_out():
    (found,) = problems(GOOD | {"x": [1.0, math.inf, -math.inf, 1e60]})
    assert found == (
        "column 'x': 3 values are infinite or beyond 1e+50, the first in row 2. Mend them, or "
        "leave the column out: --ignore x."
    )


def test_a_missing_column_suggests_near_names_or_lists_all():
    (found, *_) = problems({"churned": ["a", "b"], "x": [1, 2]}, target="churn")
    assert found == "--target churn: there is no column 'churn'. Did you mean 'churned'?"
    (found, *_) = problems({"a1": ["a", "b"], "x": [1, 2]}, target="quite")
    assert found.endswith("The columns are a1, x.")


def test_a_column_that_is_there_twice():
    table = pa.Table.from_arrays(
        [pa.array(["a", "b"]), pa.array([1, 2]), pa.array([1, 2])], names=["y", "x", "x"]
    )
    (found, *_) = problems(table)
    assert found == "two columns are called 'x'. Rename one of them."


@pytest.mark.parametrize(
    ("y", "options", "expected"),
    [
        (["a"] * 4, {}, "--target y: there must be at least 2 classes, got 'a' only."),
        ([True] * 4, {}, "--target y: there must be at least 2 classes, got 'true' only."),
        ([1] * 4, {"model": "svm"}, "--target y: there must be at least 2 classes, got '1' only."),
        (list("abcd"), {}, "--target y: there must be fewer classes than rows, got 4 in 4 rows."),
        (
            ["1", "n/a", "2.5", "3"],
            {},
            "--target y: there must be fewer classes than rows, got 4 in 4 rows. Name another "
            "column by --target, or mend what is no number in it, such as 'n/a'",
        ),
        (
            ["1", "2", "old", "3"],
            {"model": "ridge"},
            "--target y: the target must be a number, got string, such as 'old' in row 3. Choose "
            "--model logistic",
        ),
        ([1, -2, 3, -4], {"model": "poisson"}, "--target y: 2 targets are not non-negative, the "
         "first in row 2. Leave such rows out, or choose --model ridge."),
        ([0] * 4, {"model": "poisson"}, "--target y: at least one count must be above 0 for"),
        ([1, 2, 0, 4], {"model": "gamma"}, "--target y: 1 target is not positive, in row 3."),
        ([0.5, 1.5, 0.5, 1.5], {"model": "logistic"}, "--target y: 4 classes are not whole"),
        ([date(2020, 1, 1)] * 4, {}, "--target y: the target must be a number, got date32[day]. "
         "Name another column by --target."),
        ([[1]] * 4, {}, "--target y: the target must be a number, got list<"),
        ([1.5, None, 2.5, math.nan], {}, "--target y: 2 targets are missing, the first in row 2."),
        ([1.5, math.inf, 2.5, 3.5], {}, "--target y: 1 value is infinite or beyond 1e+50, in"),
        ([None] * 4, {}, "--target y: 4 targets are missing, the first in row 1."),
        (GOOD["y"], {"subject": "x"}, "--subject x: names must be text or whole numbers, got"),
    ],
)  # fmt: skip
def test_one_problem(y, options, expected):
    x = [0.5, 1.5, 2.5, 3.5]
    found = problems({"y": y, "x": x, "z": [1, 2, 3, 4]}, **options)
    starts(found, [expected])


def test_too_many_numbers_for_classes():
    table = {"y": [i % 21 for i in range(63)], "x": list(range(63))}
    starts(
        problems(table, model="logistic"),
        ["--target y: a class of numbers must have at most 20 different values for --model logist"],
    )
    fine = {"y": [i % 20 for i in range(60)], "x": list(range(60))}
    assert lay_out(pa.table(fine), target="y", model="logistic").task == "class"


def test_nothing_left_to_learn_from():
    table = {"y": ["a", "b", "a", "b"], "raw": [b"x"] * 4, "z": [1, 2, 3, 4]}
    (found,) = problems(table, ignore=["z"])
    assert found.startswith("there must be a column to learn from")
    assert "'raw' is left out: columns of type binary are not supported" in found
    assert "'z' is left out: named by --ignore" in found


def test_too_few_rows_and_people():
    starts(problems({"y": ["a"], "x": [1]}), ["the table must have at least 2 rows, got 1."])
    empty = pa.table({"y": pa.array([], pa.string()), "x": pa.array([], pa.decimal128(9, 2))})
    starts(problems(empty, categories=["x"]), ["the table must have at least 2 rows, got 0."])
    starts(
        problems(GOOD | {"who": ["p"] * 4}, subject="who"),
        ["--subject who: there must be at least 2 people, got one for all rows."],
    )


def test_weights():
    text, zeros = {"w": ["1"] * 4}, {"w": [0, 0, 0, 0]}
    starts(problems(GOOD | text, weight="w"), ["--weight w: weights must be numbers, got string."])
    starts(problems(GOOD | zeros, weight="w"), ["--weight w: at least one weight must be above 0"])


def test_one_column_with_two_meanings():
    found = problems(GOOD, subject="y", ignore=["x"], categories=["x"])
    assert "column 'y' is named by --target and by --subject. Name it once." in found
    assert "column 'x' is named by --ignore and by --categories. Name it once." in found


def test_the_error_is_wrong_input_and_survives_a_pickle():
    with pytest.raises(WrongInput) as error:
        lay_out(pa.table(GOOD), target="z")
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)
    assert again.problems == error.value.problems
    assert str(again).startswith("the table has a problem:\n- --target z")


def test_constant_and_missing_columns_are_no_problem():
    table = GOOD | {"c": [1] * 4, "n": pa.nulls(4, pa.float64()), "t": pa.nulls(4, pa.string())}
    layout = lay_out(pa.table(table), target="y")
    assert layout.kinds == {"x": "number", "c": "number", "n": "number", "t": "category"}
