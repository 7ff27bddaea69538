"""Rows of forgotten people that are still in the user's table, and a table without them."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import hash_of
from pilu.data.tables import files_of, is_pattern, root_of, write_without
from pilu.deletion.disk import replaced_by, sync_folder
from pilu.deletion.store import Snapshot
from pilu.exceptions import WrongInput

Places = NDArray[np.intp]


def still_in_table(snapshot: Snapshot, table: str | Path | None = None) -> Places:
    """Places of the rows in the table whose subject was forgotten."""
    gone, key = snapshot.log.forgotten, snapshot.key
    still: list[int] = []
    for places, ids, subjects in snapshot.table(table).names():
        named = zip(places.tolist(), subjects or ids or (), strict=True)
        still += [place for place, name in named if hash_of(name, key) in gone]
    return np.array(still, dtype=np.intp)


def rewrite_without_forgotten(snapshot: Snapshot, table: Path, out: Path) -> int:
    """Write the table without forgotten people, and return the number of rows left.

    A file gets its name once it is complete and was read again: those rows are gone, and no others.
    It may replace the old one. Several files go into a folder under their old names, once all of
    them are complete.
    """
    names = {table: out}
    if is_pattern(table):
        names = {file: out / file.relative_to(root_of(table)) for file in files_of(table)}
        for name in names.values():
            name.parent.mkdir(parents=True, exist_ok=True)
    elif out.suffix.lower() != table.suffix.lower():
        raise WrongInput(f"out must end in {table.suffix} as the table does, got {out.name}.")
    n_left = 0
    with ExitStack() as stack:
        for file, name in names.items():
            part = stack.enter_context(replaced_by(name.resolve()))
            n_left += _rewrite(snapshot, file, part)
    for folder in {name.resolve().parent for name in names.values()}:
        sync_folder(folder)
    return n_left


def _rewrite(snapshot: Snapshot, table: Path, part: Path) -> int:
    drop = still_in_table(snapshot, table)
    write_without(table, drop, part)
    shutil.copymode(table, part)
    n_left, expected = snapshot.table(part).n_rows, snapshot.table(table).n_rows - len(drop)
    if n_left != expected or len(still_in_table(snapshot, part)):
        raise WrongInput(
            f"{table} could not be written without the rows: read again, it had {n_left} rows, or "
            "some of them still. Nothing was changed."
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return n_left
