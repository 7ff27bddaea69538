"""Checks of a whole store, and of a receipt against a store and the data.

Each returns named booleans that say what was checked; a mismatch raises and names the file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilu.desk.receipt import receipts_kept
from pilu.exceptions import CertificateMismatch, LedgerMismatch
from pilu.store.merkle import Head
from pilu.store.store import Store, require

if TYPE_CHECKING:
    from pilu.desk.desk import Desk
    from pilu.desk.receipt import Receipt


def check_store(
    desk: "Desk", *, since: Head | None = None, table: str | Path | None = None
) -> dict[str, bool]:
    """Check that all parts of a store agree; with a table, also that the rows are those of it."""
    store = desk.store
    store.ledger.check_whole()
    with store.ledger.reading() as ledger:
        log, state = ledger.log, ledger.state
    if since is not None:
        log.growth_from(since)
    _check_files(store, state)
    _check_outbox(store)
    require(store.folder, log.entries[0].kind == "fit", "the log does not begin with a fit")
    ours = all(entry.record["store"] == state["store"] for entry in log.entries)
    require(store.folder, ours, "an entry of the log is another store's")
    return {
        "files_whole": True,
        "log_agrees_with_its_head": True,
        "log_grown_from_the_noted_head": since is not None,
        **desk.check_contents(people_in(store), table),
    }


def people_in(store: Store) -> dict[int, list[dict[str, Any]]]:
    """The people of all entries that have some, by place; each checked against its entry."""
    with store.ledger.reading() as ledger:
        places = [entry.place for entry in ledger.log.entries if "people" in entry.record]
        return dict(zip(places, ledger.people(places), strict=True))


def _check_files(store: Store, state: Mapping[str, Any]) -> None:
    """The folder has no files that do not belong to the store."""
    folder = f"arrays-{state['generation']}"
    ours = {f"{folder}/{name}.npy" for name in state["arrays"]} | {"key", "ledger.sqlite"}
    ours.add(store.journal.name)  # another process is at work
    files = {
        path.relative_to(store.folder).as_posix()
        for path in store.folder.rglob("*")
        if path.is_file()
    }
    strange = min(files - ours, default=None)
    require(store.folder, strange is None, f"{strange} is not one of its files")


def _check_outbox(store: Store) -> None:
    """What is kept for receipts that were not delivered yet is what their entries name."""
    with store.ledger.reading() as ledger:
        log = ledger.log
        for place, kept in ledger.outbox().items():
            there = 0 <= place < len(log.entries)
            require(store.folder, there, f"receipts are kept of entry {place}, which there is not")
            receipts_kept(ledger, place, kept)


def check_receipt(
    receipt: "Receipt", desk: "Desk | None" = None, table: str | Path | None = None
) -> dict[str, bool]:
    """Check a receipt by itself, against the log of its store, and against the data."""
    checks = {
        **receipt.verify(),
        "in_the_log_of_the_store": False,
        "log_grown_from_its_head": False,
    }
    if desk is None:
        return checks
    log = desk.log()
    if receipt.entry.get("store") != log.entries[0].record["store"]:
        raise CertificateMismatch(f"the receipt is from another store than {desk.folder}.")
    log.growth_from(receipt.head)
    if not receipt.is_in(log):
        raise LedgerMismatch(f"the receipt is not in the log of {desk.folder}.")
    checks |= dict.fromkeys(
        ("in_the_log_of_the_store", "log_grown_from_its_head", "issuer_checked"), True
    )
    if table is not None:
        checked = desk.check_receipt_against_data(receipt, people_in(desk.store), table)
        checks["inputs_checked_against_data"] = checked
    return checks
