"""The store, a folder:

    ledger.sqlite   the log, one record of state, and what is not delivered yet
    arrays-N/       the arrays of generation N: parameters, digests and names as keyed hashes, ...
    key             32 random bytes: names and rows are hashed with it

A change writes the arrays of the next generation, points the ledger to them in one transaction, and
removes the old ones. If the process is killed, the store is as before the transaction or as after
it; the next process that opens it removes the leftovers and reports which. A new store is built
under another name and renamed. What the arrays and the state mean is the desk's affair.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pilu.exceptions import DoneWithTrouble, PiluError, StoreDamaged, WrongInput
from pilu.store.arrays import drop_others, generations, read_arrays, write_arrays
from pilu.store.disk import sync_folder, write_new
from pilu.store.ledger import Ledger, check_is_store
from pilu.store.log import Entry, Log

FORMAT = "pilu.store/4"  # docs/formats.md says when the number rises
# The second was for chains only, and named no method; the third had no entries about actions.
_READABLE = (FORMAT, "pilu.store/3", "pilu.store/2")


@dataclass(frozen=True)
class Snapshot:
    """The store at one time."""

    folder: Path
    key: bytes
    state: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    log: Log


class Store:
    """An open store."""

    def __init__(self, folder: Path, ledger: Ledger, key: bytes) -> None:
        self.folder, self.ledger, self.key = folder, ledger, key
        self.recovered = ""  # what `open` found unfinished, as a sentence

    @classmethod
    def create(
        cls,
        folder: Path,
        key: bytes,
        state: Mapping[str, Any],
        arrays: Iterable[tuple[str, NDArray[Any]]],
        entry: Mapping[str, Any],
        **more: Any,
    ) -> "Store":
        """A new store; the folder gets its name once it is complete."""
        check_is_free(folder)
        identity = {"store": secrets.token_hex(16), "key_check": key_check(key)}
        state = {**state, **identity, "generation": -1}
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with building(folder) as part:
                write_new(part / "key", key)
                with (
                    contextlib.closing(Ledger.create(part / "ledger.sqlite")) as ledger,
                    ledger.writing(),
                ):
                    blank = Snapshot(part, key, state, {}, ledger.log)
                    Change(ledger, blank).save(arrays, {}, entry, **more)
        except OSError as error:
            raise StoreDamaged(f"{folder} cannot be written: {error.strerror}.") from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, *, patience: float = 30.0) -> "Store":
        """Open a store, and remove what a killed process left behind."""
        check_is_store(folder)
        try:
            key = (folder / "key").read_bytes()
        except OSError as error:
            raise StoreDamaged(f"{folder / 'key'} cannot be read: {error.strerror}.") from None
        store = cls(folder, Ledger(folder / "ledger.sqlite", patience=patience), key)
        try:
            store._recover()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def read(self) -> Snapshot:
        """The store as it is now; other processes may change it afterwards."""
        with self.ledger.reading():
            return self._load()

    def read_state(self) -> dict[str, Any]:
        """The state as it is now, without the model."""
        with self.ledger.reading():
            return self._checked_state()

    def read_log(self) -> Log:
        """The log as it is now."""
        with self.ledger.reading() as ledger:
            return ledger.log

    @contextlib.contextmanager
    def changing(self) -> Iterator["Change"]:
        """A change of the store; all of it takes effect at the end of the block, or nothing."""
        change: Change | None = None
        try:
            with self.ledger.writing():
                snapshot = self._load()
                drop_others(self.folder, int(snapshot.state["generation"]))  # of a killed process
                change = Change(self.ledger, snapshot)
                yield change
            self._clear()
        except BaseException as error:
            if change is not None:
                self._settle(change, error)
            raise

    def _settle(self, change: "Change", error: BaseException) -> None:
        """Clean up after an error; raise if the change took effect all the same, or may have."""
        trouble = f"{type(error).__name__}: {error}"
        try:
            log = self.read_log()
        except PiluError as unreadable:
            raise StoreDamaged(
                f"whether the change was done is not known: {unreadable} Before that came {trouble}"
            ) from None
        # The log knows whether the error came before or after the commit.
        entry = change.entry
        if entry is not None and log.has(entry.place, entry.record):
            raise DoneWithTrouble(
                f"the change is done, but then came {trouble}. Files of the store before it may be "
                f"left in {self.folder}; the next command removes them."
            ) from None
        with contextlib.suppress(PiluError, OSError):  # another process at work will do it
            self._clear(patience=0.0)

    def _clear(self, *, patience: float | None = None) -> tuple[int, list[int]]:
        """Remove old generations; the number of the current one, and of those removed."""
        with self.ledger.writing(patience=patience) as ledger:  # no other process replaces it
            generation = int(ledger.state["generation"])
            if self.journal.exists():
                ledger.clear_journal()
            return generation, drop_others(self.folder, generation)

    def _recover(self) -> None:
        """Remove what a killed process left, unless another process is at work right now."""
        with self.ledger.reading() as ledger:
            undelivered = list(ledger.outbox())
            others = set(generations(self.folder)) - {int(self._checked_state()["generation"])}
        found = []
        if others or self.journal.exists():
            generation, dropped = 0, list[int]()
            with contextlib.suppress(PiluError, OSError):  # in use, or the folder is read-only
                generation, dropped = self._clear(patience=0.0)
            if any(other > generation for other in dropped):
                found.append("a change was interrupted: the store is as before it.")
            elif dropped:
                found.append("the last change was interrupted at its very end: it is done.")
        if undelivered:
            listed = ", ".join(map(str, undelivered))
            found.append(
                f"receipts of entry {listed} of the log were not delivered yet: "
                f"`pilu receipts {self.folder}` writes them."
            )
        self.recovered = " ".join(found)

    @property
    def journal(self) -> Path:
        """SQLite's journal, which a killed process may leave behind."""
        return self.folder / "ledger.sqlite-journal"

    def _checked_state(self) -> dict[str, Any]:
        state = self.ledger.state
        if state.get("format") not in _READABLE:
            raise StoreDamaged(
                f"{self.folder} must be of the format {FORMAT}, got "
                f"{state.get('format')!r}. Open it with the version of pilu that wrote it."
            )
        if state.get("key_check") != key_check(self.key):
            raise StoreDamaged(
                f"{self.folder / 'key'} is not the key of this store. Restore it from a backup."
            )
        return state

    def _load(self) -> Snapshot:
        state = self._checked_state()
        arrays = read_arrays(self.folder, state["generation"], state["arrays"])
        return Snapshot(self.folder, self.key, state, arrays, self.ledger.log)


class Change:
    """A change of a store in progress: see `Store.changing`."""

    def __init__(self, ledger: Ledger, snapshot: Snapshot) -> None:
        self.ledger, self.snapshot = ledger, snapshot
        self.entry: Entry | None = None  # the last one that was appended

    def save(
        self,
        arrays: Iterable[tuple[str, NDArray[Any]]],
        state: Mapping[str, Any],
        entry: Mapping[str, Any],
        **more: Any,
    ) -> Entry:
        """Replace the arrays and parts of the state, and log it; `more` as for `note`."""
        before = self.snapshot.state
        generation = before["generation"] + 1
        written = write_arrays(self.snapshot.folder, generation, arrays)
        after = {
            **before,
            **state,
            "format": FORMAT,
            "generation": generation,
            "arrays": written,
            # The hash of a state stays in the log: the nonce keeps guesses from being tried on it.
            "nonce": secrets.token_hex(16),
        }
        self.snapshot = replace(self.snapshot, state=after)
        return self.note(entry, after, **more)

    def note(
        self,
        entry: Mapping[str, Any],
        state: Mapping[str, Any] | None = None,
        *,
        people: Sequence[Mapping[str, Any]] = (),
        outbox: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Log something; without a new state, it leaves the model as it is."""
        before = self.snapshot.state
        if state is None and before["format"] != FORMAT:  # the log is about to be of this format
            state = {**before, "format": FORMAT}
            self.snapshot = replace(self.snapshot, state=state)
        stamped = {**entry, "store": before["store"], "time": now()}
        self.entry = self.ledger.append(stamped, state, people=people, outbox=outbox)
        self.snapshot = replace(self.snapshot, log=self.ledger.log)
        return self.entry


def check_is_free(folder: Path) -> None:
    """Refuse to make a store in a folder that is not empty."""
    if not folder.name:
        raise WrongInput(f"the store must have a name of its own, got {folder}.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongInput(f"{folder} must be a new or empty folder: it is in use already.")


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A folder beside the final one, renamed to it at the end; a leftover one is emptied first."""
    part = folder.with_name(f".{folder.name}.part")
    part.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(part, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreDamaged(f"{folder} is being made by another process.") from None
        _empty(part)
        try:
            yield part
            sync_folder(part)
            os.replace(part, folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(folder.parent)
    finally:
        os.close(handle)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def key_check(key: bytes) -> str:
    """What tells keys apart, and tells nothing of them."""
    return hashlib.blake2b(b"pilu key", key=key[:64]).hexdigest()[:32]


def require(folder: Path, condition: bool, complaint: str) -> None:
    """Refuse a store that contradicts itself."""
    if not condition:
        raise StoreDamaged(f"{folder}: {complaint}. Restore the directory from a backup.")


def now() -> str:
    """The time, as the log writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
