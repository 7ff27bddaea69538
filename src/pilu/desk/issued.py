"""Certificates as the log keeps them, and whole again.

A chain's certificate repeats the whole schedule and the hashes of all certificates before it, so a
log of whole certificates would grow with the square of the requests. The log keeps their own part,
and the hash of the whole. Row numbers are kept with the people, each with their own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilu.certify.certificate import FIELDS, Certificate, sha256_of
from pilu.exceptions import CertificateMismatch
from pilu.store.log import Entry

_REPEATED = ("schedule", "conditional_on")


def without_rows(certificate: Certificate) -> Certificate:
    """The certificate without the numbers of the rows, bound anew to its evidence."""
    evidence = {k: v for k, v in (certificate.evidence or {}).items() if k != "fields_sha256"}
    bare = replace(certificate, rows=(), evidence=None, evidence_sha256="")
    return bare.resting_on(evidence)


def kept_in_log(certificate: Certificate) -> dict[str, Any]:
    """The fields of an entry that are about a certificate."""
    record = json.loads(certificate.without_evidence().to_json())
    own = {name: value for name, value in record.items() if name not in _REPEATED}
    return {"certificate": own, "certificate_sha256": certificate.sha256}


def whole_certificate(
    entry: Entry, schedule: Sequence[Any] = (), conditional_on: Sequence[str] = ()
) -> Certificate:
    """The certificate of an entry, without evidence; its hash must be the one in the entry.

    `certify.verify` checks the types of its fields.
    """
    record: Mapping[str, Any] = entry.certificate or {}
    repeated = {"schedule": list(map(list, schedule)), "conditional_on": list(conditional_on)}
    whole = {**repeated, **record}
    if set(whole) != set(FIELDS) or sha256_of(whole) != entry.certificate_sha256:
        raise CertificateMismatch(
            f"the certificate at place {entry.place} does not have its hash, or does not follow "
            "from what was before it."
        )
    return Certificate(**whole)


def check_is_of(certificate: Certificate, entry: Entry) -> None:
    """Refuse a certificate that is not the one of an entry."""
    if certificate.sha256 != entry.certificate_sha256:
        raise CertificateMismatch("the certificate is not the one that the log names.")
