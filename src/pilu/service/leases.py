"""Leases: whoever holds one is alone at work, until it is given back or no longer renewed."""

import time

from pilu.service.database import Transaction


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
