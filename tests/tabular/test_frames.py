"""Cells of Arrow tables become what plain Python makes of them, each for itself."""

import csv
import io
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilu.exceptions import WrongTable
from pilu.tabular import Layout, frame_of, lay_out

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def layout_of(kinds, *, labels=None, by_text=None, **roles):
    task = "number" if labels is None else "class"
    roles = {"subject": None, "id": None, "weight": None} | roles
    return Layout(
        "y", task, kinds=kinds, left_out={}, labels=labels, by_text=by_text or {}, **roles
    )


def column_of(array, kind, **options):
    """One column alone, as a frame makes it."""
    layout = layout_of({"x": kind}, **options)
    return frame_of(pa.table({"x": array}), layout, targets=False).X["x"]


def days(moment):
    return (moment - EPOCH) / timedelta(days=1)


def same_numbers(values, expected):
    assert values.dtype == np.float64
    assert len(values) == len(expected)
    for got, wanted in zip(values, expected, strict=True):
        assert (math.isnan(got) and wanted is None) or got == wanted


CSV = """who,plan,age,active,joined,seen,note,left
007,basic,41,true,2021-03-04,2024-01-02 12:00:00,all fine so far,no
7,,,false,,1969-12-31 18:00:00,,yes
12,pro,3.5,,1969-12-31,,"says ""no"", twice",no
007,basic,-1e3,true,2000-02-29,2000-02-29 00:00:00,ok,yes
"""


def test_a_csv_is_read_as_the_csv_module_and_datetime_read_it():
    convert = pa.csv.ConvertOptions(column_types={"who": pa.string()})
    table = pa.csv.read_csv(io.BytesIO(CSV.encode()), convert_options=convert)
    layout = lay_out(table, target="left", subject="who", words=["note"])
    assert list(layout.kinds.values()) == [
        *("category", "number", "boolean", "date", "date", "words"),
    ]
    frame, rows = frame_of(table, layout), list(csv.DictReader(io.StringIO(CSV)))
    X = frame.X
    assert frame.subjects == [row["who"] for row in rows]
    assert frame.y.tolist() == [row["left"] for row in rows]
    assert X["plan"].tolist() == [row["plan"] or None for row in rows]
    assert X["note"].tolist() == [row["note"] for row in rows]
    assert X["plan"].dtype == X["note"].dtype == object
    same_numbers(X["age"], [float(r["age"]) if r["age"] else None for r in rows])
    truth = {"true": 1.0, "false": 0.0, "": None}
    same_numbers(X["active"], [truth[row["active"]] for row in rows])
    dates = [r["joined"] and (date.fromisoformat(r["joined"]) - EPOCH.date()).days for r in rows]
    same_numbers(X["joined"], [None if d == "" else float(d) for d in dates])
    times = [
        r["seen"] and days(datetime.fromisoformat(r["seen"]).replace(tzinfo=UTC)) for r in rows
    ]
    same_numbers(X["seen"], [None if t == "" else t for t in times])
    assert X.loc[1, "seen"] == -0.25  # six hours before 1970


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_times_are_days_since_1970_utc(unit, zone):
    moments = [datetime(2024, 2, 29, 6, 30, tzinfo=UTC), None, datetime(1902, 1, 1, tzinfo=UTC)]
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = [None if m is None else (m - EPOCH) // timedelta(seconds=1) * ticks for m in moments]
    column = column_of(pa.array(raw, pa.int64()).cast(pa.timestamp(unit, tz=zone)), "date")
    same_numbers(column, [None if m is None else days(m) for m in moments])


def test_a_time_with_a_zone_is_the_same_moment_in_utc():
    local = datetime(2024, 7, 1, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    column = column_of(pa.array([local], pa.timestamp("us", tz="+02:00")), "date")
    assert column[0] == (datetime(2024, 6, 30, 23, 0, tzinfo=UTC) - EPOCH) / timedelta(days=1)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_whole_days(kind):
    values = [date(1969, 12, 30), None, date(9999, 12, 31)]
    expected = [None if v is None else float(v.toordinal() - 719163) for v in values]
    same_numbers(column_of(pa.array(values, kind), "date"), expected)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, -3], pa.int8()), [1.0, None, -3.0]),
        (pa.array([2**63 + 2**12, None], pa.uint64()), [float(2**63 + 2**12), None]),
        (pa.array([2**53 + 1], pa.int64()), [float(2**53 + 1)]),
        (pa.array([0.5, math.nan, None], pa.float64()), [0.5, None, None]),
        (pa.array([np.float16(0.5), None], pa.float16()), [0.5, None]),
        (pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)), [1.25, None]),
        (pa.array([3, 5, 3, None]).dictionary_encode(), [3.0, 5.0, 3.0, None]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_numbers_of_all_types(array, expected):
    same_numbers(column_of(array, "number"), expected)
    parts = pa.chunked_array([array.slice(0, 1), array.slice(1)])
    same_numbers(column_of(parts, "number"), expected)


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "string_view", "dictionary", "unused levels"]
)
def test_text_of_all_types(kind):
    values = ["b", None, "a", "", "b", " a"]
    array = pa.array(values, pa.string())
    if kind == "unused levels":
        indices = pa.array([1, None, 2, 3, 1, 4], pa.int8())
        array = pa.DictionaryArray.from_arrays(indices, ["zz", "b", "a", "", " a"])
    elif kind == "dictionary":
        parts = [pa.array(values[:2]).dictionary_encode(), pa.array(values[2:]).dictionary_encode()]
        array = pa.chunked_array(parts)
    else:
        array = array.cast(getattr(pa, kind)())
    got = column_of(array, "category")
    assert got.dtype == object
    assert got.tolist() == ["b", None, "a", None, "b", " a"]
    assert column_of(array, "words").tolist() == ["b", "", "a", "", "b", " a"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([3, 10, None]),
        pa.array([3.0, 10.0, None]),
        pa.array([3.0, 10.0, math.nan]),
        pa.array([np.float16(3), np.float16(10), None], pa.float16()),
        pa.array([Decimal("3.00"), Decimal("10.00"), None], pa.decimal128(9, 2)),
    ],
)
def test_numbers_as_categories_are_written_as_people_write_them(array):
    assert column_of(array, "category", by_text={"x": "number"}).tolist() == ["3", "10", None]


def test_fractions_and_booleans_as_categories():
    halves = pa.array([0.5, 1e22, -0.0])
    assert column_of(halves, "category", by_text={"x": "number"}).tolist() == [
        *("0.5", "10000000000000000000000", "0")
    ]
    decimals = pa.array([Decimal("2.50"), Decimal("-0.05")], pa.decimal128(9, 2))
    assert column_of(decimals, "category", by_text={"x": "number"}).tolist() == ["2.5", "-0.05"]
    truths = pa.array([True, False, None])
    assert column_of(truths, "category", by_text={"x": "boolean"}).tolist() == [
        *("true", "false", None)
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["007", "7", " x"]), ["007", "7", " x"]),
        (pa.array([7, 2**62 + 1, -1]), ["7", str(2**62 + 1), "-1"]),
        (pa.array([7.0, 8.0, 9.0]), ["7", "8", "9"]),
        (pa.array([Decimal(10**30), Decimal(1), Decimal(2)]), [str(10**30), "1", "2"]),
    ],
)
def test_names_are_exact(array, expected):
    layout = layout_of({"x": "number"}, id="name", subject="who")
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], "name": array, "who": array})
    frame = frame_of(table, layout)
    assert frame.ids == frame.subjects == expected


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0.5, 1.0]),
        pa.array([2.0**53 + 2, 1.0]),
        pa.array([math.inf, 1.0]),
        pa.array([Decimal("0.50"), Decimal("1.00")]),
        pa.array([True, False]),
        pa.array([date(2020, 1, 1), date(2020, 1, 2)]),
        pa.array(["", "a"]),
        pa.array([None, 1.0]),
        pa.array([None, None]),
    ],
)
def test_names_that_could_merge_two_people_are_refused(array):
    layout = layout_of({"x": "number"}, subject="who")
    with pytest.raises(WrongTable, match="--subject who") as error:
        frame_of(pa.table({"x": [1, 2], "y": [1, 2], "who": array}), layout)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("labels", "array", "kind", "expected"),
    [
        ("text", pa.array(["a", "b"]).dictionary_encode(), "U", ["a", "b"]),
        ("whole", pa.array([0, 1], pa.int8()), "i", [0, 1]),
        ("whole", pa.array([0.0, 1.0]), "i", [0, 1]),
        ("boolean", pa.array([True, False]), "b", [True, False]),
        (None, pa.array([1, 2]), "f", [1.0, 2.0]),
        (None, pa.array([True, False]), "f", [1.0, 0.0]),
    ],
)
def test_types_of_targets_are_those_of_the_layout(labels, array, kind, expected):
    y = frame_of(pa.table({"x": [1, 2], "y": array}), layout_of({"x": "number"}, labels=labels)).y
    assert y.dtype.kind == kind
    assert y.dtype.itemsize in ({"b": 1, "U": 4}.get(kind, 8),)
    assert y.tolist() == expected


def test_rows_to_predict_need_no_target_and_no_names():
    layout = layout_of({"x": "number"}, id="name", weight="w", subject="who")
    frame = frame_of(pa.table({"x": [1, 2]}), layout, targets=False)
    assert frame.X["x"].tolist() == [1.0, 2.0]
    assert frame[1:] == (None, None, None, None)
    named = pa.table({"x": [1, 2], "name": ["a", "a"]})  # the same row twice may be predicted
    assert frame_of(named, layout, targets=False).ids == ["a", "a"]


def test_all_problems_of_a_later_table_are_listed_at_once():
    kinds = {"age": "number", "plan": "category", "zip": "category", "joined": "date"}
    kinds |= {"active": "boolean", "note": "words", "gone": "number", "fine": "number"}
    roles = {"subject": "who", "id": "name", "weight": "w"}
    layout = layout_of(kinds, labels="text", by_text={"zip": "number"}, **roles)
    table = pa.table(
        {
            "age": ["41", "old", "3"],
            "plan": [1, 2, 3],
            "zip": ["01", "2", "3"],
            "joined": [1, 2, 3],
            "active": [0, 1, 0],
            "note": [[1], [2], [3]],
            "fine": [1.0, math.inf, -math.inf],
            "y": ["a", None, ""],
            "who": ["a", None, "b"],
            "name": ["r1", "r2", "r1"],
            "w": [-1.0, None, math.inf],
        }
    )
    with pytest.raises(WrongTable) as error:
        frame_of(table, layout)
    expected = [
        "column 'age': it held numbers at the first fit and holds string now, such as "
        "'old' in row 2",
        "column 'plan': it held text at the first fit and holds int64 now",
        "column 'zip': it held numbers at the first fit and holds string now",
        "column 'joined': it held dates at the first fit and holds int64 now",
        "column 'active': it held booleans at the first fit and holds int64 now",
        "column 'note': it held text at the first fit and holds list<",
        "there is no column 'gone'",
        "column 'fine': 2 values are infinite or beyond 1e+50, the first in row 2",
        "--target y: 2 classes are missing, the first in row 2",
        "--weight w: 1 weight is missing, in row 2",
        "--weight w: 1 weight is negative, in row 1",
        "--weight w: 1 weight is infinite, in row 3",
        "--id name: every row must have a name of its own, got 1 repeated, the first 'r1' in row 3 "
        "as in row 1",
        "--subject who: 1 name is missing, in row 2",
    ]
    problems = error.value.problems
    assert [p[: len(e)] for p, e in zip(problems, expected, strict=True)] == expected
    assert "--ignore" not in str(error.value)  # options cannot change a layout that is fixed
    assert "rows are counted from 1" in str(error.value)
    assert str(error.value).count("\n- ") == len(expected)


maybe = st.none()
ROWS = st.fixed_dictionaries(
    {
        "number": maybe | st.floats(-1e6, 1e6) | st.just(math.nan),
        "whole": maybe | st.integers(-(2**62), 2**62),
        "boolean": maybe | st.booleans(),
        "date": maybe | st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
        "plan": maybe | st.text(max_size=3),
        "zip": maybe | st.integers(0, 99999),
        "note": maybe | st.text(max_size=8),
        "y": st.sampled_from(["a", "bbb"]),
        "who": st.text(min_size=1, max_size=2),
    }
)
SCHEMA = pa.schema(
    [
        *(("number", pa.float64()), ("whole", pa.int64()), ("boolean", pa.bool_())),
        *(("date", pa.timestamp("us")), ("plan", pa.string()), ("zip", pa.int32())),
        *(("note", pa.string()), ("y", pa.string()), ("who", pa.string())),
    ]
)
KINDS = {"number": "number", "whole": "number", "boolean": "boolean", "date": "date"}
KINDS |= {"plan": "category", "zip": "category", "note": "words"}
MIXED = layout_of(KINDS, labels="text", by_text={"zip": "number"}, subject="who")


def as_cells(frame):
    """Every row as Python values; NaN as a word, because it equals nothing."""
    columns = [frame.X[name].tolist() for name in frame.X] + [frame.y.tolist(), frame.subjects]
    plain = [["nan" if v != v else v for v in column] for column in columns]
    return [[(type(v), v) for v in row] for row in zip(*plain, strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=6), st.data())
def test_what_becomes_of_a_row_does_not_depend_on_other_rows(rows, data):
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    frame = frame_of(table, MIXED)
    order = data.draw(st.permutations(range(len(rows))))
    some = order[: data.draw(st.integers(1, len(rows)))]
    part = frame_of(table.take(some), MIXED)
    assert as_cells(part) == [as_cells(frame)[i] for i in some]
    assert part.X.dtypes.tolist() == frame.X.dtypes.tolist()
    assert part.X.columns.equals(frame.X.columns)
    assert part.y.dtype.kind == frame.y.dtype.kind
    encoded = pa.table({n: table[n].dictionary_encode() for n in ("plan", "note")})
    for name in ("plan", "note"):
        table = table.set_column(table.column_names.index(name), name, encoded[name])
    assert as_cells(frame_of(table.take(some), MIXED)) == as_cells(part)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_rows_are_what_plain_python_makes_of_them(rows):
    frame = frame_of(pa.Table.from_pylist(rows, schema=SCHEMA), MIXED)

    def number(value):
        return "nan" if value is None or value != value else float(value)

    for row, cells in zip(rows, as_cells(frame), strict=True):
        values = [v for _, v in cells]
        assert values[:3] == [number(row[k]) for k in ("number", "whole", "boolean")]
        if row["date"] is None:
            assert values[3] == "nan"
        else:
            moment = days(row["date"].replace(tzinfo=UTC))
            assert values[3] == pytest.approx(moment, rel=1e-15, abs=1e-15)
        zipped = None if row["zip"] is None else f"{row['zip']:d}"
        assert values[4:7] == [row["plan"] or None, zipped, row["note"] or ""]
        assert values[7:] == [row["y"], row["who"]]
