"""Tables and views in DuckDB (``pilu[duckdb]``) and PostgreSQL (``pilu[postgres]``).

Rows of a database have no order of their own: name a column by ``order=`` to have one.
Names in SQL are always quoted, so no name can be taken for a command.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pilu._extras import need
from pilu.data.addresses import Address, parse_address, quoted
from pilu.data.source import arrow, check_unique, chosen, listed, plain, reason, with_rows
from pilu.exceptions import WrongInput

_TABLES = (
    "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
)


class _Database(ABC):
    """One table or view, read by one query."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name = address.public

    def __repr__(self) -> str:  # never the address itself: it has the password
        return f"{type(self).__name__}({self.name!r})"

    def exists(self) -> bool:
        """Whether the database answers and has the table; rows are not read."""
        try:
            return bool(self.schema().names)
        except WrongInput:
            return False

    def schema(self, as_text: Sequence[str] = ()) -> Any:
        """Names and types of all columns."""
        return self._table(None, as_text, " LIMIT 0").schema

    def read(self, columns: Sequence[str] | None = None, *, as_text: Sequence[str] = ()) -> Any:
        """All rows of some columns, sorted by the columns of ``order=`` if there are any."""
        return with_rows(self.name, self._table(columns, as_text))

    def _table(self, columns: Sequence[str] | None, as_text: Sequence[str], limit: str = "") -> Any:
        with self._connected() as connection:
            there = self._columns(connection)
            check_unique(self.name, list(there))
            names = chosen(self.name, list(there), columns, as_text)
            for name in self._address.order:
                if name not in there:
                    raise WrongInput(
                        f"order must be a column of {self.name}, got {name!r}. "
                        f"It has {listed(list(there))}."
                    )
            asked = ", ".join(_selected(name, there[name]) for name in names)
            order = ", ".join(f"{quoted('t', name)} NULLS LAST" for name in self._address.order)
            sql = f"SELECT {asked} FROM {quoted(*self._address.table)} AS t"
            table = self._fetch(connection, sql + (f" ORDER BY {order}" if order else "") + limit)
        for k, name in enumerate(names):
            if there[name] in _AMOUNTS and name not in as_text:
                table = table.set_column(k, name, _as_doubles(table.column(k)))
        return plain(table, as_text)

    @abstractmethod
    def _connected(self) -> Any:
        """A connection that cannot write, in a `with`; its errors are `WrongInput`."""

    @abstractmethod
    def _columns(self, connection: Any) -> dict[str, str]:
        """The columns in order, with the types that need a word in the query."""

    @abstractmethod
    def _fetch(self, connection: Any, sql: str) -> Any:
        """The rows of a query as an Arrow table."""

    def _no_table(self, connection: Any) -> WrongInput:
        tables = self._fetch(connection, _TABLES).column("name").to_pylist()
        return WrongInput(
            f"{self.name} must name a table or view of the database, got "
            f"table={'.'.join(self._address.table)}. It has {listed(tables)}."
        )

    def _failed(self, error: Exception, remedy: str) -> WrongInput:
        text = reason(error)
        for prefix in ("Failed to connect: ", "ERROR:  ", "FATAL:  "):
            text = text.rpartition(prefix)[2]
        text = self._address.without_secrets(text)
        return WrongInput(f"{self.name} cannot be read: {text}. {remedy}")


class DuckDbSource(_Database):
    """A table in a DuckDB file, which no other process can write meanwhile."""

    def __init__(self, where: str) -> None:
        example = "duckdb:///folder/file.duckdb?table=name"
        address = parse_address(where, example)
        if address.server or address.user or not address.path.strip("/") or address.parameters:
            raise WrongInput(
                "table must be duckdb:/// and a path, then table= and maybe order=, got another "
                f"form. Write it as {example}, with four slashes for an absolute path."
            )
        self._path = Path(unquote(address.path)[1:]).absolute()
        super().__init__(address._replace(path="/" + quote(str(self._path))))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        arrow()
        duckdb = need("duckdb", for_="reading DuckDB", extra="duckdb")
        if not self._path.is_file():
            raise WrongInput(
                f"table must be a DuckDB file, got {self._path}, where there is none. Check "
                "the path; an absolute one has four slashes."
            )
        try:
            with duckdb.connect(str(self._path), read_only=True) as connection:
                connection.sql("SET TimeZone = 'UTC'")  # not the zone of this machine
                yield connection
        except duckdb.Error as error:
            remedy = "Check that it is a DuckDB file and that nobody has it open for writing."
            raise self._failed(error, remedy) from None

    def _columns(self, connection: Any) -> dict[str, str]:
        duckdb = need("duckdb", for_="reading DuckDB", extra="duckdb")
        try:
            found = connection.sql(f"SELECT * FROM {quoted(*self._address.table)} LIMIT 0")
        except duckdb.CatalogException:
            raise self._no_table(connection) from None
        return dict.fromkeys(found.columns, "")

    def _fetch(self, connection: Any, sql: str) -> Any:
        return connection.sql(sql).to_arrow_table()


# Types that the driver gives as they are, and amounts, which come as text to be exact.
_DIRECT = (
    *("smallint", "integer", "bigint", "real", "double precision", "boolean", "bytea"),
    *("text", "character varying", "character", "name", '"char"', "date"),
    *("timestamp without time zone", "timestamp with time zone", "time without time zone"),
)
_AMOUNTS = ("numeric", "money")

_COLUMNS = """
SELECT a.attname::text AS name,
       CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END::regtype::text AS type
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


class PostgresSource(_Database):
    """A table in PostgreSQL, seen as it was at one moment.

    The password comes from the address or from libpq's environment (PGPASSWORD).
    """

    def __init__(self, where: str) -> None:
        example = "postgresql://user@host/database?table=schema.name"
        super().__init__(parse_address(where, example)._replace(scheme="postgresql"))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        arrow()
        driver = need(
            "adbc_driver_postgresql.dbapi",
            for_="reading PostgreSQL",
            extra="postgres",
            package="adbc-driver-postgresql",
        )
        defaults = [] if "PGCONNECT_TIMEOUT" in os.environ else [("connect_timeout", "10")]
        remedy = "Check the address and the rights of its user."
        try:
            with (
                driver.connect(self._address.for_driver(defaults)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield cursor
        except driver.Error as error:
            raise self._failed(error, remedy) from None

    def _columns(self, connection: Any) -> dict[str, str]:
        connection.execute(_COLUMNS, [quoted(*self._address.table)])
        found = connection.fetch_arrow_table().to_pydict()
        if not found["name"]:
            raise self._no_table(connection)
        return dict(zip(found["name"], found["type"], strict=True))

    def _fetch(self, connection: Any, sql: str) -> Any:
        connection.execute(sql)
        return connection.fetch_arrow_table()


def _selected(name: str, kind: str) -> str:
    """A column in a query; what the driver cannot express comes as PostgreSQL's own text."""
    column = quoted("t", name)
    if not kind or kind in _DIRECT:
        return column
    cast = "::numeric::text" if kind in _AMOUNTS else "::text"
    return f"{column}{cast} AS {quoted(name)}"


def _as_doubles(column: Any) -> Any:
    """Numbers that came as text; the text itself if one of them is too large for a double."""
    pa, compute = arrow(), arrow("pyarrow.compute")
    try:
        doubles = column.cast(pa.float64())
    except pa.ArrowInvalid:
        return column
    said = compute.is_in(column, pa.array(["Infinity", "-Infinity"]))
    too_large = compute.and_not(compute.is_inf(doubles), said)
    return column if compute.any(too_large).as_py() else doubles
