"""The log at one time: its entries, their hashes, and proofs about them.

An entry is a record in canonical JSON, and its hash a leaf of a Merkle tree (`deletion.merkle`).
The ledger reads the log once; everything that asks about it is passed the same object. A proof is a
file, to be checked against a noted head, without the store.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pilu.deletion import merkle
from pilu.deletion.merkle import Head
from pilu.exceptions import LedgerMismatch

if TYPE_CHECKING:
    from pilu.certify.certificate import Certificate

_GROWTH, _PLACE = "pilu.proof.growth/1", "pilu.proof.place/1"


class Entry(NamedTuple):
    """One line of the log."""

    place: int
    record: Mapping[str, Any]

    @property
    def certificate(self) -> "Certificate | None":
        """The certificate in the entry, without its evidence; None if there is none."""
        if "certificate" not in self.record:
            return None
        from pilu.certify.certificate import Certificate  # `pilu ledger` starts without NumPy

        return Certificate.from_json(json.dumps(self.record["certificate"]))


@dataclass(frozen=True)
class Log:
    """All entries, their leaf hashes, and the head: the size and the hash of the whole log."""

    entries: tuple[Entry, ...]
    leaves: tuple[bytes, ...]
    head: Head

    def with_entry(self, record: Mapping[str, Any]) -> "Log":
        """The log with one more entry at its end."""
        body = canonical(record)
        leaves = (*self.leaves, merkle.leaf(body))
        entry = Entry(len(self.entries), json.loads(body))
        return Log((*self.entries, entry), leaves, merkle.head(leaves))

    def has(self, entry: Entry) -> bool:
        """Whether an entry is in the log, at its place."""
        hashed = (merkle.leaf(canonical(entry.record)),)
        return entry.place >= 0 and self.leaves[entry.place : entry.place + 1] == hashed

    def growth_from(self, noted: Head) -> list[bytes]:
        """The proof that the log begins with the one of a noted head; raises if it does not."""
        proof = merkle.consistency(self.leaves, min(noted.size, len(self.leaves)))
        merkle.check_consistency(noted, self.head, proof)
        return proof

    @property
    def state_sha256(self) -> str | None:
        """The hash of the state that the log leads to; None before the first one."""
        records = (entry.record for entry in reversed(self.entries))
        return next((r["state_sha256"] for r in records if "state_sha256" in r), None)

    @property
    def pending(self) -> list[tuple[str, str | None]]:
        """Hashes of subjects to be forgotten and their due dates, the earliest first.

        A subject that was requested twice keeps the earlier date. Subjects with the same date
        stay in the order of their requests.
        """
        waiting: dict[str, str | None] = {}
        for _, record in self.entries:
            if record["kind"] == "request":
                dates = (waiting.get(record["subject"]), record["due"])
                waiting[record["subject"]] = min((d for d in dates if d is not None), default=None)
            for subject in record.get("subjects", ()):
                waiting.pop(subject, None)
        return sorted(waiting.items(), key=lambda item: (item[1] is None, item[1] or ""))

    @property
    def forgotten(self) -> set[bytes]:
        """Hashes of the names of all forgotten subjects."""
        return {
            bytes.fromhex(subject)
            for entry in self.entries
            for subject in entry.record.get("subjects", ())
        }

    @property
    def latest_certificate(self) -> "Certificate | None":
        """The certificate that was issued last, if any was."""
        issued = (e.certificate for e in reversed(self.entries) if "certificate" in e.record)
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
    raise LedgerMismatch("the proof cannot be read: it was altered or cut.")
