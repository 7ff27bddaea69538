"""The data of a report, and what follows from it.

The page and its pictures take all their numbers from `Contents`. It has no names in the clear.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Spent
from pilu.certify.guessing import guess_bound
from pilu.report.history import Certified, Scores, certified_in, outdated_releases, parse_time
from pilu.store.subjects import Waiting
from pilu.tabular.scores import Score


@dataclass(frozen=True, eq=False)
class Costs:
    """What it would cost to forget people who are still in the model.

    Attributes
    ----------
    noise : array
        sigma_unlearn of each quoted person.
    rows : array of int
        The number of rows of each.
    epsilon, delta, n_unlearn_steps : float, float, int
        The target of the quotes.
    n_subjects : int
        The number of people in the model. If fewer were quoted, they are a random sample.
    names : sequence of str
        The name of each; empty where it must not be shown.
    """

    noise: NDArray[np.float64]
    rows: NDArray[np.intp]
    epsilon: float
    delta: float
    n_unlearn_steps: int
    n_subjects: int
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        noise, rows = np.asarray(self.noise), np.asarray(self.rows)
        if noise.ndim != 1 or noise.shape != rows.shape:
            raise ValueError(
                f"noise and rows must be as long, got shapes {noise.shape} and {rows.shape}."
            )
        if not np.isfinite(noise).all() or (noise < 0).any():
            raise ValueError("noise must be finite and at least 0.")


@dataclass(frozen=True)
class Total:
    """The running total from a time on."""

    since: datetime
    epsilon: float
    delta: float
    redraw: bool = False


@dataclass(frozen=True)
class TableNow:
    """The user's tables when the report was made, as numbers of rows.

    Attributes
    ----------
    n_forgotten : int
        Rows of people who were forgotten.
    n_new, n_changed, n_missing : int
        Rows that the model does not know, knows otherwise, and misses; 0 for Langevin stores.
    """

    n_forgotten: int
    n_new: int = 0
    n_changed: int = 0
    n_missing: int = 0


@dataclass(frozen=True)
class Chain:
    """What only a store of the method "langevin" has.

    Attributes
    ----------
    budget : (epsilon, delta)
        The whole budget.
    spent : Spent
        The running total since the last redraw, with its curve.
    learning_noise : float
    more_like_the_last : int or None
        How many more requests like the last one the budget allows, at least; None if unknown.
    costs : Costs or None
        None if the table was not found.
    """

    budget: tuple[float, float]
    spent: Spent
    learning_noise: float
    more_like_the_last: int | None
    costs: Costs | None

    @property
    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        epsilon, delta = self.budget
        return max(epsilon - self.spent.epsilon, 0.0), max(delta - self.spent.delta, 0.0)


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
    method : {"refit", "langevin"}
    model : mapping
        `kind` and `facts` in words, `n_rows` of the fit, `rows_left`, `n_features`, `table`.
    entries : sequence of mappings
        The log, oldest first.
    head : str
        Size and Merkle root of the log.
    n_people_forgotten : int
        People who were forgotten and have not come back.
    pending : sequence of Waiting
        People who asked to be forgotten, by keyed names.
    undelivered : sequence of int
        Entries whose receipts were not handed over.
    table : TableNow or None
        None if the table was not found.
    score : Score or None
        Of the model now, by cross-validation; None if it was not measured.
    chain : Chain or None
        For a Langevin store.
    """

    store: str
    made: str
    versions: Mapping[str, str]
    method: str
    model: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    head: str
    n_people_forgotten: int
    pending: Sequence[Waiting]
    undelivered: Sequence[int]
    table: TableNow | None
    score: Score | None
    chain: Chain | None

    @cached_property
    def certified(self) -> list[Certified]:
        """Every certificate, oldest first."""
        return certified_in(self.entries)

    @property
    def latest(self) -> Certified | None:
        """The certificate of the present parameters."""
        return self.certified[-1] if self.certified else None

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of the log."""
        return Scores.of(self.entries)

    @property
    def score_now(self) -> float | None:
        """The present score on rows that the model has not seen; None if it was not measured."""
        measured, scores = self.score, self.scores
        if measured is None or scores is None or measured.metric != scores.metric:
            return None
        return measured.value if measured.folds >= 2 else None

    @property
    def is_useful(self) -> bool | None:
        """Whether the model is better than a constant on rows it has not seen; None if unknown.

        The log keeps no spread, so without a score of today the fit's own is compared as it is.
        """
        if self.score is not None and self.score.folds >= 2:
            return self.score.is_useful()
        if self.scores is None or self.scores.fitted is None:
            return None
        return self.scores.fitted.value > self.scores.constant

    @property
    def since_redraw(self) -> list[Certified]:
        """Certificates since the last redraw, beginning with the redraw itself."""
        redraws = [k for k, one in enumerate(self.certified) if one.is_redraw]
        return self.certified[redraws[-1] if redraws else 0 :]

    @property
    def n_rows_forgotten(self) -> int:
        """Rows of people who were forgotten by requests."""
        return sum(one.n_rows for one in self.certified)

    @property
    def guess(self) -> float | None:
        """How often an observer guesses right, at most; None if nothing is certified."""
        if self.latest is None:
            return None
        spent = None if self.chain is None else self.chain.spent
        return guess_bound(self.latest.certificate, spent)

    @property
    def overdue(self) -> list[Waiting]:
        """Queued people whose due date has passed; on the due date they are still in time."""
        today = parse_time(self.made).date()
        return [one for one in self.pending if one.due and date.fromisoformat(one.due) < today]

    @property
    def outdated_releases(self) -> list[int]:
        """Entries of releases made before the last deletion."""
        return outdated_releases(self.entries)

    @property
    def totals(self) -> list[Total]:
        """The running total from the fit until now, with one step for each certificate."""
        made = parse_time(self.made)
        first = parse_time(self.entries[0]["time"]) if self.entries else made
        steps = [Total(parse_time(one.time), *one.total, one.is_redraw) for one in self.certified]
        epsilon, delta = self.latest.total if self.latest else (0.0, 0.0)
        return [Total(first, 0.0, 0.0), *steps, Total(made, epsilon, delta)]
