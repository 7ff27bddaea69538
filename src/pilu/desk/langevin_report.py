"""What a report shows of a Langevin store, read from it and from the user's table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pilu.data.tables import is_there
from pilu.desk.costs import quote_everyone
from pilu.desk.langevin_snapshot import LangevinSnapshot
from pilu.desk.rewriting import Forgotten
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.report.data import Chain, Costs, TableNow

_KINDS = {"logistic": "logistic regression", "huber": "Huber regression"}


def chain_part(
    held: LangevinSnapshot,
    gone: Forgotten,
    more_like_the_last: int | None,
    table: str | Path | None,
    people: int,
) -> dict[str, Any]:
    """What the page shows of a Langevin store beside its log; at most `people` are quoted."""
    state, fitted = held.state, held.model.fitted_
    found: TableNow | None = None
    costs: Costs | None = None
    path = Path(table or state["table"])
    if table is not None or is_there(path):
        found = TableNow(len(gone.still_in(path)))
        costs = _quoted(held, path, people, named=table is not None)
    learning, alpha = fitted.chain.schedule.segments[0], fitted.chain.problem.alpha
    steps = "at stationarity" if learning.is_stationary else f"in {learning.steps:,} steps"
    kind = state["model"]["kind"]
    model = {
        "kind": _KINDS.get(kind, kind),
        "facts": [
            f"outputs: {fitted.theta.shape[1]}",
            f"alpha: {alpha:.4g}",
            f"step size: {fitted.chain.step_size:.4g}",
            f"learned {steps} with noise {learning.noise:.4g}",
        ],
        "n_rows": state["n_rows"],
        "rows_left": int(fitted.source.live.sum()),
        "n_features": len(state["features"]),
        "table": path.name,
    }
    chain = Chain(
        budget=(float(state["budget"][0]), float(state["budget"][1])),
        spent=fitted.spent,
        learning_noise=learning.noise,
        more_like_the_last=more_like_the_last,
        costs=costs,
    )
    return {"model": model, "table": found, "chain": chain}


def _quoted(held: LangevinSnapshot, path: Path, people: int, *, named: bool) -> Costs | None:
    """What deletions would cost, without names; None if a table that nobody named is of no use."""
    try:
        return replace(quote_everyone(held, path, at_most=people), names=())
    except (WrongInput, StoreDamaged):
        if named:
            raise
        return None
