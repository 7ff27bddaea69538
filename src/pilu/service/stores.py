"""The stores of a folder by name, and what the web process reads of them.

Reading is cached as long as a store is not changed. Names of stores come from addresses, so they
are checked: a name is never a path.
"""

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pilu.desk.known_people import forgotten_by, method_of, rows_of_people
from pilu.exceptions import PiluError, WrongInput
from pilu.store.ledger import Ledger
from pilu.store.log import Log
from pilu.store.store import Store
from pilu.store.subjects import Waiting, waiting_people

if TYPE_CHECKING:
    from pilu.desk.desk import Desk

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchStore(WrongInput):
    """There is no store of this name."""


class Stores:
    """All stores of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, OpenStore] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """The names of all stores."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if self._is_store(path.name))

    def path(self, name: str) -> Path:
        """The folder of a store; a name that is none is refused."""
        if not self._is_store(name):
            raise NoSuchStore("there is no store of this name.")
        return self.folder / name

    def _is_store(self, name: str) -> bool:
        path = self.folder / name
        fine = _NAME.fullmatch(name) is not None and not path.is_symlink()
        return fine and (path / "ledger.sqlite").is_file()

    def open(self, name: str) -> "OpenStore":
        """A store, kept open for the next call."""
        path = self.path(name)
        with self._lock:
            held = self._held.get(name)
            if held is None or not held.is_current():
                held = self._held[name] = OpenStore(path)
            return held


class Known(NamedTuple):
    """Whom a store knows, by keyed hashes."""

    method: str
    n_rows: Mapping[bytes, int]
    forgotten: frozenset[bytes]


class OpenStore:
    """A store of the web process: its key and its log. For what needs the model there is `desk`."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self._identity = _identity(path)
        try:
            self.key = (path / "key").read_bytes()
        except OSError as error:
            raise PiluError(f"{path.name}: its key cannot be read: {error.strerror}.") from None
        self._ledger: Ledger | None = None
        self._known: tuple[str, Known] | None = None

    def is_current(self) -> bool:
        """Whether the folder still is the one that was opened: a restore replaces it."""
        return self._identity == _identity(self.path)

    def log(self) -> Log:
        """The log as it is now."""
        with self._reading() as ledger:
            return ledger.log

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Ledger]:
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger(self.path / "ledger.sqlite", any_thread=True)
            with self._ledger.reading() as ledger:
                yield ledger

    def desk(self) -> "Desk":
        """A desk of the store, to be closed after use."""
        from pilu.desk.desk import Desk  # scikit-learn: the service starts without it

        return Desk.open(self.path)

    def pending(self) -> list[Waiting]:
        """People who were queued by `pilu request`."""
        with self._reading() as ledger:
            return waiting_people(ledger)

    def known(self) -> Known:
        """Who is in the model, and who was forgotten."""
        head = str(self.log().head)
        if self._known is None or self._known[0] != head:
            with contextlib.closing(Store.open(self.path)) as store:
                snapshot = store.read()
                rows = {name: len(where) for name, where in rows_of_people(snapshot).items()}
                gone = forgotten_by(store, snapshot)
            self._known = head, Known(method_of(snapshot), rows, gone)
        return self._known[1]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = (path / "ledger.sqlite").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
