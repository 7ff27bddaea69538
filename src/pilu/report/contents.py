"""What a report is about, and what follows from it.

The desk fills in `Contents`; everything here is plain data and arithmetic on it, so that pictures
and page draw from the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import sha256_of

__all__ = ["Certified", "Contents", "Costs", "Total", "moment", "rows_forgotten"]


@dataclass(frozen=True, eq=False)
class Costs:
    """What forgetting people who are still in the model would cost.

    Attributes
    ----------
    noise : array
        sigma_unlearn of each quoted person.
    rows : array of int
        How many rows each of them has.
    epsilon, delta, n_unlearn_steps : float, float, int
        What was asked for.
    n_subjects : int
        All people left; where fewer were quoted, they are a random sample.
    """

    noise: NDArray[np.float64]
    rows: NDArray[np.int_]
    epsilon: float
    delta: float
    n_unlearn_steps: int
    n_subjects: int

    def __post_init__(self) -> None:
        noise, rows = np.asarray(self.noise), np.asarray(self.rows)
        if noise.ndim != 1 or noise.shape != rows.shape:
            raise ValueError(
                f"noise and rows must run parallel, got shapes {noise.shape} and {rows.shape}."
            )
        if not np.isfinite(noise).all() or (noise < 0).any():
            raise ValueError("noise must be finite and at least 0.")


@dataclass(frozen=True)
class Certified:
    """An entry of the log that holds a certificate."""

    place: int
    time: str
    people: tuple[str, ...]
    certificate: Mapping[str, Any]

    @cached_property
    def sha256(self) -> str:
        """Identity of the certificate, as `pilu.Certificate.sha256` has it."""
        return sha256_of({**self.certificate, "evidence": None})

    @property
    def is_redraw(self) -> bool:
        """Whether the parameters were drawn afresh, which empties the running total."""
        return bool(self.certificate["method"] == "redraw")

    @property
    def total(self) -> tuple[float, float]:
        """Epsilon and delta of all requests since the last redraw, this one included."""
        return self.certificate["total_epsilon"], self.certificate["total_delta"]

    @property
    def is_private(self) -> bool:
        """Whether its noise came from the operating system and not from a seed."""
        return bool(self.certificate["scope"]["private"])


@dataclass(frozen=True)
class Total:
    """The running total from a moment on."""

    since: datetime
    epsilon: float
    delta: float
    redraw: bool = False


@dataclass(frozen=True)
class Contents:
    """All that is on the page.

    Attributes
    ----------
    store : str
        The folder's name.
    made : str
        ISO time of the report.
    versions : mapping
        Software and its versions.
    model : mapping
        `kind` ("regression", "logistic regression", ...), `n_rows` at the fit, `rows_left`,
        `n_features`, `n_outputs`, `alpha`, `step_size`, `learning_steps`, `learning_noise`,
        `table`.
    budget, spent : (epsilon, delta)
        In all, and what of it is spent since the last redraw.
    entries : sequence of mappings
        The log, oldest first.
    head : str
        Size and Merkle root of the log.
    pending : sequence of (hash, due date or None)
        Who waits.
    still_in_table : int or None
        Rows of forgotten people that the user's table still has; None if it was not found.
    costs : Costs or None
        None if the table was not at hand.
    """

    store: str
    made: str
    versions: Mapping[str, str]
    model: Mapping[str, Any]
    budget: tuple[float, float]
    spent: tuple[float, float]
    entries: Sequence[Mapping[str, Any]]
    head: str
    pending: Sequence[tuple[str, str | None]]
    still_in_table: int | None
    costs: Costs | None

    @cached_property
    def certified(self) -> list[Certified]:
        """Every certificate, oldest first."""
        return [
            Certified(place, entry["time"], tuple(entry.get("subjects", ())), entry["certificate"])
            for place, entry in enumerate(self.entries)
            if "certificate" in entry
        ]

    @property
    def latest(self) -> Certified | None:
        """The certificate that speaks of the present parameters."""
        return self.certified[-1] if self.certified else None

    @property
    def since_redraw(self) -> list[Certified]:
        """Certificates since the last redraw, which itself comes first where there was one."""
        redraws = [k for k, one in enumerate(self.certified) if one.is_redraw]
        return self.certified[redraws[-1] if redraws else 0 :]

    @property
    def n_people_forgotten(self) -> int:
        """How many people were forgotten."""
        return len({name for one in self.certified for name in one.people})

    @property
    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        (epsilon, delta), (spent_epsilon, spent_delta) = self.budget, self.spent
        return max(epsilon - spent_epsilon, 0.0), max(delta - spent_delta, 0.0)

    @property
    def overdue(self) -> list[tuple[str, str]]:
        """Who waits although the date has passed; the last day itself is in time."""
        today = moment(self.made).date()
        return [(who, due) for who, due in self.pending if due and date.fromisoformat(due) < today]

    @property
    def outdated_releases(self) -> list[int]:
        """Places of releases made before somebody was forgotten: the files still speak of them."""
        last = max((one.place for one in self.certified if one.certificate["rows"]), default=-1)
        return [
            place
            for place, entry in enumerate(self.entries[: last + 1])
            if entry.get("kind") == "release"
        ]

    @property
    def totals(self) -> list[Total]:
        """The running total from the fit to now, a step for each certificate."""
        made = moment(self.made)
        first = moment(self.entries[0]["time"]) if self.entries else made
        steps = [Total(moment(one.time), *one.total, one.is_redraw) for one in self.certified]
        epsilon, delta = self.latest.total if self.latest else (0.0, 0.0)
        return [Total(first, 0.0, 0.0), *steps, Total(made, epsilon, delta)]


def rows_forgotten(certified: Sequence[Certified]) -> int:
    """How many rows the certificates speak of."""
    return len({row for one in certified for row in one.certificate["rows"]})


def moment(text: str) -> datetime:
    """An ISO time; UTC where it does not say."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
