"""Proofs about the log as files, to be checked against a noted head, without the store."""

from collections.abc import Mapping
from typing import Any

from pilu.deletion.log import Log, canonical
from pilu.deletion.merkle import Head, check_consistency, check_inclusion
from pilu.exceptions import LedgerMismatch

__all__ = ["check_proof", "proof_of_growth", "proof_of_place"]

_GROWTH, _PLACE = "pilu.proof.growth/1", "pilu.proof.place/1"


def proof_of_growth(log: Log, noted: Head) -> dict[str, Any]:
    """The proof that the log begins with the one of a noted head."""
    steps = [step.hex() for step in log.growth_from(noted)]
    return {"schema": _GROWTH, "older": str(noted), "newer": str(log.head), "steps": steps}


def proof_of_place(log: Log, place: int) -> dict[str, Any]:
    """The proof that an entry is at its place in the log."""
    steps = [step.hex() for step in log.inclusion(place)]
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
            check_consistency(older, newer, steps)
            return {"says": f"The log of {newer} begins with the log of {older}."}
        if record["schema"] == _PLACE and type(record["place"]) is int:
            head = Head.parse(record["head"])
            check_inclusion(canonical(record["entry"]), record["place"], steps, head)
            return {"says": f"The entry is at place {record['place']} in the log of {head}."}
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise LedgerMismatch("the proof cannot be read: it was altered or cut.")
