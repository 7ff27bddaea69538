"""The desk of the paper's method: quotes, a budget for the total of all requests, redraws."""

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_probability, check_real
from pilu._digits import down, up
from pilu.certify.certificate import Certificate, hash_of_parameters, sha256_of
from pilu.certify.coarse import coarse_accountant
from pilu.data.names import hash_of
from pilu.data.table import Columns
from pilu.data.tables import open_table
from pilu.desk.costs import worst_of
from pilu.desk.desk import Desk
from pilu.desk.exposed import exposure_record, releases_in
from pilu.desk.handing_over import Deliver, Outcome, check_signing_key, hand_over
from pilu.desk.issued import kept_in_log, without_rows
from pilu.desk.langevin_checking import People, check_against_data, check_chain
from pilu.desk.langevin_fitting import fit_table
from pilu.desk.langevin_report import chain_part
from pilu.desk.langevin_snapshot import LangevinSnapshot, saved_arrays, saved_state
from pilu.desk.model_records import Model
from pilu.desk.predicting import Predictor, by_chain, chain_predictor
from pilu.desk.receipt import Receipt
from pilu.desk.release import release_record
from pilu.desk.rewriting import Forgotten
from pilu.estimators.fitted import warn_of_total
from pilu.estimators.quote import Quote
from pilu.exceptions import (
    AlreadyForgotten,
    BeyondPrecision,
    BudgetSpent,
    TotalBudgetWarning,
    WrongInput,
)
from pilu.store.log import Log
from pilu.store.store import Change, Snapshot, Store, check_is_free
from pilu.store.subjects import forgotten_people, leaf_of

Positions = NDArray[np.intp]

_SCORED = 1_000  # rows on which the score of a quote is predicted


class LangevinDesk(Desk):
    """A store whose model forgets by Langevin steps or redraws."""

    method: ClassVar[str] = "langevin"

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
    ) -> "LangevinDesk":
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
            "method": cls.method,
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
            **saved_state(model),
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
        return cls(Store.create(folder, key, state, saved_arrays(model, names), entry))

    # Reading

    def read(self) -> LangevinSnapshot:
        """The store as it is now."""
        return LangevinSnapshot.of(self.store.read())

    def quote(
        self, subjects: Sequence[Any], table: str | Path | None = None, **options: Any
    ) -> Quote:
        """What forgetting each of the subjects would cost; options as in `LangevinRidge.quote`.

        For ridge, scores before and after are predicted on some rows of the table.
        """
        with self.store.ledger.reading() as ledger:
            gone = forgotten_people(ledger)
        held = self.read()
        groups = _positions(held, subjects, gone)
        model = held.attached(table, _together(groups))
        listed = [group.tolist() for group in groups]
        if model.fitted_.law.is_gaussian:
            options = {"validation": _some_rows(held, table), **options}
        return model.quote(listed, accountant=coarse_accountant(model.fitted_.law), **options)

    def tables(self) -> list[str]:
        """The path of the user's table, as it was at the fit."""
        return [self.store.read_state()["table"]]

    def _report_part(self, table: str | Path | None, people: int) -> dict[str, Any]:
        more = self.more_like_the_last()
        return chain_part(self.read(), self.forgotten(), more, table, people)

    def _predictions(self, rows: str | Path, probabilities: bool) -> tuple[list[str], Any]:
        return by_chain(self.read(), rows, probabilities=probabilities)

    def check_tables(self) -> None:
        """Refuse a table that cannot be read."""
        self.read().attached()

    def price(self, subjects: Sequence[Any]) -> dict[str, Any]:
        """What forgetting people one by one would cost: the worst of their quotes."""
        started = time.perf_counter()
        worst = worst_of(self.quote(subjects))
        return {**worst, "seconds": time.perf_counter() - started}

    def predictor(self) -> Predictor:
        """A function that predicts rows in memory, by the model as it is now."""
        return chain_predictor(self.read())

    def forgotten(self) -> Forgotten:
        """Who was forgotten, to find their rows in a table."""
        with self.store.ledger.reading() as ledger:
            gone = frozenset(forgotten_people(ledger))
        return Forgotten(gone, self.store.key, self.read().columns)

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's predictions."""
        return np.asarray(self.read().model.predict(X))

    def score(self) -> tuple[str, float, float]:
        """The metric, its value on some rows that were learned, and what a constant gets."""
        held = self.read()
        X, y = _some_rows(held)
        predicted = np.asarray(held.model.predict(X))
        if held.columns.classify:
            shares = np.unique(y, return_counts=True)[1] / len(y)
            same = [str(a) == str(b) for a, b in zip(predicted, y, strict=True)]
            return "accuracy", float(np.mean(same)), float(shares.max())
        y = np.asarray(y, dtype=np.float64)
        rest, spread = ((y - predicted) ** 2).sum(), ((y - y.mean(axis=0)) ** 2).sum()
        return "R2", float(1 - rest / spread) if spread > 0 else 0.0, 0.0

    def left(self) -> tuple[float, float]:
        """What is left of the budget: epsilon and delta."""
        state = self.store.read_state()
        budget, spent = state["budget"], state["model"]["spent"]["total"]
        return max(budget[0] - spent[0], 0.0), max(budget[1] - spent[1], 0.0)

    def more_like_the_last(self) -> int | None:
        """How many more requests like the last one the budget allows, at least; None if unknown.

        By the plain rule for totals, which the totals of certificates never exceed: epsilons add
        up, and a delta counts e^total times, for the total before it.
        """
        state, last = self.store.read_state(), self.log().certified
        if last is None or last.certificate is None or last.certificate["method"] != "langevin":
            return None
        epsilon, delta = last.certificate["epsilon"], last.certificate["delta"]
        (total, spent_delta), (most, most_delta) = state["model"]["spent"]["total"], state["budget"]
        n = 0
        while epsilon > 0.0 and n < 10_000:
            # Totals are rounded up: three times 0.1 is more than 0.3.
            spent_delta = (spent_delta + math.exp(min(total, 700.0)) * delta) * (1 + 1e-9)
            total = (total + epsilon) * (1 + 1e-9)
            if total > most or spent_delta > most_delta:
                break
            n += 1
        return n

    # Forgetting

    def redraw(self, table: str | Path | None = None, **options: Any) -> Outcome:
        """Draw new parameters from the rows that are left: epsilon = 0, and a full budget."""
        return self._forget(lambda _: [], method="redraw", table=table, **options)

    def _released(self, snapshot: Snapshot, format: str) -> tuple[bytes, dict[str, Any]]:
        """Coefficients only, rounded to a grid, bound to the last certificate."""
        held = LangevinSnapshot.of(snapshot)
        record = release_record(held.model, held.state["features"], held.log.certified)
        return (json.dumps(record, indent=1) + "\n").encode(), record

    def _forget(
        self,
        choose: Callable[[Change], list[bytes]],
        *,
        table: str | Path | None = None,
        redraw_if_needed: bool = False,
        method: str = "langevin",
        keep_empty_classes: bool = False,
        recollect: bool = False,
        deliver: Deliver | None = None,
        sign: Path | None = None,
        **options: Any,
    ) -> Outcome:
        """Forget the subjects that `choose` finds in the store, within one transaction.

        Options are those of `LangevinRidge.unlearn`.
        """
        if "accountant" in options:
            raise WrongInput("accountant must be left out: a store uses a coarse one of its own.")
        check_signing_key(sign)
        with self.store.changing() as change:
            held = LangevinSnapshot.of(change.snapshot)
            subjects = {name: held.names.positions("subject", name) for name in choose(change)}
            rows = np.unique(_together(list(subjects.values())))
            model = held.model
            if len(rows) or recollect or held.state["model"].get("statistics") is None:
                model = held.attached(table, rows)
            if held.columns.classify:
                options["keep_empty_classes"] = keep_empty_classes
            before, requested = model.fitted_, rows.tolist() if len(rows) else None
            # While the rows are there: afterwards nobody could say what was told about them.
            exposures = _exposures(model, subjects, held.log)
            # The log keeps the answers forever, so they have few digits.
            coarse = coarse_accountant(before.law)
            with warnings.catch_warnings():  # the budget decides before the total is warned of
                warnings.simplefilter("ignore", TotalBudgetWarning)
                certificate = model.unlearn(requested, method=method, accountant=coarse, **options)
            if excess := _excess(certificate, held.state["budget"]):
                if not redraw_if_needed:
                    raise BudgetSpent(
                        f"the total would be {excess}. Nothing was changed. Run "
                        f"`pilu redraw {self.folder}` first, or pass --redraw-if-needed."
                    )
                model.fitted_ = before
                certificate = model.unlearn(requested, method="redraw", **options)
            warn_of_total(certificate)
            if recollect:
                model.fitted_ = model.fitted_.reading(model.fitted_.chain.problem.recollected())
            certificate = _without_rows(model, certificate)
            people = [
                leaf_of(
                    name,
                    rows=subjects[name].tolist(),
                    exposure_sha256=sha256_of(exposures[name.hex()]),
                )
                for name in sorted(subjects)
            ]
            entry = change.save(
                saved_arrays(model, held.names.without(rows)),
                saved_state(model),
                {
                    "kind": "unlearn" if len(rows) else "redraw",
                    "n_rows": len(rows),
                    **kept_in_log(certificate),
                },
                people=people,
                outbox={"certificate": certificate.to_json(), "exposures": exposures},
            )
        return hand_over(self.store, entry.place, deliver, sign)

    # Checks

    def check_contents(self, people: People, table: str | Path | None) -> dict[str, bool]:
        """Check that certificates follow from each other, and the state from them."""
        return check_chain(self.read(), people, table)

    def check_receipt_against_data(
        self, receipt: Receipt, people: People, table: str | Path
    ) -> bool:
        """Compute from the rows what the noise certifies; needs all rows of the fit, in order."""
        return check_against_data(receipt, self.read(), people, table)

    def _check_known(self, change: Change, people: Sequence[Any]) -> None:
        held, gone = LangevinSnapshot.of(change.snapshot), forgotten_people(change.ledger)
        _positions(held, people, gone)


def _positions(
    held: LangevinSnapshot, subjects: Sequence[Any], gone: set[bytes]
) -> list[Positions]:
    """Rows of each of the people; whoever has none is named, all of them in one error."""
    hashed = [hash_of(name, held.key) for name in subjects]
    found = [held.names.positions("subject", one) for one in hashed]
    missing = [k for k, rows in enumerate(found) if not len(rows)]
    if unknown := [repr(subjects[k]) for k in missing if hashed[k] not in gone]:
        raise WrongInput(
            f"subject must be in the table that was fitted, got unknown {', '.join(unknown)}."
        )
    if missing:
        names = ", ".join(repr(subjects[k]) for k in missing)
        verb = "has" if len(missing) == 1 else "have"
        raise AlreadyForgotten(
            f"subject {names} {verb} already been forgotten; nothing was changed."
        )
    return found


def _some_rows(
    held: LangevinSnapshot, table: str | Path | None = None
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Features and targets of rows evenly spaced over a table."""
    whole = held.table(table)
    spread = np.linspace(0, whole.n_rows - 1, min(_SCORED, whole.n_rows))
    batch = whole.take(np.unique(spread.astype(np.intp)))
    return batch.X, batch.y


def _exposures(model: Model, subjects: Mapping[bytes, Positions], log: Log) -> dict[str, Any]:
    """What a receipt says about earlier releases, by the person's keyed name."""
    if not subjects:
        return {}
    try:
        exposure = model.exposure([rows.tolist() for rows in subjects.values()])
        delta, epsilons = exposure.delta, exposure.epsilon.tolist()
    except BeyondPrecision:
        delta, epsilons = None, [math.inf] * len(subjects)
    releases = releases_in(log)
    return {
        name.hex(): exposure_record(epsilon, delta, releases)
        for name, epsilon in zip(subjects, epsilons, strict=True)
    }


def _without_rows(model: Model, certificate: Certificate) -> Certificate:
    """The certificate without row numbers, and the model that has issued it."""
    fitted, issued = model.fitted_, without_rows(certificate)
    chain = fitted.certificates
    if chain and chain[-1] == certificate.sha256:
        chain = (*chain[:-1], issued.sha256)
    model.fitted_ = replace(fitted, certificates=chain, latest=issued.sha256)
    return issued


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
