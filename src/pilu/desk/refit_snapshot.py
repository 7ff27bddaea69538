"""A store of the method "refit" at one time: what it knows of its rows, and the released model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from pilu.data.names import Hashes, Names
from pilu.data.sources import open_source
from pilu.data.table import Columns
from pilu.desk.matching import Rows, are_among, listed_bytes
from pilu.desk.model_files import load_model
from pilu.desk.programs import program_of
from pilu.desk.rewriting import Forgotten
from pilu.estimators.forgetful import Forgetful
from pilu.estimators.refitted import Refitted
from pilu.estimators.requests import RowBook
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.refit.schema import Schema
from pilu.refit.settings import Options
from pilu.store.log import Log
from pilu.store.store import Snapshot
from pilu.tabular.frames import frame_of
from pilu.tabular.layout import Layout


@dataclass(frozen=True)
class RefitSnapshot:
    """The state, the keyed names and digests of the rows in the model, and the log."""

    folder: Path
    key: bytes = field(repr=False)
    state: Mapping[str, Any]
    names: Names
    digests: Hashes = field(repr=False)
    suppressed: frozenset[bytes] = field(repr=False)  # keyed names of forgotten people
    model_bytes: bytes = field(repr=False)
    log: Log

    @classmethod
    def of(cls, snapshot: Snapshot) -> "RefitSnapshot":
        """What the arrays and the state of a store mean."""
        try:
            arrays = snapshot.arrays
            names = {
                kind: arrays[f"names_{kind}"]
                for kind in ("id", "subject")
                if f"names_{kind}" in arrays
            }
            gone = frozenset(row.tobytes() for row in arrays["suppressed"])
            model = arrays["released"].tobytes()
            key, log = snapshot.key, snapshot.log
            digests = arrays["digests"]
            return cls(
                snapshot.folder, key, snapshot.state, Names(names), digests, gone, model, log
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"the store's state does not fit together: {error!r}.") from None

    @cached_property
    def layout(self) -> Layout:
        """What the columns of the table are."""
        return Layout.from_record(self.state["layout"])

    @cached_property
    def program(self) -> Any:
        """The unfitted estimator."""
        return program_of(self.state["program"], self.layout, self.state["program_sha256"])

    @cached_property
    def released(self) -> Any:
        """The fitted estimator of the last release."""
        if self.state["program"]["kind"] == "file":
            self.program  # noqa: B018  # makes the user's own classes known
        return load_model(self.model_bytes, self.state["trusted"])

    @property
    def options(self) -> Options:
        """What was asked for at the fit."""
        return Options.checked(**self.state["options"])

    @property
    def sources(self) -> Sequence[str]:
        """Where the rows are, in order; rows of later ones replace those of the same id."""
        return list(self.state["sources"])

    def forgotten(self, names: frozenset[bytes] | None = None) -> Forgotten:
        """Who was forgotten, or some people, to find their rows in a table."""
        layout = self.layout
        columns = Columns((), layout.id, layout.subject, features=(next(iter(layout.kinds)),))
        return Forgotten(self.suppressed if names is None else names, self.key, columns)

    def refitted(self) -> Refitted:
        """The state of a `Forgetful` without its rows."""
        n = len(self.digests)
        schema = Schema("frame", 0, (), (), np.dtype(float), ())  # of no rows
        return Refitted(
            None,
            schema,
            RowBook(None, None, self.key),
            np.ones(n, dtype=bool),
            self.digests,
            self.key,
            released=self.released,
            n_releases=int(self.state["n_fits"]),
            program=self.program,
            options=self.options,
            latest=None if self.log.certified is None else self.log.certified.certificate_sha256,
        )

    def forgetful(self, rows: Rows) -> Forgetful:
        """A `Forgetful` with the rows of the store, in their order."""
        model = Forgetful(self.program, **self.state["options"])
        model.fitted_ = replace(self.refitted(), table=rows.table, schema=rows.table.schema)
        return model

    def read_rows(self, table: str | Path | None = None) -> tuple[Rows, list[str]]:
        """The rows of the user's table, or of all tables of the store; and which are not there."""
        if table is not None:
            return self.rows_of(table), []
        found: Rows | None = None
        lost = []
        for where in self.sources:
            source = open_source(where)
            if len(self.sources) > 1 and not source.exists():
                lost.append(source.name)
                continue
            rows = self.rows_of(where)
            found = rows if found is None else _replaced(found, rows, self.suppressed)
        if found is None:
            raise WrongInput(f"none of the store's tables is there: {', '.join(lost)}.")
        return found, lost

    def rows_of(self, table: str | Path) -> Rows:
        """The rows of one table."""
        layout = self.layout
        content = open_source(table).read(layout.columns, as_text=layout.texts)
        return Rows.of(frame_of(content, layout), self.key, labels=is_classifier(self.program))


def _replaced(first: Rows, later: Rows, gone: frozenset[bytes]) -> Rows:
    """Rows of two tables; with ids, a row of the later one replaces the one of the same id.

    Rows of forgotten people replace nobody's: they were left out when their table was added.
    """
    both = first.followed_by(later)
    if "id" not in both.names.hashes:
        return both
    ids = listed_bytes(both.names.hashes["id"])
    hidden = are_among(both.names.hashes["subject"], gone)
    last = {name: place for place, name in enumerate(ids) if not hidden[place]}
    for place in np.flatnonzero(hidden).tolist():
        last.setdefault(ids[place], place)
    if len(last) == len(both):
        return both
    return both.take(np.array(sorted(last.values()), dtype=np.intp))


def saved_arrays(
    rows: Rows, suppressed: frozenset[bytes], model: bytes
) -> list[tuple[str, NDArray[Any]]]:
    """What a store keeps as arrays."""
    gone = np.frombuffer(b"".join(sorted(suppressed)), dtype=np.uint8).reshape(-1, 16)
    names = [(f"names_{kind}", values) for kind, values in rows.names.hashes.items()]
    return [
        *names,
        ("digests", rows.table.digests),
        ("suppressed", gone),
        ("released", np.frombuffer(model, dtype=np.uint8)),
    ]
