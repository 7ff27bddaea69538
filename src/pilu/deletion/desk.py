"""The desk: fit a table into a store, quote and forget people, and write everything down.

A store is a folder:

    ledger.sqlite   the log, the state, names of rows as keyed hashes, the queue
    arrays-N/       statistics, eigenbasis, parameters and digests of the N-th generation
    key             32 random bytes: names and rows are hashed with it

Forgetting writes the arrays of the next generation, then turns the ledger to it in one transaction,
then removes the old ones. Killed before the turn the store is as before, after it as after; the
next one to open it clears up.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import Certificate
from pilu.deletion.arrays import drop_others, read_arrays, write_arrays, write_durably
from pilu.deletion.budget import Budget, is_within, left_of, refusal
from pilu.deletion.fitting import fit_table
from pilu.deletion.lazy_rows import LazyRows
from pilu.deletion.ledger import Ledger
from pilu.deletion.release import release_record
from pilu.deletion.snapshot import Model, restored, snapshot
from pilu.deletion.tables import Columns, Table, feature_batches, open_table
from pilu.estimators.quote import Quote
from pilu.exceptions import AlreadyForgotten, BudgetSpent, StoreDamaged

__all__ = ["Desk"]

_FORMAT = "pilu.store/1"


@dataclass(frozen=True)
class _Opened:
    """The store at one moment: its state and the model of it."""

    state: dict[str, Any]
    model: Model

    @property
    def columns(self) -> Columns:
        told = self.state["columns"]
        features = tuple(self.state["features"])
        return Columns(tuple(told["target"]), told["id"], told["subject"], features)


class Desk:
    """An open store."""

    def __init__(self, folder: Path, ledger: Ledger, key: bytes) -> None:
        self.folder, self._ledger, self._key = folder, ledger, key

    @classmethod
    def create(
        cls,
        folder: str | Path,
        table: str | Path,
        columns: Columns,
        *,
        classify: bool = False,
        budget: Budget | None = None,
        **parameters: Any,
    ) -> "Desk":
        """Fit a table into a new store; `parameters` are the estimator's."""
        if columns.subject is None and columns.id is None:
            raise ValueError(
                "a subject or an id column must be given: without names nobody can be forgotten."
            )
        folder, opened = Path(folder), open_table(table, columns)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} must be a new or empty folder: it holds files already.")
        key = secrets.token_bytes(32)
        model, names = fit_table(opened, key, classify=classify, **parameters)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / "key", key)
            os.chmod(folder / "key", 0o600)
        except OSError as error:
            raise StoreDamaged(f"{folder} cannot be written: {error.strerror}.") from None
        desk = cls(folder, Ledger.create(folder / "ledger.sqlite"), key)
        with desk._ledger.writing() as ledger:
            if "subject" not in names:  # every row is somebody
                names["subject"] = names["id"]
            for kind, found in names.items():
                ledger.add_names(
                    kind, ((desk._hash(kind, name), k) for k, name in enumerate(found))
                )
            desk._turn_to(
                model,
                {
                    "format": _FORMAT,
                    "generation": -1,
                    "table": str(Path(table).resolve()),
                    "features": list(opened.features),
                    "columns": {
                        "target": list(columns.target),
                        "id": columns.id,
                        "subject": columns.subject,
                    },
                    "n_rows": opened.n_rows,
                    "budget": (budget or Budget()).limits(opened.n_rows),
                },
                {"kind": "fit", "n_rows": opened.n_rows, "n_features": len(opened.features)},
            )
        return desk

    @classmethod
    def open(cls, folder: str | Path, *, patience: float = 30.0) -> "Desk":
        """Open a store, and clear up after a process that was killed."""
        folder = Path(folder)
        if not (folder / "ledger.sqlite").is_file():
            raise ValueError(f"{folder} must be a store, got a folder without ledger.sqlite.")
        try:
            key = (folder / "key").read_bytes()
        except OSError as error:
            raise StoreDamaged(f"{folder / 'key'} cannot be read: {error.strerror}.") from None
        if len(key) != 32:
            raise StoreDamaged(f"{folder / 'key'} must have 32 bytes, got {len(key)}.")
        desk = cls(folder, Ledger(folder / "ledger.sqlite", patience=patience), key)
        with desk._ledger.writing() as ledger:
            state = ledger.state
            if state.get("format") != _FORMAT:
                raise StoreDamaged(f"{folder} was written by another version of pilu.")
            drop_others(folder, state["generation"])
        return desk

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def quote(
        self, subjects: Sequence[Any], table: str | Path | None = None, **options: Any
    ) -> Quote:
        """What forgetting each of the subjects would cost; options as in `LangevinRidge.quote`."""
        with self._ledger.reading():
            opened = self._load()
            groups = [self._positions("subject", subject) for subject in subjects]
            self._attach(opened, table, np.concatenate(groups) if groups else np.array([], int))
            return opened.model.quote([group.tolist() for group in groups], **options)

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's predictions."""
        with self._ledger.reading():
            return np.asarray(self._load().model.predict(X))

    def predict_table(self, rows: str | Path, out: str | Path) -> int:
        """Predictions for the rows of a file, into a CSV, batch after batch; how many."""
        with self._ledger.reading():
            opened, n = self._load(), 0
            with Path(out).open("w", encoding="utf-8") as file:
                names = opened.columns.target
                file.write(",".join(names) + "\n")
                for X in feature_batches(rows, opened.state["features"]):
                    found = np.asarray(opened.model.predict(X)).reshape(len(X), -1)
                    file.writelines(",".join(map(str, line)) + "\n" for line in found.tolist())
                    n += len(X)
            return n

    def release(self) -> dict[str, Any]:
        """Coefficients only, rounded to a grid, bound to the last certificate; logged."""
        with self._ledger.writing() as ledger:
            opened = self._load()
            record = release_record(opened.model, opened.state["features"], _last(ledger))
            bound = {name: record[name] for name in ("sha256", "certificate_sha256", "grid")}
            ledger.append({"kind": "release", **bound, "time": _now()})
        return record

    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        with self._ledger.reading() as ledger:
            return left_of(ledger.state)

    # Forgetting

    def unlearn(
        self,
        subject: Any,
        *,
        epsilon: float = 1.0,
        table: str | Path | None = None,
        redraw_if_needed: bool = False,
        **options: Any,
    ) -> Certificate:
        """Forget all rows of a subject as one group.

        `deliver` is handed the certificate, evidence included, before anything is changed: if it
        raises, nothing is.
        """
        return self._forget(
            lambda: {self._hash("subject", subject): self._positions("subject", subject)},
            epsilon=epsilon,
            table=table,
            redraw_if_needed=redraw_if_needed,
            **options,
        )

    def request(self, subject: Any, due: date | None = None) -> None:
        """Queue a subject, to be forgotten by the next `run`."""
        with self._ledger.writing() as ledger:
            self._positions("subject", subject)  # is there anybody of that name?
            hashed = self._hash("subject", subject)
            when = None if due is None else due.isoformat()
            ledger.ask(hashed, when, _now())
            ledger.append({"kind": "request", "subject": hashed.hex(), "due": when, "time": _now()})

    def pending(self) -> list[tuple[str, str | None]]:
        """Hashes of those who wait and their dates, the earliest first."""
        with self._ledger.reading() as ledger:
            return [(name.hex(), due) for name, due, _ in ledger.pending()]

    def run(self, **options: Any) -> Certificate | None:
        """Forget everybody who waits, as one group; None if nobody does."""

        def waiting() -> dict[bytes, NDArray[np.intp]]:
            return {
                name: np.array(self._ledger.positions("subject", name), dtype=np.intp)
                for name, _, _ in self._ledger.pending()
            }

        if not self.pending():
            return None
        return self._forget(waiting, **options)

    def redraw(self, table: str | Path | None = None, **options: Any) -> Certificate:
        """Draw the parameters afresh from the rows that are left: epsilon = 0, a full budget."""
        return self._forget(dict, method="redraw", table=table, **options)

    def _forget(
        self,
        whom: Callable[[], dict[bytes, NDArray[np.intp]]],
        *,
        table: str | Path | None = None,
        redraw_if_needed: bool = False,
        method: str = "langevin",
        deliver: Callable[[Certificate], object] | None = None,
        **options: Any,
    ) -> Certificate:
        """Forget whoever `whom` names within the transaction: hashes and positions."""
        with self._ledger.writing() as ledger:
            opened, subjects = self._load(), whom()
            rows = np.unique(np.concatenate([*subjects.values(), np.array([], dtype=np.intp)]))
            self._attach(opened, table, rows)
            given = rows.tolist() if len(rows) else None
            certificate = opened.model.unlearn(given, method=method, **options)
            if not is_within(certificate, opened.state):
                if not redraw_if_needed:
                    raise BudgetSpent(refusal(self.folder, certificate, opened.state))
                with_rows = self._load()
                self._attach(with_rows, table, rows)
                opened = with_rows
                certificate = opened.model.unlearn(given, method="redraw")
            entry = {
                "kind": "unlearn" if len(rows) else "redraw",
                "subjects": sorted(name.hex() for name in subjects),
                "certificate": _plain(certificate),
            }
            self._turn_to(opened.model, opened.state, entry)
            ledger.forget_positions(rows)
            ledger.answered(subjects)
            if deliver is not None:  # before anything is true: if it fails, nothing was changed
                deliver(certificate)
            generation = ledger.state["generation"]
        drop_others(self.folder, generation)
        return certificate

    # Inside

    def _load(self) -> _Opened:
        state = self._ledger.state
        arrays = read_arrays(self.folder, state["generation"], state["arrays"])
        return _Opened(state, restored(state["model"], arrays, self._key))

    def _turn_to(self, model: Model, state: dict[str, Any], entry: dict[str, Any]) -> None:
        """Write the next generation, and let the ledger speak of it."""
        kept, generation = snapshot(model), state["generation"] + 1
        hashes = write_arrays(self.folder, generation, kept.arrays)
        changed = {"generation": generation, "arrays": hashes, "model": kept.record}
        self._ledger.set_state(state | changed)
        self._ledger.append({**entry, "time": _now()})

    def _attach(self, opened: _Opened, table: str | Path | None, rows: NDArray[np.intp]) -> None:
        """Let the model read its rows from the user's table; those of a request at once."""
        found = open_table(table or opened.state["table"], opened.columns)
        if list(found.features) != opened.state["features"]:
            raise ValueError(f"{found.path} must have the columns of the fit, got others.")
        model = opened.model
        n_outputs = model._theta.shape[1]
        lazy = LazyRows(found, self._places(found, opened), _encoder(model), n_outputs)
        if len(rows):
            lazy.hold(rows)
        source = model._fitted.source.reading(lazy.X, lazy.Y)
        chain = model._fitted.chain
        model._fitted = model._fitted.reading(chain.problem.reading(source))

    def _places(self, table: Table, opened: _Opened) -> NDArray[np.intp]:
        """Where each row of the fit stands in the table as it is now; -1 for nowhere."""
        live = opened.model._fitted.source.live
        places = np.full(len(live), -1)
        if opened.columns.id is not None:  # rows may have come, gone or moved
            known = dict(self._ledger.all_names("id"))
            for some, ids, _ in table.names():
                for place, name in zip(some, ids or (), strict=True):
                    position = known.get(self._hash("id", name))
                    if position is None:
                        continue
                    if places[position] >= 0:
                        raise ValueError(f"{table.path}: ids must be unique, got {name!r} twice.")
                    places[position] = place
            return places
        if table.n_rows == len(live):
            return np.arange(len(live))
        if table.n_rows == int(live.sum()):
            places[live] = np.arange(table.n_rows)
            return places
        raise ValueError(
            f"{table.path} must have the {len(live)} rows of the fit, or the {int(live.sum())} "
            f"that are left, in their order, got {table.n_rows}. With an id column rows may be "
            "missing."
        )

    def _positions(self, kind: str, name: Any) -> NDArray[np.intp]:
        hashed = self._hash(kind, name)
        found = self._ledger.positions(kind, hashed)
        if found:
            return np.array(found, dtype=np.intp)
        if self._ledger.is_forgotten(kind, hashed):
            raise AlreadyForgotten(
                f"{kind} {name!r} has already been forgotten; nothing was changed."
            )
        raise ValueError(f"{kind} must be in the table that was fitted, got unknown {name!r}.")

    def _hash(self, kind: str, name: Any) -> bytes:
        # By its text: a command line knows no other.
        return hashlib.blake2b(f"{kind}:{name}".encode(), key=self._key, digest_size=32).digest()

    @contextmanager
    def log(self) -> Iterator[Ledger]:
        """The ledger, to be read."""
        with self._ledger.reading() as ledger:
            yield ledger


def _last(ledger: Ledger) -> Certificate | None:
    """The last certificate in the log."""
    for entry in reversed(ledger.entries()):
        if "certificate" in entry.record:
            return Certificate.from_json(json.dumps(entry.record["certificate"]))
    return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _encoder(model: Model) -> Any:
    def encode(y: NDArray[Any]) -> NDArray[np.float64]:
        classes = getattr(model, "classes_", None)
        if classes is not None:
            return np.asarray(y[:, None] == classes, dtype=np.float64)
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    return encode


def _plain(certificate: Certificate) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(certificate.without_evidence().to_json())
    return found
