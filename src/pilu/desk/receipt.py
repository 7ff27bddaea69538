"""What a person or an auditor receives: a certificate, its evidence, and its place in the log.

A receipt holds the entry exactly as the log has it, so its hash can be computed again, and the
proof that leads from that hash to the head of the log. Of the people of the entry it holds one,
with the proof that leads to the head of their tree, and nothing of the others. The evidence and the
exposure are kept nowhere else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pilu.certify.certificate import Certificate, strict_json
from pilu.certify.verify import verify
from pilu.desk.exposed import check_exposure, check_exposure_of_all
from pilu.desk.issued import check_is_of
from pilu.exceptions import CertificateMismatch, LedgerMismatch, StoreDamaged
from pilu.store import merkle
from pilu.store.ledger import Ledger
from pilu.store.log import Entry, Log, canonical
from pilu.store.merkle import Head, check_inclusion

SCHEMA = "pilu.receipt/3"
_EARLIER = ("pilu.receipt/2", "pilu.receipt/1")  # still read: of everybody in an entry together

_FIELDS = {"schema", "entry", "place", "head", "inclusion", "signature"}


@dataclass(frozen=True)
class Person:
    """A leaf in the tree of an entry's people, with the proof of its place."""

    record: Mapping[str, Any]
    place: int
    proof: tuple[bytes, ...]
    known_as: str | None = field(default=None, compare=False)  # in memory only, never written

    @property
    def name(self) -> str:
        """The keyed hash of the person's name."""
        return str(self.record["subject"])

    def check(self, entry: Mapping[str, Any]) -> None:
        """Refuse a person who is not among those of the entry."""
        check_inclusion(
            canonical(self.record), self.place, self.proof, Head.parse(str(entry.get("people")))
        )


@dataclass(frozen=True)
class Receipt:
    """An entry of the log with its certificate and the proof of its place, for one person."""

    entry: Mapping[str, Any]
    certificate: Certificate  # with its evidence
    place: int
    head: Head
    proof: tuple[bytes, ...]
    person: Person | None = None  # None where an entry is about nobody in particular
    exposure: Mapping[str, Any] | None = None  # what earlier releases told (desk.exposed)
    signature: Mapping[str, Any] | None = None  # a DSSE envelope of `statement`
    texts: dict[str, tuple[Any, str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def evidence(self) -> Mapping[str, Any] | None:
        """A few numbers from which epsilon is recomputed."""
        return self.certificate.evidence

    @property
    def statement(self) -> dict[str, Any]:
        """What is signed. It fixes certificate, evidence and person, by their hashes."""
        return {"entry": dict(self.entry), "place": self.place, "head": str(self.head)}

    def signed(self, envelope: Mapping[str, Any] | None) -> "Receipt":
        """The same with a signature."""
        return replace(self, signature=envelope)

    def is_in(self, log: Log) -> bool:
        """Whether a log has the entry: whether the change that it certifies was made."""
        return log.has(self.place, self.entry)

    def verify(self) -> dict[str, bool]:
        """Recompute the certificate and follow the proofs to the head; a mismatch raises."""
        if self.evidence is None:
            raise CertificateMismatch("the receipt must have its evidence to be recomputed.")
        checks = verify(self.certificate)
        check_is_of(self.certificate, Entry(self.place, canonical(self.entry)))
        check_inclusion(canonical(self.entry), self.place, self.proof, self.head)
        if self.person is not None:
            self.person.check(self.entry)
        return {
            **checks,
            "in_the_log_of_its_head": True,
            "person_is_among_those_of_the_entry": self.person is not None,
            "exposure_is_that_of_the_log": self.check_exposure(),
        }

    def check_exposure(self) -> bool:
        """Refuse an exposure that is not the one of the log; False if there is none."""
        stating = self.entry if self.person is None else self.person.record
        if self.exposure is None and "exposure_sha256" not in stating:
            return False
        check = check_exposure_of_all if self.person is None else check_exposure
        check(self.exposure, stating)
        return True

    def to_json(self) -> str:
        """The receipt as a file: JSON with a field on each line."""
        person = self.person
        own = {
            "exposure": None if self.exposure is None else dict(self.exposure),
            "person": None
            if person is None
            else {
                "record": dict(person.record),
                "place": person.place,
                "inclusion": [step.hex() for step in person.proof],
            },
        }
        return f"{{\n{self._shared_text()},\n{_text(own)[1:-1]}\n}}\n"

    def _shared_text(self) -> str:
        """The fields that all people of an entry share: written once for thousands of them."""
        parts = (self.entry, self.certificate, self.place, self.head, self.proof, self.signature)
        kept, text = self.texts.get("shared", ((), ""))
        if len(kept) != len(parts) or any(a is not b for a, b in zip(kept, parts, strict=True)):
            fields = {
                "schema": _text(SCHEMA),
                **{name: _text(value) for name, value in self.statement.items()},
                "inclusion": _text([step.hex() for step in self.proof]),
                "certificate": self.certificate.to_json(),
                "signature": _text(self.signature),
            }
            text = ",\n".join(f'"{name}": {fields[name]}' for name in fields)
            self.texts["shared"] = parts, text
        return text

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """Read what `to_json` wrote; anything else raises `CertificateMismatch`."""
        try:
            record = strict_json(text)
            schema = record["schema"]
            later = {"certificate", "person", "exposure"}
            if schema in _EARLIER:
                later = {"evidence", "exposure"} & {*record, "evidence"}
            if schema not in (SCHEMA, *_EARLIER):
                raise CertificateMismatch(
                    f"schema must be one of {', '.join((SCHEMA, *_EARLIER))}, got "
                    f"schema={schema!r}. Check the receipt with the version of pilu that wrote it."
                )
            if set(record) != _FIELDS | later:
                raise CertificateMismatch(f"the receipt must have the fields of {schema}.")
            entry, place = record["entry"], record["place"]
            if not isinstance(entry, dict) or type(place) is not int:
                raise TypeError
            return cls(
                entry,
                _certificate_in(record),
                place,
                Head.parse(record["head"]),
                tuple(bytes.fromhex(step) for step in record["inclusion"]),
                _person_in(record.get("person")),
                record.get("exposure"),
                record["signature"],
            )
        except LedgerMismatch as error:
            raise CertificateMismatch(str(error)) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CertificateMismatch(
                "the receipt cannot be read: it was altered or cut."
            ) from None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _certificate_in(record: Mapping[str, Any]) -> Certificate:
    if record["schema"] == SCHEMA:
        return Certificate.from_json(json.dumps(record["certificate"]))
    certificate = Certificate.from_json(json.dumps(record["entry"]["certificate"]))
    evidence = record["evidence"]
    return certificate if evidence is None else certificate.with_evidence(evidence)


def _person_in(record: Any) -> Person | None:
    if record is None:
        return None
    if not isinstance(record["record"], dict) or type(record["place"]) is not int:
        raise TypeError
    proof = tuple(bytes.fromhex(step) for step in record["inclusion"])
    return Person(record["record"], record["place"], proof)


def receipts_of(
    log: Log,
    entry: Entry,
    people: Sequence[Mapping[str, Any]],
    certificate: Certificate,
    exposures: Mapping[str, Any],
    known: Mapping[str, str],
) -> Iterator[Receipt]:
    """A receipt for each of the people of an entry, or one if it is about nobody in particular.

    What does not have its hash in the log is refused, so nobody gets what cannot be verified.
    `known` are names in the clear, by keyed names.
    """
    check_is_of(certificate, entry)
    if certificate.evidence is not None:
        certificate = certificate.without_evidence().with_evidence(certificate.evidence)
    proof = tuple(merkle.inclusion(log.leaves, entry.place))
    shared = Receipt(entry.record, certificate, entry.place, log.head, proof)
    if not people:
        yield shared
    proofs = merkle.inclusions([merkle.leaf(canonical(record)) for record in people])
    for place, (record, path) in enumerate(zip(people, proofs, strict=True)):
        person = Person(record, place, tuple(path), known.get(record["subject"]))
        yield replace(shared, person=person, exposure=exposures.get(person.name))


def receipts_kept(
    ledger: Ledger, place: int, kept: Mapping[str, Any], known: Mapping[str, str] | None = None
) -> tuple[Receipt, ...]:
    """The receipts of an entry, from what the outbox keeps for them; refused if it was altered.

    Call it within a transaction of the ledger.
    """
    (people,), log = ledger.people([place]), ledger.log
    try:
        certificate, exposures = Certificate.from_json(kept["certificate"]), dict(kept["exposures"])
        receipts = tuple(
            receipts_of(log, log.entries[place], people, certificate, exposures, known or {})
        )
        named = {receipt.person.name for receipt in receipts if receipt.person is not None}
        whole = certificate.evidence is not None and len(kept) == 2 and named >= exposures.keys()
        verify(certificate)
        for receipt in receipts:
            receipt.check_exposure()
    except (CertificateMismatch, KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise StoreDamaged(
            f"{ledger.path}: what is kept for the receipts of entry {place} was altered. Restore "
            "the directory from a backup."
        )
    return receipts
