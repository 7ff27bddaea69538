"""A restore of a backup that does not bring forgotten people back.

The store is built beside its name and checked. Whom the backup still knows, though they were
forgotten since, is forgotten again. Then the store gets its name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilu.desk.backups import as_errors_of, not_whole, unpack
from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.desk.remembering import Remembered
from pilu.exceptions import (
    DoneWithTrouble,
    LedgerMismatch,
    RowsChanged,
    StoreDamaged,
    WrongInput,
)
from pilu.store.merkle import Head
from pilu.store.store import building, check_is_free


@dataclass(frozen=True)
class Restored:
    """What a restore has done.

    Attributes
    ----------
    head : Head
        The size and the hash of the log now.
    forgotten_again : int
        People who were in the model of the backup, and are forgotten again.
    listed_again : int
        People who were not in it, and were put on its list again.
    undelivered : list of int
        Entries of the log whose receipts wait in the store.
    """

    head: Head
    forgotten_again: int
    listed_again: int
    undelivered: list[int]


class _Later(Exception):
    """Leaves receipts where they are: `pilu receipts` or the service hands them over."""


def restore(
    backup: Path,
    folder: Path,
    remembered: Remembered,
    *,
    key: bytes | None = None,
    table: str | Path | None = None,
    sync: bool = False,
) -> Restored:
    """Make a store from a backup, and forget again whom it must not know any more.

    Parameters
    ----------
    backup : path
        A file by `back_up`.
    folder : path
        The store to make; it gets its name at the end, or there is none.
    remembered : Remembered
        `NOBODY`, or what `by_store` or `by_list` gives: whom the store had forgotten.
    key : bytes, optional
        The key of the store, if the backup was made without it.
    table : path or address, optional
        The table, if it was moved.
    sync : bool
        Follow the tables as they are now: rows of people who stay may have changed since.
    """
    check_is_free(folder)
    if not folder.absolute().parent.is_dir():
        raise WrongInput(f"out must be in an existing folder, got {folder}. Make it first.")
    with as_errors_of(folder), building(folder) as part:
        contents = unpack(backup, part, key)
        with _without_the_name_of(part, backup), Desk.open(part) as desk:
            if (desk.store_id, str(desk.log().head)) != (contents["store"], contents["head"]):
                raise not_whole(backup, "its ledger is another one")
            check_store(desk)
            lost = frozenset(remembered.names_for(desk)) - desk.forgotten().names
            there = lost & desk.rows_of_people().keys()
            if sync:
                _follow(desk, table)
            if lost:
                _forget_again(desk, lost, table)
            if sync or lost:
                check_store(desk)
            back = lost & desk.rows_of_people().keys()
            if back:  # whatever the method promised
                raise StoreDamaged(f"{len(back)} of the forgotten people are still in the model.")
            done = Restored(
                desk.log().head, len(there), len(lost - there), sorted(desk.undelivered())
            )
    return done


def _follow(desk: Desk, table: str | Path | None) -> None:
    """Make the model follow the tables as they are now."""
    if desk.method != "refit":
        raise WrongInput(
            "sync must be left out: only a store of --method refit takes rows that come and go."
        )
    try:
        with _receipts_left():
            desk.sync(table, without_forgotten=True, deliver=_later)  # type: ignore[attr-defined]
    except WrongInput as error:
        words = str(error).replace(f"`pilu sync {desk.folder} TABLE`", "--sync --table TABLE")
        raise WrongInput(f"the model cannot follow the tables: {words}") from None


def _forget_again(desk: Desk, names: frozenset[bytes], table: str | Path | None) -> None:
    options = {"redraw_if_needed": True} if desk.method == "langevin" else {}
    try:
        with _receipts_left():
            desk.forget_again(names, table=table, deliver=_later, **options)
    except (RowsChanged, WrongInput) as error:
        words = str(error).partition(" Nothing was changed.")[0]
        kind = RowsChanged if isinstance(error, RowsChanged) else WrongInput
        remedy = "bring back the rows as they were"
        if kind is RowsChanged and desk.method == "refit":
            remedy = "pass sync=True to follow the tables as they are now"
        raise kind(
            f"people on the list cannot be forgotten again: {words} Nothing was changed. Name the "
            f"table by --table if it was moved, or {remedy}."
        ) from None


def _later(_: Any) -> None:
    raise _Later


@contextmanager
def _receipts_left() -> Iterator[None]:
    try:
        yield
    except DoneWithTrouble as error:
        if not isinstance(error.__cause__, _Later):
            raise


@contextmanager
def _without_the_name_of(part: Path, backup: Path) -> Iterator[None]:
    """Errors about files that are being restored name the backup."""
    try:
        yield
    except DoneWithTrouble as error:  # what was done is removed
        words = f"{error.__cause__ or error.__context__ or error}"
        raise StoreDamaged(f"{backup} cannot be restored: {words}. Nothing was changed.") from None
    except (StoreDamaged, LedgerMismatch) as error:
        words = str(error).replace(str(part), "the store in it")
        raise type(error)(f"{backup} cannot be restored: {words} Nothing was changed.") from None
