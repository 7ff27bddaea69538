"""Carry out what is due: each request once, however often workers die.

A worker holds the lease of a store while it works there. What it does is safe without the lease,
too: the store's own lock lets one change at a time, somebody who was forgotten cannot be forgotten
twice, and receipts stay in the store's outbox until the database has them.
"""

import contextlib
import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.exceptions import DoneBefore, DoneWithTrouble, PiluError, WrongInput
from pilu.service import actions, due, leases, queue
from pilu.service.configuration import Configuration
from pilu.service.database import Database, Found
from pilu.service.identifiers import new_id, receipt_id
from pilu.service.leases import LeaseLost, lease_of
from pilu.service.row_files import drop_unused, erase_forgotten, rows_file
from pilu.service.store_pictures import draw_store
from pilu.service.stores import Stores
from pilu.store import merkle
from pilu.store.log import Entry, canonical
from pilu.store.store import key_check

_OTHER_STORE = (
    "the store was replaced by one with another key, which does not know whose request this is. "
    "Cancel it, and ask again by name."
)
_OUTCOMES = {"add": "learned", "correct": "corrected"}
LEASE = 60.0  # seconds; renewed while the worker lives
_RETRY, _LONGEST = 300.0, 6 * 3600.0  # seconds between attempts: doubled each time
_DAY = 86_400.0
_log = logging.getLogger("pilu.service")


@dataclass
class Worked:
    """What a worker did."""

    ended: int = 0
    put_back: int = 0
    busy: list[str] = field(default_factory=list)  # stores where another worker was


class Worker:
    """Carries out what is due in the stores of a folder."""

    def __init__(self, configuration: Configuration, database: Database) -> None:
        self.configuration, self.database = configuration, database
        self.stores = Stores(configuration.stores)
        self.holder, self.worked = new_id(), Worked()

    def run(self, *, everywhere: bool = False) -> Worked:
        """Work in every store where something is due, or in all of them."""
        with self.database.reading() as tx:
            now = time.time()
            wanted = {*due.stores_with_work(tx, now), *actions.stores_with_actions(tx, now)}
        for name in self.stores.names():
            if everywhere or name in wanted:
                self._run_store(name, everywhere=everywhere)
        if everywhere:
            with self.database.writing() as tx:
                due.drop_old(tx, time.time() - _DAY * self.configuration.keep_receipts)
        self.database.tidy()
        return self.worked

    def _run_store(self, name: str, *, everywhere: bool) -> None:
        with self._leased(lease_of(name)) as leased:
            if not leased:
                self.worked.busy.append(name)
                return
            try:
                with Desk.open(self.stores.path(name)) as desk:
                    _StoreWork(self, name, desk).run(everywhere=everywhere)
            except LeaseLost as error:
                _log.warning("%s", error)
            except DoneWithTrouble:  # the next worker hands over what it has to
                _log.exception("the receipts of store %s could not be kept", name)
                self._pause(name)
            except Exception as error:  # of a user's own pipeline, too: other stores go on
                _log.exception("store %s could not be worked on", name)
                self._put_all_back(name, error)
                self._pause(name)

    def _pause(self, name: str) -> None:
        """Have the service leave a store with a fault alone for a while."""
        with self.database.writing() as tx:
            leases.take_lease(tx, leases.pause_of(name), self.holder, LEASE)

    def _put_all_back(self, name: str, error: Exception) -> None:
        with contextlib.suppress(LeaseLost), self.database.writing() as tx:
            leases.check_lease(tx, lease_of(name), self.holder)
            taken = due.take_due(tx, name, time.time())
            self.put_back(tx, taken, error)

    def put_back(self, tx: Any, rows: Sequence[Found], error: Exception) -> None:
        """Try again later: after five minutes, and twice as long each time."""
        for row in rows:
            wait = min(_RETRY * 2 ** min(int(row["attempts"]), 10), _LONGEST)
            due.put_back(tx, [row["id"]], _words(error), time.time() + wait)
        self.worked.put_back += len(rows)

    @contextlib.contextmanager
    def _leased(self, name: str) -> Iterator[bool]:
        """Hold a lease for the block, and renew it from a thread; False while another has it."""
        with self.database.writing() as tx:
            taken = leases.take_lease(tx, name, self.holder, LEASE)
        if not taken:
            yield False
            return
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE / 4):
                with contextlib.suppress(PiluError), self.database.writing() as tx:
                    leases.take_lease(tx, name, self.holder, LEASE)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield True
        finally:
            done.set()
            thread.join()
            with self.database.writing() as tx:
                leases.give_back(tx, name, self.holder)


class _StoreWork:
    """One pass over a store."""

    def __init__(self, worker: Worker, name: str, desk: Desk) -> None:
        self.worker, self.name, self.desk = worker, name, desk
        self.configuration, self.database = worker.configuration, worker.database
        self.store_id = desk.store_id

    def run(self, *, everywhere: bool) -> None:
        """Finish what a dead worker left, then do what is due.

        `everywhere` is the nightly pass: it also forgets whom `pilu request` has queued.
        """
        for place in self.desk.undelivered():
            self.desk.deliver_again(place, self._keep, self.configuration.sign)
        self._forget_again()
        erase_forgotten(self.configuration, self.name, self.desk)
        with self.database.writing() as tx:
            taken = self._of_this_key(tx, due.take_due(tx, self.name, time.time()))
        # Rows first: whoever asked to be forgotten since is then forgotten with them.
        for row in taken:
            if row["type"] in ("rectification", "addition"):
                self._learn(row)
        erasures = [row for row in taken if row["type"] == "erasure"]
        if erasures or (everywhere and self.desk.pending()):
            self._erase(erasures)
        for row in taken:
            if row["type"] == "access":
                self._answer(row)
        self._log_actions()
        self._drop_unused()
        draw_store(self.database, self.name, self.desk)

    def _of_this_key(self, tx: Any, taken: Sequence[Found]) -> list[Found]:
        """Leave requests waiting whose names are hashed with the key of another store."""
        ours = key_check(self.desk.store.key)
        others = [row for row in taken if row["store_key"] not in (ours, "")]
        if others:
            self.worker.put_back(tx, others, WrongInput(_OTHER_STORE))
        return [row for row in taken if row["store_key"] in (ours, "")]

    # Erasure

    def _erase(self, taken: Sequence[Found]) -> None:
        names = {bytes.fromhex(row["subject"]) for row in taken}
        try:
            if self._forget(self.desk.run, also=names) is None:
                # Nobody was there. Wrong tables keep them waiting as they would the others.
                self.desk.check_tables()
            # Whoever is left was not in the model, unless it was learned in this moment.
            there = self.desk.rows_of_people().keys()
            gone = self.desk.forgotten().names
            erase_forgotten(self.configuration, self.name, self.desk, frozenset(names - there))
            if self.desk.undelivered():  # another worker forgot somebody: receipts come first
                return
        except DoneWithTrouble:
            raise
        except (PiluError, OSError) as error:
            with self._ending() as tx:
                self.worker.put_back(tx, taken, error)
            return
        with self._ending() as tx:
            for row in taken:
                name = bytes.fromhex(row["subject"])
                if name not in there:
                    self._end_without_change(tx, row, forgotten=name in gone)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[Any]:
        """A transaction that ends requests; not without the lease, lest another is at it."""
        with self.database.writing() as tx:
            leases.check_lease(tx, lease_of(self.name), self.worker.holder)
            yield tx

    def _forget(self, change: Any, **what: Any) -> Any:
        options = {"redraw_if_needed": True} if self.desk.method == "langevin" else {}
        return change(deliver=self._keep, sign=self.configuration.sign, **what, **options)

    def _end_without_change(self, tx: Any, row: Found, *, forgotten: bool) -> None:
        before = due.latest_receipt(tx, self.store_id, row["subject"]) if forgotten else None
        outcome = "forgotten before" if forgotten else "not in the model"
        more = {} if before is None else {"receipt": before["id"], "entry": before["entry"]}
        self.worker.worked.ended += due.end_request(tx, row, outcome, **more)

    def _keep(self, receipts: Sequence[Receipt]) -> None:
        """Take over the receipts of a change: they are kept, and what they answer has ended.

        The store drops them from its outbox when this has returned. If the worker dies before, the
        next one is given them again.
        """
        erase_forgotten(self.configuration, self.name, self.desk)
        with self.database.writing() as tx:
            for receipt in receipts:
                person = "" if receipt.person is None else receipt.person.name
                leaf, place = merkle.leaf(canonical(receipt.entry)).hex(), receipt.place
                text = receipt.to_json()
                kept = due.keep_receipt(tx, self.store_id, place, leaf, person, text)
                if person:
                    self._note_forgotten(tx, person, place, leaf, kept)
                for row, outcome in self._answered(tx, receipt, person):
                    self.worker.worked.ended += due.end_request(
                        tx, row, outcome, receipt=kept, entry=receipt.place
                    )

    def _note_forgotten(self, tx: Any, person: str, place: int, leaf: str, receipt: str) -> None:
        """Note which entry forgot a person; replace a receipt that an older backup made void."""
        before = due.noted_entry(tx, self.store_id, person)
        if before is not None and not self._has(before):
            due.replace_receipt(tx, receipt_id(before["leaf"], person), receipt, place)
        due.note_forgotten(tx, self.store_id, person, place, leaf)

    def _has(self, noted: Found) -> bool:
        """Whether the log has an entry as it was noted."""
        place = int(noted["entry"])
        return self.desk.log().leaves[place : place + 1] == (bytes.fromhex(noted["leaf"]),)

    def _answered(self, tx: Any, receipt: Receipt, person: str) -> list[tuple[Found, str]]:
        """The requests that a receipt answers, and how."""
        if person:
            return [(row, "forgotten") for row in due.open_erasures(tx, self.name, person)]
        row = due.request_of(tx, str(receipt.entry.get("reference")))
        outcome = _OUTCOMES.get(str(receipt.entry.get("kind")))
        return [] if row is None or outcome is None else [(row, outcome)]

    def _forget_again(self) -> None:
        """Forget people whom an older backup of the store has brought back.

        An entry that forgot somebody and is not in the log was made after the backup.
        """
        with self.database.reading() as tx:
            noted = due.noted_as_forgotten(tx, self.store_id)
        lost = [bytes.fromhex(row["person"]) for row in noted if not self._has(row)]
        if lost:
            _log.warning("store %s is older than %d of its receipts", self.name, len(lost))
            self._forget(self.desk.forget_again, names=lost)

    # Access, rectification, addition

    def _answer(self, row: Found) -> None:
        rows, gone = self.desk.rows_of_people(), self.desk.forgotten().names
        name = bytes.fromhex(row["subject"])
        answer = {"in_the_model": name in rows, "n_rows": len(rows.get(name, ())),
                  "forgotten": name in gone}  # fmt: skip
        with self._ending() as tx:
            done = due.end_request(tx, row, "answered", answer=json.dumps(answer))
        self.worker.worked.ended += done

    def _learn(self, row: Found) -> None:
        table = rows_file(self.configuration, self.name, row["id"]).resolve()
        change = getattr(self.desk, "add" if row["type"] == "addition" else "correct", None)
        if change is None:
            self._fail(row, "only a store of the method refit takes rows that come and go.")
            return
        if (made := self.desk.log().named("reference", row["id"])) is not None:
            self._end_made(row, made)
            return
        if not table.exists():
            self._fail(row, "it has rows of people who were forgotten, or who asked to be.")
            return
        try:
            change(table, deliver=self._keep, sign=self.configuration.sign, reference=row["id"])
        except (DoneBefore, DoneWithTrouble):  # its receipt is handed over by another, or later
            return
        except WrongInput as error:  # the rows are not what they must be: they never will be
            self._fail(row, _words(error))
        except (PiluError, OSError) as error:
            with self._ending() as tx:
                self.worker.put_back(tx, [row], error)

    def _end_made(self, row: Found, made: Entry) -> None:
        """End a request whose change is in the log; its receipt was handed over elsewhere."""
        if made.place in self.desk.undelivered():
            return
        with self._ending() as tx:
            done = due.end_request(tx, row, _OUTCOMES[made.kind], entry=made.place)
        self.worker.worked.ended += done

    def _fail(self, row: Found, problem: str) -> None:
        with self._ending() as tx:
            done = due.end_request(tx, row, "refused", status="failed", problem=problem)
        self.worker.worked.ended += done

    # The log, and what nobody needs any more

    def _log_actions(self) -> None:
        with self.database.writing() as tx:
            batches = actions.batch_actions(tx, self.name)
        for batch, rows in batches.items():
            place = self.desk.note_once(_entry_of_actions(batch, rows), "batch")
            with self.database.writing() as tx:
                actions.actions_logged(tx, batch, place)

    def _drop_unused(self) -> None:
        with self.database.reading() as tx:
            needed = {row["id"] for row in queue.list_open(tx, self.name, most=2**31 - 1)}
            learned = due.learned_requests(tx, self.name)
        # What an older backup has not learned is kept: somebody may want to add it again.
        logged = {entry.record.get("reference") for entry in self.desk.log().entries}
        drop_unused(self.configuration, self.name, self.desk, needed | (learned - logged))


def _entry_of_actions(batch: str, rows: Sequence[Found]) -> dict[str, Any]:
    """An entry of the log: who did what how often. The hash covers each single action."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["token"], row["action"])
        counts[key] = counts.get(key, 0) + 1
    single = [[row["time"], row["token"], row["action"], row["request"]] for row in rows]
    return {
        "kind": "audit",
        "batch": batch,
        "actions": [{"by": by, "action": what, "n": n} for (by, what), n in counts.items()],
        "sha256": hashlib.sha256(json.dumps(single).encode()).hexdigest(),
    }


def _words(error: Exception) -> str:
    """What an officer is told; the words of other errors may have values of rows."""
    if isinstance(error, PiluError | OSError):
        words = " ".join(str(error).split())
        return re.sub(r"/\S*/\.service/rows/\S*?([\w-]+\.parquet)", r"\1", words)
    return f"an error inside of the service ({type(error).__name__}); its log says more."
