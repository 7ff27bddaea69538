"""Forgotten people in the user's table: found, and a table without them."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from deletion.conftest import COLUMNS, N
from pilu.deletion.desk import Desk
from pilu.deletion.rewriting import rewrite_without, still_in_table
from pilu.deletion.tables import Columns

GONE = [9, 10, 11]


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
def test_a_table_without_the_forgotten(kind, request, tmp_path, rows):
    path = request.getfixturevalue(kind)
    with Desk.create(tmp_path / "s", path, COLUMNS, n_steps=50, noise=0.01) as desk:
        assert len(still_in_table(desk.store.read(), desk.store.key)) == 0
        desk.unlearn("person number 3")
        found = still_in_table(desk.store.read(), desk.store.key)
        assert found.tolist() == GONE
        assert rewrite_without(path, found, path) == N - 3
        assert len(still_in_table(desk.store.read(), desk.store.key)) == 0
        assert [p.name for p in path.parent.iterdir() if "part" in p.name] == []
        assert desk.unlearn("person number 7").rows == (21, 22, 23)
    left = np.delete(rows[1], GONE)
    if kind == "parquet":
        np.testing.assert_array_equal(pyarrow.parquet.read_table(path)["y"].to_numpy(), left)
    elif kind == "csv":
        with path.open() as file:
            found = [float(line["y"]) for line in csv.DictReader(file)]
        np.testing.assert_array_equal(found, left)
    else:
        np.testing.assert_array_equal(np.load(path)["y"], left)


def test_a_matrix(tmp_path, rows):
    path = tmp_path / "matrix.npy"
    matrix = np.column_stack([np.arange(N), rows[1], rows[0]])
    np.save(path, matrix)
    with Desk.create(tmp_path / "s", path, Columns(("1",), "0"), n_steps=50, noise=0.01) as desk:
        desk.unlearn("9")
        found = still_in_table(desk.store.read(), desk.store.key)
        assert found.tolist() == [9]
        rewrite_without(path, found, tmp_path / "left.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "left.npy"), np.delete(matrix, 9, axis=0))


def test_columns_of_other_kinds_stay_as_they_are(arrow_table, tmp_path):
    """Types and values of all other columns, read back by pyarrow."""
    path = tmp_path / "rich.parquet"
    table = arrow_table.append_column(
        "when", pa.array(range(N), type=pa.timestamp("ms", tz="UTC"))
    ).append_column("kind", pa.array(["a", None, "c"] * 20).dictionary_encode())
    pyarrow.parquet.write_table(table, path, row_group_size=7)
    assert rewrite_without(path, np.array(GONE), tmp_path / "left.parquet") == N - 3
    left = pyarrow.parquet.read_table(tmp_path / "left.parquet")
    keep = [i for i in range(N) if i not in GONE]
    assert left.schema == pyarrow.parquet.read_table(path).schema
    assert left.equals(table.take(keep)) or left.to_pylist() == table.take(keep).to_pylist()


def test_quoted_lines_of_a_csv(tmp_path):
    """Commas, quotes and line breaks within a value; the row numbers are those of the reader."""
    path = tmp_path / "quoted.csv"
    lines = [["note", "y", "x", "person"]]
    lines += [[f'a "{i}",\nand more', str(i % 3), str(0.5 * i * i % 7), f"p{i}"] for i in range(20)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    columns = Columns(("y",), None, "person", features=("x",))
    with Desk.create(tmp_path / "s", path, columns, n_steps=50, noise=0.01) as desk:
        desk.unlearn("p4")
        found = still_in_table(desk.store.read(), desk.store.key)
        assert found.tolist() == [4]
        rewrite_without(path, found, path)
        assert desk.unlearn("p5").rows == (5,)
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [line for line in lines if line[3] != "p4"]


def test_another_ending_is_refused(parquet, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.parquet as the table does"):
        rewrite_without(parquet, np.array([1]), tmp_path / "left.csv")
