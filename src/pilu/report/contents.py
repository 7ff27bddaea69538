"""The data of a report, and what follows from it.

The page and its pictures take all their numbers from `Contents`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pilu.certify.certificate import library_versions, sha256_of
from pilu.data.tables import is_there
from pilu.desk.costs import Costs, quote_everyone
from pilu.desk.rewriting import still_in_table
from pilu.store.store import Store, now

_KINDS = {"logistic": "logistic regression", "huber": "Huber regression"}


@dataclass(frozen=True)
class Certified:
    """An entry of the log that contains a certificate."""

    place: int
    time: str
    people: tuple[str, ...]
    certificate: Mapping[str, Any]

    @cached_property
    def sha256(self) -> str:
        """The hash of the certificate, equal to `pilu.Certificate.sha256`."""
        return sha256_of({**self.certificate, "evidence": None})

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


@dataclass(frozen=True)
class Total:
    """The running total from a time on."""

    since: datetime
    epsilon: float
    delta: float
    redraw: bool = False


@dataclass(frozen=True)
class Contents:
    """Everything that the page shows.

    Attributes
    ----------
    store : str
        The folder's name.
    made : str
        ISO time of the report.
    versions : mapping
        Versions of the software.
    model : mapping
        `kind` ("regression", "logistic regression", ...), `n_rows` of the fit, `rows_left`,
        `n_features`, `n_outputs`, `alpha`, `step_size`, `learning_steps`, `learning_noise`,
        `table`.
    budget, spent : (epsilon, delta)
        The whole budget, and what was spent since the last redraw.
    entries : sequence of mappings
        The log, oldest first.
    head : str
        Size and Merkle root of the log.
    pending : sequence of (hash, due date or None)
        People who are queued.
    still_in_table : int or None
        Rows of forgotten people in the user's table; None if the table was not found.
    costs : Costs or None
        None if the table was not found.
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
        """The certificate of the present parameters."""
        return self.certified[-1] if self.certified else None

    @property
    def since_redraw(self) -> list[Certified]:
        """Certificates since the last redraw, beginning with the redraw itself."""
        redraws = [k for k, one in enumerate(self.certified) if one.is_redraw]
        return self.certified[redraws[-1] if redraws else 0 :]

    @property
    def n_people_forgotten(self) -> int:
        """The number of people who were forgotten."""
        return len({name for one in self.certified for name in one.people})

    @property
    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        (epsilon, delta), (spent_epsilon, spent_delta) = self.budget, self.spent
        return max(epsilon - spent_epsilon, 0.0), max(delta - spent_delta, 0.0)

    @property
    def overdue(self) -> list[tuple[str, str]]:
        """Queued people whose due date has passed; on the due date they are still in time."""
        today = parse_time(self.made).date()
        return [(who, due) for who, due in self.pending if due and date.fromisoformat(due) < today]

    @property
    def outdated_releases(self) -> list[int]:
        """Entries of releases made before the last deletion: they contain what it forgot."""
        last = max((one.place for one in self.certified if one.certificate["rows"]), default=-1)
        return [
            place
            for place, entry in enumerate(self.entries[: last + 1])
            if entry.get("kind") == "release"
        ]

    @property
    def totals(self) -> list[Total]:
        """The running total from the fit until now, with one step for each certificate."""
        made = parse_time(self.made)
        first = parse_time(self.entries[0]["time"]) if self.entries else made
        steps = [Total(parse_time(one.time), *one.total, one.is_redraw) for one in self.certified]
        epsilon, delta = self.latest.total if self.latest else (0.0, 0.0)
        return [Total(first, 0.0, 0.0), *steps, Total(made, epsilon, delta)]


def read_contents(store: Store, table: Path | None, people: int) -> Contents:
    """Everything that the page shows; without the table, everything but the costs.

    At most so many people are quoted, drawn at random.
    """
    snapshot = store.read()
    state, fitted, log = snapshot.state, snapshot.model.fitted_, snapshot.log
    still, costs = None, None
    path = Path(table or state["table"])
    if table is not None or is_there(path):  # a table that is named must exist
        still = len(still_in_table(snapshot, path))
        costs = replace(quote_everyone(store, path, at_most=people), names=())
    learning = fitted.chain.schedule.segments[0]
    return Contents(
        store=store.folder.resolve().name,
        made=now(),
        versions=library_versions(),
        model={
            "kind": _KINDS.get(state["model"]["kind"], state["model"]["kind"]),
            "n_rows": state["n_rows"],
            "rows_left": int(fitted.source.live.sum()),
            "n_features": len(state["features"]),
            "n_outputs": int(fitted.theta.shape[1]),
            "alpha": fitted.chain.problem.alpha,
            "step_size": fitted.chain.step_size,
            "learning_steps": None if learning.is_stationary else learning.steps,
            "learning_noise": learning.noise,
            "table": path.name,
        },
        budget=(float(state["budget"][0]), float(state["budget"][1])),
        spent=tuple(state["model"]["spent"]["total"]),
        entries=[entry.record for entry in log.entries],
        head=str(log.head),
        pending=log.pending,
        still_in_table=still,
        costs=costs,
    )


def rows_forgotten(certified: Sequence[Certified]) -> int:
    """The number of rows that the certificates cover."""
    return len({row for one in certified for row in one.certificate["rows"]})


def parse_time(text: str) -> datetime:
    """An ISO time, in UTC unless it says otherwise."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
