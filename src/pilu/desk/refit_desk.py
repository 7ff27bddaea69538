"""The desk of refits: rows come and go, people are forgotten at no loss, each release certified.

Rows stay in the user's tables. A change reads them, compares them with the keyed digests that the
store keeps, and runs the whole program on the rows that are there afterwards.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pilu.desk.desk import Desk, one_or_many
from pilu.desk.differences import Difference, check_nothing_lost, compare, listed
from pilu.desk.handing_over import Deliver, Outcome, check_signing_key, hand_over
from pilu.desk.learned import Learned
from pilu.desk.matching import match
from pilu.desk.predicting import Predictor, by_refit, refit_predictor
from pilu.desk.receipt import Receipt
from pilu.desk.refit_checking import check_refit, check_release_against_data
from pilu.desk.refit_plans import (
    Plan,
    plan_to_add,
    plan_to_correct,
    plan_to_follow,
    plan_to_forget,
)
from pilu.desk.refit_release import json_release, skops_release
from pilu.desk.refit_report import refit_part
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.desk.refitting import Heritage, describe_how, fit_store, refit, score_after
from pilu.desk.rewriting import Forgotten
from pilu.exceptions import AlreadyForgotten, DoneBefore, WrongInput
from pilu.store.store import Change, Snapshot, check_is_free
from pilu.store.subjects import leaf_of
from pilu.tabular.frames import frame_of
from pilu.tabular.json_rows import table_of_rows


@dataclass(frozen=True)
class DryRun:
    """What forgetting people would change, and how long it took to find out."""

    n_people: int
    n_rows: int
    score: Mapping[str, Any] | None  # before and after, on rows that are left
    seconds: float


class RefitDesk(Desk):
    """A store whose model forgets by a refit."""

    method: ClassVar[str] = "refit"
    formats: ClassVar[tuple[str, ...]] = ("json", "skops")
    learned: Learned | None = None  # what `create` learned

    @classmethod
    def create(
        cls,
        folder: str | Path,
        table: str | Path,
        *,
        target: str,
        subject: str | None = None,
        id: str | None = None,
        weight: str | None = None,
        ignore: Sequence[str] = (),
        words: Sequence[str] = (),
        categories: Sequence[str] = (),
        model: str = "auto",
        alpha: float | str = 1.0,
        pipeline: str | None = None,
        epsilon: float = 0.1,
        delta: float = 1e-9,
        score_noise: float = 1e-3,
        successor_of: str | Path | None = None,
        returned: Sequence[str] = (),
        without_forgotten: bool = False,
    ) -> "RefitDesk":
        """Fit a table into a new store.

        Parameters
        ----------
        folder : path
            The store to make.
        table : path or address
            A file, a folder, a pattern or a database (docs/sources.md).
        target, subject, id, weight : str
            Columns: what is predicted, the person of a row, the name of a row, its weight.
        ignore, words, categories : sequence of str
            Columns to leave out, to use by their words, or to use by their levels.
        model : str
            "auto", or one of `pilu.tabular.pipelines.MODELS`.
        alpha : float > 0 or "auto"
            The penalty, or a choice by cross-validation on the rows that are left.
        pipeline : str, optional
            Instead of `model` and `alpha`: "mine.py:make", a function that returns an unfitted
            scikit-learn estimator.
        epsilon, delta, score_noise : float
            As for `pilu.Forgetful`.
        successor_of : path, optional
            A store whose forgotten people are not learned again.
        returned : sequence of str
            Forgotten people of that store who came back.
        without_forgotten : bool
            Leave out rows of forgotten people, in place of an error.
        """
        folder = Path(folder)
        check_is_free(folder)
        if subject is None and id is None:
            raise WrongInput(
                "a subject or an id column must be given: without names no row can be forgotten. "
                "Pass --subject or --id."
            )
        columns = {"target": target, "subject": subject, "id": id, "weight": weight}
        lists = {"ignore": ignore, "words": words, "categories": categories}
        store, learned = fit_store(
            folder,
            table,
            {**columns, **{name: tuple(values) for name, values in lists.items()}},
            describe_how(model, alpha, pipeline),
            {"epsilon": epsilon, "delta": delta, "score_noise": score_noise},
            Heritage.of(successor_of),
            returned,
            without_forgotten=without_forgotten,
        )
        desk = cls(store)
        desk.learned = learned
        return desk

    # Reading

    def read(self) -> RefitSnapshot:
        """The store as it is now."""
        return RefitSnapshot.of(self.store.read())

    def check_tables(self) -> None:
        """Refuse tables in which rows of the model are missing or changed, as `unlearn` would."""
        plan_to_forget(self.read(), ())

    def price(self, subjects: Sequence[Any]) -> dict[str, Any]:
        """What forgetting people would change; epsilon and delta are those of the store."""
        found = self.dry_run(subjects)
        score = found.score or {"metric": None, "value": None, "before": None, "how": None}
        options = self.store.read_state()["options"]
        return {
            "n_people": found.n_people,
            "n_rows": found.n_rows,
            "metric": score["metric"],
            "before": score["before"],
            "after": score["value"],
            "how": score["how"],
            "epsilon": options["epsilon"],
            "delta": options["delta"],
            "seconds": found.seconds,
        }

    def exposures(self, *, most: int) -> tuple[Any, float] | None:
        """Epsilon of everybody for a release of the present parameters, and delta."""
        held = self.read()
        if len(held.digests) > most:
            return None
        rows, _ = held.read_rows()
        matched = match(held.names, held.digests, rows)
        if matched.missing.any() or matched.changed.any():
            return None
        whole = rows.take(matched.place)
        exposure = held.forgetful(whole).exposure(list(whole.names.by_hash("subject").values()))
        return exposure.epsilon, exposure.delta

    def forgotten(self) -> Forgotten:
        """Who was forgotten, to find their rows in a table."""
        return self.read().forgotten()

    # Rows come and go

    def add(
        self,
        table: str | Path,
        *,
        returned: Sequence[str] = (),
        without_forgotten: bool = False,
        **handing: Any,
    ) -> Outcome:
        """Learn new rows: all of a table, which the store reads from now on, too."""
        return self._change(
            lambda _, held: plan_to_add(held, table, returned, without_forgotten=without_forgotten),
            **handing,
        )

    def correct(self, table: str | Path, **handing: Any) -> Outcome:
        """Replace rows by corrected ones of the same ids (rectification)."""
        return self._change(lambda _, held: plan_to_correct(held, table), **handing)

    def compare(self, table: str | Path | None = None) -> Difference:
        """What appeared, changed and disappeared in a table since the store last read it."""
        held = self.read()
        rows, lost = held.read_rows(table)
        matched = match(held.names, held.digests, rows)
        check_nothing_lost(held.folder, matched, lost)
        return compare(held, rows, matched)

    def dry_run(self, subjects: Any, table: str | Path | None = None) -> DryRun:
        """What forgetting people would change; nothing is."""
        people, started = one_or_many(subjects), time.perf_counter()
        snapshot = self.store.read()
        held = RefitSnapshot.of(snapshot)
        self._check_among(held, people)
        plan = plan_to_forget(held, self._hashed(people), table)
        score = score_after(held, plan)
        seconds = time.perf_counter() - started
        return DryRun(len(people), int(sum(plan.forgotten.values())), score, seconds)

    def sync(
        self,
        table: str | Path | None = None,
        *,
        forget_missing: bool = False,
        returned: Sequence[str] = (),
        without_forgotten: bool = False,
        **handing: Any,
    ) -> Outcome:
        """Make the model follow a table: learn what appeared, drop what disappeared.

        With `forget_missing`, people who disappeared altogether are forgotten as if they had asked:
        they get receipts, and are refused if they turn up again.
        """

        def plan(_: Change, held: RefitSnapshot) -> Plan:
            return plan_to_follow(
                held,
                table,
                returned,
                forget_missing=forget_missing,
                without_forgotten=without_forgotten,
            )

        return self._change(plan, **handing)

    def forget_again(self, names: Iterable[bytes], **options: Any) -> Outcome | None:
        """Forget people by their keyed hashes, also those who are not in the model.

        After a restore of an old backup: it has lost who is not to be learned again.
        """
        listed = sorted(set(names))
        return self._forget(lambda _: listed, **options) if listed else None

    def _forget(
        self,
        choose: Callable[[Change], list[bytes]],
        *,
        table: str | Path | None = None,
        **handing: Any,
    ) -> Outcome:
        return self._change(
            lambda change, held: plan_to_forget(held, choose(change), table), **handing
        )

    def _change(
        self,
        plan: Callable[[Change, RefitSnapshot], Plan],
        *,
        deliver: Deliver | None = None,
        sign: Path | None = None,
        reference: str | None = None,
    ) -> Outcome:
        """Refit on the rows of a plan, and log it: all of it takes effect, or nothing.

        The entry of the log names the `reference`, if there is one. It is made once.
        """
        check_signing_key(sign)
        with self.store.changing() as change:
            held = RefitSnapshot.of(change.snapshot)
            if reference is not None and held.log.named("reference", reference) is not None:
                raise DoneBefore(f"the change {reference} was made before. Nothing was changed.")
            made = plan(change, held)
            if reference is not None:
                made = replace(made, entry={**made.entry, "reference": reference})
            if made.returned:
                change.note({"kind": "return"}, people=[leaf_of(n) for n in sorted(made.returned)])
            entry = refit(change, held, made)
        return hand_over(self.store, entry.place, deliver, sign, made.notes, made.known)

    def _check_known(self, change: Change, people: Sequence[Any]) -> None:
        self._check_among(RefitSnapshot.of(change.snapshot), people)

    def _check_among(self, held: RefitSnapshot, people: Sequence[Any]) -> None:
        known = set(held.names.by_hash("subject"))
        hashed = dict(zip(people, self._hashed(people), strict=True))
        again = [name for name, one in hashed.items() if one in held.suppressed]
        unknown = [
            name for name, one in hashed.items() if one not in known and one not in held.suppressed
        ]
        if again and not unknown:
            raise AlreadyForgotten(
                f"{listed(again)} {'was' if len(again) == 1 else 'were'} forgotten already. "
                "Nothing was changed."
            )
        if unknown:
            more = f", and {listed(again)} forgotten already" if again else ""
            raise WrongInput(
                f"subjects must be people of the model, got unknown {listed(unknown)}{more}. "
                "Nothing was changed."
            )

    # Reports, predictions and releases

    def _report_part(self, table: str | Path | None, people: int) -> dict[str, Any]:
        return refit_part(self.read(), table)

    def tables(self) -> list[str]:
        """Where the store finds its rows, in order."""
        return list(self.store.read_state()["sources"])

    def _predictions(self, rows: str | Path, probabilities: bool) -> tuple[list[str], Any]:
        return by_refit(self.read(), rows, probabilities=probabilities)

    def predictor(self) -> Predictor:
        """A function that predicts rows in memory, by the model as it is now."""
        return refit_predictor(self.read())

    def table_of(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Rows to add or to correct as a table, or an error with all of their problems."""
        layout = self.read().layout
        table = table_of_rows(rows, layout.kinds)
        frame_of(table, layout)
        return table

    def _released(self, snapshot: Snapshot, format: str) -> tuple[bytes, dict[str, Any]]:
        held = RefitSnapshot.of(snapshot)
        return skops_release(held) if format == "skops" else json_release(held)

    # Checks

    def check_contents(self, people: Any, table: str | Path | None) -> dict[str, bool]:
        """Check that state, arrays and log agree; with a table, also with its rows."""
        return check_refit(self.read(), self.store, people, table)

    def check_receipt_against_data(self, receipt: Receipt, people: Any, table: str | Path) -> bool:
        """Fit from scratch on the rows, and compare the release; only for the latest one."""
        return check_release_against_data(self.read(), receipt.certificate, table)
