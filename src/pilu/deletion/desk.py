"""The desk: fit a table into a store, quote and forget people, and log everything."""

import json
import warnings
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_probability, check_real
from pilu._digits import down, up
from pilu.certify.certificate import Certificate, hash_of_parameters, sha256_of
from pilu.certify.coarse import coarse_accountant
from pilu.data.names import hash_of
from pilu.data.table import Columns
from pilu.data.tables import open_table
from pilu.deletion.exposed import exposure_record
from pilu.deletion.fitting import fit_table
from pilu.deletion.log import Log
from pilu.deletion.receipt import Receipt
from pilu.deletion.release import release_record
from pilu.deletion.store import Snapshot, Store, check_is_free
from pilu.estimators.fitted import warn_of_total
from pilu.estimators.quote import Quote
from pilu.exceptions import AlreadyForgotten, BudgetSpent, TotalBudgetWarning, WrongInput

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
        budget_epsilon: float = 10.0,
        budget_delta: float | None = None,
        loss: str = "squared",
        scheduler: str | None = None,
        memory: int | None = None,
        **parameters: Any,
    ) -> "Desk":
        """Fit a table into a new store; `parameters` are the estimator's.

        The total of all requests since the last redraw may not exceed the budget. By default its
        delta is 20/n, where n is the number of rows. That is enough for about five requests at
        epsilon = 1 and delta = 1/n: deltas grow with e^epsilon.

        `loss` is "squared" (ridge), "logistic" or "huber". `scheduler` is "local" or the address
        of a dask scheduler. `memory` is a number of bytes for a fit in this process.
        """
        if columns.subject is None and columns.id is None:
            raise WrongInput(
                "a subject or an id column must be given: without names no row can be forgotten."
            )
        check_real("budget_epsilon", budget_epsilon, above=0.0)
        if budget_delta is not None:
            check_probability("budget_delta", budget_delta)
        # An absolute path: workers of a cluster may run in other folders.
        folder, opened = Path(folder), open_table(Path(table).resolve(), columns)
        check_is_free(folder)
        model, names = fit_table(
            opened, columns, loss=loss, scheduler=scheduler, memory=memory, **parameters
        )
        chain, key = model.fitted_.chain, model.fitted_.source.key
        if budget_delta is None:
            budget_delta = min(20 / opened.n_rows, 0.5)
        budget = [budget_epsilon, budget_delta]
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
            "budget": budget,
        }
        entry = {
            "kind": "fit",
            "n_rows": opened.n_rows,
            "n_features": len(opened.features),
            "budget": budget,
            "loss": chain.problem.describe_loss(),
            "alpha": chain.problem.alpha,
            "step_size": chain.step_size,
            "learning": model.schedule_,
            "private": chain.private,
            "parameters_sha256": hash_of_parameters(chain.theta, key),
        }
        return cls(Store.create(folder, model, names, state, entry))

    @classmethod
    def open(cls, folder: str | Path, *, patience: float = 30.0) -> "Desk":
        """Open a store, and remove what a killed process left behind."""
        return cls(Store.open(Path(folder), patience=patience))

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

    def quote(
        self, subjects: Sequence[Any], table: str | Path | None = None, **options: Any
    ) -> Quote:
        """What forgetting each of the subjects would cost; options as in `LangevinRidge.quote`."""
        snapshot = self.store.read()
        groups = [self._positions(snapshot, subject) for subject in subjects]
        model = snapshot.attached(table, _together(groups))
        listed = [group.tolist() for group in groups]
        return model.quote(listed, accountant=coarse_accountant(model.fitted_.law), **options)

    def table(self, given: str | Path | None = None) -> Path:
        """The path of the user's table: as given, or else as it was at the fit."""
        return Path(self.store.read_state()["table"] if given is None else given)

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's predictions."""
        return np.asarray(self.store.read().model.predict(X))

    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        state = self.store.read_state()
        budget, spent = state["budget"], state["model"]["spent"]["total"]
        return max(budget[0] - spent[0], 0.0), max(budget[1] - spent[1], 0.0)

    def pending(self) -> list[tuple[str, str | None]]:
        """Hashes of subjects to be forgotten and their due dates, the earliest first."""
        return self.log().pending

    # Forgetting

    def unlearn(self, subject: Any, **options: Any) -> Certificate:
        """Forget all rows of a subject as one group.

        Options are those of `LangevinRidge.unlearn`, and `table`, `redraw_if_needed`, `recollect`
        and `deliver`. `deliver` is called with the receipt, which includes the evidence, before
        anything is changed. If it raises, nothing is changed.
        """

        def choose(snapshot: Snapshot) -> Subjects:
            return {hash_of(subject, self.store.key): self._positions(snapshot, subject)}

        return self._forget(choose, **options)

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
            model = snapshot.model
            if len(rows) or recollect or snapshot.state["model"].get("statistics") is None:
                model = snapshot.attached(table, rows)
            if snapshot.columns.classify:
                options["keep_empty_classes"] = keep_empty_classes
            before, requested = model.fitted_, rows.tolist() if len(rows) else None
            # While the rows are there: afterwards nobody could say what was told about them.
            exposure = exposure_record(model, subjects, snapshot.log) if subjects else None
            # The log keeps the answers forever, so they have few digits.
            coarse = coarse_accountant(before.law)
            with warnings.catch_warnings():  # the budget decides before the total is warned of
                warnings.simplefilter("ignore", TotalBudgetWarning)
                certificate = model.unlearn(requested, method=method, accountant=coarse, **options)
            if excess := _excess(certificate, snapshot.state["budget"]):
                if not redraw_if_needed:
                    raise BudgetSpent(
                        f"the total would be {excess}. Nothing was changed. Run "
                        f"`pilu redraw {self.store.folder}` first, or pass --redraw-if-needed."
                    )
                model.fitted_ = before
                certificate = model.unlearn(requested, method="redraw", **options)
            warn_of_total(certificate)
            if recollect:
                model.fitted_ = model.fitted_.reading(model.fitted_.chain.problem.recollected())
            entry = {
                "kind": "unlearn" if len(rows) else "redraw",
                "subjects": sorted(name.hex() for name in subjects),
                "certificate": json.loads(certificate.without_evidence().to_json()),
            }
            if exposure is not None:
                entry["exposure_sha256"] = sha256_of(exposure)
            saved = change.save(model, snapshot.names.without(rows), entry)
            if deliver is not None:  # before the commit: if it fails, nothing is changed
                deliver(Receipt.of_last_entry(saved.log, certificate.evidence, exposure))
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


def _excess(certificate: Certificate, budget: Sequence[float]) -> str:
    """What of a certificate's total exceeds the budget; empty if nothing does."""
    totals = (certificate.total_epsilon, certificate.total_delta)
    return " and ".join(
        f"{name} = {up(total)}, past the budget of {down(limit)}"
        for name, total, limit in zip(("epsilon", "delta"), totals, budget, strict=True)
        if not total <= limit
    )
