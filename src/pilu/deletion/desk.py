"""The desk: fit a table into a store, quote and forget people, and write everything down."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import Certificate, hash_of_parameters
from pilu.certify.coarse import CoarseExact, CoarseTheorem, coarse_accountant
from pilu.data.names import hash_of
from pilu.data.tables import Columns, open_table
from pilu.data.targets import ClassTargets
from pilu.deletion.attaching import recollected, with_rows
from pilu.deletion.budget import Budget, is_within, left_of, refusal
from pilu.deletion.fitting import fit_table
from pilu.deletion.history import forgotten, latest_certificate, pending
from pilu.deletion.ledger import Ledger
from pilu.deletion.receipt import Receipt
from pilu.deletion.release import release_record
from pilu.deletion.snapshot import Model, loss_of
from pilu.deletion.store import Change, Moment, Store, check_is_free
from pilu.estimators.outputs import LangevinClassification
from pilu.estimators.quote import Quote
from pilu.exceptions import AlreadyForgotten, BudgetSpent

__all__ = ["Desk"]

Positions = NDArray[np.intp]
Whom = dict[bytes, Positions]  # by the hash of the name


class Desk:
    """An open store, and what can be done with it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    def create(
        cls,
        folder: str | Path,
        table: str | Path,
        columns: Columns,
        *,
        budget: Budget | None = None,
        loss: str = "squared",
        scheduler: str | None = None,
        memory: int | None = None,
        **parameters: Any,
    ) -> "Desk":
        """Fit a table into a new store; `parameters` are the estimator's.

        `loss` is "squared" (ridge), "logistic" or "huber".

        `scheduler` is "local" or the address of a dask scheduler, `memory` a number of bytes for a
        fit in this process.
        """
        if columns.subject is None and columns.id is None:
            raise ValueError(
                "a subject or an id column must be given: without names nobody can be forgotten."
            )
        # As it is written down: workers of a cluster may stand in other folders.
        folder, opened = Path(folder), open_table(Path(table).resolve(), columns)
        check_is_free(folder)
        key = secrets.token_bytes(32)
        fitted = fit_table(
            opened, columns, key, loss=loss, scheduler=scheduler, memory=memory, **parameters
        )
        chain = fitted.model.fitted_.chain
        limits = (budget or Budget()).limits(opened.n_rows)
        state = {
            "table": str(Path(table).resolve()),
            "features": list(opened.features),
            "columns": {
                "target": list(columns.target),
                "id": columns.id,
                "subject": columns.subject,
                "classify": columns.classify,
            },
            "n_rows": opened.n_rows,
            "budget": limits,
            "class_counts": fitted.class_counts,
        }
        entry = {
            "kind": "fit",
            "n_rows": opened.n_rows,
            "n_features": len(opened.features),
            "budget": limits,
            "loss": loss_of(chain.problem),
            "alpha": chain.problem.alpha,
            "step_size": chain.step_size,
            "learning": [[s.steps, s.noise] for s in chain.schedule.segments],
            "private": chain.private,
            "parameters_sha256": hash_of_parameters(chain.theta, key),
        }
        return cls(Store.create(folder, key, fitted.model, fitted.names, state, entry))

    @classmethod
    def open(cls, folder: str | Path, *, patience: float = 30.0) -> "Desk":
        """Open a store, and clear up after a process that was killed."""
        return cls(Store.open(Path(folder), patience=patience))

    @property
    def folder(self) -> Path:
        """Where the store is."""
        return self.store.folder

    def close(self) -> None:
        """Close the ledger."""
        self.store.close()

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    @contextmanager
    def log(self) -> Iterator[Ledger]:
        """The ledger, to be read."""
        with self.store.ledger.reading() as ledger:
            yield ledger

    def has(self, receipt: Receipt) -> bool:
        """Whether the log has the entry of a receipt: whether what it speaks of is done."""
        with self.log() as ledger:
            entries = ledger.entries()
        place = receipt.place
        return place < len(entries) and entries[place].record == dict(receipt.entry)

    def quote(
        self, subjects: Sequence[Any], table: str | Path | None = None, **options: Any
    ) -> Quote:
        """What forgetting each of the subjects would cost; options as in `LangevinRidge.quote`."""
        moment = self.store.read()
        groups = [self._positions(moment, subject) for subject in subjects]
        rows = np.concatenate([*groups, np.array([], dtype=np.intp)])
        model = with_rows(moment, table, self.store.key, rows)
        listed = [group.tolist() for group in groups]
        return model.quote(listed, accountant=_accountant(model), **options)

    def table(self, given: str | Path | None = None) -> Path:
        """The user's table, where it is said or was at the fit."""
        if given is not None:
            return Path(given)
        with self.log() as ledger:
            return Path(ledger.state["table"])

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's predictions."""
        return np.asarray(self.store.read().model.predict(X))

    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        with self.log() as ledger:
            return left_of(ledger.state)

    def pending(self) -> list[tuple[str, str | None]]:
        """Hashes of those who wait and their dates, the earliest first."""
        with self.log() as ledger:
            return pending(ledger.entries())

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

        `deliver` is handed the receipt, evidence included, before anything is changed: if it
        raises, nothing is.
        """

        def whom(moment: Moment) -> Whom:
            return {hash_of(subject, self.store.key): self._positions(moment, subject)}

        return self._forget(
            whom, epsilon=epsilon, table=table, redraw_if_needed=redraw_if_needed, **options
        )

    def request(self, subject: Any, due: date | None = None) -> None:
        """Queue a subject, to be forgotten by the next `run`."""
        with self.store.changing() as change:
            self._positions(change.moment, subject)  # is there anybody of that name?
            hashed = hash_of(subject, self.store.key)
            when = None if due is None else due.isoformat()
            change.note({"kind": "request", "subject": hashed.hex(), "due": when})

    def run(self, **options: Any) -> Certificate | None:
        """Forget everybody who waits, as one group; None if nobody does."""

        def waiting(moment: Moment) -> Whom:
            names = [bytes.fromhex(name) for name, _ in pending(moment.entries)]
            return {name: moment.names.positions("subject", name) for name in names}

        if not self.pending():
            return None
        return self._forget(waiting, **options)

    def redraw(self, table: str | Path | None = None, **options: Any) -> Certificate:
        """Draw the parameters afresh from the rows that are left: epsilon = 0, a full budget."""
        return self._forget(lambda _: {}, method="redraw", table=table, **options)

    def release(self, deliver: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
        """Coefficients only, rounded to a grid, bound to the last certificate; logged."""
        with self.store.changing() as change:
            moment = change.moment
            last = latest_certificate(moment.entries)
            record = release_record(moment.model, moment.state["features"], last)
            bound = {name: record[name] for name in ("sha256", "certificate_sha256", "grid")}
            change.note({"kind": "release", **bound})
            if deliver is not None:
                deliver(record)
        return record

    def _forget(
        self,
        whom: Callable[[Moment], Whom],
        *,
        table: str | Path | None = None,
        redraw_if_needed: bool = False,
        method: str = "langevin",
        keep_empty_classes: bool = False,
        recollect: bool = False,
        deliver: Callable[[Receipt], object] | None = None,
        **options: Any,
    ) -> Certificate:
        """Forget whoever `whom` names within the transaction."""
        if "accountant" in options:
            raise ValueError("accountant must be left out: a store keeps its own, a coarse one.")
        with self.store.changing() as change:
            moment = change.moment
            subjects = whom(moment)
            rows = np.unique(np.concatenate([*subjects.values(), np.array([], dtype=np.intp)]))
            model, counts = moment.model, moment.state["class_counts"]
            if len(rows) or recollect or moment.state["model"].get("statistics") is None:
                model = with_rows(moment, table, self.store.key, rows)
            if moment.columns.classify:
                counts = _class_counts_without(moment, model, rows, keep_empty_classes)
                options["keep_empty_classes"] = True  # that was the check, without all other rows
            untouched, given = model.fitted_, rows.tolist() if len(rows) else None
            certificate = model.unlearn(
                given, method=method, accountant=_accountant(model), **options
            )
            if not is_within(certificate, moment.state):
                if not redraw_if_needed:
                    raise BudgetSpent(refusal(self.folder, certificate, moment.state))
                model.fitted_ = untouched
                certificate = model.unlearn(given, method="redraw", **options)
            if recollect:
                model.fitted_ = model.fitted_.reading(recollected(model.fitted_.chain.problem))
            change.moment = moment.with_state(class_counts=counts)
            receipt = self._noted(change, subjects, rows, model, certificate)
            if deliver is not None:  # before anything is true: if it fails, nothing was changed
                deliver(receipt)
        return certificate

    def _noted(
        self,
        change: Change,
        subjects: Mapping[bytes, Positions],
        rows: Positions,
        model: Any,
        certificate: Certificate,
    ) -> Receipt:
        entry = {
            "kind": "unlearn" if len(rows) else "redraw",
            "subjects": sorted(name.hex() for name in subjects),
            "certificate": json.loads(certificate.without_evidence().to_json()),
        }
        noted = change.turn_to(model, change.moment.names.without(rows), entry)
        return Receipt.of(noted, certificate, self.store.ledger)

    def _positions(self, moment: Moment, subject: Any) -> Positions:
        hashed = hash_of(subject, self.store.key)
        found = moment.names.positions("subject", hashed)
        if len(found):
            return found
        if hashed in forgotten(moment.entries):
            raise AlreadyForgotten(
                f"subject {subject!r} has already been forgotten; nothing was changed."
            )
        raise ValueError(f"subject must be in the table that was fitted, got unknown {subject!r}.")


def _accountant(model: Model) -> CoarseExact | CoarseTheorem:
    # What is written down of a request stays for ever: few digits of it.
    return coarse_accountant(model.fitted_.law)


def _class_counts_without(
    moment: Moment, model: Model, rows: Positions, keep_empty_classes: bool
) -> list[int]:
    """Rows of every class that are left; a class that would lose its last one is refused."""
    before: list[int] = moment.state["class_counts"]
    if not len(rows):
        return before
    assert isinstance(model, LangevinClassification)
    members = model._members(model.fitted_.source.take(rows)[1])
    requested = members.sum(axis=0)
    left = np.array(before) - requested
    if not keep_empty_classes:
        remedy = "fit again without the class, or keep empty classes"
        ClassTargets(model.classes_).check_left(left, requested, remedy)
    return [int(count) for count in left]
