"""The desk: fit a table into a store, quote and forget people, and log everything."""

import json
import secrets
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import Certificate, hash_of_parameters
from pilu.certify.coarse import CoarseExact, CoarseTheorem, coarse_accountant
from pilu.data.names import hash_of
from pilu.data.table import Columns
from pilu.data.tables import open_table
from pilu.data.targets import ClassTargets
from pilu.deletion.attaching import with_rows
from pilu.deletion.budget import Budget, left_of, over_budget
from pilu.deletion.fitting import fit_table
from pilu.deletion.log import Entry, Log
from pilu.deletion.model_records import Model
from pilu.deletion.receipt import Receipt
from pilu.deletion.release import release_record
from pilu.deletion.store import Snapshot, Store, check_is_free
from pilu.estimators.quote import Quote
from pilu.exceptions import AlreadyForgotten, BudgetSpent, WrongInput

__all__ = ["Desk"]

Positions = NDArray[np.intp]
Subjects = dict[bytes, Positions]  # rows by the hash of the name


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

        `loss` is "squared" (ridge), "logistic" or "huber". `scheduler` is "local" or the address
        of a dask scheduler. `memory` is a number of bytes for a fit in this process.
        """
        if columns.subject is None and columns.id is None:
            raise WrongInput(
                "a subject or an id column must be given: without names no row can be forgotten."
            )
        # An absolute path: workers of a cluster may run in other folders.
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
            "loss": chain.problem.describe_loss(),
            "alpha": chain.problem.alpha,
            "step_size": chain.step_size,
            "learning": [[s.steps, s.noise] for s in chain.schedule.segments],
            "private": chain.private,
            "parameters_sha256": hash_of_parameters(chain.theta, key),
        }
        return cls(Store.create(folder, key, fitted.model, fitted.names, state, entry))

    @classmethod
    def open(cls, folder: str | Path, *, patience: float = 30.0) -> "Desk":
        """Open a store, and remove what a killed process left behind."""
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

    def log(self) -> Log:
        """The log as it is now."""
        return self.store.read_log()

    def has(self, receipt: Receipt) -> bool:
        """Whether the log has the entry of a receipt: whether the change it certifies is done."""
        return self.log().has(Entry(receipt.place, receipt.entry))

    def quote(
        self, subjects: Sequence[Any], table: str | Path | None = None, **options: Any
    ) -> Quote:
        """What forgetting each of the subjects would cost; options as in `LangevinRidge.quote`."""
        snapshot = self.store.read()
        groups = [self._positions(snapshot, subject) for subject in subjects]
        model = with_rows(snapshot, table, self.store.key, _together(groups))
        listed = [group.tolist() for group in groups]
        return model.quote(listed, accountant=_accountant(model), **options)

    def table(self, given: str | Path | None = None) -> Path:
        """The path of the user's table: as given, or else as it was at the fit."""
        return Path(self.store.read_state()["table"] if given is None else given)

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's predictions."""
        return np.asarray(self.store.read().model.predict(X))

    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        return left_of(self.store.read_state())

    def pending(self) -> list[tuple[str, str | None]]:
        """Hashes of subjects to be forgotten and their due dates, the earliest first."""
        return self.log().pending

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

        `deliver` is called with the receipt, which includes the evidence, before anything is
        changed. If it raises, nothing is changed.
        """

        def choose(snapshot: Snapshot) -> Subjects:
            return {hash_of(subject, self.store.key): self._positions(snapshot, subject)}

        return self._forget(
            choose, epsilon=epsilon, table=table, redraw_if_needed=redraw_if_needed, **options
        )

    def request(self, subject: Any, due: date | None = None) -> None:
        """Queue a subject, to be forgotten by the next `run`."""
        with self.store.changing() as change:
            self._positions(change.snapshot, subject)  # refuses an unknown name
            hashed = hash_of(subject, self.store.key)
            when = None if due is None else due.isoformat()
            change.note({"kind": "request", "subject": hashed.hex(), "due": when})

    def run(self, **options: Any) -> Certificate | None:
        """Forget all queued subjects as one group; None if there are none."""

        def choose(snapshot: Snapshot) -> Subjects:
            names = [bytes.fromhex(name) for name, _ in snapshot.log.pending]
            return {name: snapshot.names.positions("subject", name) for name in names}

        if not self.pending():
            return None
        return self._forget(choose, **options)

    def redraw(self, table: str | Path | None = None, **options: Any) -> Certificate:
        """Draw new parameters from the rows that are left: epsilon = 0, and a full budget."""
        return self._forget(lambda _: {}, method="redraw", table=table, **options)

    def release(self, deliver: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
        """Coefficients only, rounded to a grid, bound to the last certificate; logged."""
        with self.store.changing() as change:
            snapshot = change.snapshot
            last = snapshot.log.latest_certificate
            record = release_record(snapshot.model, snapshot.state["features"], last)
            bound = {name: record[name] for name in ("sha256", "certificate_sha256", "grid")}
            change.note({"kind": "release", **bound})
            if deliver is not None:
                deliver(record)
        return record

    def _forget(
        self,
        choose: Callable[[Snapshot], Subjects],
        *,
        table: str | Path | None = None,
        redraw_if_needed: bool = False,
        method: str = "langevin",
        keep_empty_classes: bool = False,
        recollect: bool = False,
        deliver: Callable[[Receipt], object] | None = None,
        **options: Any,
    ) -> Certificate:
        """Forget the subjects that `choose` finds in the store, within one transaction."""
        if "accountant" in options:
            raise WrongInput("accountant must be left out: a store uses a coarse one of its own.")
        with self.store.changing() as change:
            snapshot = change.snapshot
            subjects = choose(snapshot)
            rows = np.unique(_together(list(subjects.values())))
            model, counts = snapshot.model, snapshot.state["class_counts"]
            if len(rows) or recollect or snapshot.state["model"].get("statistics") is None:
                model = with_rows(snapshot, table, self.store.key, rows)
            if snapshot.columns.classify:
                counts = _class_counts_without(counts, model, rows, keep_empty_classes)
                options["keep_empty_classes"] = True  # checked here, without reading other rows
            before, requested = model.fitted_, rows.tolist() if len(rows) else None
            certificate = model.unlearn(
                requested, method=method, accountant=_accountant(model), **options
            )
            excess = over_budget(certificate, snapshot.state)
            if excess:
                if not redraw_if_needed:
                    raise BudgetSpent(
                        f"the total would be {excess}. Nothing was changed. Run "
                        f"`pilu redraw {self.folder}` first, or pass --redraw-if-needed."
                    )
                model.fitted_ = before
                certificate = model.unlearn(requested, method="redraw", **options)
            if recollect:
                model.fitted_ = model.fitted_.reading(model.fitted_.chain.problem.recollected())
            entry = {
                "kind": "unlearn" if len(rows) else "redraw",
                "subjects": sorted(name.hex() for name in subjects),
                "certificate": json.loads(certificate.without_evidence().to_json()),
            }
            saved = change.save(model, snapshot.names.without(rows), entry, class_counts=counts)
            if deliver is not None:  # before the commit: if it fails, nothing is changed
                deliver(Receipt.of_last_entry(saved.log, certificate.evidence))
        return certificate

    def _positions(self, snapshot: Snapshot, subject: Any) -> Positions:
        hashed = hash_of(subject, self.store.key)
        positions = snapshot.names.positions("subject", hashed)
        if len(positions):
            return positions
        if hashed in snapshot.log.forgotten:
            raise AlreadyForgotten(
                f"subject {subject!r} has already been forgotten; nothing was changed."
            )
        raise WrongInput(f"subject must be in the table that was fitted, got unknown {subject!r}.")


def _together(groups: Sequence[Positions]) -> Positions:
    return np.concatenate([*groups, np.array([], dtype=np.intp)])


def _accountant(model: Model) -> CoarseExact | CoarseTheorem:
    # The log keeps the answers forever, so they have few digits.
    return coarse_accountant(model.fitted_.law)


def _class_counts_without(
    before: list[int], model: Model, rows: Positions, keep_empty_classes: bool
) -> list[int]:
    """Rows left of every class; a class that would lose its last row is refused."""
    if not len(rows):
        return before
    targets = model.targets_
    assert isinstance(targets, ClassTargets)
    requested = targets.members(model.fitted_.source.take(rows)[1]).sum(axis=0)
    left = np.array(before) - requested
    if not keep_empty_classes:
        remedy = "fit again without the class, or keep empty classes"
        targets.check_left(left, requested, remedy)
    return [int(count) for count in left]
