"""The store, a folder:

    ledger.sqlite   the log, and one record of state
    arrays-N/       statistics, eigenbasis, parameters, digests and names of the N-th generation
    key             32 random bytes: names and rows are hashed with it

A change writes the arrays of the next generation, then turns the ledger to it in one transaction,
then removes the old ones. Killed before the turn the store is as before, after it as after; the
next one to open it clears up and says which. A new store is built under another name.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from pilu.data.names import Names
from pilu.data.tables import Columns
from pilu.deletion.arrays import (
    drop_others,
    generations,
    read_arrays,
    sync_folder,
    write_arrays,
    write_new,
)
from pilu.deletion.history import latest_certificate
from pilu.deletion.ledger import Entry, Ledger, check_is_store
from pilu.deletion.merkle import Head
from pilu.deletion.snapshot import Model, arrays_of, record_of, restored
from pilu.exceptions import DoneWithTrouble, PiluError, StoreDamaged

__all__ = ["Change", "Moment", "Store", "check_is_free", "now"]

_FORMAT = "pilu.store/2"
_NAMES = "names_"  # before the kind, in the name of an array


@dataclass(frozen=True)
class Moment:
    """The store at one moment: its state, the model, the names of its rows, and the log."""

    state: Mapping[str, Any]
    model: Model
    names: Names
    entries: tuple[Entry, ...] = ()
    head: Head | None = None  # of the log as it was read

    def with_state(self, **changes: Any) -> "Moment":
        """The same with some of its state replaced."""
        return replace(self, state={**self.state, **changes})

    @property
    def columns(self) -> Columns:
        """What the columns of the table mean."""
        told = self.state["columns"]
        features = tuple(self.state["features"])
        return Columns(
            tuple(told["target"]), told["id"], told["subject"], features, told["classify"]
        )


class Store:
    """An open store."""

    def __init__(self, folder: Path, ledger: Ledger, key: bytes) -> None:
        self.folder, self.ledger, self.key = folder, ledger, key
        self.recovered = ""  # what was found to be unfinished, in words

    @classmethod
    def create(
        cls,
        folder: Path,
        key: bytes,
        model: Model,
        names: Names,
        state: Mapping[str, Any],
        entry: Mapping[str, Any],
    ) -> "Store":
        """A new store; it gets its name when it is whole."""
        check_is_free(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _building(folder) as part:
                write_new(part / "key", key)
                store = cls(part, Ledger.create(part / "ledger.sqlite"), key)
                try:
                    with store.ledger.writing():
                        told = {
                            **state,
                            "format": _FORMAT,
                            "store": secrets.token_hex(16),
                            "key_check": _key_check(key),
                            "generation": -1,
                        }
                        store._turn_to(Moment(told, model, names), entry)
                finally:
                    store.close()
        except OSError as error:
            raise StoreDamaged(f"{folder} cannot be written: {error.strerror}.") from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, *, patience: float = 30.0) -> "Store":
        """Open a store, and clear up after a process that was killed."""
        check_is_store(folder)
        try:
            key = (folder / "key").read_bytes()
        except OSError as error:
            raise StoreDamaged(f"{folder / 'key'} cannot be read: {error.strerror}.") from None
        store = cls(folder, Ledger(folder / "ledger.sqlite", patience=patience), key)
        try:
            with store.ledger.reading():
                state = store._checked_state()
            if set(generations(folder)) - {state["generation"]}:
                store._recover()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def read(self) -> Moment:
        """The store as it is now; nobody is kept from writing afterwards."""
        with self.ledger.reading():
            return self._load()

    @contextlib.contextmanager
    def changing(self) -> Iterator["Change"]:
        """The store as it is now, to be changed; all inside becomes true at its end, or nothing."""
        change: Change | None = None
        try:
            with self.ledger.writing():
                moment = self._load()
                drop_others(self.folder, int(moment.state["generation"]))  # of a killed process
                change = Change(self, moment)
                yield change
            self._clear()
        except BaseException as error:
            if change is not None:
                self._settle(change, error)
            raise

    def _settle(self, change: "Change", error: BaseException) -> None:
        """Clear up after an error; raise if the change is done all the same, or nobody knows."""
        trouble = f"{type(error).__name__}: {error}"
        try:
            with self.ledger.reading() as ledger:
                entries = ledger.entries()
        except PiluError as unreadable:
            raise StoreDamaged(
                f"whether the change was done is not known: {unreadable} Before that came {trouble}"
            ) from None
        # Whether the error came before or after the turn, the log knows.
        noted = change.noted
        if noted is not None and entries[noted.place : noted.place + 1] == [noted]:
            raise DoneWithTrouble(
                f"the change is done, but then came {trouble}. Files of the store before it may be "
                f"left in {self.folder}; the next command removes them."
            ) from None
        with contextlib.suppress(PiluError, OSError):  # else whoever is at work does
            self._clear(patience=0.0)

    def _clear(self, *, patience: float | None = None) -> tuple[int, list[int]]:
        """Remove generations that the ledger does not speak of; the one it does, and the others."""
        with self.ledger.writing(patience=patience) as ledger:  # nobody turns it meanwhile
            generation = int(ledger.state["generation"])
            return generation, drop_others(self.folder, generation)

    def _recover(self) -> None:
        """Clear up what a process that was killed has left, unless one is at work right now."""
        try:
            generation, dropped = self._clear(patience=0.0)
        except (PiluError, OSError):  # somebody is at work, or the folder is read-only
            return
        if any(other > generation for other in dropped):
            self.recovered = "a change was interrupted: the store is as before it."
        elif dropped:
            self.recovered = "the last change was interrupted at its very end: it is done."

    def _checked_state(self) -> dict[str, Any]:
        state = self.ledger.state
        if state.get("format") != _FORMAT:
            raise StoreDamaged(f"{self.folder} was written by another version of pilu.")
        if state.get("key_check") != _key_check(self.key):
            raise StoreDamaged(
                f"{self.folder / 'key'} is not the key of this store. Restore it from a backup."
            )
        return state

    def _load(self) -> Moment:
        state = self._checked_state()
        arrays = read_arrays(self.folder, state["generation"], state["arrays"])
        names = {
            name.removeprefix(_NAMES): array
            for name, array in arrays.items()
            if name.startswith(_NAMES)
        }
        entries = tuple(self.ledger.entries())
        latest = latest_certificate(entries)
        issued = None if latest is None else latest.sha256
        model = restored(state["model"], arrays, self.key, latest=issued)
        return Moment(state, model, Names(names), entries, self.ledger.head)

    def _turn_to(self, moment: Moment, entry: Mapping[str, Any]) -> tuple[Moment, Entry]:
        """Write the next generation, and let the ledger speak of it."""
        model, generation = moment.model, moment.state["generation"] + 1
        names = ((_NAMES + kind, hashes) for kind, hashes in moment.names.hashes.items())
        changed = {
            "generation": generation,
            "arrays": write_arrays(self.folder, generation, chain(names, arrays_of(model))),
            "model": record_of(model),
            # The hash of a state stays in the log for ever; nobody can try a guess on it.
            "nonce": secrets.token_hex(16),
        }
        state = {**moment.state, **changed}
        noted = self.ledger.turn_to(state, {**entry, "store": state["store"], "time": now()})
        return Moment(state, moment.model, moment.names, (*moment.entries, noted)), noted


class Change:
    """A change that is being made: see `Store.changing`."""

    def __init__(self, store: Store, moment: Moment) -> None:
        self._store, self.moment = store, moment
        self.noted: Entry | None = None  # the last entry

    def turn_to(self, model: Model, names: Names, entry: Mapping[str, Any]) -> Entry:
        """Let the store hold another model."""
        moment = Moment(self.moment.state, model, names, self.moment.entries)
        self.moment, self.noted = self._store._turn_to(moment, entry)
        return self.noted

    def note(self, entry: Mapping[str, Any]) -> Entry:
        """An entry that leaves the model as it is."""
        told = {**entry, "store": self.moment.state["store"], "time": now()}
        self.noted = self._store.ledger.append(told)
        return self.noted


def check_is_free(folder: Path) -> None:
    """Refuse to make a store where something is."""
    if not folder.name:
        raise ValueError(f"the store must have a name of its own, got {folder}.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} must be a new or empty folder: it is in use already.")


@contextlib.contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A folder beside the final one, renamed to it at the end; a killed one is replaced."""
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


def _key_check(key: bytes) -> str:
    return hashlib.blake2b(b"pilu key", key=key[:64]).hexdigest()[:32]


def now() -> str:
    """The time, as it stands in the log."""
    return datetime.now(UTC).isoformat(timespec="seconds")
