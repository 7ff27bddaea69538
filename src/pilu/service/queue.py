"""Requests as callers see them: made once, found, listed, cancelled.

A request is `waiting`, `running`, and then `completed`, `failed` or `cancelled` (`service.due`).
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pilu.exceptions import WrongInput
from pilu.service.actions import note_action as note_action
from pilu.service.database import Found, Transaction
from pilu.service.identifiers import hash_name as hash_name
from pilu.service.identifiers import new_id as new_id
from pilu.service.outbox import queue_callbacks
from pilu.service.tokens import Caller

OPEN = ("waiting", "running")
IS_OPEN = "status IN ('waiting', 'running')"


@dataclass(frozen=True)
class Asked:
    """A request as it comes in, with the person as a keyed hash."""

    store: str
    type: str
    run_at: float
    subject: str | None = None
    due: date | None = None
    callbacks: Sequence[tuple[str, str]] = ()  # URLs, and the shape of what is sent there
    idempotency_key: str | None = None
    fingerprint: str = ""  # a keyed hash of the content
    external: str | None = None  # the id that another system gave it
    id: str = ""
    store_key: str = ""  # of the store by whose key names are hashed: `key_check`
    told_every: float = 0.0  # seconds: whoever made it learns of its end at a multiple of them


class KeyUsedBefore(WrongInput):
    """An idempotency key came with another request."""


def make_request(tx: Transaction, asked: Asked, caller: Caller) -> tuple[Found, bool]:
    """Queue a request; returns it, and False if the same one was made before under its key."""
    now, request = time.time(), asked.id or new_id()
    if asked.idempotency_key is not None:
        key = asked.idempotency_key
        statement = (
            "INSERT INTO idempotency (hash, body, request, made) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (hash) DO NOTHING"
        )
        hashed = _key_hash(caller, key)
        if tx.run(statement, hashed, asked.fingerprint, request, now) == 0:
            before = made_before(tx, caller, key, asked.fingerprint)
            assert before is not None
            return before, False
    tx.run(
        "INSERT INTO requests (id, store, type, subject, token, status, received, due, run_at,"
        " external, told_every, store_key)"
        " VALUES (?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?, ?, ?)",
        request, asked.store, asked.type, asked.subject, caller.token, now,
        None if asked.due is None else asked.due.isoformat(), asked.run_at, asked.external,
        asked.told_every, asked.store_key,
    )  # fmt: skip
    for url, shape in asked.callbacks:
        tx.run(
            "INSERT INTO callbacks (id, request, url, shape) VALUES (?, ?, ?, ?)",
            new_id(), request, url, shape,
        )  # fmt: skip
    note_action(tx, caller, f"made a request: {asked.type}", [asked.store], request)
    return _there(tx, request), True


def made_before(tx: Transaction, caller: Caller, key: str, fingerprint: str) -> Found | None:
    """The request that was made under an idempotency key; refused if it was another one."""
    before = tx.one("SELECT * FROM idempotency WHERE hash = ?", _key_hash(caller, key))
    if before is None:
        return None
    if before["body"] != fingerprint:
        raise KeyUsedBefore(
            "the idempotency key must be new for a new request, got one that came with other "
            "content. Repeat the same content, or use a new key."
        )
    return _there(tx, before["request"])


def find_request(tx: Transaction, number: str, caller: Caller) -> Found | None:
    """A request that the caller may see."""
    found = tx.one("SELECT * FROM requests WHERE id = ?", number)
    if found is None or (caller.role == "requester" and found["token"] != caller.token):
        return None
    return found


def find_external(tx: Transaction, store: str, external: str, caller: Caller) -> Found | None:
    """A request by the id that another system gave it."""
    found = tx.one(
        "SELECT * FROM requests WHERE external = ? AND store = ? AND token = ?",
        external, store, caller.token,
    )  # fmt: skip
    return found


def list_requests(
    tx: Transaction, store: str, *, status: str | None, after: str | None, most: int
) -> tuple[list[Found], str | None]:
    """Requests of a store, the newest first, and where the next page begins."""
    before = 2**62
    if after is not None:
        last = tx.one("SELECT number FROM requests WHERE id = ? AND store = ?", after, store)
        if last is None:
            raise WrongInput("after must be the id of a request of the store.")
        before = last["number"]
    wanted = "" if status is None else "AND status = ?"
    values = () if status is None else (status,)
    found = tx.all(
        f"SELECT * FROM requests WHERE store = ? AND number < ? {wanted}"
        " ORDER BY number DESC LIMIT ?",
        store, before, *values, most + 1,
    )  # fmt: skip
    more = len(found) > most
    return found[:most], found[most - 1]["id"] if more else None


def list_open(tx: Transaction, store: str, *, most: int = 1_000) -> list[Found]:
    """Requests that wait, the most urgent first."""
    return tx.all(
        f"SELECT * FROM requests WHERE store = ? AND {IS_OPEN}"
        " ORDER BY CASE WHEN due IS NULL THEN 1 ELSE 0 END, due, number LIMIT ?",
        store, most,
    )  # fmt: skip


def requests_about(tx: Transaction, store: str, person: str, *, most: int = 20) -> list[Found]:
    """Requests about a person, by the keyed hash, the newest first."""
    return tx.all(
        "SELECT * FROM requests WHERE store = ? AND subject = ? ORDER BY number DESC LIMIT ?",
        store, person, most,
    )  # fmt: skip


def count_open(tx: Transaction, store: str, today: date) -> tuple[int, int]:
    """How many requests wait, and how many of them are overdue."""
    (found,) = tx.all(
        "SELECT COUNT(*) AS n, COALESCE(SUM(CASE WHEN due < ? THEN 1 ELSE 0 END), 0) AS late"
        f" FROM requests WHERE store = ? AND {IS_OPEN}",
        today.isoformat(), store,
    )  # fmt: skip
    return int(found["n"]), int(found["late"])


def is_waiting(tx: Transaction, store: str, subject: str) -> bool:
    """Whether the erasure of a person waits."""
    found = tx.one(
        "SELECT 1 FROM requests WHERE store = ? AND subject = ? AND type = 'erasure'"
        f" AND {IS_OPEN}",
        store, subject,
    )  # fmt: skip
    return found is not None


def receipt_of(tx: Transaction, number: str) -> str | None:
    """The text of a receipt; None if it was deleted since."""
    found = tx.one("SELECT body FROM receipts WHERE id = ?", number)
    return None if found is None else str(found["body"])


def cancel_request(tx: Transaction, found: Found, caller: Caller) -> bool:
    """Cancel a request that waits; False if it is too late.

    For a requester it is too late from the time at which it is due: whether a worker has it already
    would tell how long the ones before it took, and so whether somebody was forgotten.
    """
    now = time.time()
    done = tx.run(
        "UPDATE requests SET status = 'cancelled', ended = ?, told_at = ?, subject = NULL"
        " WHERE id = ? AND status = 'waiting' AND (told_every = 0 OR run_at > ?)",
        now, now, found["id"], now,
    )  # fmt: skip
    if done:
        queue_callbacks(tx, found["id"], now)
        note_action(tx, caller, "cancelled a request", [found["store"]], found["id"])
    return bool(done)


def hurry(tx: Transaction, store: str, caller: Caller) -> int:
    """Make everything that waits in a store due now; how many there are."""
    now = time.time()
    tx.run(
        f"UPDATE requests SET run_at = ? WHERE store = ? AND {IS_OPEN} AND run_at > ?",
        now, store, now,
    )  # fmt: skip
    note_action(tx, caller, "asked to carry out what waits", [store])
    n = tx.number(f"SELECT COUNT(*) FROM requests WHERE store = ? AND {IS_OPEN}", store)
    return int(n)


def _key_hash(caller: Caller, key: str) -> str:
    return hashlib.sha256(f"{caller.token}:{key}".encode("utf-8", "replace")).hexdigest()


def _there(tx: Transaction, number: str) -> Found:
    found = tx.one("SELECT * FROM requests WHERE id = ?", number)
    assert found is not None
    return found
