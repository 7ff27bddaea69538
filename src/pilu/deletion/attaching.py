"""The model of a store with the rows of the user's table attached."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu.chains.chain import Problem
from pilu.data.table_rows import TableRows
from pilu.data.tables import Table, open_table
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.deletion.model_records import Model
from pilu.deletion.store import Snapshot
from pilu.exceptions import WrongInput
from pilu.losses.problem import SmoothProblem
from pilu.ridge.problem import RidgeProblem

__all__ = ["recollected", "table_of", "targets_of", "with_rows"]


def table_of(snapshot: Snapshot, table: str | Path | None) -> Table:
    """The table that a store was fitted on, where it is now."""
    opened = open_table(table or snapshot.state["table"], snapshot.columns)
    if list(opened.features) != snapshot.state["features"]:
        raise WrongInput(f"{opened.path} must have the columns of the fit, got others.")
    return opened


def targets_of(model: Model) -> NumericTargets | ClassTargets:
    """How a fitted model encodes targets."""
    return model._encoder()


def with_rows(
    snapshot: Snapshot, table: str | Path | None, key: bytes, rows: NDArray[np.intp]
) -> Model:
    """The stored model, reading its rows from the user's table; `rows` are read at once."""
    model, kept = snapshot.model, snapshot.model.fitted_.source
    attached = TableRows(
        table_of(snapshot, table),
        targets_of(model),
        kept.live,
        snapshot.names.hashes.get("id"),
        key,
    )
    source = kept.reading(attached)
    problem = model.fitted_.chain.problem
    if isinstance(problem, SmoothProblem):
        source = source.in_memory(problem.n_outputs)  # every step reads them again
    elif len(rows):
        attached.hold(rows)
    model.fitted_ = model.fitted_.reading(problem.reading(source))
    return model


def recollected(problem: Problem) -> Problem:
    """The same problem with statistics and eigenbasis summed anew from the rows that are left.

    What came from a subtraction is rounded differently from what never had the rows. Other losses
    than ridge have no statistics.
    """
    if not isinstance(problem, RidgeProblem):
        return problem
    source = problem.source
    return RidgeProblem.collected(source, problem.alpha, problem.n_outputs, source.features)
