"""What earlier releases of a store told about people who are being forgotten.

Everybody in the table was in every release so far, so the log alone says which releases had whom.
What the present parameters tell is computed once more at the request, while the rows are there. The
numbers go into the receipt. The log keeps only their hash.
"""

import math
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import sha256_of
from pilu.deletion.log import Log
from pilu.deletion.model_records import Model
from pilu.exceptions import BeyondPrecision, CertificateMismatch

_FIELDS = {"delta", "n_releases", "n_of_other_parameters", "people", "nonce"}


def exposure_record(
    model: Model, subjects: Mapping[bytes, NDArray[np.intp]], log: Log
) -> dict[str, Any]:
    """Exposure of each subject by the present parameters, and how many releases had them.

    Releases of earlier parameters had the same people. Their laws are gone, so nothing is stated
    about them but their number.
    """
    groups = [rows.tolist() for rows in subjects.values()]
    try:
        exposure = model.exposure(groups)
        delta, epsilons = exposure.delta, exposure.epsilon.tolist()
    except BeyondPrecision:
        delta, epsilons = None, [math.inf] * len(groups)
    people = {
        name.hex(): epsilon if math.isfinite(epsilon) else None
        for name, epsilon in zip(subjects, epsilons, strict=True)
    }
    now, before = _releases(log)
    return {
        "delta": delta,
        "n_releases": now + before,
        "n_of_other_parameters": before,
        "people": people,
        "nonce": secrets.token_hex(16),
    }


def _releases(log: Log) -> tuple[int, int]:
    """How many releases were made of the present parameters, and of earlier ones."""
    now = before = 0
    for _, record in log.entries:
        if record["kind"] == "release":
            now += 1
        elif "state_sha256" in record:  # the parameters were changed
            now, before = 0, before + now
    return now, before


def check_exposure(record: Any, entry: Mapping[str, Any]) -> None:
    """Refuse a record that is not the one of the log's entry."""
    known = isinstance(record, dict) and set(record) == _FIELDS
    if not known or sha256_of(record) != entry.get("exposure_sha256"):
        raise CertificateMismatch(
            "the exposure in the receipt is not the one that the log names. It was altered."
        )
