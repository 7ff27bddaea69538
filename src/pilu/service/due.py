"""What a worker does with requests: takes what is due, ends it, keeps its receipts.

A request is `running` while a worker has it. A worker that dies leaves that behind, and the next
one takes it as if it were waiting. Whatever ends a request also queues its callbacks and keeps its
receipt, in one transaction.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pilu.service.database import Found, Transaction
from pilu.service.identifiers import receipt_id
from pilu.service.outbox import queue_callbacks
from pilu.service.queue import IS_OPEN

# What runs was taken by a worker that has died, or by one that holds the lease.
_IS_DUE = "(status = 'running' OR (status = 'waiting' AND run_at <= ?))"


def stores_with_work(tx: Transaction, now: float) -> list[str]:
    """Stores in which something is due."""
    found = tx.all(f"SELECT DISTINCT store FROM requests WHERE {_IS_DUE} ORDER BY store", now)
    return [row["store"] for row in found]


def take_due(tx: Transaction, store: str, now: float) -> list[Found]:
    """What is due in a store, in the order in which it came, marked as running.

    The caller holds the store's lease, so what runs already was left by a worker that died. If any
    erasure is due, those of officers that wait for the night go along: they are one refit. Those of
    requesters do not, because they can be cancelled until they are due.
    """
    due = tx.all(
        f"SELECT * FROM requests WHERE store = ? AND {_IS_DUE} ORDER BY number", store, now
    )
    if any(row["type"] == "erasure" for row in due):
        due = tx.all(
            f"SELECT * FROM requests WHERE store = ? AND ({_IS_DUE} OR (type = 'erasure'"
            f" AND told_every = 0 AND {IS_OPEN})) ORDER BY number",
            store, now,
        )  # fmt: skip
    # One that was cancelled in this moment is not taken.
    take = (
        "UPDATE requests SET status = 'running', attempts = attempts + 1"
        f" WHERE id = ? AND {IS_OPEN}"
    )
    return [row for row in due if tx.run(take, row["id"])]


def put_back(tx: Transaction, numbers: Iterable[str], problem: str, run_at: float) -> None:
    """What could not be done waits on, with the reason."""
    for number in numbers:
        tx.run(
            "UPDATE requests SET status = 'waiting', problem = ?, run_at = ?"
            f" WHERE id = ? AND {IS_OPEN}",
            problem, run_at, number,
        )  # fmt: skip


def end_request(
    tx: Transaction,
    found: Found,
    outcome: str,
    *,
    status: str = "completed",
    **more: Any,
) -> bool:
    """End a request, and queue its callbacks; False if it has ended already.

    `more` are `answer`, `receipt`, `entry` and `problem`.
    """
    # Of people who were not forgotten, nothing is kept.
    subject = found["subject"] if outcome in ("forgotten", "forgotten before") else None
    given: Mapping[str, Any] = {
        "answer": None,
        "receipt": None,
        "entry": None,
        "problem": None,
    } | more
    now, every = time.time(), found["told_every"]
    told_at = max(told_time(found["run_at"], every), (now // every + 1) * every) if every else now
    done = tx.run(
        "UPDATE requests SET status = ?, outcome = ?, ended = ?, told_at = ?, answer = ?,"
        f" receipt = ?, entry = ?, problem = ?, subject = ? WHERE id = ? AND {IS_OPEN}",
        status, outcome, now, told_at, given["answer"], given["receipt"], given["entry"],
        given["problem"], subject, found["id"],
    )  # fmt: skip
    if done:
        queue_callbacks(tx, found["id"], told_at)
    return bool(done)


def told_time(run_at: float, every: float) -> float:
    """When a requester learns of an end: a whole interval after the time at which it was due.

    The next round time after the end would tell on which side of it the end was.
    """
    return (run_at // every + 2) * every if every else run_at


def open_erasures(tx: Transaction, store: str, person: str) -> list[Found]:
    """Requests to forget a person that have not ended."""
    return tx.all(
        "SELECT * FROM requests WHERE store = ? AND subject = ? AND type = 'erasure'"
        f" AND {IS_OPEN}",
        store, person,
    )  # fmt: skip


def request_of(tx: Transaction, number: str) -> Found | None:
    """A request by its id, whoever made it."""
    return tx.one("SELECT * FROM requests WHERE id = ?", number)


def keep_receipt(
    tx: Transaction, store_id: str, entry: int, leaf: str, person: str, body: str
) -> str:
    """Keep a receipt; its id, also if it was kept before. `leaf` is the hash of the entry."""
    number = receipt_id(leaf, person)
    tx.run(
        "INSERT INTO receipts (id, store_id, entry, person, body, made) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        number, store_id, entry, person, body, time.time(),
    )  # fmt: skip
    return number


def replace_receipt(tx: Transaction, lost: str, receipt: str, entry: int) -> None:
    """Put a receipt in the place of one whose entry a log has lost."""
    tx.run("UPDATE requests SET receipt = ?, entry = ? WHERE receipt = ?", receipt, entry, lost)
    tx.run("DELETE FROM receipts WHERE id = ?", lost)


def latest_receipt(tx: Transaction, store_id: str, person: str) -> Found | None:
    """The newest receipt of a person."""
    return tx.one(
        "SELECT id, entry FROM receipts WHERE store_id = ? AND person = ? ORDER BY entry DESC",
        store_id, person,
    )  # fmt: skip


def note_forgotten(tx: Transaction, store_id: str, person: str, entry: int, leaf: str) -> None:
    """Note that an entry of a store's log forgot a person; kept for ever, against old backups."""
    tx.run(
        "INSERT INTO forgotten (store_id, person, entry, leaf) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (store_id, person) DO UPDATE"
        " SET entry = excluded.entry, leaf = excluded.leaf",
        store_id, person, entry, leaf,
    )  # fmt: skip


def noted_entry(tx: Transaction, store_id: str, person: str) -> Found | None:
    """The entry that forgot a person, as it was noted."""
    return tx.one("SELECT * FROM forgotten WHERE store_id = ? AND person = ?", store_id, person)


def learned_requests(tx: Transaction, store: str) -> set[str]:
    """Requests that brought rows which a store has learned."""
    found = tx.all(
        "SELECT id FROM requests WHERE store = ? AND status = 'completed'"
        " AND type IN ('addition', 'rectification')",
        store,
    )
    return {row["id"] for row in found}


def noted_as_forgotten(tx: Transaction, store_id: str) -> list[Found]:
    """Everybody whom the service has seen forgotten in a store."""
    return tx.all("SELECT * FROM forgotten WHERE store_id = ?", store_id)


def drop_old(tx: Transaction, before: float) -> None:
    """Delete receipts, callbacks and idempotency keys from before a time. Requests stay."""
    tx.run("DELETE FROM receipts WHERE made < ?", before)
    tx.run("DELETE FROM idempotency WHERE made < ?", before)
    tx.run("DELETE FROM callbacks WHERE delivered IS NOT NULL AND delivered < ?", before)


def trouble_in(tx: Transaction, store: str) -> tuple[int, float | None]:
    """How many waiting requests could not be carried out so far, and when the oldest came in."""
    (found,) = tx.all(
        "SELECT COUNT(problem) AS failing, MIN(received) AS oldest FROM requests"
        f" WHERE store = ? AND {IS_OPEN}",
        store,
    )
    return int(found["failing"]), found["oldest"]
