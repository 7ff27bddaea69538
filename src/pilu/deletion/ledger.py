"""The ledger: an append-only Merkle log and one record of state, in SQLite.

Entries are canonical JSON; their leaf hashes make the log (`deletion.merkle`). The head is kept
beside them, and an entry names the hash of the state that it made, so that a byte that was changed
in either is noticed; one who edits all of it is noticed against a head that was noted elsewhere.
What is deleted from the database is overwritten with zeros (secure_delete), and a rollback journal
does not outlive its transaction, so that no stale copy stays in the directory.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pilu.deletion.merkle import Head, check_consistency, consistency, head, inclusion, leaf
from pilu.exceptions import LedgerMismatch, StoreDamaged

__all__ = ["Entry", "Ledger", "canonical", "check_is_store"]

_SCHEMA = """
CREATE TABLE entries (place INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
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
    record: dict[str, Any]


class Ledger:
    """An open ledger; use it within `reading` or `writing`."""

    def __init__(self, path: Path, *, patience: float = 30.0) -> None:
        self.path, self._patience = path, patience
        try:
            self._database = sqlite3.connect(path, timeout=patience, isolation_level=None)
            for setting in _SETTINGS:
                self._database.execute(setting)
            found = self._database.execute("PRAGMA application_id").fetchone()[0]
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreDamaged(_in_words(path, error)) from None
        if found not in (0, _APPLICATION_ID):
            raise StoreDamaged(f"{path} is not a ledger of pilu, but another SQLite file.")

    @classmethod
    def create(cls, path: Path) -> "Ledger":
        """A new, empty ledger."""
        ledger = cls(path)
        try:
            ledger._database.executescript(
                f"BEGIN; PRAGMA application_id = {_APPLICATION_ID}; {_SCHEMA} COMMIT;"
            )
        except sqlite3.Error as error:
            raise StoreDamaged(_in_words(path, error)) from None
        return ledger

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def reading(self) -> Iterator["Ledger"]:
        """A moment in which nobody writes."""
        with self._transaction("BEGIN"):
            self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the lock
            yield self

    @contextmanager
    def writing(self, *, patience: float | None = None) -> Iterator["Ledger"]:
        """All that is written inside becomes true at its end, or not at all."""
        wait = self._patience if patience is None else patience
        self._database.execute(f"PRAGMA busy_timeout = {int(1000 * wait)}")
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                yield self
        finally:
            self._database.execute(f"PRAGMA busy_timeout = {int(1000 * self._patience)}")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if self._database.in_transaction:
            raise RuntimeError("a ledger is read or written once at a time: leave the block first.")
        try:
            self._database.execute(begin)
            yield
            self._database.execute("COMMIT")
        except BaseException as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            # sqlite3 itself fails to decode the names in a damaged file
            if isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
                raise StoreDamaged(_in_words(self.path, error)) from None
            raise

    # The log

    def append(self, record: Mapping[str, Any]) -> Entry:
        """One more entry at the end."""
        bodies = [*self._bodies(), canonical(record)]
        place = len(bodies) - 1
        self._database.execute("INSERT INTO entries VALUES (?, ?)", (place, bodies[-1]))
        self._database.execute(
            "INSERT OR REPLACE INTO head VALUES (1, ?)", (str(head([leaf(b) for b in bodies])),)
        )
        return Entry(place, json.loads(bodies[-1]))

    def entries(self) -> list[Entry]:
        """The whole log."""
        return [
            Entry(place, self._json(body, f"entry {place}"))
            for place, body in enumerate(self._bodies())
        ]

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self._bodies())

    @property
    def head(self) -> Head:
        """Size and hash of the log: what to note down."""
        return head(self._leaves())

    def inclusion(self, place: int) -> list[bytes]:
        """The proof that an entry stands at its place."""
        return inclusion(self._leaves(), place)

    def growth_from(self, noted: Head) -> list[bytes]:
        """The proof that the log begins with the one that was noted; it is refused if not so."""
        leaves = self._leaves()
        proof = consistency(leaves, min(noted.size, len(leaves)))
        check_consistency(noted, head(leaves), proof)
        return proof

    def _leaves(self) -> list[bytes]:
        return [leaf(body) for body in self._bodies()]

    def _bodies(self) -> list[bytes]:
        rows = self._database.execute(
            "SELECT place, CAST(body AS BLOB) FROM entries ORDER BY place"
        ).fetchall()
        if [place for place, _ in rows] != list(range(len(rows))):
            raise LedgerMismatch(f"{self.path}: an entry is missing from the log.")
        bodies = [self._bytes(body) for _, body in rows]
        kept = self._database.execute("SELECT body FROM head").fetchone()
        found = str(head([leaf(body) for body in bodies]))
        if (kept[0] if kept else found) != found or (bodies and not kept):
            raise LedgerMismatch(
                f"{self.path}: the log was altered: it does not have the head that is kept with it."
            )
        return bodies

    # The state, one record beside the arrays

    @property
    def state(self) -> dict[str, Any]:
        """What is true now; it must be what the log says that it is."""
        row = self._database.execute("SELECT CAST(body AS BLOB) FROM state").fetchone()
        if row is None:
            raise StoreDamaged(f"{self.path} holds no state. Restore the directory from a backup.")
        body = self._bytes(row[0])
        told = [e.record["state_sha256"] for e in self.entries() if "state_sha256" in e.record]
        if not told or hashlib.sha256(body).hexdigest() != told[-1]:
            raise StoreDamaged(
                f"{self.path}: the state is not the one that the log speaks of. Restore the "
                "directory from a backup."
            )
        return self._json(body, "the state")

    def turn_to(self, state: Mapping[str, Any], record: Mapping[str, Any]) -> Entry:
        """Replace the state, and say so in the log."""
        body = canonical(state)
        self._database.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (body,))
        return self.append({**record, "state_sha256": hashlib.sha256(body).hexdigest()})

    def _bytes(self, body: Any) -> bytes:
        if not isinstance(body, bytes):
            raise StoreDamaged(f"{self.path} is damaged: a record is empty. Restore a backup.")
        return body

    def _json(self, body: bytes, what: str) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StoreDamaged(
                f"{self.path}: {what} is damaged. Restore the directory from a backup."
            )
        return found

    def check_whole(self) -> None:
        """Refuse a file that SQLite itself finds damaged."""
        try:
            found = self._database.execute("PRAGMA integrity_check").fetchone()[0]
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreDamaged(_in_words(self.path, error)) from None
        if found != "ok":
            reason = " ".join(str(found).split())
            raise StoreDamaged(f"{self.path} is damaged: {reason}. Restore it from a backup.")


def check_is_store(folder: Path) -> None:
    """Refuse a folder that is no store."""
    if not folder.is_dir():
        raise ValueError(f"{folder} must be a store, got no such folder. `pilu fit` makes one.")
    if not (folder / "ledger.sqlite").is_file():
        raise ValueError(f"{folder} must be a store, got a folder without ledger.sqlite.")


def canonical(record: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys: the bytes that are hashed."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _in_words(path: Path, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "locked" in text or "busy" in text:
        return f"{path} is in use by another process. Try again once it is done."
    if "readonly" in text:
        return f"{path} cannot be written: it is read-only. Nothing was changed."
    if "full" in text or "disk I/O" in text:
        return f"{path} cannot be written: the disk is full or failing. Nothing was changed."
    if "unable to open" in text:
        return f"{path} cannot be opened: check that it is there and that you may write there."
    return f"{path} is damaged: {text}. Restore the directory from a backup."
