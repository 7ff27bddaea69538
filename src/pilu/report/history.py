"""What the entries of a log say about certificates, scores and releases over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pilu.certify.certificate import sha256_of
from pilu.report.entries import people_in, rows_forgotten_in

Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Certified:
    """An entry of the log that has a certificate."""

    place: int
    entry: Mapping[str, Any]

    @property
    def time(self) -> str:
        """ISO time."""
        return str(self.entry["time"])

    @property
    def certificate(self) -> Mapping[str, Any]:
        """As the log keeps it: without evidence, and without what it repeats of earlier ones."""
        held: Mapping[str, Any] = self.entry["certificate"]
        return held

    @cached_property
    def sha256(self) -> str:
        """The hash of the whole certificate, equal to `pilu.Certificate.sha256`."""
        named = self.entry.get("certificate_sha256")
        return str(named) if named else sha256_of({**self.certificate, "evidence": None})

    @property
    def n_people(self) -> int:
        """How many people were forgotten."""
        return people_in(self.entry)

    @property
    def n_rows(self) -> int:
        """How many rows of theirs."""
        return rows_forgotten_in(self.entry)

    @property
    def is_redraw(self) -> bool:
        """Whether the parameters were redrawn, which resets the running total."""
        return bool(self.certificate["method"] == "redraw")

    @property
    def total(self) -> tuple[float, float]:
        """Epsilon and delta of all requests since the last redraw, this one included."""
        return self.certificate["total_epsilon"], self.certificate["total_delta"]

    @property
    def is_private(self) -> bool:
        """Whether its noise came from the operating system, not from a seed."""
        return bool(self.certificate["scope"]["private"])

    @property
    def score(self) -> Mapping[str, Any]:
        """What it did to the score: `metric`, `before`, `value`; empty if it was not measured."""
        return self.entry.get("score") or {}


@dataclass(frozen=True)
class Scored:
    """A score in the log."""

    place: int
    value: float
    before: float | None = None  # of the model before, on the same rows


@dataclass(frozen=True)
class Scores:
    """The scores of a log, in one metric.

    Attributes
    ----------
    metric : str
    constant : float
        What the best constant got at the fit.
    fitted : Scored or None
        At the fit, by cross-validation: on rows that the model had not seen.
    changed : sequence of Scored
        After each change, on rows that the model has learned from. Such a score flatters: it can be
        compared with others of its kind, and not with the first.
    """

    metric: str
    constant: float
    fitted: Scored | None
    changed: Sequence[Scored]

    @classmethod
    def of(cls, entries: Entries) -> "Scores | None":
        """The scores of a log; None if it has none."""
        first = (entries[0].get("score") if entries else None) or {}
        if first.get("constant") is None:
            return None
        metric, value = str(first["metric"]), first.get("value")
        changed = [
            Scored(place, float(score["value"]), score.get("before"))
            for place, entry in enumerate(entries[1:], start=1)
            if (score := entry.get("score") or {}).get("value") is not None
            and score["metric"] == metric
        ]
        fitted = None if value is None else Scored(0, float(value))
        return cls(metric, float(first["constant"]), fitted, changed)


def certified_in(entries: Entries) -> list[Certified]:
    """Every certificate, oldest first."""
    return [Certified(place, e) for place, e in enumerate(entries) if "certificate" in e]


def outdated_releases(entries: Entries) -> list[int]:
    """Entries of releases made before the last deletion: they have whom it forgot."""
    last = max((one.place for one in certified_in(entries) if _forgets(one)), default=-1)
    return [k for k, entry in enumerate(entries[: last + 1]) if entry.get("kind") == "release"]


def is_released_since(entries: Entries) -> bool:
    """Whether there is a release that is not older than the last deletion."""
    releases = [k for k, entry in enumerate(entries) if entry.get("kind") == "release"]
    return len(releases) > len(outdated_releases(entries))


def _forgets(one: Certified) -> bool:
    return bool(one.n_people or one.n_rows)


def parse_time(text: str) -> datetime:
    """An ISO time, in UTC unless it says otherwise."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
