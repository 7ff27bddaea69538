"""Leases: whoever holds one is alone at work, until it is given back or no longer renewed."""

import time

from pilu.exceptions import PiluError
from pilu.service.database import Transaction


class LeaseLost(PiluError):
    """Another worker has taken over: whoever sees this stops, and ends nothing."""


def lease_of(store: str) -> str:
    """The name of the lease of a store."""
    return f"store {store}"


def pause_of(store: str) -> str:
    """The name of the lease that keeps the service from starting a worker in a store."""
    return f"pause {store}"


def take_lease(tx: Transaction, name: str, holder: str, seconds: float) -> bool:
    """Take or renew a lease; False while another holds it."""
    now = time.time()
    statement = (
        "INSERT INTO leases (name, holder, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
        " SET holder = excluded.holder, until = excluded.until"
        " WHERE leases.until < ? OR leases.holder = excluded.holder"
    )
    return bool(tx.run(statement, name, holder, now + seconds, now))


def is_leased(tx: Transaction, name: str) -> bool:
    """Whether somebody holds a lease."""
    found = tx.one("SELECT 1 FROM leases WHERE name = ? AND until >= ?", name, time.time())
    return found is not None


def give_back(tx: Transaction, name: str, holder: str) -> None:
    """End a lease."""
    tx.run("DELETE FROM leases WHERE name = ? AND holder = ?", name, holder)


def check_lease(tx: Transaction, name: str, holder: str) -> None:
    """Refuse to go on without a lease: somebody else is at work, or may be."""
    now = time.time()
    held = tx.one(
        "SELECT 1 FROM leases WHERE name = ? AND holder = ? AND until >= ?", name, holder, now
    )
    if held is None:
        raise LeaseLost(f"the lease {name} was lost: another worker goes on.")
