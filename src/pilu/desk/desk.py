"""The desk: fit a table into a store, forget people, and log everything.

`Desk.fit` and `Desk.open` give the desk of the store's method, `RefitDesk` or `LangevinDesk`. What
both share is here: the queue of requests, and receipts, which are signed and handed over after the
change that they certify is in the log.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from pilu._checks import check_choice
from pilu.certify.certificate import library_versions
from pilu.data.names import hash_of
from pilu.desk.checking import check_store
from pilu.desk.handing_over import Deliver, Outcome, check_signing_key, hand_over
from pilu.desk.known_people import rows_of_people
from pilu.desk.predicting import Predictor, write_predictions
from pilu.desk.receipt import Receipt
from pilu.desk.rewriting import Forgotten
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.report.data import Contents
from pilu.store.disk import named_after, replaced_by
from pilu.store.log import Log
from pilu.store.merkle import Head
from pilu.store.store import Change, Snapshot, Store, now
from pilu.store.subjects import Waiting, leaf_of, waiting_people

# Modules and classes of the desks, imported when a store of their method is opened.
_DESKS = {
    "refit": ("pilu.desk.refit_desk", "RefitDesk"),
    "langevin": ("pilu.desk.langevin_desk", "LangevinDesk"),
}


class _NobodyIsWaiting(Exception):
    """Ends a change that would forget nobody."""


class Desk(ABC):
    """An open store, and what can be done with it."""

    method: ClassVar[str]
    formats: ClassVar[tuple[str, ...]] = ("json",)

    def __init__(self, store: Store) -> None:
        self.store = store

    @staticmethod
    def fit(
        folder: str | Path, table: str | Path, *, method: str = "refit", **options: Any
    ) -> "Desk":
        """Fit a table into a new store; options as in `create` of the desk of the method."""
        check_choice("method", method, tuple(_DESKS))
        desk: Desk = _desk_of(method).create(folder, table, **options)
        return desk

    @staticmethod
    def open(folder: str | Path, *, patience: float = 30.0) -> "Desk":
        """Open a store, and remove what a killed process left behind."""
        store = Store.open(Path(folder), patience=patience)
        try:
            method = str(store.read_state().get("method", "langevin"))
            check_choice("method of the store", method, tuple(_DESKS))
            desk: Desk = _desk_of(method)(store)
        except BaseException:
            store.close()
            raise
        return desk

    def close(self) -> None:
        """Close the ledger."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    @property
    def folder(self) -> Path:
        """Where the store is."""
        return self.store.folder

    def log(self) -> Log:
        """The log as it is now."""
        return self.store.read_log()

    def pending(self) -> list[Waiting]:
        """People who asked to be forgotten, the earliest due date first."""
        with self.store.ledger.reading() as ledger:
            return waiting_people(ledger)

    @abstractmethod
    def forgotten(self) -> Forgotten:
        """Who was forgotten, to find their rows in a table."""

    def keyed(self, subject: Any) -> bytes:
        """The keyed hash by which the store knows a person."""
        return hash_of(subject, self.store.key)

    @property
    def store_id(self) -> str:
        """What every entry of the log names the store by."""
        return str(self.log().entries[0].record["store"])

    @abstractmethod
    def check_tables(self) -> None:
        """Refuse tables in which rows of the model are missing or changed, as `unlearn` would."""

    @abstractmethod
    def price(self, subjects: Sequence[Any]) -> dict[str, Any]:
        """What forgetting people would cost and change, as plain numbers; nothing is changed."""

    def exposures(self, *, most: int) -> tuple[Any, float] | None:
        """Epsilon of everybody for a release of the present parameters, and delta.

        None where there are more than `most` rows, or the rows are not as the model knows them, or
        the method bounds no such thing for everybody at once.
        """
        return None

    # Requests

    def note_once(self, entry: Mapping[str, Any], field: str) -> int:
        """Log something that leaves the model as it is, unless it is there; returns its place.

        It is there if an entry has the same value in a field.
        """
        with self.store.changing() as change:
            there = change.snapshot.log.named(field, entry[field])
            return (there or change.note(entry)).place

    def request(self, subjects: Any, due: date | None = None) -> None:
        """Queue people, to be forgotten by the next `run`."""
        people = one_or_many(subjects)
        with self.store.changing() as change:
            self._check_known(change, people)  # all problems at once
            when = None if due is None else due.isoformat()
            leaves = [leaf_of(name) for name in sorted(self._hashed(people))]
            change.note({"kind": "request", "due": when}, people=leaves)

    def unlearn(self, subjects: Any, **options: Any) -> Outcome:
        """Forget all rows of people, as one group.

        Options are `table` (if it was moved), `deliver` and `sign`; in a Langevin store also those
        of `LangevinRidge.unlearn`, and `redraw_if_needed` and `recollect`.
        """
        people = one_or_many(subjects)

        def choose(change: Change) -> list[bytes]:
            self._check_known(change, people)
            return self._hashed(people)

        return self._forget(choose, **options)

    def run(self, *, also: Iterable[bytes] = (), **options: Any) -> Outcome | None:
        """Forget all people who are waiting, as one group; None if there are none.

        `also` are more people, by their keyed hashes. Those who are not in the model are left out.
        """
        more = set(also)

        def choose(change: Change) -> list[bytes]:
            waiting = [bytes.fromhex(one.name) for one in waiting_people(change.ledger)]
            there = rows_of_people(change.snapshot).keys() if more else set[bytes]()
            found = [*waiting, *sorted(more & there - set(waiting))]
            if not found:
                raise _NobodyIsWaiting
            return found

        try:
            return self._forget(choose, **options) if more or self.pending() else None
        except _NobodyIsWaiting:  # or another process was faster
            return None

    def forget_again(self, names: Iterable[bytes], **options: Any) -> Outcome | None:
        """Forget people by their keyed hashes, after a restore of a backup that has them."""
        return self.run(also=names, **options)

    def rows_of_people(self) -> dict[bytes, list[int]]:
        """Everybody in the model, by the keyed hashes of their names, with their rows."""
        return rows_of_people(self.store.read())

    @abstractmethod
    def _forget(self, choose: Callable[[Change], list[bytes]], **options: Any) -> Outcome:
        """Forget the people whom `choose` names, within one transaction."""

    @abstractmethod
    def _check_known(self, change: Change, people: Sequence[Any]) -> None:
        """Refuse people who are not in the model, all of them in one error."""

    def _hashed(self, people: Iterable[Any]) -> list[bytes]:
        return [self.keyed(name) for name in people]

    # Predictions and releases

    def predict_table(
        self, rows: str | Path, out: str | Path, *, probabilities: bool = False
    ) -> int:
        """Write predictions for the rows of a table as CSV; returns how many there are."""
        self._check_outside(out)
        return write_predictions(*self._predictions(rows, probabilities), Path(out))

    @abstractmethod
    def predictor(self) -> Predictor:
        """A function that predicts rows in memory, by the model as it is now."""

    def table_of(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Rows to add or to correct as a table, or an error with all of their problems."""
        raise WrongInput("only a store of the method refit takes rows that come and go.")

    def _check_outside(self, out: str | Path | None) -> None:
        """Refuse to put a file into the store, where it would be taken for damage."""
        if out is not None and self.folder.resolve() in Path(out).resolve().parents:
            raise WrongInput(f"out must not be in the store, got {out}. Choose another folder.")

    @abstractmethod
    def _predictions(self, rows: str | Path, probabilities: bool) -> tuple[list[str], Any]:
        """Names of columns and batches of lines."""

    @abstractmethod
    def tables(self) -> list[str]:
        """Where the store finds its rows."""

    def release(self, out: str | Path | None = None, format: str = "json") -> dict[str, Any]:
        """Write the model to a file that may be handed out; logged, and bound to its certificate.

        Returns what the log keeps, with the coefficients if the format is "json".
        """
        check_choice("format", format, self.formats)
        out = None if out is None else Path(out)
        self._check_outside(out)
        snapshot = self.store.read()
        content, record = self._released(snapshot, format)
        bound = {name: record[name] for name in ("sha256", "certificate_sha256")}
        entry = {"kind": "release", "format": format, **bound}
        with named_after(out, content), self.store.changing() as change:
            if change.snapshot.state["generation"] != snapshot.state["generation"]:
                raise StoreDamaged("the store was changed by another process. Try again.")
            releases = change.snapshot.state.get("releases")
            state = None
            if releases is not None:
                state = {**change.snapshot.state, "releases": [releases[0] + 1, releases[1]]}
            change.note(entry, state)
        return record

    @abstractmethod
    def _released(self, snapshot: Snapshot, format: str) -> tuple[bytes, dict[str, Any]]:
        """The content of a file, and its record with the hash of the content or of itself."""

    # Reports and checks

    def report(
        self, out: str | Path | None = None, table: str | Path | None = None, *, people: int = 500
    ) -> str:
        """Write an HTML page about the store, and return it.

        A table that is named must exist. In a Langevin store at most `people` are quoted, drawn at
        random.
        """
        from pilu.report.page import render  # for this alone

        self._check_outside(out)
        page = render(self.contents(table, people))
        if out is not None:
            with replaced_by(Path(out)) as part:
                part.write_text(page, encoding="utf-8")
        return page

    def contents(self, table: str | Path | None = None, people: int = 500) -> Contents:
        """What the report shows; without the table, everything but what follows from it."""
        log = self.log()
        return Contents(
            store=self.folder.resolve().name,
            made=now(),
            versions=library_versions(),
            method=self.method,
            entries=[entry.record for entry in log.entries],
            head=str(log.head),
            n_people_forgotten=len(self.forgotten().names),
            pending=self.pending(),
            undelivered=self.undelivered(),
            **{"table": None, "score": None, "chain": None, **self._report_part(table, people)},
        )

    @abstractmethod
    def _report_part(self, table: str | Path | None, people: int) -> dict[str, Any]:
        """What a report shows of the model and the tables, by the names of `Contents`."""

    def verify(
        self, *, since: Head | None = None, table: str | Path | None = None
    ) -> dict[str, bool]:
        """Check that all parts of the store agree; with a table, also that the rows are there.

        With a head that was noted earlier, check that the log has only grown since.
        """
        return check_store(self, since=since, table=table)

    # Checks of a method's own, for `desk.checking`

    @abstractmethod
    def check_contents(self, people: Any, table: str | Path | None) -> dict[str, bool]:
        """Check that state, arrays and log agree; with a table, also with its rows."""

    @abstractmethod
    def check_receipt_against_data(self, receipt: Receipt, people: Any, table: str | Path) -> bool:
        """Check a receipt against the rows; False where nothing can be compared."""

    # Receipts

    def undelivered(self) -> list[int]:
        """Entries whose receipts were not handed over yet: a process was killed, or failed."""
        with self.store.ledger.reading() as ledger:
            return list(ledger.outbox())

    def n_people(self, place: int) -> int:
        """How many people an entry of the log is about."""
        named = self.log().entries[place].record.get("people")
        return 0 if named is None else Head.parse(named).size

    def deliver_again(self, place: int, deliver: Deliver, sign: Path | None = None) -> Outcome:
        """Hand over the receipts of an entry whose delivery failed."""
        check_signing_key(sign)
        return hand_over(self.store, place, deliver, sign)


def one_or_many(subjects: Any) -> list[Any]:
    """One name, or several, as a list."""
    several = isinstance(subjects, Iterable) and not isinstance(subjects, str | bytes)
    people = list(subjects) if several else [subjects]
    if not people:
        raise WrongInput("subjects must have at least one name, got none.")
    twice, times = Counter(map(str, people)).most_common(1)[0]
    if times > 1:
        raise WrongInput(f"subjects must be distinct, got {twice!r} twice. Remove the duplicates.")
    return people


def _desk_of(method: str) -> Any:
    module, name = _DESKS[method]
    return getattr(import_module(module), name)
