"""What a report shows of a refit store, read from it and from the user's tables."""

from pathlib import Path
from typing import Any

import numpy as np

from pilu.data.sources import open_source
from pilu.desk.matching import Matched, Rows, are_among, match
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.exceptions import WrongInput
from pilu.report.data import TableNow
from pilu.tabular.frames import Frame
from pilu.tabular.pipelines import describe_program
from pilu.tabular.scores import Score, cross_validated

_QUICKLY_SCORED = 20_000  # rows: with more, five fits take too long for a page


def refit_part(held: RefitSnapshot, table: str | Path | None) -> dict[str, Any]:
    """What the page shows of a refit store beside its log."""
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
    return {"model": model, "table": found, "score": score}


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
