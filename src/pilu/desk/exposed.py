"""What earlier releases of a store told about people who are being forgotten.

Everybody in the table was in every release so far, so the log alone says which releases had whom.
What the present parameters tell is computed once more at the request, while the rows are there. The
numbers go into the receipt of the person. The log keeps only their hash, in the person's leaf.
"""

import math
import secrets
from collections.abc import Mapping
from typing import Any

from pilu.certify.certificate import sha256_of
from pilu.exceptions import CertificateMismatch
from pilu.store.log import Log

_FIELDS = {"delta", "n_releases", "n_of_other_parameters", "epsilon", "nonce"}
# Kinds of entries that change no parameters. One may have a new state all the same, where a store
# was brought to a newer format.
_LEAVE_THE_MODEL = ("request", "release", "audit")
_FIELDS_OF_ALL = {"delta", "n_releases", "n_of_other_parameters", "people", "nonce"}


def exposure_record(
    epsilon: float, delta: float | None, releases: tuple[int, int]
) -> dict[str, Any]:
    """What a person is told: epsilon of the present parameters, and how many releases had them.

    Releases of earlier parameters had the same people. Their laws are gone, so nothing is stated
    about them but their number.
    """
    now, before = releases
    return {
        "delta": delta,
        "n_releases": now + before,
        "n_of_other_parameters": before,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "nonce": secrets.token_hex(16),
    }


def releases_in(log: Log) -> tuple[int, int]:
    """How many releases were made of the present parameters, and of earlier ones."""
    now = before = 0
    for entry in log.entries:
        if entry.kind == "release":
            now += 1
        elif entry.kind not in _LEAVE_THE_MODEL:
            now, before = 0, before + now
    return now, before


def check_exposure(record: Any, person: Mapping[str, Any]) -> None:
    """Refuse a record that is not the one of the person's leaf."""
    _check(record, _FIELDS, person)


def check_exposure_of_all(record: Any, entry: Mapping[str, Any]) -> None:
    """The same for receipts of the second format, of all people of an entry together."""
    _check(record, _FIELDS_OF_ALL, entry)


def _check(record: Any, fields: set[str], stated: Mapping[str, Any]) -> None:
    known = isinstance(record, dict) and set(record) == fields
    if not known or sha256_of(record) != stated.get("exposure_sha256"):
        raise CertificateMismatch(
            "the exposure in the receipt is not the one that the log names. It was altered."
        )
