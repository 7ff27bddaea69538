"""What a report needs, read from a store and, if they are there, from the user's tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pilu.certify.certificate import library_versions
from pilu.data.sources import open_source
from pilu.data.tables import is_there
from pilu.desk.costs import Costs, quote_everyone
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.langevin_snapshot import LangevinSnapshot
from pilu.desk.refit_desk import RefitDesk
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.desk.rows import Matched, Rows, are_among, match
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.report.data import Chain, Contents, TableNow
from pilu.store.store import now
from pilu.tabular.frames import Frame
from pilu.tabular.pipelines import describe_program
from pilu.tabular.scores import Score, cross_validated

__all__ = ["Chain", "Contents", "TableNow", "read_contents"]

_KINDS = {"logistic": "logistic regression", "huber": "Huber regression"}
_QUICKLY_SCORED = 20_000  # rows: with more, five fits take too long for a page


def read_contents(desk: Desk, table: str | Path | None = None, people: int = 500) -> Contents:
    """Everything that the page shows; without the table, everything but what follows from it.

    A table that is named must exist. In a Langevin store at most `people` are quoted, drawn at
    random.
    """
    if isinstance(desk, RefitDesk):
        return _read_refit(desk, table)
    if isinstance(desk, LangevinDesk):
        return _read_chain(desk, table, people)
    raise WrongInput(f"the method of the store must be refit or langevin, got {desk.method!r}.")


def _read_refit(desk: RefitDesk, table: str | Path | None) -> Contents:
    held = desk.read()
    found: TableNow | None = None
    score: Score | None = None
    rows = _rows_of(held, table)
    if rows is not None:
        matched = match(held.names, held.digests, rows)
        found = _compared(held, rows, matched)
        score = _scored(held, rows, matched)
    first = held.log.entries[0].record
    how = held.state["program"]
    facts = [f"your own pipeline, {how.get('function')}"]
    if how["kind"] == "default":
        facts = list(describe_program(held.layout, how["model"], how["alpha"]))
    kind = "classification" if held.layout.task == "class" else "regression"
    model = {
        "kind": f"{kind}, refitted after every change",
        "facts": facts,
        "n_rows": first["n_rows"],
        "rows_left": held.state["n_rows"],
        "n_features": first["n_features"],
        "table": ", ".join(Path(name).name for name in held.sources),
    }
    return _contents(desk, model, found, score, None)


def _rows_of(held: RefitSnapshot, table: str | Path | None) -> Rows | None:
    """The rows of the user's tables; None if they are not there, or not as they were."""
    if table is not None:
        return held.rows_of(table)
    try:
        if not all(open_source(where).exists() for where in held.sources):
            return None
        return held.read_rows()[0]
    except (WrongInput, OSError):  # the page says that they could not be read
        return None


def _compared(held: RefitSnapshot, rows: Rows, matched: Matched) -> TableNow:
    hidden = are_among(rows.names.hashes["subject"], held.suppressed)
    return TableNow(
        n_forgotten=int(hidden.sum()),
        n_new=int((~hidden[matched.new]).sum()),
        n_changed=int(matched.changed.sum()),
        n_missing=int(matched.missing.sum()),
    )


def _scored(held: RefitSnapshot, rows: Rows, matched: Matched) -> Score | None:
    """The score of the program on the rows of the model, if they are all there and not too many."""
    if matched.missing.any() or matched.changed.any() or len(held.digests) > _QUICKLY_SCORED:
        return None
    kept = rows.take(matched.place)
    table = kept.table
    subjects = None if held.layout.subject is None else list(map(str, kept.people))
    try:
        frame = Frame(table.X, np.asarray(table.y), table.weights, None, subjects)
        return cross_validated(held.program, frame, held.layout)
    except ValueError:  # too few people, or a pipeline that cannot be split
        return None


def _read_chain(desk: LangevinDesk, table: str | Path | None, people: int) -> Contents:
    held = desk.read()
    state, fitted = held.state, held.model.fitted_
    found: TableNow | None = None
    costs: Costs | None = None
    path = Path(table or state["table"])
    if table is not None or is_there(path):
        found = TableNow(len(desk.forgotten().still_in(path)))
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
        more_like_the_last=desk.more_like_the_last(),
        costs=costs,
    )
    return _contents(desk, model, found, None, chain)


def _quoted(held: LangevinSnapshot, path: Path, people: int, *, named: bool) -> Costs | None:
    """What deletions would cost, without names; None if a table that nobody named is of no use."""
    try:
        return replace(quote_everyone(held, path, at_most=people), names=())
    except (WrongInput, StoreDamaged):
        if named:
            raise
        return None


def _contents(
    desk: Desk,
    model: dict[str, Any],
    table: TableNow | None,
    score: Score | None,
    chain: Chain | None,
) -> Contents:
    log = desk.log()
    return Contents(
        store=desk.folder.resolve().name,
        made=now(),
        versions=library_versions(),
        method=desk.method,
        model=model,
        entries=[entry.record for entry in log.entries],
        head=str(log.head),
        n_people_forgotten=len(desk.forgotten().names),
        pending=desk.pending(),
        undelivered=desk.undelivered(),
        table=table,
        score=score,
        chain=chain,
    )
