"""The store, a folder:

    ledger.sqlite   the log, and one record of state
    arrays-N/       statistics, eigenbasis, parameters, digests and names of generation N
    key             32 random bytes: names and rows are hashed with it

A change writes the arrays of the next generation, points the ledger to them in one transaction, and
removes the old ones. If the process is killed, the store is as before the transaction or as after
it; the next process that opens it removes the leftovers and reports which. A new store is built
under another name and renamed.
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

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import Names
from pilu.data.table import Columns, Table
from pilu.data.table_rows import TableRows
from pilu.data.tables import open_table
from pilu.deletion.arrays import drop_others, generations, read_arrays, write_arrays
from pilu.deletion.disk import sync_folder, write_new
from pilu.deletion.ledger import Ledger, check_is_store
from pilu.deletion.log import Entry, Log
from pilu.deletion.model_records import Model, arrays_of, record_of, restore_model
from pilu.exceptions import DoneWithTrouble, PiluError, StoreDamaged, WrongInput

FORMAT = "pilu.store/2"  # docs/desk.md, "Formats", says when the number rises
_NAMES = "names_"  # prefix of the arrays that hold hashed names


@dataclass(frozen=True)
class Snapshot:
    """The store at one time: its state, the model, the hashed names of its rows, and the log."""

    state: Mapping[str, Any]
    model: Model
    names: Names
    log: Log

    @property
    def key(self) -> bytes:
        """The key of all hashes."""
        return self.model.fitted_.source.key

    @property
    def columns(self) -> Columns:
        """What the columns of the table mean."""
        columns = {**self.state["columns"], "features": tuple(self.state["features"])}
        return Columns(tuple(columns.pop("target")), **columns)

    def table(self, path: str | Path | None = None) -> Table:
        """The table that the store was fitted on, where it is now."""
        table = open_table(path or self.state["table"], self.columns)
        if list(table.features) != self.state["features"]:
            raise WrongInput(f"{table.path} must have the columns of the fit, got others.")
        return table

    def attached(
        self, path: str | Path | None = None, rows: NDArray[np.intp] | None = None
    ) -> Model:
        """The model, reading its rows from the user's table; `rows` are read at once."""
        model, kept = self.model, self.model.fitted_.source
        ids = self.names.hashes.get("id")
        table_rows = TableRows(self.table(path), model.targets_, kept.live, ids, self.key)
        source = kept.reading(table_rows)
        problem = model.fitted_.chain.problem
        if problem.reads_rows:
            source = source.in_memory(problem.n_outputs)  # every step reads them again
        elif rows is not None and len(rows):
            table_rows.hold(rows)
        model.fitted_ = model.fitted_.reading(problem.reading(source))
        return model


class Store:
    """An open store."""

    def __init__(self, folder: Path, ledger: Ledger, key: bytes) -> None:
        self.folder, self.ledger, self.key = folder, ledger, key
        self.recovered = ""  # what `open` found unfinished, as a sentence

    @classmethod
    def create(
        cls,
        folder: Path,
        model: Model,
        names: Names,
        state: Mapping[str, Any],
        entry: Mapping[str, Any],
    ) -> "Store":
        """A new store; the folder gets its name once it is complete."""
        check_is_free(folder)
        key = model.fitted_.source.key
        identity = {"store": secrets.token_hex(16), "key_check": _key_check(key)}
        state = {**state, **identity, "generation": -1}
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _building(folder) as part:
                write_new(part / "key", key)
                with (
                    contextlib.closing(Ledger.create(part / "ledger.sqlite")) as ledger,
                    ledger.writing(),
                ):
                    blank = Snapshot(state, model, names, ledger.log)
                    Change(part, ledger, blank).save(model, names, entry)
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
            if set(generations(folder)) - {store.read_state()["generation"]}:
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
                change = Change(self.folder, self.ledger, snapshot)
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
        if change.entry is not None and log.has(change.entry):
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
            return generation, drop_others(self.folder, generation)

    def _recover(self) -> None:
        """Remove what a killed process left, unless another process is at work right now."""
        try:
            generation, dropped = self._clear(patience=0.0)
        except (PiluError, OSError):  # another process is at work, or the folder is read-only
            return
        if any(other > generation for other in dropped):
            self.recovered = "a change was interrupted: the store is as before it."
        elif dropped:
            self.recovered = "the last change was interrupted at its very end: it is done."

    def _checked_state(self) -> dict[str, Any]:
        state = self.ledger.state
        if state.get("format") != FORMAT:
            raise StoreDamaged(
                f"{self.folder} must be of the format {FORMAT}, got "
                f"{state.get('format')!r}. Open it with the version of pilu that wrote it."
            )
        if state.get("key_check") != _key_check(self.key):
            raise StoreDamaged(
                f"{self.folder / 'key'} is not the key of this store. Restore it from a backup."
            )
        return state

    def _load(self) -> Snapshot:
        state, log = self._checked_state(), self.ledger.log
        arrays = read_arrays(self.folder, state["generation"], state["arrays"])
        names = {
            name.removeprefix(_NAMES): array
            for name, array in arrays.items()
            if name.startswith(_NAMES)
        }
        latest = log.latest_certificate
        issued = None if latest is None else latest.sha256
        try:
            counts = state["class_counts"]
            model = restore_model(state["model"], arrays, self.key, counts, latest=issued)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StoreDamaged(f"the store's state does not fit together: {error!r}.") from None
        return Snapshot(state, model, Names(names), log)


class Change:
    """A change of a store in progress: see `Store.changing`."""

    def __init__(self, folder: Path, ledger: Ledger, snapshot: Snapshot) -> None:
        self._folder, self._ledger, self.snapshot = folder, ledger, snapshot
        self.entry: Entry | None = None  # the last one that was appended

    def save(self, model: Model, names: Names, entry: Mapping[str, Any]) -> Snapshot:
        """Replace the model, and log it."""
        generation = self.snapshot.state["generation"] + 1
        hashes = ((_NAMES + kind, array) for kind, array in names.hashes.items())
        counts = model.fitted_.class_counts
        state = {
            **self.snapshot.state,
            "format": FORMAT,
            "generation": generation,
            "arrays": write_arrays(self._folder, generation, chain(hashes, arrays_of(model))),
            "model": record_of(model),
            "class_counts": None if counts is None else [int(count) for count in counts],
            # The hash of a state stays in the log: the nonce keeps guesses from being tried on it.
            "nonce": secrets.token_hex(16),
        }
        self.snapshot = replace(self.snapshot, state=state, model=model, names=names)
        return self.note(entry, state)

    def note(self, entry: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Snapshot:
        """Log something; without a new state, it leaves the model as it is."""
        stamped = {**entry, "store": self.snapshot.state["store"], "time": now()}
        self.entry = self._ledger.append(stamped, state)
        self.snapshot = replace(self.snapshot, log=self._ledger.log)
        return self.snapshot


def check_is_free(folder: Path) -> None:
    """Refuse to make a store in a folder that is not empty."""
    if not folder.name:
        raise WrongInput(f"the store must have a name of its own, got {folder}.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongInput(f"{folder} must be a new or empty folder: it is in use already.")


@contextlib.contextmanager
def _building(folder: Path) -> Iterator[Path]:
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


def _key_check(key: bytes) -> str:
    return hashlib.blake2b(b"pilu key", key=key[:64]).hexdigest()[:32]


def now() -> str:
    """The time, as the log writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
