"""Tables in a real PostgreSQL against what psql prints."""

import datetime as dt
import decimal
import json
import subprocess
import threading

import pyarrow as pa
import pytest

from pilu.data.sources import open_source
from pilu.exceptions import WrongInput

pytestmark = pytest.mark.sources

ODD = 'a"; DROP TABLE people; --'
SETUP = """
CREATE SCHEMA s;
CREATE TYPE size AS ENUM ('small', 'large');
CREATE DOMAIN euros AS numeric(12, 2);
CREATE TABLE s.people AS
    SELECT i AS id, i::bigint * 3000000000 AS large, i / 7.0::float8 AS x,
           CASE WHEN i <> 3 THEN i / 4.0 END AS amount, (i / 8.0)::euros AS price,
           'person ' || i % 3 AS person, i % 2 = 0 AS flag, DATE '2026-01-01' + i AS day,
           TIMESTAMPTZ '2026-07-01 00:00:00+02' + i * interval '1 hour' AS at,
           TIMESTAMP '2026-07-01 00:00:00' AS local, CASE WHEN i <> 2 THEN 'w' || i END AS "a""; DROP TABLE people; --",
           md5(i::text)::uuid AS key, 'small'::size AS size, json_build_object('k', i) AS extra,
           12.34::money AS cash, 12345678901234567890::numeric + i AS number,
           NULL::integer AS none
    FROM generate_series(0, 9) i;
CREATE VIEW adults AS SELECT id, x FROM s.people WHERE id >= 5;
CREATE MATERIALIZED VIEW kept AS SELECT id FROM s.people;
CREATE TABLE "Odd.Name" AS SELECT 1 AS z;
CREATE TABLE odd_numbers AS
    SELECT * FROM (VALUES ('NaN'::numeric), ('Infinity'), ('-Infinity'), (NULL), (0.1)) v(n);
CREATE TABLE too_large AS SELECT 1e400::numeric AS n;
CREATE TABLE nothing (a integer);
CREATE TABLE closed AS SELECT 1 AS a;
CREATE ROLE guest LOGIN PASSWORD 'guest word';
GRANT USAGE ON SCHEMA s TO guest;
GRANT SELECT ON s.people TO guest;
"""  # noqa: E501


@pytest.fixture(scope="session")
def psql(socket):
    def ask(sql):
        done = subprocess.run(
            ["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", socket, "-U", "anna", "-d",
             "postgres", "-c", sql],
            env={"PATH": "/usr/bin:/bin", "PGPASSWORD": "pass word", "PGTZ": "UTC"},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    ask(SETUP)
    return ask


@pytest.fixture
def where(socket, psql):
    return lambda rest, login="anna:pass%20word": (
        f"postgresql://{login}@/postgres?host={socket}&{rest}"
    )


def complaint(address, *args, **options):
    source = open_source(address)
    with pytest.raises(WrongInput) as caught:
        source.read(*args, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    assert "word" not in said.replace("password", "")
    assert not source.exists() or "rows" in said or "columns" in said or "one row" in said
    return said


def test_rows_are_those_of_psql(where, psql):
    source = open_source(where("table=s.people&order=id"))
    assert source.exists()
    read = source.read(as_text=["number"])
    assert read.schema == source.schema(as_text=["number"])
    assert all(field.metadata is None for field in read.schema)
    lines = psql("SELECT row_to_json(t) FROM s.people t ORDER BY id").splitlines()
    rows = [json.loads(line, parse_float=decimal.Decimal) for line in lines]
    assert len(rows) == read.num_rows == 10
    for got, said in zip(read.to_pylist(), rows, strict=True):
        assert list(got) == list(said)
        for name in ("id", "large", "person", "flag", "key", "size", "none", ODD):
            assert got[name] == said[name], name
        for name in ("x", "amount", "price"):
            assert got[name] == (None if said[name] is None else float(said[name])), name
        assert got["day"] == dt.date.fromisoformat(said["day"])
        assert got["at"] == dt.datetime.fromisoformat(said["at"])
        assert got["local"] == dt.datetime(2026, 7, 1)
        assert got["number"] == str(said["number"])
        assert got["cash"] == 12.34
        assert json.loads(got["extra"]) == said["extra"]
    assert read.schema.field("at").type == pa.timestamp("us", "UTC")
    assert read.schema.field("flag").type == pa.bool_()
    assert read.schema.field("amount").type == pa.float64()


def test_columns_and_order(where):
    source = open_source(where("table=s.people&order=person&order=id"))
    read = source.read([ODD, "id"])
    assert read.column_names == [ODD, "id"]
    assert read.column("id").to_pylist() == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    last = open_source(where("table=s.people&order=amount")).read(["id"])
    assert last.column("id").to_pylist()[-1] == 3  # whose amount is missing


def test_views_and_odd_names(where):
    assert open_source(where("table=adults")).read().num_rows == 5
    assert open_source(where("table=kept")).read().num_rows == 10
    assert open_source(where('table="Odd.Name"')).read().to_pydict() == {"z": [1]}


def test_numbers_that_doubles_cannot_hold(where):
    nan, up, down, none, tenth = open_source(where("table=odd_numbers")).read()["n"].to_pylist()
    assert (str(nan), up, down, none, tenth) == ("nan", float("inf"), -float("inf"), None, 0.1)
    assert open_source(where("table=too_large")).read()["n"].to_pylist() == ["1" + 400 * "0"]


def test_the_password_from_the_environment(where, monkeypatch):
    address = where("table=s.people", login="anna")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    assert "no password supplied" in complaint(address)
    monkeypatch.setenv("PGPASSWORD", "pass word")
    assert open_source(address).read().num_rows == 10
    by_parameter = where("table=s.people&password=pass%20word", login="anna")
    monkeypatch.delenv("PGPASSWORD")
    assert open_source(by_parameter).read().num_rows == 10
    assert open_source(by_parameter).name == open_source(address).name


def test_what_is_wrong(where, tmp_path):
    assert "It has public." in complaint(where("table=nope"))
    assert "must name a table" in complaint(where("table=people"))  # it is in s
    assert "must name a table" in complaint(where("table=x'; DROP TABLE s.people; --"))
    assert "password authentication failed" in complaint(where("table=a", login="anna:xword"))
    assert "permission denied" in complaint(where("table=closed", login="guest:guest%20word"))
    assert "bogus" in complaint(where("table=a&bogus=1"))
    assert "No such file" in complaint(f"postgresql:///x?host={tmp_path}&table=t")
    assert "refused" in complaint("postgresql://u:pass%20word@127.0.0.1:1/x?table=t")
    assert "got 'zz'" in complaint(where("table=s.people"), ["zz"])
    assert "order must be" in complaint(where("table=s.people&order=zz"))
    assert "at least one row" in complaint(where("table=nothing"))


def test_nothing_can_be_written(where):
    source = open_source(where("table=s.people"))
    with (
        pytest.raises(WrongInput, match="read-only transaction"),
        source._connected() as connection,
    ):
        source._fetch(connection, "INSERT INTO nothing VALUES (1) RETURNING a")


def test_a_reading_sees_one_moment(where, psql):
    """Half of each pair is written at a time that falls into a slow reading."""
    psql("CREATE TABLE pairs AS SELECT 1 AS a")
    psql(
        "CREATE VIEW slow AS SELECT a, pg_sleep(0.4)::text AS nap FROM pairs"
        " UNION ALL SELECT a, '' FROM pairs"
    )
    writer = threading.Timer(0.2, psql, ["INSERT INTO pairs VALUES (2)"])
    writer.start()
    try:
        during = open_source(where("table=slow")).read(["a", "nap"])
    finally:
        writer.join()
    assert during.column("a").to_pylist() == [1, 1]
    assert open_source(where("table=slow&order=a")).read()["a"].to_pylist() == [1, 1, 2, 2]
