"""Fit a table into a store, and fit again on the rows of a plan."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from pilu.certify.certificate import sha256_of
from pilu.chains.chain import gaussian_source
from pilu.data.source import Source
from pilu.data.sources import open_source
from pilu.desk.desk import Desk
from pilu.desk.differences import refuse_forgotten
from pilu.desk.issued import kept_in_log
from pilu.desk.learned import Learned, changed_score
from pilu.desk.matching import Rows, are_among
from pilu.desk.model_files import dump_model, foreign_names
from pilu.desk.programs import describe_default, describe_file, program_of
from pilu.desk.refit_plans import Plan, came_back
from pilu.desk.refit_snapshot import RefitSnapshot, saved_arrays
from pilu.estimators.refitted import Done, Refitted, run_program
from pilu.exceptions import WrongInput
from pilu.refit.evidence import hash_of_release
from pilu.refit.fingerprints import fingerprint
from pilu.refit.people import People
from pilu.refit.refusals import check_program
from pilu.refit.settings import Options
from pilu.store.log import Entry
from pilu.store.store import Change, Store
from pilu.store.subjects import leaf_of
from pilu.tabular.frames import frame_of
from pilu.tabular.laying_out import lay_out
from pilu.tabular.layout import Layout

_NOBODY = np.array([], dtype=np.intp)


@dataclass(frozen=True)
class Heritage:
    """The key of a new store, and the people who are not to be learned again."""

    key: bytes
    gone: frozenset[bytes]
    named_by: str | None = None  # the column of people in the store before

    @classmethod
    def of(cls, successor_of: str | Path | None) -> "Heritage":
        """A new key and nobody, or those of the store before."""
        if successor_of is None:
            return cls(secrets.token_bytes(32), frozenset())
        with Desk.open(successor_of) as before:
            gone = before.forgotten()
            return cls(before.store.key, gone.names, gone.columns.subject or gone.columns.id)

    def check_named_by(self, column: str | None) -> None:
        """Refuse other names, by which nobody who was forgotten would be recognised."""
        if self.gone and column != self.named_by:
            raise WrongInput(
                f"people must be named by {self.named_by!r} as in the store before, got {column!r}:"
                " those who were forgotten would not be recognised. Name the same column, and "
                "rename it in the table if it was renamed there."
            )


def fit_store(
    folder: Path,
    table: str | Path,
    columns: dict[str, Any],
    how: dict[str, Any],
    options: dict[str, float],
    heritage: Heritage,
    returned: Sequence[str],
    *,
    without_forgotten: bool,
) -> tuple[Store, Learned]:
    """Fit a program on a table, score it, and make a store of it.

    `columns` are arguments of `lay_out`, `how` makes the program.
    """
    checked, key = Options.checked(**options), heritage.key
    heritage.check_named_by(columns["subject"] or columns["id"])
    source = open_source(table)
    named = [columns[name] for name in ("id", "subject") if columns[name] is not None]
    content = _read(source, [*named, *columns["categories"], *columns["words"]])
    _, gone = came_back(returned, heritage.gone, key)
    layout, program, rows = _laid_out(content, columns, how, key)
    hidden = are_among(rows.names.hashes["subject"], gone)
    if hidden.any():  # they have no say in what the columns are
        refuse_forgotten(rows, gone, leave_out=without_forgotten)
        layout, program, rows = _laid_out(content.filter(~hidden), columns, how, key)
    check_program(program)
    rows = rows.take(np.arange(len(rows)))
    learned = Learned.of(program, rows, layout, how)
    done = _run(program, rows, checked)
    released = dump_model(done.release.estimator)
    state = {
        "method": "refit",
        "sources": [source.name],
        "layout": layout.record(),
        "program": how,
        "program_sha256": fingerprint(clone(program)),
        "trusted": foreign_names(released),
        "options": options,
        "n_rows": len(rows),
        "n_fits": 1,
        "releases": [0, 0],  # handed out of the present parameters, and of earlier ones
    }
    entry = {
        "kind": "fit",
        "n_rows": len(rows),
        "n_people": learned.n_people,
        "n_features": len(layout.kinds),
        "model": how.get("model", how.get("function")),
        "score": learned.score_record(),
        "private": done.release.private,
        "parameters_sha256": hash_of_release(done.release.estimator),
    }
    people = [leaf_of(name) for name in sorted(gone)]
    arrays = saved_arrays(rows, gone, released)
    return Store.create(folder, key, state, arrays, entry, people=people), learned


def _laid_out(
    content: Any, columns: dict[str, Any], how: dict[str, Any], key: bytes
) -> tuple[Layout, Any, Rows]:
    """What the columns of a table are, the program for them, and the rows."""
    layout = lay_out(content, **columns, model=how.get("model", "auto"))
    program = program_of(how, layout)
    rows = Rows.of(frame_of(content, layout), key, labels=is_classifier(program))
    return layout, program, rows


def _read(source: Source, texts: Sequence[str]) -> Any:
    """All rows; `lay_out` reports columns that are not there, all of them at once."""
    try:
        return source.read(as_text=texts)
    except WrongInput:
        there = source.schema().names
        if set(texts) <= set(there):
            raise
        return source.read(as_text=[name for name in texts if name in there])


def refit(change: Change, held: RefitSnapshot, plan: Plan) -> Entry:
    """Run the program on the rows of a plan from the last release, and save it."""
    options, program, before = held.options, held.program, held.refitted()
    table = plan.rows.table
    done = _run(program, plan.rows, options, before)
    model = done.release.estimator
    certificate = done.certificate(program, table, _NOBODY, before, options)
    now, earlier = held.state["releases"]
    people = [
        leaf_of(name, rows=plan.forgotten[name], exposure_sha256=_hash(plan, name))
        for name in sorted(plan.forgotten)
    ]
    return change.save(
        saved_arrays(plan.rows, plan.suppressed, dump_model(model)),
        {
            "n_rows": len(plan.rows),
            "n_fits": held.state["n_fits"] + 1,
            "releases": [0, earlier + now],
            **plan.state,
        },
        {
            **plan.entry,
            "n_rows": len(plan.rows),
            "score": changed_score(held.released, model, table),
            **kept_in_log(certificate),
        },
        people=people,
        outbox={"certificate": certificate.to_json(), "exposures": dict(plan.exposures)},
    )


def score_after(held: RefitSnapshot, plan: Plan) -> dict[str, Any] | None:
    """The score before and after a plan, as the log would keep it."""
    done = _run(held.program, plan.rows, held.options, held.refitted())
    return changed_score(held.released, done.release.estimator, plan.rows.table)


def describe_how(model: str, alpha: float | str, pipeline: str | None) -> dict[str, Any]:
    """How to make the program of a store."""
    return describe_default(model, alpha) if pipeline is None else describe_file(pipeline)


def _run(program: Any, rows: Rows, options: Options, before: Refitted | None = None) -> Done:
    everybody = People((), (), rows.table)  # only shaped noise asks about people
    return run_program(program, rows.table, options, everybody, gaussian_source(None, 0), before)


def _hash(plan: Plan, name: bytes) -> str:
    return sha256_of(plan.exposures[name.hex()])
