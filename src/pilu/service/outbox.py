"""Callbacks in the database: queued with what ends a request, kept until they are delivered."""

from pilu.service.database import Found, Transaction

_CALLBACK = (
    "SELECT callbacks.id, callbacks.request, callbacks.url, callbacks.shape, callbacks.attempts,"
    " requests.store, requests.type, requests.status, requests.told_at, requests.told_every,"
    " requests.received, requests.run_at, requests.external, requests.token"
    " FROM callbacks JOIN requests ON requests.id = callbacks.request"
)


def queue_callbacks(tx: Transaction, number: str, when: float) -> None:
    """Send the callbacks of a request from a time on."""
    tx.run("UPDATE callbacks SET next = ? WHERE request = ? AND delivered IS NULL", when, number)


def callbacks_due(tx: Transaction, now: float) -> bool:
    """Whether a callback is to be sent."""
    return tx.one("SELECT 1 FROM callbacks WHERE next <= ? LIMIT 1", now) is not None


def take_callbacks(tx: Transaction, now: float, *, most: int) -> list[Found]:
    """Callbacks to be sent, with what they report."""
    return tx.all(
        f"{_CALLBACK} WHERE callbacks.next <= ? ORDER BY callbacks.next LIMIT ?", now, most
    )


def callback_tried(
    tx: Transaction,
    number: str,
    *,
    problem: str | None,
    delivered: float | None,
    following: float | None,
) -> None:
    """Note an attempt to send a callback; `following` is when the next one comes."""
    tx.run(
        "UPDATE callbacks SET attempts = attempts + 1, problem = ?, delivered = ?, next = ?"
        " WHERE id = ?",
        problem, delivered, following, number,
    )  # fmt: skip


def callbacks_open(tx: Transaction) -> tuple[int, int]:
    """How many callbacks wait to be sent, and how many were given up."""
    (found,) = tx.all(
        "SELECT COUNT(next) AS waiting, COALESCE(SUM(CASE WHEN next IS NULL AND problem IS NOT NULL"
        " THEN 1 ELSE 0 END), 0) AS given_up FROM callbacks WHERE delivered IS NULL"
    )
    return int(found["waiting"]), int(found["given_up"])
