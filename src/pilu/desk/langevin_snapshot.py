"""A store of the method "langevin" at one time: the model, and the hashed names of its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import Names
from pilu.data.table import Columns, Table
from pilu.data.table_rows import TableRows
from pilu.data.tables import open_table
from pilu.desk.model_records import Model, arrays_of, record_of, restore_model
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.store.log import Log
from pilu.store.store import Snapshot

_NAMES = "names_"  # prefix of the arrays that hold hashed names


@dataclass(frozen=True)
class LangevinSnapshot:
    """The state, the model, the hashed names of its rows, and the log."""

    folder: Path
    key: bytes = field(repr=False)
    state: Mapping[str, Any]
    model: Model
    names: Names
    log: Log

    @classmethod
    def of(cls, snapshot: Snapshot) -> "LangevinSnapshot":
        """What the arrays and the state of a store mean."""
        state, log, arrays = snapshot.state, snapshot.log, snapshot.arrays
        names = {
            name.removeprefix(_NAMES): array
            for name, array in arrays.items()
            if name.startswith(_NAMES)
        }
        issued = None if log.certified is None else log.certified.certificate_sha256
        try:
            counts = state["class_counts"]
            model = restore_model(state["model"], arrays, snapshot.key, counts, latest=issued)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StoreDamaged(f"the store's state does not fit together: {error!r}.") from None
        return cls(snapshot.folder, snapshot.key, state, model, Names(names), log)

    @property
    def columns(self) -> Columns:
        """What the columns of the table mean."""
        columns = {**self.state["columns"], "features": tuple(self.state["features"])}
        return Columns(tuple(columns.pop("target")), **columns)

    def table(self, path: str | Path | None = None) -> Table:
        """The table that the store was fitted on, where it is now."""
        table = open_table(path or self.state["table"], self.columns)
        if list(table.features) != self.state["features"]:
            raise WrongInput(f"{table.path} must have the columns of the fit, got others.")
        return table

    def attached(
        self, path: str | Path | None = None, rows: NDArray[np.intp] | None = None
    ) -> Model:
        """The model, reading its rows from the user's table; `rows` are read at once."""
        model, kept = self.model, self.model.fitted_.source
        ids = self.names.hashes.get("id")
        table_rows = TableRows(self.table(path), model.targets_, kept.live, ids, self.key)
        source = kept.reading(table_rows)
        problem = model.fitted_.chain.problem
        if problem.reads_rows:
            source = source.in_memory(problem.n_outputs)  # every step reads them again
        elif rows is not None and len(rows):
            table_rows.hold(rows)
        model.fitted_ = model.fitted_.reading(problem.reading(source))
        return model


def saved_arrays(model: Model, names: Names) -> Iterator[tuple[str, NDArray[Any]]]:
    """What a store keeps as arrays."""
    hashes = ((_NAMES + kind, array) for kind, array in names.hashes.items())
    return chain(hashes, arrays_of(model))


def saved_state(model: Model) -> dict[str, Any]:
    """What a store keeps of a model in its state."""
    counts = model.fitted_.class_counts
    listed = None if counts is None else [int(count) for count in counts]
    return {"model": record_of(model), "class_counts": listed}
