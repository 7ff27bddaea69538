"""Several files as one table, against one file with the same rows."""

import itertools
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from desk.conftest import COLUMNS, N, rows_of
from pilu.cli.app import app
from pilu.data.arrow_tables import CsvTable
from pilu.data.table import Columns
from pilu.data.table_rows import TablePass, _learn_part
from pilu.data.tables import is_among, open_table
from pilu.data.targets import NumericTargets
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.costs import quote_everyone
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.rewriting import rewrite_without
from pilu.exceptions import RowsChanged

WRITE = {"parquet": pyarrow.parquet.write_table, "csv": pyarrow.csv.write_csv}


@pytest.fixture(params=["parquet", "csv"])
def pattern(request, arrow_table, tmp_path):
    """Rows 0 to 9 in part-0, 10 to 31 in part-1, and so on."""
    (tmp_path / "data").mkdir()
    cuts = [0, 10, 32, 33, N]
    for k, (start, end) in enumerate(itertools.pairwise(cuts)):
        path = tmp_path / "data" / f"part-{k}.{request.param}"
        WRITE[request.param](arrow_table.slice(start, end - start), path)
    return tmp_path / "data" / f"*.{request.param}"


@pytest.fixture
def many(pattern, tmp_path):
    with LangevinDesk.create(tmp_path / "many", pattern, COLUMNS, n_steps=50, noise=0.01) as made:
        yield made


def test_a_store_of_several_files_is_that_of_one(many, desk, pattern, tmp_path):
    for name in ("gram", "cross", "digests"):
        (here,), (there,) = ((tmp_path / s).glob(f"arrays-*/{name}.npy") for s in ("many", "store"))
        if name != "digests":  # of another key
            np.testing.assert_allclose(np.load(here), np.load(there), rtol=1e-12, atol=1e-12)
        assert np.load(here).shape == np.load(there).shape
    people = ["person number 3", "person number 10", "person number 19"]
    np.testing.assert_array_equal(
        many.quote(people, n_unlearn_steps=1).noise, desk.quote(people, n_unlearn_steps=1).noise
    )
    everybody = quote_everyone(many.read(), n_unlearn_steps=1)
    assert everybody.names == [f"person number {i}" for i in range(N // 3)]


def test_rows_that_lie_in_two_files(many, pattern, tmp_path):
    """Person 10 has row 30 and 31 in part-1, and row 32 alone in part-2."""
    found = []
    outcome = many.unlearn("person number 10", n_unlearn_steps=1, deliver=found.extend)
    assert rows_of(outcome) == (30, 31, 32)
    assert check_receipt(found[0], many, pattern)["inputs_checked_against_data"]
    gone = many.forgotten()
    assert gone.still_in(many.tables()[0]).tolist() == [30, 31, 32]
    assert rewrite_without(gone, pattern, tmp_path / "left") == N - 3
    left = tmp_path / "left" / pattern.name
    assert len(gone.still_in(left)) == 0
    assert check_store(many, table=left)["rows_and_statistics_are_those_of_the_table"]
    rewrite_without(gone, pattern, tmp_path / "data")  # in place
    assert rows_of(many.unlearn("person number 11", n_unlearn_steps=1)) == (33, 34, 35)


def test_predictions(many, pattern, rows, tmp_path):
    assert many.predict_table(pattern, tmp_path / "out.csv") == N
    found = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(found, many.predict(rows[0]), rtol=1e-9)


def test_only_the_file_of_a_row_is_read(many, pattern, tmp_path):
    table = open_table(pattern, COLUMNS)
    assert table.n_rows == N
    table._tables[2:] = [None, None]  # whoever asks them fails
    assert table.take(np.array([2, 15])).ids == ["row number 2", "row number 15"]
    with pytest.raises(AttributeError):
        table.take(np.array([40]))


def test_files_that_do_not_fit_together(arrow_table, tmp_path):
    (tmp_path / "odd").mkdir()
    pyarrow.parquet.write_table(arrow_table, tmp_path / "odd" / "a.parquet")
    pyarrow.parquet.write_table(
        arrow_table.append_column("more", pa.array([1.0] * N)), tmp_path / "odd" / "b.parquet"
    )
    with pytest.raises(ValueError, match=r"b\.parquet must have the columns of .*a\.parquet"):
        LangevinDesk.create(tmp_path / "x", tmp_path / "odd" / "*.parquet", COLUMNS)
    with pytest.raises(ValueError, match="which matches none"):
        LangevinDesk.create(tmp_path / "x", tmp_path / "none" / "*.parquet", COLUMNS)


def test_brackets_are_letters_where_a_file_has_them(arrow_table, tmp_path):
    """`a[1]` matches a1 as a pattern; the file of that name is another."""
    (tmp_path / "odd").mkdir()
    for name, start in (("a1", 0), ("a[1]", 30)):
        path = tmp_path / "odd" / f"{name}.parquet"
        pyarrow.parquet.write_table(arrow_table.slice(start, 30), path)
    settings = {"n_steps": 5, "noise": 0.01}
    with LangevinDesk.create(
        tmp_path / "x", tmp_path / "odd" / "*.parquet", COLUMNS, **settings
    ) as desk:
        assert rows_of(desk.unlearn("person number 12", n_unlearn_steps=1)) == (36, 37, 38)
    alone = tmp_path / "odd" / "a[1].parquet"
    with LangevinDesk.create(tmp_path / "y", alone, COLUMNS, **settings) as desk:
        assert rows_of(desk.unlearn("person number 12", n_unlearn_steps=1)) == (6, 7, 8)
        with pytest.raises(ValueError, match="unknown 'person number 2'"):
            desk.unlearn("person number 2")


def test_a_part_that_was_changed_is_refused(arrow_table, tmp_path):
    """What a worker reads must be what the fit was told of: rows, columns and their order."""
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(arrow_table, path)
    (part,) = open_table(path, COLUMNS).parts()
    learn = (part, NumericTargets(), b"k" * 32, ("id", "subject"), True)
    assert _learn_part(*learn)[1].n_noted == N
    others = arrow_table.column_names
    grown = pa.concat_tables([arrow_table, arrow_table])
    for changed in (arrow_table.slice(0, 50), grown, arrow_table.drop_columns(["f1"])):
        pyarrow.parquet.write_table(changed, path)
        with pytest.raises((RowsChanged, ValueError), match=r"was changed|must have a column 'f1'"):
            _learn_part(*learn)
    pyarrow.parquet.write_table(arrow_table.select(others[::-1]), path)
    held = np.column_stack([arrow_table[f"f{k}"] for k in range(4)])
    np.testing.assert_allclose(_learn_part(*learn)[0].gram[:4, :4], held.T @ held, rtol=1e-12)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv"])
def test_parts_of_every_format(kind, npz, csv, rows, tmp_path):
    """What a worker learns of a file is what the file holds."""
    X, y = rows
    path, columns = {"npz": npz, "csv": csv}.get(kind, tmp_path / "t.npy"), COLUMNS
    if kind == "npy":
        np.save(path, np.column_stack([X, y, np.arange(N)]))
        columns = Columns(("4",), "5")
    (part,) = open_table(path, columns).parts()
    statistics, gathered = _learn_part(part, NumericTargets(), b"k" * 32, ("id", "subject"), True)
    np.testing.assert_allclose(statistics.gram[:4, :4], X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(statistics.cross[:4, 0], X.T @ y, rtol=1e-12)
    assert gathered.n_noted == N


def test_a_relative_path_is_that_of_the_client(arrow_table, tmp_path, monkeypatch):
    """Parts go to workers, who may stand in other folders."""
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(arrow_table, "t.parquet")
    seen = []

    def learn(_, table, *__, **___):
        seen.extend(part.path for part in table.parts())
        raise KeyboardInterrupt

    monkeypatch.setattr(TablePass, "by_cluster", learn)
    with pytest.raises(KeyboardInterrupt):
        LangevinDesk.create(tmp_path / "x", "t.parquet", COLUMNS, scheduler="local")
    assert seen == [tmp_path / "t.parquet"]


@pytest.mark.parametrize(
    "labels",
    [
        pa.array(np.arange(N) % 2 * 10**15, pa.timestamp("ns")),
        pa.array(["a" if i % 2 else "a\0" for i in range(N)]),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(labels, arrow_table, tmp_path):
    """They would all be rows of no class, and nothing would be learned of them."""
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(arrow_table.append_column("label", labels), path)
    columns = Columns(("label",), "row_id", "person", classify=True, ignored=("y",))
    with pytest.raises(ValueError, match="classes must"):
        LangevinDesk.create(tmp_path / "x", path, columns)


def test_large_whole_numbers_of_several_files(arrow_table, tmp_path):
    """2^53 + 1 beside floats: as floats two of the classes are one."""
    (tmp_path / "d").mkdir()
    whole = pa.array([2**53, 2**53 + 1] * 15)
    for name, labels in (("a", whole), ("b", pa.array([0.0, 1.0] * 15))):
        part = arrow_table.slice(0 if name == "a" else 30, 30).append_column("label", labels)
        pyarrow.parquet.write_table(part, tmp_path / "d" / f"{name}.parquet")
    columns = Columns(("label",), "row_id", "person", classify=True, ignored=("y",))
    with pytest.raises(ValueError, match=r"classes must differ|must have one of the classes"):
        LangevinDesk.create(tmp_path / "x", tmp_path / "d" / "*.parquet", columns)
    target = arrow_table.set_column(4, "y", pa.array([2**53 + 1] * N))
    pyarrow.parquet.write_table(target, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"the target must be within 2\^53"):
        LangevinDesk.create(tmp_path / "x", tmp_path / "t.parquet", COLUMNS)


# Files that are written


@pytest.fixture
def apart(arrow_table, tmp_path):
    """Two folders with a file of the same name in each."""
    for name, start in (("a", 0), ("b", 30)):
        (tmp_path / "data" / name).mkdir(parents=True)
        pyarrow.csv.write_csv(arrow_table.slice(start, 30), tmp_path / "data" / name / "part.csv")
    return tmp_path / "data" / "*" / "part.csv"


@pytest.fixture
def desk_apart(apart, tmp_path):
    with LangevinDesk.create(tmp_path / "apart", apart, COLUMNS, n_steps=50, noise=0.01) as made:
        made.unlearn("person number 3", n_unlearn_steps=1)
        yield made


def lines_of(path):
    return path.read_text().splitlines()[1:]


def test_files_of_several_folders_are_rewritten_into_several(desk_apart, apart, tmp_path):
    gone, out = desk_apart.forgotten(), tmp_path / "out"
    assert rewrite_without(gone, apart, out) == N - 3
    assert [len(lines_of(out / name / "part.csv")) for name in "ab"] == [27, 30]
    assert check_store(desk_apart, table=out / "*" / "part.csv")
    assert rewrite_without(gone, apart, tmp_path / "data") == N - 3
    assert [len(lines_of(tmp_path / "data" / name / "part.csv")) for name in "ab"] == [27, 30]


def test_files_are_rewritten_together_or_not_at_all(desk_apart, apart, tmp_path, monkeypatch):
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    write = CsvTable.write_without

    def full(table, drop, out):
        write(table, drop, out)
        if table.parent.name == "b":
            raise OSError(28, "No space left on device", str(out))

    monkeypatch.setattr(CsvTable, "write_without", staticmethod(full))
    with pytest.raises(OSError, match="No space left"):
        rewrite_without(desk_apart.forgotten(), apart, tmp_path / "data")
    after = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("name", ["part-1", "part-9", "../data/part-0"])
@pytest.mark.parametrize(
    "line", ["quote many --all --out", "report many --out", "release many --out",
             "predict many --rows people.parquet --out"],
)  # fmt: skip
def test_no_answer_is_written_among_the_files_of_a_table(
    many, pattern, parquet, name, line, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    many.close()
    before = sorted((p.name, p.read_bytes()) for p in (tmp_path / "data").iterdir())
    out = f"data/{name}{pattern.suffix}"
    found = CliRunner().invoke(app, [*line.split(), out])
    assert found.exit_code == 2
    assert "out must be another file than what is read" in " ".join(found.output.split())
    assert sorted((p.name, p.read_bytes()) for p in (tmp_path / "data").iterdir()) == before


def test_a_table_of_many_files_opens_few_of_them(arrow_table, tmp_path):
    (tmp_path / "many").mkdir()
    for k in range(N):
        pyarrow.parquet.write_table(arrow_table.slice(k, 1), tmp_path / "many" / f"{k:02}.parquet")
    before = len(os.listdir("/dev/fd"))
    table = open_table(tmp_path / "many" / "*.parquet", COLUMNS)
    assert table.n_rows == N
    most = max(len(os.listdir("/dev/fd")) for _ in table.batches())
    assert table.take(np.array([3, 50])).ids == ["row number 3", "row number 50"]
    assert most <= before + 3


# Tables that change under a fit


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_table_that_shrinks_is_refused_as_such(loss, arrow_table, tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    pyarrow.csv.write_csv(arrow_table, path)
    monkeypatch.setattr(CsvTable, "n_rows", N + 5)
    with pytest.raises(RowsChanged, match="was changed while it was read"):
        LangevinDesk.create(tmp_path / "x", path, COLUMNS, loss=loss, n_steps=20)


def test_a_link_to_the_folder_of_a_table_is_that_folder(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "a" / "one.csv").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for there, here in (("real", "link"), ("link", "real")):
        assert is_among(tmp_path / here / "a" / "new.csv", tmp_path / there / "*" / "*.csv")
        assert is_among(tmp_path / here / "new.csv", tmp_path / there / "*.csv")
        assert not is_among(tmp_path / here / "new.txt", tmp_path / there / "*.csv")
        assert not is_among(tmp_path / here / "b" / "c" / "new.csv", tmp_path / there / "*.csv")


def test_a_rewritten_table_is_called_as_the_old_one(desk, parquet, tmp_path):
    desk.unlearn("person number 3", n_unlearn_steps=1)
    with pytest.raises(ValueError, match=r"out must end in \.parquet as the table does, got clean"):
        rewrite_without(desk.forgotten(), parquet, tmp_path / "clean")
