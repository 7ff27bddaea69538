"""People of an entry in the log, by the keyed hashes of their names.

Every person has a leaf of their own in the tree that the entry names (`store.ledger`). A leaf has a
random number, so that nobody can try names on the hashes of other people's leaves.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilu.store.ledger import Ledger
from pilu.store.log import Entry

# Kinds of entries after which a person is no longer waiting.
_ANSWERS = ("unlearn", "sync")


def leaf_of(name: bytes, **more: Any) -> dict[str, Any]:
    """What the log keeps of a person; None is left out."""
    given = {key: value for key, value in more.items() if value is not None}
    return {"subject": name.hex(), "nonce": secrets.token_hex(16), **given}


@dataclass(frozen=True)
class Waiting:
    """A person who asked to be forgotten."""

    name: str  # the keyed hash
    due: str | None  # ISO date
    since: str  # ISO time of the request


def waiting_people(ledger: Ledger) -> list[Waiting]:
    """People to be forgotten, the earliest due date first; call it within a transaction.

    Somebody who asked twice keeps the earlier date. People with the same date stay in the order of
    their requests.
    """
    listed: dict[str, Waiting] = {}
    for entry, names in _named(ledger, ("request", *_ANSWERS)):
        for name in names:
            if entry.kind in _ANSWERS:
                listed.pop(name, None)
                continue
            due, before = entry.record["due"], listed.get(name)
            if before is not None:
                dates = [date for date in (due, before.due) if date is not None]
                listed[name] = Waiting(name, min(dates, default=None), before.since)
            else:
                listed[name] = Waiting(name, due, entry.record["time"])
    return sorted(listed.values(), key=lambda one: (one.due is None, one.due or ""))


def forgotten_people(ledger: Ledger) -> set[bytes]:
    """Everybody whom the log says to be forgotten, without those who came back."""
    gone: set[str] = set()
    for entry, names in _named(ledger, ("fit", "unlearn", "sync", "return")):
        gone = gone - set(names) if entry.kind == "return" else gone | set(names)
    return {bytes.fromhex(name) for name in gone}


def _named(ledger: Ledger, kinds: Sequence[str]) -> Iterable[tuple[Entry, list[str]]]:
    """Entries of some kinds, each with the keyed names of its people."""
    entries = [entry for entry in ledger.log.entries if entry.kind in kinds]
    places = [entry.place for entry in entries if "people" in entry.record]
    listed = dict(zip(places, ledger.people(places), strict=True))
    for entry in entries:
        yield entry, [person["subject"] for person in listed.get(entry.place, ())] or _old(entry)


def _old(entry: Entry) -> list[str]:
    """Until the third format, the names were in the entry itself."""
    record: Mapping[str, Any] = entry.record
    named = [record["subject"]] if "subject" in record else record.get("subjects", ())
    return list(named)
