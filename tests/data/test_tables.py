"""Tables in four formats say the same, and what is wrong with them is said in one line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from data.conftest import COLUMNS, N, P
from pilu.data import arrow_tables
from pilu.data import table as table_module
from pilu.data.table import Columns
from pilu.data.tables import open_table
from pilu.exceptions import RowsChanged


@pytest.fixture(params=["parquet", "csv", "npz"])
def path(request):
    return request.getfixturevalue(request.param)


def read(table):
    batches = list(table.batches())
    return (
        np.concatenate([batch.X for batch in batches]),
        np.concatenate([batch.y for batch in batches]),
        [name for batch in batches for name in batch.ids],
        [name for batch in batches for name in batch.subjects],
    )


@pytest.mark.parametrize("batch_bytes", [300, 2**20])
def test_rows_in_batches(path, rows, batch_bytes, monkeypatch):
    monkeypatch.setattr(table_module, "BATCH_BYTES", batch_bytes)
    table = open_table(path, COLUMNS)
    X, y, ids, people = read(table)
    np.testing.assert_allclose(X, rows[0], rtol=1e-15)
    np.testing.assert_allclose(y, rows[1], rtol=1e-15)
    assert ids[5] == "row number 5"
    assert people[5] == "person number 1"
    assert table.n_rows == N


def test_rows_by_their_places(path, rows):
    table = open_table(path, COLUMNS)
    places = np.array([0, 6, 7, 8, 59])
    batch = table.take(places)
    np.testing.assert_allclose(batch.X, rows[0][places], rtol=1e-15)
    np.testing.assert_allclose(batch.y, rows[1][places], rtol=1e-15)
    assert batch.ids == [f"row number {k}" for k in places]


def test_names_without_values(path):
    found = list(open_table(path, COLUMNS).names())
    assert [name for _, ids, _ in found for name in ids] == [f"row number {k}" for k in range(N)]
    assert np.concatenate([places for places, _, _ in found]).tolist() == list(range(N))


def test_only_the_row_groups_that_are_needed_are_read(parquet, rows, monkeypatch):
    table, read_groups = open_table(parquet, COLUMNS), []

    class Watched(pyarrow.parquet.ParquetFile):
        def iter_batches(self, **options):
            read_groups.extend(options["row_groups"])
            return super().iter_batches(**options)

        def read_row_group(self, group, **options):
            read_groups.append(group)
            return super().read_row_group(group, **options)

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Watched)
    for limit in (2**30, 0):  # whole groups, and in batches
        monkeypatch.setattr(arrow_tables, "_WHOLE_GROUP_BYTES", limit)
        np.testing.assert_array_equal(table.take(np.array([8, 50])).X, rows[0][[8, 50]])
    assert read_groups == [1, 7, 1, 7]  # groups of seven rows


def test_a_matrix(tmp_path, rows):
    path = tmp_path / "people.npy"
    np.save(path, np.column_stack([rows[0], rows[1], np.arange(N)]))
    table = open_table(path, Columns((str(P),), str(P + 1)))
    batch = table.take(np.array([3, 4]))
    np.testing.assert_array_equal(batch.X, rows[0][3:5])
    np.testing.assert_array_equal(batch.y, rows[1][3:5])
    assert [str(name) for name in batch.ids] == ["3", "4"]


def changed(arrow_table, name, values):
    where = arrow_table.column_names.index(name)
    return arrow_table.set_column(where, name, values)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("f1", pa.array(["a"] * N), "column 'f1' must be numeric, got 'a'"),
        ("f1", pa.array([None] + [1.0] * (N - 1)), "no missing values, got one in row 0"),
        ("f2", pa.array([1.0] * 9 + [float("nan")] * (N - 9)), "must be finite, got nan in row 9"),
        ("y", pa.array([1.0] * 9 + [float("inf")] * (N - 9)), "column 'y' must be finite"),
        ("person", pa.array([float("nan")] * N), "by text or a whole number, got nan"),
        ("person", pa.array([b"p"] * N), "by text or a whole number, got b'p'"),
        ("f1", pa.array([2**53 + 1] * N), "column 'f1' must be within 2"),
        ("person", pa.array([None] + ["a"] * (N - 1)), "column 'person' must name every row"),
    ],
)
def test_bad_columns(arrow_table, tmp_path, name, values, message):
    path = tmp_path / "bad.parquet"
    pyarrow.parquet.write_table(changed(arrow_table, name, values), path)
    with pytest.raises(ValueError, match=message) as caught:
        list(open_table(path, COLUMNS).batches())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [Columns(("z",)), Columns(("y",), "no_id"), Columns(("y",), "y")])
def test_missing_columns(path, wrong):
    with pytest.raises(ValueError, match=r"must have a column|must be different columns"):
        open_table(path, wrong)


def test_names_are_text_whatever_they_look_like(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text(
        "f0,y,row_id,person\n1,2,123456789012345678901,007\n3,4,123456789012345678902,7\n"
    )
    (batch,) = open_table(path, COLUMNS).batches()
    assert batch.subjects == ["007", "7"]
    assert batch.ids == ["123456789012345678901", "123456789012345678902"]


def test_a_csv_that_changes_its_kind_half_way(tmp_path):
    path = tmp_path / "mixed.csv"
    lines = ["f0,y,row_id,person"] + [f"{k},{k},{k},{k}" for k in range(200_000)] + ["a,1,x,y"]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"features and target must be numeric.* Mend the row"):
        list(open_table(path, COLUMNS).batches())


@pytest.mark.parametrize("name", ["people.parquet", "people.csv", "people.npz", "people.npy"])
def test_a_file_that_is_none(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ValueError, match=r"table must be a file"):
        open_table(path, COLUMNS)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{name} cannot be read"):
        open_table(path, COLUMNS)


def test_another_ending(tmp_path):
    path = tmp_path / "people.xlsx"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"table must be one of \.parquet, \.csv, \.npz, \.npy"):
        open_table(path, COLUMNS)


def test_a_pickle_in_an_array_file_is_refused(tmp_path):
    path = tmp_path / "people.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read"):
        open_table(path, Columns(("0",)))


def test_whole_numbers_are_names_as_people_type_them(arrow_table, tmp_path):
    path = tmp_path / "numbered.parquet"
    numbers = pa.array([float(k // 3) for k in range(N)])
    pyarrow.parquet.write_table(changed(arrow_table, "person", numbers), path)
    (batch,) = open_table(path, COLUMNS).batches()
    assert [str(name) for name in batch.subjects[:4]] == ["0", "0", "0", "1"]


def test_a_file_that_takes_the_place_of_another_is_noticed(parquet, arrow_table):
    """The offsets of one file's columns mean nothing in another's."""
    table = open_table(parquet, COLUMNS)
    assert table.take(np.array([3])).ids == ["row number 3"]
    pyarrow.parquet.write_table(arrow_table.slice(1), parquet, row_group_size=7)
    for read in (lambda: table.take(np.array([3])), lambda: list(table.names())):
        with pytest.raises(RowsChanged, match=r"people\.parquet was changed while it was in use"):
            read()
