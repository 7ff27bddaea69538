"""What a person or an auditor receives: a certificate, its evidence, and its place in the log.

A receipt holds the entry exactly as the log has it, so its hash can be computed again, and the
proof that leads from that hash to the head of the log. The evidence is kept nowhere else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pilu.certify.certificate import Certificate, strict_json
from pilu.certify.verify import verify
from pilu.deletion.exposed import check_exposure
from pilu.deletion.log import Entry, Log, canonical
from pilu.deletion.merkle import Head, check_inclusion, inclusion
from pilu.exceptions import CertificateMismatch, LedgerMismatch

SCHEMA = "pilu.receipt/2"
_FIRST = "pilu.receipt/1"  # still read: it has no exposure


@dataclass(frozen=True)
class Receipt:
    """An entry of the log that has a certificate, the evidence, and the proof of its place."""

    entry: Mapping[str, Any]
    evidence: Mapping[str, Any] | None
    place: int
    head: Head
    proof: tuple[bytes, ...]
    signature: Mapping[str, Any] | None = None  # a DSSE envelope of `statement`
    exposure: Mapping[str, Any] | None = None  # what the parameters before told (deletion.exposed)

    @classmethod
    def of_last_entry(
        cls,
        log: Log,
        evidence: Mapping[str, Any] | None,
        exposure: Mapping[str, Any] | None = None,
    ) -> "Receipt":
        """The receipt of the last entry in a log."""
        place, record = log.entries[-1]
        proof = tuple(inclusion(log.leaves, place))
        return cls(record, evidence, place, log.head, proof, exposure=exposure)

    @property
    def certificate(self) -> Certificate:
        """The certificate, with its evidence."""
        certificate = Entry(self.place, self.entry).certificate
        if certificate is None:
            raise CertificateMismatch("the receipt must have a certificate in its entry.")
        return certificate if self.evidence is None else certificate.with_evidence(self.evidence)

    @property
    def statement(self) -> dict[str, Any]:
        """What is signed. It fixes the evidence, by its hash, and the proof."""
        return {"entry": dict(self.entry), "place": self.place, "head": str(self.head)}

    def signed(self, envelope: Mapping[str, Any]) -> "Receipt":
        """The same with a signature."""
        return replace(self, signature=envelope)

    def is_in(self, log: Log) -> bool:
        """Whether a log has the entry: whether the change that it certifies was made."""
        return log.has(Entry(self.place, self.entry))

    def verify(self) -> dict[str, bool]:
        """Recompute the certificate and follow the proof to the head; a mismatch raises."""
        if self.evidence is None:
            raise CertificateMismatch("the receipt must have its evidence to be recomputed.")
        checks = verify(self.certificate)
        check_inclusion(canonical(self.entry), self.place, self.proof, self.head)
        stated = "exposure_sha256" in self.entry or self.exposure is not None
        if stated:
            check_exposure(self.exposure, self.entry)
        return {**checks, "in_the_log_of_its_head": True, "exposure_is_that_of_the_log": stated}

    def to_json(self) -> str:
        """The receipt as a file."""
        record = {
            "schema": SCHEMA,
            **self.statement,
            "inclusion": [step.hex() for step in self.proof],
            "evidence": json.loads(self.certificate.to_json())["evidence"],
            "signature": self.signature,
        }
        if self.exposure is not None:
            record["exposure"] = dict(self.exposure)
        return json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """Read what `to_json` wrote; anything else raises `CertificateMismatch`."""
        try:
            record = strict_json(text)
            known = {"schema", "entry", "place", "head", "inclusion", "evidence", "signature"}
            later = {"exposure"} if record["schema"] == SCHEMA else set()
            if set(record) - later != known or record["schema"] not in (SCHEMA, _FIRST):
                raise CertificateMismatch(f"the receipt must have the fields of {SCHEMA}.")
            entry, place = record["entry"], record["place"]
            if not isinstance(entry, dict) or type(place) is not int:
                raise TypeError
            proof = tuple(bytes.fromhex(step) for step in record["inclusion"])
            receipt = cls(
                entry,
                record["evidence"],
                place,
                Head.parse(record["head"]),
                proof,
                record["signature"],
                record.get("exposure"),
            )
            receipt.certificate  # noqa: B018  # is there one?
            return receipt
        except LedgerMismatch as error:
            raise CertificateMismatch(str(error)) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CertificateMismatch(
                "the receipt cannot be read: it was altered or cut."
            ) from None
