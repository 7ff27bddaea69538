"""Who did what: noted with what they did, and written into the log of the store by a worker."""

import time
from collections.abc import Iterable
from typing import Protocol

from pilu.service.database import Database, Found, Transaction
from pilu.service.identifiers import new_id


class Actor(Protocol):
    """Whoever acts: a caller of the service, or the command line."""

    @property
    def token(self) -> str:
        """What the log names them by."""


def note_action(
    tx: Transaction,
    caller: Actor,
    action: str,
    stores: Iterable[str],
    request: str | None = None,
) -> None:
    """Note what somebody did; a worker writes it into the logs of the stores that it concerns."""
    for store in stores:
        tx.run(
            "INSERT INTO audit (time, store, token, action, request) VALUES (?, ?, ?, ?, ?)",
            time.time(), store, caller.token, action, request,
        )  # fmt: skip


def note_now(
    database: Database, caller: Actor, action: str, store: str, request: str | None = None
) -> None:
    """Note what somebody did, in a transaction of its own."""
    with database.writing() as tx:
        note_action(tx, caller, action, [store], request)


def batch_actions(tx: Transaction, store: str) -> dict[str, list[Found]]:
    """Actions that the log of a store does not have, by the batches in which they go there.

    A batch is fixed before it is logged, so what the log has already is not logged twice.
    """
    tx.run(
        "UPDATE audit SET batch = ? WHERE store = ? AND entry IS NULL AND batch IS NULL",
        new_id(), store,
    )  # fmt: skip
    batches: dict[str, list[Found]] = {}
    for row in tx.all(
        "SELECT * FROM audit WHERE store = ? AND entry IS NULL AND batch IS NOT NULL"
        " ORDER BY number",
        store,
    ):
        batches.setdefault(row["batch"], []).append(row)
    return batches


def actions_logged(tx: Transaction, batch: str, entry: int) -> None:
    """Note which entry of the log has a batch of actions."""
    tx.run("UPDATE audit SET entry = ? WHERE batch = ?", entry, batch)


def stores_with_actions(tx: Transaction, before: float) -> list[str]:
    """Stores whose logs lack actions from before a time."""
    found = tx.all("SELECT DISTINCT store FROM audit WHERE entry IS NULL AND time < ?", before)
    return [row["store"] for row in found]
