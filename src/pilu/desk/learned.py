"""What a fit learned, in words and numbers, and what a change did to the score.

The log keeps scores with two digits after the point: more would tell of single rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilu.desk.matching import Rows
from pilu.refit.held_rows import Table
from pilu.tabular.frames import Frame
from pilu.tabular.layout import Layout
from pilu.tabular.pipelines import describe_program
from pilu.tabular.scores import Score, cross_validated, score_of

_SAMPLE = 5_000  # rows on which a change is scored
_DIGITS = 2


@dataclass(frozen=True)
class Learned:
    """What a fit learned: from how many people, by which steps, and how good the model is."""

    n_rows: int
    n_people: int
    steps: tuple[str, ...]  # what is done to which columns, in words
    score: Score

    @classmethod
    def of(cls, program: Any, rows: Rows, layout: Layout, how: Mapping[str, Any]) -> "Learned":
        """Score a program on rows by cross-validation, split by person."""
        table = rows.table
        people = None if layout.subject is None else list(rows.people)
        frame = Frame(table.X, table.y, table.weights, None, people)
        score = cross_validated(program, frame, layout)
        steps: tuple[str, ...] = (f"Your own pipeline, {how.get('path')}:{how.get('function')}.",)
        if how["kind"] == "default":
            steps = tuple(describe_program(layout, how["model"], how["alpha"]))
        return cls(len(table), len(set(rows.people)), steps, score)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before this model is used."""
        if self.score.is_useful():
            return ()
        return (
            "the model is not clearly better than a constant. Look at the columns that are used, "
            "try --alpha auto or another --model, or get more rows.",
        )

    def score_record(self) -> dict[str, Any]:
        """What the log keeps of the score."""
        return {
            "metric": self.score.metric,
            "value": rounded(self.score.value),
            "constant": rounded(self.score.constant),
            "how": "cross-validation",
        }


def changed_score(before: Any, after: Any, table: Table) -> dict[str, Any] | None:
    """The score of two models on some of the rows that are left; None where there is none."""
    some = np.unique(np.linspace(0, len(table) - 1, min(_SAMPLE, len(table))).astype(np.intp))
    X, y = table.X.iloc[some], table.y[some]
    weights = None if table.weights is None else table.weights[some]
    try:
        (metric, now), (_, then) = (score_of(m, X, y, weights=weights) for m in (after, before))
    except ValueError:  # the model before does not know a class or a column of the rows
        return None
    if math.isnan(now):
        return None
    return {
        "metric": metric,
        "value": rounded(now),
        "before": rounded(then),
        "how": "on rows that are left",
    }


def rounded(value: float) -> float | None:
    """A score as the log keeps it."""
    return None if math.isnan(value) else round(value, _DIGITS)
