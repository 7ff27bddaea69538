"""The model of a store with the rows of the user's table attached."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu.data.table import Table
from pilu.data.table_rows import TableRows
from pilu.data.tables import open_table
from pilu.deletion.model_records import Model
from pilu.deletion.store import Snapshot
from pilu.exceptions import WrongInput

__all__ = ["table_of", "with_rows"]


def table_of(snapshot: Snapshot, table: str | Path | None) -> Table:
    """The table that a store was fitted on, where it is now."""
    opened = open_table(table or snapshot.state["table"], snapshot.columns)
    if list(opened.features) != snapshot.state["features"]:
        raise WrongInput(f"{opened.path} must have the columns of the fit, got others.")
    return opened


def with_rows(
    snapshot: Snapshot, table: str | Path | None, key: bytes, rows: NDArray[np.intp]
) -> Model:
    """The stored model, reading its rows from the user's table; `rows` are read at once."""
    model, kept = snapshot.model, snapshot.model.fitted_.source
    attached = TableRows(
        table_of(snapshot, table),
        model.targets_,
        kept.live,
        snapshot.names.hashes.get("id"),
        key,
    )
    source = kept.reading(attached)
    problem = model.fitted_.chain.problem
    if problem.reads_rows:
        source = source.in_memory(problem.n_outputs)  # every step reads them again
    elif len(rows):
        attached.hold(rows)
    model.fitted_ = model.fitted_.reading(problem.reading(source))
    return model
