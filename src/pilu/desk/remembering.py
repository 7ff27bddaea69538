"""Who was forgotten, as something outside of a store tells it: another copy of it, or a list.

A backup does not know who was forgotten after it was made. Whoever restores it names what does.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilu.certify.certificate import strict_json
from pilu.desk.backups import as_errors_of, check_new
from pilu.exceptions import LedgerMismatch, StoreDamaged, WrongInput
from pilu.store.disk import replaced_by, write_new
from pilu.store.ledger import Ledger, check_is_store
from pilu.store.log import Log, canonical
from pilu.store.merkle import Head
from pilu.store.store import Store, now
from pilu.store.subjects import forgotten_people

if TYPE_CHECKING:
    from pilu.desk.desk import Desk

FORMAT = "pilu.forgotten/1"


@dataclass(frozen=True)
class Remembered:
    """What knows who was forgotten since a backup.

    Attributes
    ----------
    names_for : function
        Given the desk of the restored store, everybody who must be forgotten there.
    until : str, optional
        The time after which it knows of nobody more.
    """

    names_for: Callable[["Desk"], Iterable[bytes]]
    until: str | None = None


def write_forgotten(folder: Path, out: Path) -> int:
    """Write a list of everybody who was forgotten in a store, by keyed hashes; how many there are.

    Nobody without the store's key can make or alter such a list, or try names on it.
    """
    check_new(folder, out)
    with closing(Store.open(folder)) as store:
        store.read_state()
        ledger, key = _read_ledger(folder), store.key
    record = {
        "schema": FORMAT,
        "store": ledger.store,
        "head": str(ledger.log.head),
        "made": now(),
        "names": sorted(name.hex() for name in ledger.gone),
    }
    record["mac"] = _mac(record, key)
    with as_errors_of(out), replaced_by(out) as part:
        part.unlink(missing_ok=True)
        write_new(part, (json.dumps(record, indent=1) + "\n").encode())
    return len(ledger.gone)


NOBODY = Remembered(lambda _: ())  # was forgotten since the backup


def by_store(folder: Path) -> Remembered:
    """Whom another copy of the store has forgotten; of a damaged one, the ledger is enough."""
    try:
        found = _read_ledger(folder)
    except (StoreDamaged, LedgerMismatch) as error:
        raise StoreDamaged(
            f"{folder} does not tell any more who was forgotten: {error} Name a list by `pilu "
            "forgotten`, or the database of the service. Nothing was changed."
        ) from None

    def remembered(desk: "Desk") -> Iterable[bytes]:
        ours = desk.store.read_state()
        if (found.store, found.key_check) != (ours["store"], ours["key_check"]):
            raise _other(folder, "store")
        _check_not_older(folder, found.log.head, desk.log())
        return found.gone

    return Remembered(remembered, str(found.log.entries[-1].record["time"]))


def by_list(path: Path) -> Remembered:
    """Whom a list by `write_forgotten` names."""
    try:
        record = strict_json(path.read_text(encoding="utf-8"))
        names = frozenset(bytes.fromhex(name) for name in record["names"])
        head, made, mac = Head.parse(record["head"]), str(record["made"]), record.pop("mac")
    except OSError as error:
        raise WrongInput(f"{path} must be a list by `pilu forgotten`: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, LedgerMismatch):
        raise WrongInput(
            f"{path} must be a store, a list by `pilu forgotten`, or the database of the service, "
            "got another file. Nothing was changed."
        ) from None
    if record["schema"] != FORMAT:
        raise WrongInput(
            f"{path} must be of the format {FORMAT}, got {record['schema']!r}. Write the list "
            "again with this version of pilu, or restore with the version that wrote it."
        )

    def remembered(desk: "Desk") -> Iterable[bytes]:
        if record["store"] != desk.store_id:
            raise _other(path, "list")
        if mac != _mac(record, desk.store.key):
            raise WrongInput(
                f"{path} was altered, or made with another key. Take another copy of it. Nothing "
                "was changed."
            )
        _check_not_older(path, head, desk.log())
        return names

    return Remembered(remembered, made)


@dataclass(frozen=True)
class _Read:
    """What a ledger tells without its key and arrays."""

    store: str
    key_check: str
    log: Log
    gone: frozenset[bytes]


def _read_ledger(folder: Path) -> _Read:
    check_is_store(folder)
    with closing(Ledger(folder / "ledger.sqlite")) as opened, opened.reading() as ledger:
        state, log = ledger.state, ledger.log
        gone = frozenset(forgotten_people(ledger))
    return _Read(str(state.get("store")), str(state.get("key_check")), log, gone)


def _other(path: Path, what: str) -> WrongInput:
    return WrongInput(
        f"{path} is the {what} of another store than the backup: store id or key differ. Name the "
        "one of this store. Nothing was changed."
    )


def _check_not_older(path: Path, head: Head, log: Log) -> None:
    """Refuse what was written before the backup: it cannot know who was forgotten since."""
    if head.size >= len(log.entries):
        return
    with contextlib.suppress(LedgerMismatch):  # another branch: restored before, then went on
        log.growth_from(head)
        raise WrongInput(
            f"{path} is older than the backup, so it does not know who was forgotten since. Name a "
            "newer one, or `none` if nobody was. Nothing was changed."
        )


def _mac(record: Mapping[str, Any], key: bytes) -> str:
    return hashlib.blake2b(canonical(record), key=key, person=b"pilu forgotten").hexdigest()
