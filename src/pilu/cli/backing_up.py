"""Commands for backups: backup, forgotten, restore."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilu.cli.answers import print_answer
from pilu.cli.files import check_output
from pilu.cli.options import Json, Out, Store, TableNow
from pilu.exceptions import WrongInput
from pilu.report.entries import count

if TYPE_CHECKING:
    from pilu.desk.desk import Desk
    from pilu.desk.remembering import Remembered

_NOTED = "SELECT store_id, person, entry, leaf FROM forgotten"
_SQLITE = b"SQLite format 3\x00"


def backup(
    store: Store,
    out: Out,
    without_key: Annotated[
        bool,
        typer.Option(
            "--without-key",
            metavar="",
            help="Leave the store's key out: keep it elsewhere, and restore with --key.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a store to one file, as it is at this moment; it may be in use."""
    from pilu.desk.backups import back_up

    check_output("out", out, store)
    made = back_up(store, out, with_key=not without_key)
    size = out.stat().st_size
    secret = " It has no key: keep STORE/key elsewhere." if without_key else ""
    print_answer(
        {"out": str(out), "store": made["store"], "head": made["head"], "bytes": size},
        f"{out}: {size:,} bytes.{secret}\nHead of the log: {made['head']}",
        as_json,
    )


def forgotten(store: Store, out: Out, as_json: Json = False) -> None:
    """Write a list of everybody who was forgotten, for a later restore; no names, only hashes."""
    from pilu.desk.remembering import write_forgotten

    check_output("out", out, store)
    n = write_forgotten(store, out)
    text = f"{out}: {count(n, 'person', 'people')}. Keep it apart from the store."
    print_answer({"out": str(out), "n_people": n}, text, as_json)


def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A file written by `pilu backup`.")
    ],
    out: Annotated[Path, typer.Option(metavar="STORE", help="The store to make: a new folder.")],
    forgotten: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="What knows who was forgotten since: the store as it was last, a list by `pilu "
            "forgotten`, or the service's database (its file, or postgresql://...). The word none "
            "if nobody was.",
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The store's key, for a backup --without-key."),
    ] = None,
    table: TableNow = None,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync",
            metavar="",
            help="Make the model follow the tables as they are now; needed if rows of people who "
            "stay were changed since the backup.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a store from a backup, and forget again whom it must not know any more."""
    from pilu.desk.restoring import restore

    remembered = _what_remembers(forgotten)
    secret = None if key is None else key.read_bytes()
    done = restore(backup, out, remembered, key=secret, table=table, sync=sync)
    record = {
        "out": str(out),
        "head": str(done.head),
        "forgotten_again": done.forgotten_again,
        "listed_again": done.listed_again,
        "known_until": remembered.until,
        "undelivered": done.undelivered,
    }
    again = count(done.forgotten_again, "person was", "people were")
    lines = [f"{out}: restored and checked. {again} forgotten again."]
    if done.listed_again:
        are = count(done.listed_again, "person is", "people are")
        lines.append(f"{are} not in the model, and stay on its list.")
    if remembered.until is not None:
        lines.append(f"{forgotten} knows who was forgotten until {remembered.until}, and no later.")
    if done.undelivered:
        lines.append(f"Their receipts wait in it: pilu receipts {out}")
    print_answer(record, "\n".join([*lines, f"Head of the log: {done.head}"]), as_json)


def _what_remembers(where: str) -> "Remembered":
    from pilu.desk.remembering import NOBODY, by_list, by_store

    path = Path(where)
    if where == "none":
        return NOBODY
    if where.startswith(("postgresql://", "postgres://")):
        return _by_database(where)
    if path.is_dir():
        return by_store(path)
    if path.is_file() and _begins_with(path, _SQLITE):
        return _by_database(path)
    return by_list(path)


def _by_database(where: str | Path) -> "Remembered":
    """Whom the service has seen forgotten, by entries that the log does not have."""
    from pilu.desk.remembering import Remembered

    noted = _noted_in_file(where) if isinstance(where, Path) else _noted_at(where)

    def remembered(desk: "Desk") -> Iterable[bytes]:
        leaves, ours = desk.log().leaves, desk.store_id
        found = [row for row in noted if row["store_id"] == ours]
        if not found:
            raise WrongInput(
                "the database knows nobody who was forgotten in this store. If that is right, pass "
                "--forgotten none. Nothing was changed."
            )
        return [
            bytes.fromhex(row["person"])
            for row in found
            if leaves[row["entry"] : row["entry"] + 1] != (bytes.fromhex(row["leaf"]),)
        ]

    return Remembered(remembered)


def _noted_at(address: str) -> list[Any]:
    from pilu.service.database import open_database

    with closing(open_database(address)) as opened, opened.reading() as tx:
        return list(tx.all(_NOTED))


def _noted_in_file(path: Path) -> list[Any]:
    try:  # for reading only: the service would make its tables in any file
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as opened:
            opened.row_factory = sqlite3.Row
            return opened.execute(_NOTED).fetchall()
    except sqlite3.Error as error:
        raise WrongInput(
            f"{path} must be the database of a service: {error}. Nothing was changed."
        ) from None


def _begins_with(path: Path, content: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(content)) == content
