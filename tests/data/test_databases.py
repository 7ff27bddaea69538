"""Tables in DuckDB against its own SQL, and addresses that show no password."""

import datetime as dt
import decimal
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from pilu.data.addresses import parse_address, quoted
from pilu.data.sources import open_source
from pilu.exceptions import WrongInput

ODD = 'a"; DROP TABLE people; --'
TABLE = f"""
CREATE SCHEMA s;
CREATE TABLE people AS
    SELECT i AS id, i * 1.5 AS x, (i / 4)::DECIMAL(10, 2) AS amount, 'p' || (i % 3) AS person,
           DATE '2026-01-01' + i::INTEGER AS day, i % 2 = 0 AS flag,
           CASE WHEN i <> 2 THEN 'w' || i END AS {quoted(ODD)},
           TIMESTAMPTZ '2026-01-01 00:00:00+02' AS at
    FROM range(7) r(i);
CREATE TABLE s."a.b" AS SELECT 1 AS z;
CREATE VIEW sums AS SELECT person, sum(id) AS total FROM people GROUP BY person;
CREATE TABLE nothing (a INTEGER);
CREATE TABLE "' OR 1=1" AS SELECT 5 AS five;
"""


@pytest.fixture
def path(tmp_path):
    with duckdb.connect(str(tmp_path / "a b.duckdb")) as connection:
        connection.execute(TABLE)
    return tmp_path / "a b.duckdb"


def address(path, rest):
    return f"duckdb:///{str(path).replace(' ', '%20')}?{rest}"


def complaint(where, *args, **options):
    with pytest.raises(WrongInput) as caught:
        open_source(where).read(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


def test_rows_are_those_of_sql(path):
    source = open_source(address(path, "table=people&order=id"))
    read = source.read()
    assert read.schema == source.schema()
    assert source.exists()
    assert read.schema.field("at").type == pa.timestamp("us", "UTC")
    with duckdb.connect(str(path), read_only=True) as connection:
        rows = connection.sql('SELECT * EXCLUDE "at" FROM people ORDER BY id').fetchall()
    expected = [[float(v) if isinstance(v, decimal.Decimal) else v for v in row] for row in rows]
    assert [list(row.values())[:-1] for row in read.to_pylist()] == expected
    assert read.column("day")[3].as_py() == dt.date(2026, 1, 4)
    assert read.column("at")[0].as_py() == dt.datetime(2025, 12, 31, 22, tzinfo=dt.UTC)


def test_columns_as_asked_for_and_quoted(path):
    source = open_source(address(path, "table=people&order=person&order=id"))
    read = source.read([ODD, "id", "amount"], as_text=["amount"])
    assert read.column_names == [ODD, "id", "amount"]
    assert read.column("id").to_pylist() == [0, 3, 6, 1, 4, 2, 5]
    assert read.column(ODD).to_pylist() == ["w0", "w3", "w6", "w1", "w4", None, "w5"]
    assert read.column("amount").to_pylist()[1] == decimal.Decimal("0.75")


def test_order_puts_missing_values_last(path):
    source = open_source(address(path, f"table=people&order={ODD.replace(' ', '%20')}"))
    assert source.read(["id"]).column("id").to_pylist() == [0, 1, 3, 4, 5, 6, 2]


def test_views_schemas_and_odd_names(path):
    sums = open_source(address(path, "table=sums&order=person")).read()
    assert sums.to_pydict() == {"person": ["p0", "p1", "p2"], "total": [9.0, 5.0, 7.0]}
    assert open_source(address(path, 'table=s."a.b"')).read().to_pydict() == {"z": [1]}
    assert open_source(address(path, "table=main.people")).read().num_rows == 7
    assert open_source(address(path, "table=' OR 1=1")).read().to_pydict() == {"five": [5]}


def test_names_open_again_from_elsewhere(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    source = open_source('duckdb:///a b.duckdb?table=s."a.b"&order=z')
    monkeypatch.chdir("/")
    assert source.name.startswith(f"duckdb:////{str(path.parent)[1:]}/a%20b.duckdb?table=s.")
    assert open_source(source.name).read().to_pydict() == {"z": [1]}
    assert open_source(source.name).name == source.name


def test_what_is_wrong(path, tmp_path):
    said = complaint(address(path, "table=nope"))
    assert "got table=nope. It has main.' OR 1=1, main.nothing, main.people, main.sums" in said
    assert not open_source(address(path, "table=nope")).exists()
    assert "at least one row" in complaint(address(path, "table=nothing"))
    assert "got 'zz'. It has id, x" in complaint(address(path, "table=people"), ["zz"])
    assert "order must be a column" in complaint(address(path, "table=people&order=zz"))
    injected = address(path, "table=a'; DROP TABLE people; --")
    assert "must name a table or view" in complaint(injected)
    missing = f"duckdb:///{tmp_path}/none.duckdb?table=t"
    assert "where there is none. Check the path" in complaint(missing)
    assert not open_source(missing).exists()
    (tmp_path / "damaged.duckdb").write_bytes(b"damaged" * 999)
    assert "cannot be read" in complaint(f"duckdb:///{tmp_path}/damaged.duckdb?table=t")
    for where in ("duckdb://a.duckdb?table=t", "duckdb:///a?table=t&x=1", "duckdb:///?table=t"):
        with pytest.raises(WrongInput, match="duckdb:///folder/file"):
            open_source(where)


def test_the_connection_cannot_write_and_a_writer_elsewhere_is_named(path):
    source = open_source(address(path, "table=people"))
    with pytest.raises(WrongInput, match="read-only"), source._connected() as connection:
        connection.sql("DROP TABLE people")
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout.readline() == "open\n"
        assert "nobody has it open for writing" in complaint(address(path, "table=people"))
    finally:
        writer.communicate("\n", timeout=20)
    assert open_source(address(path, "table=people")).exists()


SECRET = "s3cr:e t%"
SHOWN = "postgresql://anna%40x@db:5433/shop?sslmode=require&table=s.people&order=id"


def test_an_address_keeps_its_password_to_itself():
    where = (
        "postgres://anna%40x:s3cr%3Ae%20t%25@db:5433/shop?sslmode=require&table=s.people&order=id"
        "&sslpassword=s3cr%3Ae%20t%25"
    )
    source = open_source(where)
    assert source.name == SHOWN
    assert repr(source) == f"PostgresSource({SHOWN!r})"
    parsed = parse_address(where, "")
    assert (parsed.user, parsed.password, parsed.server) == ("anna@x", SECRET, "db:5433")
    driver = parsed.for_driver([("connect_timeout", "10"), ("sslmode", "off")])
    assert driver == (
        "postgres://anna%40x:s3cr%3Ae%20t%25@db:5433/shop?sslmode=require"
        "&sslpassword=s3cr:e%20t%25&connect_timeout=10"
    )
    assert parsed.without_secrets(f"bad {SECRET} s3cr%3Ae%20t%25") == "bad *** ***"


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://u:secret/x@host/db?table=t",
        "postgresql://u:12/secret@host/db?table=t",
        "postgresql://u:12?secret@host/db?table=t",
        "postgresql://u:secret?x@host/db?table=t",
        "postgresql://u:secret#x@host/db?table=t",
        "postgresql://u:secret@[host/db?table=t",
        "postgresql://u:secret@host/db",
        "postgresql://u:secret@host/db?table=a&table=b",
        "mysql://u:secret@host/db?table=t",
    ],
)
def test_a_wrong_address_is_not_repeated(where):
    with pytest.raises(WrongInput, match=r"^table must be .*\.$") as caught:
        open_source(where)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("table", ["a.b.c", "", ".", 'a"b', '"a'])
def test_a_wrong_table_is_named(table):
    with pytest.raises(WrongInput, match=r"table must be a name or schema\.name"):
        open_source(f"postgresql:///db?table={table}")
