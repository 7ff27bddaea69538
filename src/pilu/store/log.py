"""The log at one time: its entries, their hashes, and proofs about them.

An entry is a record in canonical JSON, and its hash a leaf of a Merkle tree (`store.merkle`). The
ledger reads the log once; everything that asks about it is passed the same object. Entries are
parsed when somebody looks at them. A proof is a file, to be checked against a noted head, without
the store.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pilu.exceptions import LedgerMismatch
from pilu.store import merkle
from pilu.store.merkle import Head, Peaks

_GROWTH, _PLACE = "pilu.proof.growth/1", "pilu.proof.place/1"


class Entry:
    """One line of the log."""

    def __init__(self, place: int, body: bytes) -> None:
        self.place, self.body = place, body

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What the entry says."""
        try:
            record = json.loads(self.body)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise LedgerMismatch(f"entry {self.place} of the log is not a record.")
        return record

    @property
    def kind(self) -> str:
        """What was done."""
        return str(self.record.get("kind"))

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate as the log keeps it, without evidence; None if there is none.

        A chain's certificates repeat its whole schedule and all earlier certificates. The log
        leaves these fields out (`desk.issued`).
        """
        return self.record.get("certificate")

    @property
    def certificate_sha256(self) -> str | None:
        """The hash of the whole certificate."""
        if self.certificate is None or "certificate_sha256" in self.record:
            return self.record.get("certificate_sha256")
        # Until the third format of stores, entries had the whole certificate.
        return hashlib.sha256(canonical({**self.certificate, "evidence": None})).hexdigest()


@dataclass(frozen=True)
class Log:
    """All entries, their leaf hashes, and the head: the size and the hash of the whole log."""

    entries: tuple[Entry, ...]
    leaves: tuple[bytes, ...]
    peaks: Peaks

    @classmethod
    def of(cls, bodies: Iterable[bytes]) -> "Log":
        """The log of the entries as they are kept."""
        entries = tuple(Entry(place, body) for place, body in enumerate(bodies))
        leaves = tuple(merkle.leaf(entry.body) for entry in entries)
        peaks = Peaks()
        for one in leaves:
            peaks = peaks.followed_by(one)
        return cls(entries, leaves, peaks)

    @cached_property
    def head(self) -> Head:
        """The size and the hash of the whole log: what an auditor notes down."""
        return self.peaks.head

    def with_entry(self, record: Mapping[str, Any]) -> "Log":
        """The log with one more entry at its end."""
        entry = Entry(len(self.entries), canonical(record))
        one = merkle.leaf(entry.body)
        return Log((*self.entries, entry), (*self.leaves, one), self.peaks.followed_by(one))

    def has(self, place: int, record: Mapping[str, Any]) -> bool:
        """Whether a record is in the log, at its place."""
        hashed = (merkle.leaf(canonical(record)),)
        return place >= 0 and self.leaves[place : place + 1] == hashed

    def growth_from(self, noted: Head) -> list[bytes]:
        """The proof that the log begins with the one of a noted head; raises if it does not."""
        proof = merkle.consistency(self.leaves, min(noted.size, len(self.leaves)))
        merkle.check_consistency(noted, self.head, proof)
        return proof

    def named(self, field: str, value: object) -> Entry | None:
        """The last entry in which a field has a value."""
        found = (e for e in reversed(self.entries) if e.record.get(field) == value)
        return next(found, None)

    @cached_property
    def state_sha256(self) -> str | None:
        """The hash of the state that the log leads to; None before the first one."""
        records = (entry.record for entry in reversed(self.entries))
        return next((r["state_sha256"] for r in records if "state_sha256" in r), None)

    @property
    def certified(self) -> Entry | None:
        """The entry of the certificate that was issued last, if any was."""
        issued = (entry for entry in reversed(self.entries) if entry.certificate is not None)
        return next(issued, None)


def canonical(record: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and no spaces: the bytes that are hashed."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def proof_of_growth(log: Log, noted: Head) -> dict[str, Any]:
    """The proof that the log begins with the one of a noted head."""
    steps = [step.hex() for step in log.growth_from(noted)]
    return {"schema": _GROWTH, "older": str(noted), "newer": str(log.head), "steps": steps}


def proof_of_place(log: Log, place: int) -> dict[str, Any]:
    """The proof that an entry is at its place in the log."""
    steps = [step.hex() for step in merkle.inclusion(log.leaves, place)]
    return {
        "schema": _PLACE,
        "entry": log.entries[place].record,
        "place": place,
        "head": str(log.head),
        "steps": steps,
    }


def check_proof(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a proof says; a proof that does not hold raises `LedgerMismatch`."""
    try:
        steps = [bytes.fromhex(step) for step in record["steps"]]
        if record["schema"] == _GROWTH:
            older, newer = Head.parse(record["older"]), Head.parse(record["newer"])
            merkle.check_consistency(older, newer, steps)
            return {"says": f"The log of {newer} begins with the log of {older}."}
        if record["schema"] == _PLACE and type(record["place"]) is int:
            head = Head.parse(record["head"])
            merkle.check_inclusion(canonical(record["entry"]), record["place"], steps, head)
            return {"says": f"The entry is at place {record['place']} in the log of {head}."}
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise LedgerMismatch(
        "the proof cannot be read: it was altered or cut, or another version of pilu wrote it. "
        f"This one reads {_GROWTH} and {_PLACE}."
    )
