"""Forgotten people in the user's table: found, and a table without them."""

import csv as csv_module
import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from desk.conftest import COLUMNS, N, rows_of
from pilu.data.table import Columns
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.rewriting import rewrite_without

GONE = [9, 10, 11]
PERSON = "person number 3"


def rewritten(desk, table, out):
    return rewrite_without(desk.forgotten(), table, out)


def fitted(table, tmp_path, columns=COLUMNS):
    return LangevinDesk.create(tmp_path / "fitted", table, columns, n_steps=50, noise=0.01)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
def test_a_table_without_the_forgotten(kind, request, tmp_path, rows):
    path = request.getfixturevalue(kind)
    with LangevinDesk.create(tmp_path / "s", path, COLUMNS, n_steps=50, noise=0.01) as desk:
        assert len(desk.forgotten().still_in(path)) == 0
        desk.unlearn("person number 3")
        found = desk.forgotten().still_in(path)
        assert found.tolist() == GONE
        assert rewritten(desk, path, path) == N - 3
        assert len(desk.forgotten().still_in(path)) == 0
        assert [p.name for p in path.parent.iterdir() if "part" in p.name] == []
        assert rows_of(desk.unlearn("person number 7")) == (21, 22, 23)
    left = np.delete(rows[1], GONE)
    if kind == "parquet":
        np.testing.assert_array_equal(pyarrow.parquet.read_table(path)["y"].to_numpy(), left)
    elif kind == "csv":
        with path.open() as file:
            found = [float(line["y"]) for line in csv_module.DictReader(file)]
        np.testing.assert_array_equal(found, left)
    else:
        np.testing.assert_array_equal(np.load(path)["y"], left)


def test_a_matrix(tmp_path, rows):
    path = tmp_path / "matrix.npy"
    matrix = np.column_stack([np.arange(N), rows[1], rows[0]])
    np.save(path, matrix)
    with LangevinDesk.create(
        tmp_path / "s", path, Columns(("1",), "0"), n_steps=50, noise=0.01
    ) as desk:
        desk.unlearn("9")
        found = desk.forgotten().still_in(path)
        assert found.tolist() == [9]
        rewritten(desk, path, tmp_path / "left.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "left.npy"), np.delete(matrix, 9, axis=0))


def test_columns_of_other_kinds_stay_as_they_are(arrow_table, tmp_path):
    """Types, values, codec and mode, read back by pyarrow; a dictionary loses who is gone."""
    path, left = tmp_path / "rich.parquet", tmp_path / "left.parquet"
    where = arrow_table.column_names.index("person")
    table = arrow_table.append_column(
        "when", pa.array(range(N), type=pa.timestamp("ms", tz="UTC"))
    ).set_column(where, "person", arrow_table["person"].dictionary_encode())
    pyarrow.parquet.write_table(table, path, row_group_size=7, compression="zstd")
    path.chmod(0o600)
    columns = dataclasses.replace(COLUMNS, features=("f0", "f1", "f2", "f3"))
    with fitted(path, tmp_path, columns) as desk:
        desk.unlearn(PERSON)
        assert rewritten(desk, path, left) == N - 3
    keep = [i for i in range(N) if i not in GONE]
    found = pyarrow.parquet.read_table(left)
    assert found.schema == pyarrow.parquet.read_table(path).schema
    assert found.to_pylist() == table.take(keep).to_pylist()
    assert pyarrow.parquet.ParquetFile(left).metadata.row_group(0).column(0).compression == "ZSTD"
    assert left.stat().st_mode & 0o777 == 0o600
    for chunk in found["person"].chunks:
        assert PERSON not in chunk.dictionary.to_pylist()


@pytest.mark.parametrize("before", ["\n", "\n\n", "\ufeff"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_before_the_header(csv, tmp_path, before, ending):
    """A blank line or a byte order mark: the very rows of the person go, and no others."""
    text = csv.read_text().replace("\n", ending)
    csv.write_text(before + text, newline="")
    with fitted(csv, tmp_path) as desk:
        desk.unlearn(PERSON)
        assert rewritten(desk, csv, csv) == N - 3
        assert rows_of(desk.unlearn("person number 4")) == (12, 13, 14)
    with csv.open(newline="") as file:
        names = [line["row_id"] for line in csv_module.DictReader(file)]
    assert names == [f"row number {i}" for i in range(N) if i not in GONE]


def test_a_table_that_cannot_be_written_without_them_is_left_alone(csv, tmp_path, monkeypatch):
    before = csv.read_bytes()
    monkeypatch.setattr(
        "pilu.data.arrow_tables._kept", lambda first, size, drop: np.arange(size) > 2
    )
    with fitted(csv, tmp_path) as desk:
        desk.unlearn(PERSON)
        with pytest.raises(ValueError, match="could not be written without the rows"):
            rewritten(desk, csv, csv)
    assert csv.read_bytes() == before


def test_a_link_leads_to_the_table(parquet, tmp_path):
    link = tmp_path / "link.parquet"
    link.symlink_to(parquet)
    with fitted(link, tmp_path) as desk:
        desk.unlearn(PERSON)
        rewritten(desk, link, link)
        assert link.is_symlink()
        assert len(pyarrow.parquet.read_table(parquet)) == N - 3


def test_quoted_lines_of_a_csv(tmp_path):
    """Commas, quotes and line breaks within a value; the row numbers are those of the reader."""
    path = tmp_path / "quoted.csv"
    lines = [["note", "y", "x", "person"]]
    lines += [[f'a "{i}",\nand more', str(i % 3), str(0.5 * i * i % 7), f"p{i}"] for i in range(20)]
    with path.open("w", newline="") as file:
        csv_module.writer(file).writerows(lines)
    columns = Columns(("y",), None, "person", features=("x",))
    with LangevinDesk.create(tmp_path / "s", path, columns, n_steps=50, noise=0.01) as desk:
        desk.unlearn("p4")
        found = desk.forgotten().still_in(path)
        assert found.tolist() == [4]
        rewritten(desk, path, path)
        assert rows_of(desk.unlearn("p5")) == (5,)
    with path.open(newline="") as file:
        assert list(csv_module.reader(file)) == [line for line in lines if line[3] != "p4"]


def test_another_ending_is_refused(desk, parquet, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.parquet as the table does"):
        rewritten(desk, parquet, tmp_path / "left.csv")
