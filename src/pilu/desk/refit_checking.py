"""Checks of a store of the method "refit": what follows from its log, and the data."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pilu.certify.certificate import Certificate
from pilu.certify.verify import verify
from pilu.data.sources import open_source
from pilu.desk.issued import whole_certificate
from pilu.desk.matching import Rows, match
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.estimators.verifying import verify as verify_against_data
from pilu.exceptions import RowsChanged
from pilu.refit.evidence import hash_of_release
from pilu.store.store import Store, require
from pilu.store.subjects import forgotten_people

People = Mapping[int, Sequence[Mapping[str, Any]]]

_KINDS = ("fit", "request", "release", "return", "audit", "unlearn", "add", "correct", "sync")


def check_refit(
    held: RefitSnapshot, store: Store, people: People, table: str | Path | None
) -> dict[str, bool]:
    """Check that state, arrays and log agree; with a table, also that the rows are those of it."""
    _check_history(held, people)
    _check_suppressed(held, store)
    if table is not None:
        _rows_in(held, table)
    return {
        "state_follows_from_the_log": True,
        "forgotten_people_are_those_of_the_log": True,
        "rows_are_those_of_the_table": table is not None,
    }


def _check_history(held: RefitSnapshot, people: People) -> None:
    """Every certificate holds by itself, and the model is the one of the last."""
    must = partial(require, held.folder)
    first = held.log.entries[0].record
    parameters, n_rows, fits = first["parameters_sha256"], first["n_rows"], 1
    for entry in held.log.entries:
        record = entry.record
        must(entry.kind in _KINDS, f"entry {entry.place} is of an unknown kind")
        if entry.certificate is None:
            continue
        certificate = whole_certificate(entry)
        verify(certificate)
        forgotten = sum(person["rows"] for person in people.get(entry.place, ()))
        dropped = record.get("n_dropped", record.get("n_forgotten", 0))
        added = record.get("n_added", 0)
        must(
            certificate.method == "refit"
            and certificate.scope["private"] == first["private"]
            and record["n_rows"] == n_rows + added - dropped
            and (forgotten == dropped or (entry.kind == "sync" and forgotten <= dropped)),
            f"entry {entry.place} does not follow from what was before it",
        )
        parameters, n_rows, fits = certificate.parameters_sha256, record["n_rows"], fits + 1
    must(
        hash_of_release(held.released) == parameters,
        "the model is not the one of the last certificate",
    )
    sizes = {len(held.digests), *(len(hashes) for hashes in held.names.hashes.values())}
    must(
        sizes == {n_rows} and (held.state["n_rows"], held.state["n_fits"]) == (n_rows, fits),
        "the rows are not those of the log",
    )
    hashed = (held.digests, *held.names.hashes.values())
    must(all(hashes.any(axis=1).all() for hashes in hashed), "a row has no name or no digest")


def _check_suppressed(held: RefitSnapshot, store: Store) -> None:
    """The list of forgotten people is the one of the log, and none of them is in the model."""
    with store.ledger.reading() as ledger:
        gone = forgotten_people(ledger)
    require(held.folder, held.suppressed == gone, "the forgotten people are not those of the log")
    known = held.names.by_hash("subject")
    require(held.folder, not gone & set(known), "somebody who was forgotten is in the model")


def _rows_in(held: RefitSnapshot, table: str | Path) -> Rows:
    """The rows of the model in a table, in their order: all there and unchanged.

    A table of the store stands for all of them.
    """
    rows, _ = held.read_rows(None if open_source(table).name in held.sources else table)
    matched = match(held.names, held.digests, rows)
    missing, changed = int(matched.missing.sum()), int(matched.changed.sum())
    if missing or changed:
        raise RowsChanged(
            f"of the {len(held.digests)} rows of {held.folder} {missing} are not in {table} and "
            f"{changed} are changed there. `pilu sync` makes the model follow the table."
        )
    return rows.take(matched.place)


def check_release_against_data(
    held: RefitSnapshot, certificate: Certificate, table: str | Path
) -> bool:
    """Fit from scratch on the rows of a table, and compare the release with its certificate.

    False for an earlier release: its rows are not known any more.
    """
    last = held.log.certified
    if last is None or last.certificate_sha256 != certificate.sha256:
        return False
    ordered = _rows_in(held, table)
    model, kept = held.forgetful(ordered), ordered.table
    verify_against_data(
        certificate,
        model,
        kept.X,
        kept.y,
        sample_weight=kept.weights,
        subjects=None if kept.groups is None else np.asarray(kept.groups),
    )
    return True
