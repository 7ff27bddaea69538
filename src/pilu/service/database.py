"""The service's database: SQLite in a file, or PostgreSQL. It holds requests, tokens, callbacks.

One dialect for both: question marks for values, upserts, RETURNING. A block of `writing` is one
transaction: all of it takes effect, or nothing. Names of people are kept as keyed hashes only, and
rows not at all (`service.row_files`).
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pilu._extras import need
from pilu.exceptions import DatabaseFailed

VERSION = 1
_PATIENCE = 30.0  # seconds that one process waits for another
# {key}: a number that rises with every row.
_SCHEMA = """
CREATE TABLE version (number INTEGER NOT NULL);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, salt TEXT NOT NULL,
    hash TEXT NOT NULL, per_second DOUBLE PRECISION NOT NULL, made DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION NOT NULL, revoked DOUBLE PRECISION
);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens, form_key TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL
);
CREATE TABLE requests (
    number {key}, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL, store_key TEXT NOT NULL,
    type TEXT NOT NULL,
    subject TEXT, token TEXT NOT NULL REFERENCES tokens, status TEXT NOT NULL,
    received DOUBLE PRECISION NOT NULL, due TEXT, run_at DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION, told_at DOUBLE PRECISION,
    told_every DOUBLE PRECISION NOT NULL, outcome TEXT, answer TEXT, receipt TEXT,
    entry INTEGER, problem TEXT, attempts INTEGER NOT NULL DEFAULT 0, external TEXT
);
CREATE INDEX requests_open ON requests (store, status, run_at);
CREATE INDEX requests_subject ON requests (store, subject);
CREATE INDEX requests_external ON requests (external);
CREATE TABLE idempotency (
    hash TEXT PRIMARY KEY, body TEXT NOT NULL, request TEXT NOT NULL, made DOUBLE PRECISION NOT NULL
);
CREATE TABLE receipts (
    id TEXT PRIMARY KEY, store_id TEXT NOT NULL, entry INTEGER NOT NULL, person TEXT NOT NULL,
    body TEXT NOT NULL, made DOUBLE PRECISION NOT NULL
);
CREATE TABLE forgotten (
    store_id TEXT NOT NULL, person TEXT NOT NULL, entry INTEGER NOT NULL, leaf TEXT NOT NULL,
    PRIMARY KEY (store_id, person)
);
CREATE TABLE callbacks (
    id TEXT PRIMARY KEY, request TEXT NOT NULL, url TEXT NOT NULL, shape TEXT NOT NULL,
    next DOUBLE PRECISION, attempts INTEGER NOT NULL DEFAULT 0,
    delivered DOUBLE PRECISION, problem TEXT
);
CREATE INDEX callbacks_next ON callbacks (next);
CREATE INDEX callbacks_request ON callbacks (request);
CREATE TABLE audit (
    number {key}, time DOUBLE PRECISION NOT NULL, store TEXT, token TEXT NOT NULL,
    action TEXT NOT NULL, request TEXT, batch TEXT, entry INTEGER
);
CREATE INDEX audit_open ON audit (store, entry);
CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until DOUBLE PRECISION NOT NULL);
CREATE TABLE pictures (store TEXT PRIMARY KEY, head TEXT NOT NULL, body TEXT NOT NULL);
"""

Found = Mapping[str, Any]


class Transaction:
    """Statements that take effect together."""

    def __init__(self, cursor: Any, *, marks: str) -> None:
        self._cursor, self._marks = cursor, marks

    def run(self, statement: str, *values: Any) -> int:
        """Carry out a statement, and return how many rows it touched."""
        self._cursor.execute(statement.replace("?", self._marks), values)
        return int(self._cursor.rowcount)

    def all(self, statement: str, *values: Any) -> list[Found]:
        """The rows that a statement returns."""
        self._cursor.execute(statement.replace("?", self._marks), values)
        return list(self._cursor.fetchall())

    def one(self, statement: str, *values: Any) -> Found | None:
        """The first row, or None."""
        return next(iter(self.all(statement, *values)), None)

    def number(self, statement: str, *values: Any) -> Any:
        """The first value of the first row."""
        (row,) = self.all(statement, *values)
        return next(iter(dict(row).values()))


class Database(Protocol):
    """Where the service keeps its records."""

    is_local: bool  # reads take microseconds: they need no thread of their own

    def reading(self) -> Any:
        """A block with a `Transaction` that changes nothing."""

    def writing(self) -> Any:
        """A block with a `Transaction` that takes effect at its end, or not at all."""

    def tidy(self) -> None:
        """Overwrite what was deleted."""

    def close(self) -> None:
        """Close all connections."""


def open_database(where: str | Path) -> Database:
    """The database at a path, or at an address postgresql://..."""
    if str(where).startswith(("postgresql://", "postgres://")):
        return _Postgres(str(where))
    return _Sqlite(Path(where))


class _Sqlite:
    """A file in write-ahead mode: readers never wait."""

    is_local = True

    def __init__(self, path: Path) -> None:
        self.path, self._held, self._open = path, threading.local(), list[sqlite3.Connection]()
        self._writer = threading.Lock()  # threads queue here, not in SQLite's polling
        with _explained(str(path), (sqlite3.Error, OSError)):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection()
            with self.writing() as tx:
                if tx.one("SELECT 1 FROM sqlite_master WHERE name = 'version'") is None:
                    _create(tx, "INTEGER PRIMARY KEY AUTOINCREMENT")
        _check_version(self, str(path))

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._held, "connection", None)
        if found is None:
            found = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            found.row_factory = sqlite3.Row
            _wait_for_wal(found)
            for setting in ("synchronous = FULL", "secure_delete = ON"):
                found.execute(f"PRAGMA {setting}")
            self._held.connection = found
            self._open.append(found)
        return found

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with _explained(str(self.path), sqlite3.Error):
            yield Transaction(self._connection().cursor(), marks="?")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with _explained(str(self.path), sqlite3.Error), self._writer:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(connection.cursor(), marks="?")
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def tidy(self) -> None:
        with _explained(str(self.path), sqlite3.Error), self._writer:
            self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()


def _wait_for_wal(connection: sqlite3.Connection) -> None:
    """Set write-ahead mode; SQLite does not wait here while another process does the same."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


class _Postgres:
    """A server, by a pool of connections that are made again when they are lost."""

    is_local = False

    def __init__(self, url: str) -> None:
        wanted = {"for_": "a database at postgresql://", "extra": "serve-postgres"}
        pool, rows = need("psycopg_pool", **wanted), need("psycopg.rows", **wanted)
        driver = need("psycopg", **wanted)
        self.name, self._error = _without_password(driver, url), driver.Error
        # It repeats addresses, with their passwords; what went wrong is told below.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        with _explained(self.name, self._error):
            driver.connect(url, connect_timeout=10).close()  # the pool says only that it failed
            self._pool = pool.ConnectionPool(
                url,
                min_size=1,
                max_size=16,
                timeout=5.0,
                kwargs={"row_factory": rows.dict_row},
                check=pool.ConnectionPool.check_connection,
                open=True,
            )
            try:
                self._pool.wait(timeout=15.0)
                with self.writing() as tx:
                    tx.run("SELECT pg_advisory_xact_lock(1885957237)")  # one process makes tables
                    if tx.number("SELECT to_regclass('version') AS there") is None:
                        _create(tx, "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
            except BaseException:
                self._pool.close()
                raise
        _check_version(self, self.name)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with (
            _explained(self.name, self._error),
            self._pool.connection() as connection,
            connection.cursor() as cursor,
        ):
            yield Transaction(cursor, marks="%s")

    reading = writing = _transaction

    def tidy(self) -> None:
        """PostgreSQL's own vacuum overwrites nothing: encrypt its disk (docs/operations.md)."""

    def close(self) -> None:
        self._pool.close()


def _create(tx: Transaction, key: str) -> None:
    for statement in filter(str.strip, _SCHEMA.format(key=key).split(";")):
        tx.run(statement)
    tx.run("INSERT INTO version (number) VALUES (?)", VERSION)


def _check_version(database: Database, name: str) -> None:
    with database.reading() as tx:
        found = tx.number("SELECT number FROM version")
    if found != VERSION:
        raise DatabaseFailed(
            f"{name} must be of version {VERSION}, got {found}. Use the version of pilu that wrote "
            "it, or a later one."
        )
    try:
        with database.reading() as tx:
            tx.all("SELECT store_key FROM requests LIMIT 1")
    except DatabaseFailed:
        raise DatabaseFailed(
            f"{name} has no column requests.store_key: it was made before version {VERSION} was "
            "settled. Move it away, start the service with a new one, and make new tokens and the "
            "open requests again."
        ) from None


def _without_password(driver: Any, url: str) -> str:
    """An address that may be shown."""
    try:
        parts = driver.conninfo.conninfo_to_dict(url)
    except driver.Error:
        raise DatabaseFailed(
            "the address of the database must be as postgresql://user@host/name, with special "
            "characters percent-encoded. The password is better in PGPASSWORD or ~/.pgpass."
        ) from None
    return f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"


@contextmanager
def _explained(name: str, errors: Any) -> Iterator[None]:
    try:
        yield
    except errors as error:
        text = " ".join(str(error).split())
        raise DatabaseFailed(f"{name}: {text}. Nothing was changed.") from None
