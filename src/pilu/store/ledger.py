"""The ledger: an append-only log and one record of state, in SQLite.

An entry about people names only the head of a Merkle tree, in which every person has a leaf of
their own. So an entry can be shown to one person without the others. The leaves are kept beside the
log. The outbox holds what a receipt needs and nothing else keeps, until it is delivered.

The head of the log is kept beside its entries, and an entry names the hash of the state that it
made, so a changed byte in either is noticed. Someone who rewrites all of it is caught by a head
that was noted elsewhere. Deleted content is overwritten with zeros (secure_delete), and the
rollback journal does not outlive its transaction, so no stale copy stays in the directory.
"""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilu.exceptions import LedgerMismatch, StoreDamaged, WrongInput
from pilu.store import merkle
from pilu.store.log import Entry, Log, canonical

_SCHEMA = """
CREATE TABLE entries (place INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
"""
# Stores of the second format get these with their next change.
_LATER = """
CREATE TABLE IF NOT EXISTS people (
    place INTEGER, number INTEGER, body BLOB NOT NULL, PRIMARY KEY (place, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (place INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""
_SETTINGS = (
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
)
_APPLICATION_ID = 0x70696C75  # "pilu"
_OF_THE_FIRST_FORMAT = "SELECT 1 FROM sqlite_master WHERE name = 'names_by_hash'"


class Ledger:
    """An open ledger; use it within `reading` or `writing`."""

    def __init__(self, path: Path, *, patience: float = 30.0, any_thread: bool = False) -> None:
        """Open a ledger; with `any_thread`, the caller sees to it that one uses it at a time."""
        self.path, self._patience = path, patience
        self._cached: tuple[tuple[int, int], Log] | None = None  # the log of a `_version`
        with _explained(path):
            self._database = sqlite3.connect(
                path, timeout=patience, isolation_level=None, check_same_thread=not any_thread
            )
            for setting in _SETTINGS:
                self._database.execute(setting)
            application_id = self._database.execute("PRAGMA application_id").fetchone()[0]
            is_first = self._database.execute(_OF_THE_FIRST_FORMAT).fetchone() is not None
        if application_id not in (0, _APPLICATION_ID):
            raise StoreDamaged(f"{path} is not a ledger of pilu, but another SQLite file.")
        if is_first:
            raise StoreDamaged(
                f"{path} is of the format pilu.store/1, which is not read any more. Fit a new "
                "store from the table without the people who were forgotten. Nothing was changed."
            )

    @classmethod
    def create(cls, path: Path) -> "Ledger":
        """A new, empty ledger."""
        ledger = cls(path)
        with _explained(path):
            ledger._database.executescript(
                f"BEGIN; PRAGMA application_id = {_APPLICATION_ID}; {_SCHEMA} COMMIT;"
            )
        return ledger

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def reading(self) -> Iterator["Ledger"]:
        """A transaction in which no other process commits a change."""
        with self._transaction("BEGIN"):
            self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the lock
            yield self

    @contextmanager
    def writing(self, *, patience: float | None = None) -> Iterator["Ledger"]:
        """A transaction whose changes all take effect at its end, or not at all."""
        wait = self._patience if patience is None else patience
        self._database.execute(f"PRAGMA busy_timeout = {int(1000 * wait)}")
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                for statement in filter(str.strip, _LATER.split(";")):
                    self._database.execute(statement)
                yield self
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute(f"PRAGMA busy_timeout = {int(1000 * self._patience)}")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if self._database.in_transaction:
            raise RuntimeError("a ledger has one transaction at a time: leave the block first.")
        try:
            with _explained(self.path):
                self._database.execute(begin)
                yield
                self._database.execute("COMMIT")
        except BaseException:
            self._cached = None  # it may have entries that were not committed
            if self._database.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to report
                    self._database.execute("ROLLBACK")
            raise

    # The log

    @property
    def log(self) -> Log:
        """The log as it is now, checked against the head that is kept with it.

        It is read and hashed again only if the file was written since the last time.
        """
        version = self._version()
        if self._cached is None or self._cached[0] != version:
            self._cached = version, self._read_log()
        return self._cached[1]

    def append(
        self,
        record: Mapping[str, Any],
        state: Mapping[str, Any] | None = None,
        *,
        people: Sequence[Mapping[str, Any]] = (),
        outbox: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append an entry; with a state, replace the state and put its hash into the entry.

        `people` have a leaf each in the tree whose head the entry names. `outbox` is kept until
        `delivered`.
        """
        before, execute = self.log, self._database.execute
        if state is not None:
            body = canonical(state)
            record = {**record, "state_sha256": hashlib.sha256(body).hexdigest()}
            execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (body,))
        bodies = [canonical(person) for person in people]
        if bodies:
            record = {**record, "people": str(merkle.head([merkle.leaf(b) for b in bodies]))}
        log = before.with_entry(record)
        entry = log.entries[-1]
        execute("INSERT INTO entries VALUES (?, ?)", (entry.place, entry.body))
        execute("INSERT OR REPLACE INTO head VALUES (1, ?)", (str(log.head),))
        self._database.executemany(
            "INSERT INTO people VALUES (?, ?, ?)",
            ((entry.place, number, body) for number, body in enumerate(bodies)),
        )
        if outbox is not None:
            execute("INSERT INTO outbox VALUES (?, ?)", (entry.place, canonical(outbox)))
        self._cached = self._version(), log
        return entry

    # People of an entry, and what was not delivered yet

    def people(self, places: Sequence[int]) -> list[list[dict[str, Any]]]:
        """The people of each of the entries, checked against the head that the entry names."""
        bodies = self._bodies_of_people(places)
        return [self._checked_people(place, bodies.get(place, [])) for place in places]

    def _bodies_of_people(self, places: Sequence[int]) -> dict[int, list[bytes]]:
        only = f"WHERE place = {int(places[0])}" if len(places) == 1 else ""
        rows = self._rows(
            f"SELECT place, CAST(body AS BLOB) FROM people {only} ORDER BY place, number"
        )
        found: dict[int, list[bytes]] = {}
        for place, body in rows:
            found.setdefault(place, []).append(self._bytes(body))
        return found

    def _checked_people(self, place: int, bodies: list[bytes]) -> list[dict[str, Any]]:
        named = self.log.entries[place].record.get("people")
        computed = str(merkle.head([merkle.leaf(body) for body in bodies])) if bodies else None
        if named != computed:
            raise LedgerMismatch(f"{self.path}: the people of entry {place} were altered.")
        return [self._json(body, f"a person of entry {place}") for body in bodies]

    def outbox(self) -> dict[int, dict[str, Any]]:
        """What was not delivered yet, by the place of its entry."""
        rows = self._rows("SELECT place, CAST(body AS BLOB) FROM outbox ORDER BY place")
        return {
            place: self._json(self._bytes(body), f"the receipt of entry {place}")
            for place, body in rows
        }

    def delivered(self, place: int) -> None:
        """Remove what was kept for the receipts of an entry."""
        log = self.log
        self._database.execute("DELETE FROM outbox WHERE place = ?", (place,))
        self._cached = self._version(), log  # as it was

    def clear_journal(self) -> None:
        """Write something, so that a journal which a killed process left is removed."""
        # This touches the first page whatever is in it. An update to the same value touches none.
        self._database.execute("PRAGMA user_version = 0")

    def _rows(self, query: str) -> list[Any]:
        try:
            return self._database.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # a store of the second format
                return []
            raise

    def _version(self) -> tuple[int, int]:
        """Changes when another connection has committed, or when this one has written.

        `data_version` is the counter by which SQLite itself decides whether the pages that it
        holds in memory are still those of the file. `total_changes` also counts changes that were
        rolled back: after such, nothing is cached.
        """
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        return version, self._database.total_changes

    def _read_log(self) -> Log:
        rows = self._database.execute(
            "SELECT place, CAST(body AS BLOB) FROM entries ORDER BY place"
        ).fetchall()
        if [place for place, _ in rows] != list(range(len(rows))):
            raise LedgerMismatch(f"{self.path}: an entry is missing from the log.")
        log = Log.of(self._bytes(body) for _, body in rows)
        kept = self._database.execute("SELECT body FROM head").fetchone()
        if (rows and kept is None) or (kept is not None and kept[0] != str(log.head)):
            raise LedgerMismatch(
                f"{self.path}: the log was altered: it does not have the head that is kept with it."
            )
        return log

    # The state, one record beside the arrays

    @property
    def state(self) -> dict[str, Any]:
        """The state as it is now, checked against its hash in the log."""
        row = self._database.execute("SELECT CAST(body AS BLOB) FROM state").fetchone()
        if row is None:
            raise StoreDamaged(f"{self.path} holds no state. Restore the directory from a backup.")
        body = self._bytes(row[0])
        if hashlib.sha256(body).hexdigest() != self.log.state_sha256:
            raise StoreDamaged(
                f"{self.path}: the state is not the one that the log names. Restore the directory "
                "from a backup."
            )
        return self._json(body, "the state")

    def _bytes(self, body: Any) -> bytes:
        if not isinstance(body, bytes):
            raise StoreDamaged(f"{self.path} is damaged: a record is empty. Restore a backup.")
        return body

    def _json(self, body: bytes, what: str) -> dict[str, Any]:
        try:
            record = json.loads(body)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise StoreDamaged(
                f"{self.path}: {what} is damaged. Restore the directory from a backup."
            )
        return record

    def check_whole(self) -> None:
        """Refuse a file that SQLite itself finds damaged; reads all of it from the disk again."""
        self._cached = None
        with _explained(self.path):
            self._database.execute("PRAGMA shrink_memory")  # drops the pages held in memory
            answer = self._database.execute("PRAGMA integrity_check").fetchone()[0]
        if answer != "ok":
            reason = " ".join(str(answer).split())
            raise StoreDamaged(f"{self.path} is damaged: {reason}. Restore it from a backup.")


def check_is_store(folder: Path) -> None:
    """Refuse a folder that is not a store."""
    if not folder.is_dir():
        raise WrongInput(f"{folder} must be a store, got no such folder. `pilu fit` makes one.")
    if not (folder / "ledger.sqlite").is_file():
        raise WrongInput(f"{folder} must be a store, got a folder without ledger.sqlite.")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # it cannot decode a damaged file's names
        raise StoreDamaged(_explain(path, error)) from None


def _explain(path: Path, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "locked" in text or "busy" in text:
        return f"{path} is in use by another process. Try again once it is done."
    if "readonly" in text:
        return f"{path} cannot be written: it is read-only. Nothing was changed."
    if "full" in text or "disk I/O" in text:
        return f"{path} cannot be written: the disk is full or failing. Nothing was changed."
    if "unable to open" in text:
        return f"{path} cannot be opened: check that it exists and that you may write there."
    return f"{path} is damaged: {text}. Restore the directory from a backup."
