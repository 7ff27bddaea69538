"""Collect what the report page shows of a store."""

from dataclasses import fields
from pathlib import Path

from pilu.certify.certificate import library_versions
from pilu.data.tables import is_there
from pilu.deletion.costs import price_everybody
from pilu.deletion.desk import Desk
from pilu.deletion.rewriting import still_in_table
from pilu.deletion.store import now
from pilu.report.contents import Contents, Costs

__all__ = ["contents_of"]

_KINDS = {"logistic": "logistic regression", "huber": "Huber regression"}


def contents_of(desk: Desk, table: Path | None, people: int) -> Contents:
    """Everything that the page shows; without the table, everything but the costs."""
    store = desk.store
    snapshot = store.read()
    state, chain = snapshot.state, snapshot.model.fitted_.chain
    still, costs = None, None
    path = desk.table(table)
    if table is not None or is_there(path):  # a table that is named must exist
        still = len(still_in_table(snapshot, store.key, path))
        prices = price_everybody(store, path, at_most=people)
        costs = Costs(**{f.name: getattr(prices, f.name) for f in fields(Costs)})  # no names
    learning = chain.schedule.segments[0]
    return Contents(
        store=store.folder.resolve().name,
        made=now(),
        versions=library_versions(),
        model={
            "kind": _KINDS.get(state["model"]["kind"], state["model"]["kind"]),
            "n_rows": state["n_rows"],
            "rows_left": int(snapshot.model.fitted_.source.live.sum()),
            "n_features": len(state["features"]),
            "n_outputs": int(chain.theta.shape[1]),
            "alpha": chain.problem.alpha,
            "step_size": chain.step_size,
            "learning_steps": learning.steps,
            "learning_noise": learning.noise,
            "table": path.name,
        },
        budget=(float(state["budget"][0]), float(state["budget"][1])),
        spent=tuple(state["model"]["spent"]["total"]),
        entries=[entry.record for entry in snapshot.log.entries],
        head=str(snapshot.log.head),
        pending=snapshot.log.pending,
        still_in_table=still,
        costs=costs,
    )
