"""The desk of refits: rows come and go, people are forgotten at no loss, each release certified.

Rows stay in the user's tables. A change reads them, compares them with the keyed digests that the
store keeps, and runs the whole program on the rows that are there afterwards.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from pilu.certify.certificate import sha256_of
from pilu.chains.chain import gaussian_source
from pilu.data.names import hash_of
from pilu.data.sources import open_source
from pilu.data.table import Columns
from pilu.desk.desk import Deliver, Desk, Outcome, check_signing_key
from pilu.desk.differences import Difference, compare, refuse_forgotten
from pilu.desk.exposed import exposure_record
from pilu.desk.issued import kept_in_log
from pilu.desk.learned import Learned, changed_score
from pilu.desk.people import leaf_of
from pilu.desk.programs import describe_default, describe_file, program_of
from pilu.desk.receipt import Receipt
from pilu.desk.refit_checking import check_refit, check_release_against_data
from pilu.desk.refit_snapshot import RefitSnapshot, saved_arrays
from pilu.desk.released_models import bytes_of_model, types_to_trust
from pilu.desk.rewriting import Forgotten
from pilu.desk.rows import Matched, Rows, are_among, match
from pilu.estimators.refitted import Done, run_program
from pilu.exceptions import AlreadyForgotten, BeyondPrecision, RowsChanged, WrongInput
from pilu.refit.evidence import hash_of_release
from pilu.refit.fingerprints import fingerprint
from pilu.refit.people import People
from pilu.refit.refusals import check_program
from pilu.refit.settings import Options
from pilu.store.log import Entry
from pilu.store.store import Change, Store, check_is_free
from pilu.tabular.frames import frame_of
from pilu.tabular.laying_out import lay_out

Positions = NDArray[np.intp]
_NOBODY = np.array([], dtype=np.intp)


class RefitDesk(Desk):
    """A store whose model forgets by a refit."""

    method: ClassVar[str] = "refit"
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
        key, gone = _inherited(successor_of)
        options = Options.checked(epsilon=epsilon, delta=delta, score_noise=score_noise)
        source = open_source(table)
        named = [name for name in (id, subject) if name is not None]
        content = source.read(as_text=[*named, *categories, *words])
        layout = lay_out(
            content,
            target=target,
            subject=subject,
            id=id,
            weight=weight,
            ignore=ignore,
            words=words,
            categories=categories,
            model=model if pipeline is None else "auto",
        )
        how = describe_default(model, alpha) if pipeline is None else describe_file(pipeline)
        program = program_of(how, layout)
        check_program(program)
        frame = frame_of(content, layout)
        rows = Rows.of(frame, key, labels=is_classifier(program))
        back = _came_back(returned, gone, key)
        gone = gone - set(back)
        rows = refuse_forgotten(rows, gone, leave_out=without_forgotten)
        learned = Learned.of(program, frame, layout, how, n_people=len(set(rows.people)))
        rows = rows.take(np.arange(len(rows)))
        done = _run(program, rows, options, None)
        released = bytes_of_model(done.release.estimator)
        state = {
            "method": cls.method,
            "sources": [source.name],
            "layout": layout.record(),
            "program": how,
            "program_sha256": fingerprint(clone(program)),
            "trusted": types_to_trust(released),
            "options": {"epsilon": epsilon, "delta": delta, "score_noise": score_noise},
            "n_rows": len(rows),
            "n_fits": 1,
            "releases": [0, 0],
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
        store = Store.create(
            folder,
            key,
            state,
            saved_arrays(rows, gone, released),
            entry,
            people=[leaf_of(name) for name in sorted(gone)],
        )
        desk = cls(store)
        desk.learned = learned
        return desk

    # Reading

    def read(self) -> RefitSnapshot:
        """The store as it is now."""
        return RefitSnapshot.of(self.store.read())

    def forgotten(self) -> Forgotten:
        """Who was forgotten, to find their rows in a table."""
        held = self.read()
        layout = held.layout
        first = next(iter(layout.kinds))
        columns = Columns((), layout.id, layout.subject, features=(first,))
        return Forgotten(held.suppressed, held.key, columns)

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

        def plan(change: Change, held: RefitSnapshot) -> "Plan":
            name = open_source(table).name
            if name in held.sources:
                raise WrongInput(
                    f"table must be new, got {name}, which the store has. To learn what appeared "
                    f"in it, use `pilu sync {self.folder}`."
                )
            back = _came_back(returned, held.suppressed, held.key)
            gone = held.suppressed - set(back)
            new = refuse_forgotten(held.rows_of(table), gone, leave_out=without_forgotten)
            if "id" in new.names.hashes:
                _check_new_ids(held, new)
            known = self._known_rows(held)
            after = known.followed_by(new)
            return Plan(
                after.take(np.arange(len(after))),
                {"kind": "add", "n_added": len(new)},
                suppressed=gone,
                returned=back,
                state={"sources": [*held.sources, name]},
            )

        return self._change(plan, **handing)

    def correct(self, table: str | Path, **handing: Any) -> Outcome:
        """Replace rows by corrected ones of the same ids (rectification)."""

        def plan(change: Change, held: RefitSnapshot) -> "Plan":
            if held.layout.id is None:
                raise WrongInput(
                    "rows can be corrected only in a store with ids: it was fitted without --id. "
                    f"Change them in the table, then use `pilu sync {self.folder}`."
                )
            name, new = open_source(table).name, held.rows_of(table)
            matched = match(held.names, held.digests, new)
            if len(matched.new):
                raise WrongInput(
                    f"{len(matched.new)} row(s) of {name} have ids that the model does not know. "
                    "Use `pilu add` for new rows."
                )
            where = np.flatnonzero(~matched.missing)
            kept, given = held.names.hashes["subject"], new.names.hashes["subject"]
            if (kept[where] != given[matched.place[where]]).any():
                raise WrongInput(
                    f"a row of {name} belongs to another person than before. Forget the one and "
                    "add the other."
                )
            known = self._known_rows(held)
            both = known.followed_by(new)
            order = np.arange(len(known))
            order[where] = len(known) + matched.place[where]
            sources = [*(s for s in held.sources if s != name), name]
            return Plan(
                both.take(order),
                {"kind": "correct", "n_corrected": int(matched.changed.sum())},
                suppressed=held.suppressed,
                state={"sources": sources},
            )

        return self._change(plan, **handing)

    def compare(self, table: str | Path | None = None) -> Difference:
        """What appeared, changed and disappeared in a table since the store last read it."""
        held = self.read()
        rows, _ = held.read_rows(table)
        return compare(held, rows, match(held.names, held.digests, rows))

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

        def plan(change: Change, held: RefitSnapshot) -> "Plan":
            rows, _ = held.read_rows(table)
            matched = match(held.names, held.digests, rows)
            back = _came_back(returned, held.suppressed, held.key)
            gone = held.suppressed - set(back)
            hidden = are_among(rows.names.hashes["subject"][matched.new], gone)
            if hidden.any() and not without_forgotten:
                refuse_forgotten(rows.take(matched.new), gone, leave_out=False)
            new = matched.new[~hidden]
            stay = matched.place[~matched.missing]
            difference = compare(held, rows, matched)
            names = list(difference.missing_people) if forget_missing else []
            sources = held.sources if table is None else [open_source(table).name]
            return Plan(
                rows.take(np.concatenate([stay, new])),
                {
                    "kind": "sync",
                    "n_added": len(new),
                    "n_corrected": int(matched.changed.sum()),
                    "n_dropped": int(matched.missing.sum()),
                },
                forgotten={name: int(n) for name, n in difference.rows_of(names).items()},
                suppressed=gone | set(names),
                returned=back,
                state={"sources": list(sources)},
            )

        return self._change(plan, **handing)

    def _known_rows(self, held: RefitSnapshot, table: str | Path | None = None) -> Rows:
        """The rows of the model as they are in the user's tables: all there and unchanged."""
        rows, lost = held.read_rows(table)
        matched = match(held.names, held.digests, rows)
        _check_unchanged(self.folder, matched, np.ones(len(held.digests), dtype=bool), lost)
        return rows.take(matched.place)

    # Forgetting

    def _forget(
        self,
        choose: Callable[[Change], list[bytes]],
        *,
        table: str | Path | None = None,
        **handing: Any,
    ) -> Outcome:
        """Forget people, whether their rows are still in the table or not."""

        def plan(change: Change, held: RefitSnapshot) -> "Plan":
            names = set(choose(change))
            leaving = are_among(held.names.hashes["subject"], names)
            if leaving.all():
                raise WrongInput(
                    f"all {len(leaving)} rows that are left belong to the people to forget. Delete "
                    "the store and the model instead."
                )
            rows, lost = held.read_rows(table)
            matched = match(held.names, held.digests, rows)
            _check_unchanged(self.folder, matched, ~leaving, lost)
            counts = _counts(held.names.hashes["subject"][leaving], names)
            return Plan(
                rows.take(matched.place[~leaving]),
                {"kind": "unlearn", "n_forgotten": int(leaving.sum())},
                forgotten=counts,
                suppressed=held.suppressed | names,
                exposures=self._exposures(held, rows, matched, leaving, names),
                notes=tuple(_notes(self.folder, rows, matched, held.suppressed | names)),
            )

        return self._change(plan, **handing)

    def _exposures(
        self,
        held: RefitSnapshot,
        rows: Rows,
        matched: Matched,
        leaving: NDArray[np.bool_],
        names: Iterable[bytes],
    ) -> dict[str, Any]:
        """What the releases that were handed out told about each person."""
        now, before = releases = held.state["releases"]
        if now + before == 0:
            return {name.hex(): exposure_record(0.0, None, releases) for name in names}
        unknown = {name.hex(): exposure_record(float("inf"), None, releases) for name in names}
        if now == 0 or matched.missing[leaving].any() or matched.changed.any():
            return unknown
        whole = rows.take(matched.place)
        places = whole.names.by_hash("subject")
        people = [name for name in names if name in places]
        requests = [places[name] for name in people]
        try:
            exposure = held.forgetful(whole).exposure(requests)
        except BeyondPrecision:
            return unknown
        told = zip(people, exposure.epsilon.tolist(), strict=True)
        return unknown | {
            name.hex(): exposure_record(epsilon, exposure.delta, releases) for name, epsilon in told
        }

    def _change(
        self,
        plan: Callable[[Change, RefitSnapshot], "Plan"],
        *,
        deliver: Deliver | None = None,
        sign: Path | None = None,
    ) -> Outcome:
        """Refit on the rows of a plan, and log it: all of it takes effect, or nothing."""
        check_signing_key(sign)
        with self.store.changing() as change:
            held = RefitSnapshot.of(change.snapshot)
            made = plan(change, held)
            if made.returned:
                change.note({"kind": "return"}, people=[leaf_of(n) for n in sorted(made.returned)])
            entry = self._refit(change, held, made)
        return self._handed_over(entry.place, deliver, sign, made.notes)

    def _refit(self, change: Change, held: RefitSnapshot, plan: "Plan") -> Entry:
        options, program, before = held.options, held.program, held.refitted()
        done = _run(program, plan.rows, options, before)
        table = plan.rows.table
        certificate = done.certificate(program, table, _NOBODY, before, options)
        released = bytes_of_model(done.release.estimator)
        now, earlier = held.state["releases"]
        people = [
            leaf_of(
                name,
                rows=plan.forgotten[name],
                exposure_sha256=_hash(plan.exposures.get(name.hex())),
            )
            for name in sorted(plan.forgotten)
        ]
        return change.save(
            saved_arrays(plan.rows, frozenset(plan.suppressed), released),
            {
                "n_rows": len(plan.rows),
                "n_fits": held.state["n_fits"] + 1,
                "releases": [0, earlier + now],
                **plan.state,
            },
            {
                **plan.entry,
                "n_rows": len(plan.rows),
                "score": changed_score(held.released, done.release.estimator, table, held.layout),
                **kept_in_log(certificate),
            },
            people=people,
            outbox={"certificate": certificate.to_json(), "exposures": plan.exposures},
        )

    def _check_known(self, change: Change, people: Sequence[Any]) -> None:
        held = RefitSnapshot.of(change.snapshot)
        known = set(held.names.by_hash("subject"))
        hashed = dict(zip(people, self._hashed(people), strict=True))
        again = [name for name, one in hashed.items() if one in held.suppressed]
        unknown = [
            name for name, one in hashed.items() if one not in known and one not in held.suppressed
        ]
        if again and not unknown:
            raise AlreadyForgotten(
                f"{_listed(again)} {'was' if len(again) == 1 else 'were'} forgotten already. "
                "Nothing was changed."
            )
        if unknown:
            more = f", and {_listed(again)} forgotten already" if again else ""
            raise WrongInput(
                f"subjects must be people of the model, got unknown {_listed(unknown)}{more}. "
                "Nothing was changed."
            )

    # Checks

    def check_contents(self, people: Any, table: str | Path | None) -> dict[str, bool]:
        """Check that state, arrays and log agree; with a table, also with its rows."""
        return check_refit(self.read(), self.store, people, table)

    def check_receipt_against_data(self, receipt: Receipt, people: Any, table: str | Path) -> bool:
        """Fit from scratch on the rows, and compare the release; only for the latest one."""
        return check_release_against_data(self.read(), receipt.certificate, table)


class Plan:
    """What a change does: the rows afterwards, the entry, and who is forgotten."""

    def __init__(
        self,
        rows: Rows,
        entry: Mapping[str, Any],
        *,
        suppressed: Iterable[bytes],
        forgotten: Mapping[bytes, int] | None = None,
        returned: Sequence[bytes] = (),
        exposures: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.rows, self.entry = rows, entry
        self.suppressed, self.returned = frozenset(suppressed), list(returned)
        self.forgotten = dict(forgotten or {})
        self.exposures, self.state, self.notes = dict(exposures or {}), dict(state or {}), notes


def _run(program: Any, rows: Rows, options: Options, before: Any) -> Done:
    everybody = People((), (), rows.table)
    return run_program(program, rows.table, options, everybody, gaussian_source(None, 0), before)


def _inherited(successor_of: str | Path | None) -> tuple[bytes, frozenset[bytes]]:
    """The key of a new store and the people who are not to be learned again."""
    if successor_of is None:
        return secrets.token_bytes(32), frozenset()
    with Desk.open(successor_of) as before:
        return before.store.key, before.forgotten().names


def _came_back(returned: Sequence[str], gone: frozenset[bytes], key: bytes) -> list[bytes]:
    hashed = {name: hash_of(name, key) for name in returned}
    strange = [name for name, one in hashed.items() if one not in gone]
    if strange:
        raise WrongInput(
            f"returned must name people who were forgotten, got {_listed(strange)}. Leave them out."
        )
    return list(hashed.values())


def _check_new_ids(held: RefitSnapshot, new: Rows) -> None:
    known = set(held.names.by_hash("id"))
    again = [k for k, key in enumerate(new.keys) if key in known]
    if again:
        raise WrongInput(
            f"{len(again)} row(s) of the table have ids that the model knows, the first in row "
            f"{again[0] + 1}. Use `pilu correct` for rows that changed, or `pilu sync` for a whole "
            "table."
        )


def _check_unchanged(
    folder: Path, matched: Matched, stay: NDArray[np.bool_], lost: Sequence[str]
) -> None:
    """Refuse a table in which rows of people who stay are missing or changed."""
    missing, changed = int((matched.missing & stay).sum()), int((matched.changed & stay).sum())
    if not missing and not changed:
        return
    problems = [f"{missing} row(s) of people who stay are not there"] * bool(missing)
    problems += [f"{changed} row(s) of people who stay were changed"] * bool(changed)
    problems += [f"the table {', '.join(lost)} is not there"] * bool(lost)
    raise RowsChanged(
        f"the table is not as the model knows it: {', and '.join(problems)}. Nothing was changed. "
        f"`pilu sync {folder}` shows the difference, and makes the model follow the table. To "
        "forget several people whose rows are erased already, name all of them."
    )


def _notes(folder: Path, rows: Rows, matched: Matched, gone: Iterable[bytes]) -> Iterable[str]:
    hidden = are_among(rows.names.hashes["subject"], frozenset(gone))
    new = int((~hidden[matched.new]).sum())
    if new:
        yield f"{new} row(s) of the table are not in the model. `pilu sync {folder}` adds them."
    if hidden.any():
        yield (
            f"{int(hidden.sum())} row(s) of forgotten people are still in the table. "
            f"`pilu table {folder} --rewrite FILE` writes it without them."
        )


def _counts(hashes: NDArray[np.uint8], names: Iterable[bytes]) -> dict[bytes, int]:
    counts = dict.fromkeys(names, 0)
    for row in hashes:
        counts[row.tobytes()] += 1
    return counts


def _hash(record: Any) -> str | None:
    return None if record is None else sha256_of(record)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
