"""What the log says: who waits, who was forgotten, what was certified."""

from collections.abc import Iterable, Sequence

from pilu.certify.certificate import Certificate
from pilu.deletion.ledger import Entry
from pilu.deletion.receipt import certificate_of

__all__ = ["certificates", "forgotten", "latest_certificate", "pending"]


def pending(entries: Iterable[Entry]) -> list[tuple[str, str | None]]:
    """Hashes of those who wait and their dates, the earliest first; asking twice keeps it."""
    waiting: dict[str, str | None] = {}
    for _, record in entries:
        if record["kind"] == "request":
            dates = (waiting.get(record["subject"]), record["due"])
            waiting[record["subject"]] = min((d for d in dates if d is not None), default=None)
        for subject in record.get("subjects", ()):
            waiting.pop(subject, None)
    # A sort keeps the order of those with one date: first come, first served.
    return sorted(waiting.items(), key=lambda item: (item[1] is None, item[1] or ""))


def forgotten(entries: Iterable[Entry]) -> set[bytes]:
    """Hashes of the names of all who were forgotten."""
    return {
        bytes.fromhex(subject) for _, record in entries for subject in record.get("subjects", ())
    }


def latest_certificate(entries: Sequence[Entry]) -> Certificate | None:
    """The last one that was issued, if any was."""
    issued = (record for _, record in reversed(entries) if "certificate" in record)
    record = next(issued, None)
    return None if record is None else certificate_of(record)


def certificates(entries: Iterable[Entry]) -> list[tuple[int, Certificate]]:
    """All certificates with their places in the log."""
    return [(place, certificate_of(record)) for place, record in entries if "certificate" in record]
