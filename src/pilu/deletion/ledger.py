"""The ledger: an append-only Merkle log in SQLite, with the names of rows as keyed hashes.

Entries are canonical JSON; their leaf hashes make the log (`deletion.merkle`). What is deleted from
the database is overwritten with zeros (secure_delete), and a rollback journal does not outlive its
transaction, so that no stale copy stays in the directory.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pilu.deletion.merkle import Head, check_consistency, consistency, head, inclusion, leaf
from pilu.exceptions import LedgerMismatch, StoreDamaged

__all__ = ["Entry", "Ledger"]

_SCHEMA = """
CREATE TABLE entries (place INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE names (kind TEXT NOT NULL, hash BLOB NOT NULL, position INTEGER NOT NULL);
CREATE INDEX names_by_hash ON names (kind, hash);
CREATE INDEX names_by_position ON names (position);
CREATE TABLE forgotten (kind TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (kind, hash));
CREATE TABLE pending (hash BLOB PRIMARY KEY, due TEXT, asked TEXT NOT NULL);
"""
_SETTINGS = (
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
)
_APPLICATION_ID = 0x70696C75  # "pilu"


class Entry(NamedTuple):
    """One line of the log."""

    place: int
    body: bytes

    @property
    def record(self) -> dict[str, Any]:
        """The entry as a mapping."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Ledger:
    """An open ledger; use it within `reading` or `writing`."""

    def __init__(self, path: Path, *, patience: float = 30.0) -> None:
        self.path = path
        try:
            self._database = sqlite3.connect(path, timeout=patience, isolation_level=None)
            for setting in _SETTINGS:
                self._database.execute(setting)
        except sqlite3.Error as error:
            raise StoreDamaged(f"{path} cannot be opened: {error}.") from None

    @classmethod
    def create(cls, path: Path) -> "Ledger":
        """A new, empty ledger."""
        ledger = cls(path)
        ledger._database.executescript(
            f"BEGIN; PRAGMA application_id = {_APPLICATION_ID}; {_SCHEMA} COMMIT;"
        )
        return ledger

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def reading(self) -> Iterator["Ledger"]:
        """A moment in which nobody writes."""
        with self._transaction("BEGIN"):
            self._database.execute(
                "SELECT count(*) FROM sqlite_master"
            ).fetchone()  # takes the lock
            yield self

    @contextmanager
    def writing(self) -> Iterator["Ledger"]:
        """All that is written inside becomes true at its end, or not at all."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield self

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        try:
            self._database.execute(begin)
            yield
            self._database.execute("COMMIT")
        except BaseException as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreDamaged(_in_words(self.path, error)) from None
            raise

    # The log

    def append(self, record: Mapping[str, Any]) -> Entry:
        """One more entry at the end."""
        entry = Entry(self.size, canonical(record))
        self._database.execute("INSERT INTO entries VALUES (?, ?)", entry)
        return entry

    @property
    def size(self) -> int:
        """Number of entries."""
        count, last = self._database.execute(
            "SELECT count(*), coalesce(max(place), -1) FROM entries"
        ).fetchone()
        if last != count - 1:
            raise LedgerMismatch(f"{self.path}: an entry is missing from the log.")
        return int(count)

    def entries(self) -> list[Entry]:
        """The whole log."""
        rows = self._database.execute(
            "SELECT place, CAST(body AS BLOB) FROM entries ORDER BY place"
        ).fetchall()
        found = [Entry(int(place), bytes(body)) for place, body in rows]
        if [entry.place for entry in found] != list(range(len(found))):
            raise LedgerMismatch(f"{self.path}: an entry is missing from the log.")
        return found

    @property
    def head(self) -> Head:
        """Size and hash of the log: what to note down."""
        return head(self._leaves())

    def inclusion(self, place: int) -> list[bytes]:
        """The proof that an entry stands at its place."""
        return inclusion(self._leaves(), place)

    def check_grown_from(self, noted: Head) -> None:
        """Refuse a log that does not begin with the one that was noted."""
        leaves = self._leaves()
        older = min(noted.size, len(leaves))
        check_consistency(noted, head(leaves), consistency(leaves, older))

    def _leaves(self) -> list[bytes]:
        return [leaf(entry.body) for entry in self.entries()]

    # The state, one record beside the arrays

    @property
    def state(self) -> dict[str, Any]:
        """What is true now."""
        row = self._database.execute("SELECT body FROM state").fetchone()
        if row is None:
            raise StoreDamaged(f"{self.path} holds no state: fitting was interrupted. Fit again.")
        found: dict[str, Any] = json.loads(row[0])
        return found

    def set_state(self, record: Mapping[str, Any]) -> None:
        """Replace the state."""
        self._database.execute(
            "INSERT INTO state VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body",
            (canonical(record),),
        )

    # Names, as keyed hashes

    def add_names(self, kind: str, names: Iterable[tuple[bytes, int]]) -> None:
        """Hashes of names with the positions of their rows."""
        self._database.executemany(
            "INSERT INTO names VALUES (?, ?, ?)", ((kind, name, place) for name, place in names)
        )

    def positions(self, kind: str, name: bytes) -> list[int]:
        """Positions of the rows under a name."""
        rows = self._database.execute(
            "SELECT position FROM names WHERE kind = ? AND hash = ? ORDER BY position", (kind, name)
        )
        return [int(row[0]) for row in rows]

    def all_names(self, kind: str) -> Iterator[tuple[bytes, int]]:
        """Every hash of a kind with its positions, in their order."""
        rows = self._database.execute(
            "SELECT hash, position FROM names WHERE kind = ? ORDER BY position", (kind,)
        )
        yield from ((bytes(name), int(place)) for name, place in rows)

    def is_forgotten(self, kind: str, name: bytes) -> bool:
        """Whether all rows under a name have been forgotten."""
        row = self._database.execute(
            "SELECT 1 FROM forgotten WHERE kind = ? AND hash = ?", (kind, name)
        ).fetchone()
        return row is not None

    def forget_positions(self, positions: Iterable[int]) -> None:
        """Strike rows out; names without rows are remembered as forgotten."""
        gone = [(int(place),) for place in positions]
        names = {
            (kind, bytes(name))
            for place in gone
            for kind, name in self._database.execute(
                "SELECT kind, hash FROM names WHERE position = ?", place
            )
        }
        self._database.executemany("DELETE FROM names WHERE position = ?", gone)
        empty = [pair for pair in names if not self.positions(*pair)]
        self._database.executemany("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", empty)

    # The queue

    def ask(self, subject: bytes, due: str | None, asked: str) -> None:
        """Queue a subject; asking twice keeps the earlier date."""
        self._database.execute(
            "INSERT INTO pending VALUES (?, ?, ?) ON CONFLICT (hash) DO UPDATE SET "
            "due = min(coalesce(due, excluded.due), coalesce(excluded.due, due))",
            (subject, due, asked),
        )

    def pending(self) -> list[tuple[bytes, str | None, str]]:
        """Who waits, the earliest date first."""
        rows = self._database.execute(
            "SELECT hash, due, asked FROM pending ORDER BY due IS NULL, due, asked"
        )
        return [(bytes(name), due, asked) for name, due, asked in rows]

    def answered(self, subjects: Iterable[bytes]) -> None:
        """Take subjects out of the queue."""
        self._database.executemany(
            "DELETE FROM pending WHERE hash = ?", ((name,) for name in subjects)
        )

    def check_whole(self) -> None:
        """Refuse a file that SQLite itself finds damaged."""
        try:
            found = self._database.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            raise StoreDamaged(_in_words(self.path, error)) from None
        if found != "ok":
            raise StoreDamaged(f"{self.path} is damaged: {found}. Restore it from a backup.")


def canonical(record: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys: the bytes that are hashed."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _in_words(path: Path, error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return f"{path} is in use by another process. Try again once it is done."
    if "readonly" in text:
        return f"{path} cannot be written: it is read-only. Nothing was changed."
    if "full" in text:
        return f"{path} cannot be written: the disk is full. Nothing was changed."
    return f"{path} is damaged: {text}. Restore the directory from a backup."
