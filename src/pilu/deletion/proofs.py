"""Proofs about the log as files: whoever has noted a head can check them without the store."""

from collections.abc import Mapping
from typing import Any

from pilu.deletion.ledger import Ledger, canonical
from pilu.deletion.merkle import Head, check_consistency, check_inclusion
from pilu.exceptions import LedgerMismatch

__all__ = ["check_proof", "proof_of_growth", "proof_of_place"]

_GROWTH, _PLACE = "pilu.proof.growth/1", "pilu.proof.place/1"


def proof_of_growth(ledger: Ledger, noted: Head) -> dict[str, Any]:
    """That the log begins with the one that was noted."""
    steps = ledger.growth_from(noted)
    return {
        "schema": _GROWTH,
        "older": str(noted),
        "newer": str(ledger.head),
        "steps": [step.hex() for step in steps],
    }


def proof_of_place(ledger: Ledger, place: int) -> dict[str, Any]:
    """That an entry stands at its place in the log as it is now."""
    steps = ledger.inclusion(place)
    return {
        "schema": _PLACE,
        "entry": ledger.entries()[place].record,
        "place": place,
        "head": str(ledger.head),
        "steps": [step.hex() for step in steps],
    }


def check_proof(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a proof says; one that does not hold raises `LedgerMismatch`."""
    try:
        steps = [bytes.fromhex(step) for step in record["steps"]]
        if record["schema"] == _GROWTH:
            older, newer = Head.parse(record["older"]), Head.parse(record["newer"])
            check_consistency(older, newer, steps)
            return {"says": f"The log of {newer} begins with the log of {older}."}
        if record["schema"] == _PLACE and type(record["place"]) is int:
            head = Head.parse(record["head"])
            check_inclusion(canonical(record["entry"]), record["place"], steps, head)
            return {"says": f"The entry stands at place {record['place']} in the log of {head}."}
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise LedgerMismatch("the proof cannot be read: it was altered or cut.")
