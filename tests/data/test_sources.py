"""Every source gives the rows that plain Python reads, and says in one sentence what is wrong."""

import csv
import datetime as dt
import decimal
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from pilu.data import file_sources
from pilu.data.csv_files import CsvFile
from pilu.data.sources import Source, open_source
from pilu.data.typed_files import ParquetFile
from pilu.exceptions import MissingExtra, RowsChanged, WrongInput

ROWS = [
    {"id": f"{k:03}", "x": k / 7, "n": None if k % 5 == 0 else k, "seen": dt.date(2026, 1, 1 + k)}
    for k in range(20)
]


def table(rows=ROWS):
    return pa.Table.from_pylist(rows)


def write_csv(path, rows, opened=open, **options):
    with opened(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)


def write(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.name.split(".", 1)[1]:
        case "parquet":
            pa.parquet.write_table(table(rows), path, row_group_size=7)
        case "feather" | "arrow":
            pa.feather.write_feather(table(rows), path)
        case "ipc":  # a stream
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table().schema) as out:
                out.write_table(table(rows), max_chunksize=7)
        case "csv":
            write_csv(path, rows)
        case "csv.gz":
            write_csv(path, rows, gzip.open)
        case "tsv":
            write_csv(path, rows, delimiter="\t")
    return path


def complaint(where, *args, error=WrongInput, **options):
    """What is said, which must be short and end as a sentence."""
    with pytest.raises(error) as caught:
        open_source(where).read(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    assert "column #" not in said
    return said


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


ENDINGS = ["parquet", "feather", "arrow", "ipc", "csv", "csv.gz", "tsv"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_file(tmp_path, ending):
    source = open_source(write(tmp_path / f"people.{ending}"))
    assert isinstance(source, Source)
    assert source.exists()
    read = source.read(as_text=["id"])
    assert read.to_pylist() == ROWS
    assert read.schema == source.schema(as_text=["id"])
    assert read.schema.types == [pa.string(), pa.float64(), pa.int64(), pa.date32()]
    assert source.read(["x", "id"], as_text=["id"]).to_pylist() == [
        {"x": row["x"], "id": row["id"]} for row in ROWS
    ]


@pytest.mark.parametrize("ending", ENDINGS)
def test_many_files_in_the_order_of_their_names(tmp_path, ending):
    for name, rows in (("b", ROWS[12:]), ("a", ROWS[:5]), ("a1", ROWS[5:12])):
        write(tmp_path / "people" / f"{name}.{ending}", rows)
    (tmp_path / "people" / "_SUCCESS").touch()
    for where in (tmp_path / "people", tmp_path / "people" / f"*.{ending}"):
        assert open_source(where).read(as_text=["id"]).to_pylist() == ROWS


def test_names_are_absolute_and_open_again(tmp_path, monkeypatch):
    folder = tmp_path / "odd [ab]"
    write(folder / "a.parquet")
    monkeypatch.chdir(folder)
    for where in ("a.parquet", "*.parquet", "."):
        source = open_source(where)
        assert os.path.isabs(source.name)
        monkeypatch.chdir(tmp_path)
        assert open_source(source.name).read().num_rows == len(ROWS)
        monkeypatch.chdir(folder)


def test_a_csv_has_the_types_of_whole_columns(tmp_path):
    # Far beyond the first block: whole numbers first, then a fraction, then a word.
    n = 300_000
    lines = [f"{k},{k},007,{str(k % 2 == 0).lower()}" for k in range(n)]
    lines[-1] = "9,0.5,zero,"
    path = text(tmp_path / "a.csv", "\n".join(["a,b,c,d", *lines]))
    assert path.stat().st_size > 4 * 2**20
    read = open_source(path).read()
    assert read.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.bool_()]
    with path.open(newline="") as file:
        plain = list(csv.DictReader(file))
    assert read.column("b").to_pylist() == [float(row["b"]) for row in plain]
    assert read.column("c").to_pylist() == [row["c"] for row in plain]
    assert read.column("d").to_pylist()[-2:] == [True, None]


def test_values_of_a_csv(tmp_path):
    path = text(
        tmp_path / "a.csv",
        "\ufeffid,flag,day,at,zoned,word,none,one\r\n"
        '007,true,2026-02-03,2026-02-03T04:05:06,2026-02-03T04:05:06+02:00,"a\nb",,1\r\n'
        " 8,False,,2026-02-03 04:05:06.5,,NA,,\r\n"
        ",,,,,,,0\r\n",
    )
    utc = dt.UTC
    first, second, third = open_source(path).read(as_text=["id"]).to_pylist()
    assert first == {
        "id": "007",
        "flag": True,
        "day": dt.date(2026, 2, 3),
        "at": dt.datetime(2026, 2, 3, 4, 5, 6),
        "zoned": dt.datetime(2026, 2, 3, 2, 5, 6, tzinfo=utc),
        "word": "a\nb",
        "none": None,
        "one": 1,
    }
    assert (second["id"], second["flag"], second["word"]) == (" 8", False, "NA")
    assert second["at"].microsecond == 500_000
    assert set(third.values()) == {None, 0}


def test_types_of_several_csvs_are_those_of_one_file(tmp_path):
    header = "id,whole,part,day,flag,late"
    lines = [
        "1,1,1,2026-01-01,true,",
        "2,2,2.5,2026-01-02 10:00:00,1,",
        "3,3,,,false,007",
        "4,,1e3,2026-01-03 10:00:00.25,,x",
    ]
    text(tmp_path / "all.csv", "\n".join([header, *lines]))
    for k, line in enumerate(lines):
        text(tmp_path / "parts" / f"{k}.csv", f"{header}\n{line}\n")
    text(tmp_path / "parts" / "9.csv", header + "\n")  # a day without rows
    whole = open_source(tmp_path / "all.csv").read()
    parts = open_source(tmp_path / "parts").read()
    assert parts.equals(whole)
    assert whole.column("flag").to_pylist() == ["true", "1", "false", None]
    assert whole.column("late").to_pylist() == [None, None, "007", "x"]
    assert whole.column("part").type == pa.float64()


def test_a_value_longer_than_a_block(tmp_path):
    long = "word\n" * 500_000
    write_csv(tmp_path / "a.csv", [{"a": 1, "b": long}, {"a": 2, "b": "x"}])
    assert open_source(tmp_path / "a.csv").read().column("b").to_pylist() == [long, "x"]


def test_folders_that_name_columns(tmp_path):
    for k, (year, city) in enumerate([("2025", "a%20b"), ("2026", "x"), ("2026", "y")]):
        write(tmp_path / "t" / f"year={year}" / f"city={city}" / "p.parquet", ROWS[k : k + 2])
    source = open_source(tmp_path / "t")
    read = source.read()
    assert read.schema == source.schema()
    assert read.column_names == [*ROWS[0], "year", "city"]
    assert read.column("year").to_pylist() == [2025, 2025, 2026, 2026, 2026, 2026]
    assert read.column("city").to_pylist() == ["a b", "a b", "x", "x", "y", "y"]
    assert source.read(["city", "id"]).column("id").to_pylist() == [
        "000", "001", "001", "002", "002", "003"
    ]  # fmt: skip
    assert source.read(["year"], as_text=["year"]).column("year").to_pylist()[0] == "2025"
    one = open_source(tmp_path / "t" / "year=2026" / "city=x" / "p.parquet")
    assert one.read().column_names == list(ROWS[0])
    assert open_source(tmp_path / "t" / "year=*" / "*" / "*.parquet").read() == read


def test_types_of_several_parquet_files(tmp_path):
    (tmp_path / "t").mkdir()
    amounts = [decimal.Decimal("1.10"), decimal.Decimal("2.20")]
    first = pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "y"], "d": amounts})
    second = pa.table({"s": pa.array([None], pa.null()), "d": amounts[:1], "a": [0.5]})
    pa.parquet.write_table(first, tmp_path / "t" / "1.parquet")
    pa.parquet.write_table(second, tmp_path / "t" / "2.parquet")
    source = open_source(tmp_path / "t")
    assert source.read().to_pydict() == {
        "a": [1.0, 2.0, 0.5],
        "s": ["x", "y", None],
        "d": [1.1, 2.2, 1.1],
    }
    assert source.schema() == source.read().schema
    assert source.read(["d"], as_text=["d"]).column("d").to_pylist() == [*amounts, amounts[0]]


def test_arrays_have_the_names_of_the_other_desk(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "a.npz", X=X, y=[1, 2, 3], who=["a", "b", "c"], about=np.arange(9))
    read = open_source(tmp_path / "a.npz").read()
    assert read.to_pydict() == {"x0": [0, 2, 4], "x1": [1, 3, 5], "y": [1, 2, 3], "who": [*"abc"]}
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    source = open_source(tmp_path / "a.npy")
    read = source.read(["1", "0"])
    np.save(tmp_path / "a.npy", -X)  # what was read is a copy
    assert read.to_pydict() == {"1": [1, 3, 5], "0": [0, 2, 4]}


@pytest.mark.parametrize("format", [ParquetFile, CsvFile])
@pytest.mark.parametrize("how", ["written", "replaced", "deleted", "added"])
def test_a_change_while_it_is_read_is_noticed(tmp_path, monkeypatch, format, how):
    ending = "parquet" if format is ParquetFile else "csv"
    path = write(tmp_path / "t" / f"a.{ending}")
    read = format.read

    def meanwhile(self, names, types):
        if how == "written":
            path.write_bytes(path.read_bytes())
            os.utime(path, ns=(1, 1))
        elif how == "replaced":
            os.replace(write(tmp_path / f"new.{ending}", ROWS[::-1]), path)
        elif how == "deleted":
            path.unlink()
        else:
            write(path.with_name(f"b.{ending}"))
        return read(self, names, types)

    monkeypatch.setattr(format, "read", meanwhile)
    said = complaint(tmp_path / "t", error=RowsChanged)
    assert "was changed while it was read" in said
    assert ("b." if how == "added" else "a.") in said


WRONG_CSVS = {
    "": "must have a header and rows, got an empty file",
    "\n\n": "must have a header and rows, got an empty file",
    "a,b\n": "must have at least one row, got none",
    "a,a\n1,2\n": "must name its columns once, got 'a' twice",
    'a,b\n1,"x\ny"\n3\n': "line 4 must have 2 values as the header has, got 1",
    "a,b\n1,2,3\n": "line 2 must have 2 values as the header has, got 3",
    b"a,b\n1,2\n3,\xff\xfe\n": "got other bytes in column 'b' in line 3",
    b"a,\xff\n1,2\n": "got other bytes in its header",
    'a,b\n1,2\n3,"x\n4,5\n6,7\n': "line 3 must close its quotes, got the end of the file",
}


@pytest.mark.parametrize("content", WRONG_CSVS)
def test_a_wrong_csv(tmp_path, content):
    path = text(tmp_path / "a.csv", content)
    for as_text in ((), ("b",)):
        if as_text and "b" not in header(path):
            continue
        said = complaint(path, as_text=as_text)
        assert said.startswith(str(path))
        assert WRONG_CSVS[content] in said


def header(path):
    return path.read_bytes().split(b"\n")[0].decode(errors="replace").split(",")


def test_quotes_that_are_letters_are_no_trouble(tmp_path):
    path = text(tmp_path / "a.csv", 'a,b\n5" pipe,1\n')
    assert open_source(path).read().to_pydict() == {"a": ['5" pipe'], "b": [1]}


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "npz", "npy", "csv.gz"])
@pytest.mark.parametrize("content", [b"", b"damaged", "half"])
def test_a_damaged_file(tmp_path, ending, content):
    path = tmp_path / f"a.{ending}"
    if content == "half":
        if ending == "npy":
            np.save(path, np.eye(99))
        elif ending == "npz":
            np.savez(path, X=np.eye(99))
        else:
            write(path)
        content = path.read_bytes()[: path.stat().st_size // 2]
    text(path, content)
    said = complaint(path)
    assert said.startswith(str(path))
    assert re.search(r"(Write it or copy it|Save it|Write it) again", said)
    assert "pickle" not in said


def test_files_that_do_not_belong_together(tmp_path):
    text(tmp_path / "m" / "a.csv", "id,x\n1,2\n")
    text(tmp_path / "m" / "b.csv", "id,y\n1,2\n")
    assert "b.csv must have the columns of a.csv, got none called 'x'" in complaint(tmp_path / "m")
    write(tmp_path / "f" / "a.parquet")
    write(tmp_path / "f" / "b.csv")
    assert "files of one format, got a.parquet and b.csv" in complaint(tmp_path / "f")
    text(tmp_path / "n" / "a.csv", "id,x\n1,2\n")
    text(tmp_path / "n" / "notes.txt", "")
    assert "got notes.txt. Choose files by a pattern" in complaint(tmp_path / "n")
    for name, values in (("a", [1]), ("b", ["x"])):
        (tmp_path / "p").mkdir(exist_ok=True)
        pa.parquet.write_table(pa.table({"c": values}), tmp_path / "p" / f"{name}.parquet")
    said = complaint(tmp_path / "p")
    assert "b.parquet: column 'c' must be int64 as in a.parquet, got string" in said
    write(tmp_path / "h" / "k=1" / "a.parquet")
    write(tmp_path / "h" / "b.parquet")
    assert "must be in folders for" in complaint(tmp_path / "h")
    write(tmp_path / "k" / "x=1" / "a.parquet")
    assert "got 'x' twice" in complaint(tmp_path / "k")


def test_what_is_not_there(tmp_path):
    path = write(tmp_path / "a.parquet")
    for where in ("none.parquet", "none", "*.csv"):
        assert "where there is none. Check the path." in complaint(tmp_path / where)
        assert not open_source(tmp_path / where).exists()
    assert not open_source(text(tmp_path / "bad.parquet", "x")).exists()
    for where in ("a.xlsx", "s3://bucket/key.parquet", ""):
        with pytest.raises(WrongInput, match="table must"):
            open_source(where)
    assert "It has id, x, n, seen." in complaint(path, ["id", "zz"])
    assert "as_text must be columns of" in complaint(path, as_text=["zz"])
    assert "Pass ['id']" in complaint(path, "id")
    assert "different columns" in complaint(path, ["x", "x"])
    assert "Leave it out" in complaint(path, [])
    pa.parquet.write_table(table().slice(0, 0), path)
    assert "at least one row" in complaint(path)


def test_parquet_is_read_once_and_by_columns(tmp_path, monkeypatch):
    """As fast as pyarrow alone: two opens of the footer, one read of the columns asked for."""
    path, calls = write(tmp_path / "a.parquet"), []
    read = pa.parquet.ParquetFile.read

    def counted(self, columns=None, **options):
        calls.append(columns)
        return read(self, columns=columns, **options)

    monkeypatch.setattr(pa.parquet.ParquetFile, "read", counted)
    open_source(path).read(["n", "x"])
    assert calls == [["n", "x"]]


def test_nothing_heavy_is_imported_with_the_module():
    program = (
        "import sys, pilu.data.sources as s; s.open_source('a.parquet');"
        "s.open_source('duckdb:///a?table=t'); s.open_source('postgresql:///a?table=t');"
        "print([m for m in ('pyarrow', 'duckdb', 'adbc_driver_postgresql') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.parametrize(
    ("where", "extra"),
    [
        ("a.parquet", "desk"),
        ("duckdb:///a?table=t", "duckdb"),
        ("postgresql:///?table=t", "postgres"),
    ],
)
def test_a_missing_extra_is_named(where, extra, monkeypatch, tmp_path):
    module = {"desk": "pyarrow", "duckdb": "duckdb", "postgres": "adbc_driver_postgresql"}[extra]
    monkeypatch.chdir(write(tmp_path / "a.parquet").parent)
    for name in list(sys.modules):
        if name.split(".")[0] == module:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=re.escape(f'pip install "pilu[{extra}]"')):
        open_source(where).exists()


def test_formats_are_told_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    for ending in file_sources.FORMATS:
        assert f"`{ending}`" in page
