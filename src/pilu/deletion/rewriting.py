"""Rows of forgotten people that are still in the user's table, and a table without them."""

import os
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import hash_of
from pilu.data.tables import files_of, is_pattern, root_of, write_without
from pilu.deletion.arrays import sync_folder
from pilu.deletion.attaching import table_of
from pilu.deletion.store import Snapshot
from pilu.exceptions import WrongInput

__all__ = ["rewrite_without_forgotten", "still_in_table"]

Places = NDArray[np.intp]


def still_in_table(snapshot: Snapshot, key: bytes, table: str | Path | None = None) -> Places:
    """Places of the rows in the table whose subject was forgotten."""
    gone = snapshot.log.forgotten
    still: list[int] = []
    for places, ids, subjects in table_of(snapshot, table).names():
        named = zip(places.tolist(), subjects or ids or (), strict=True)
        still += [place for place, name in named if hash_of(name, key) in gone]
    return np.array(still, dtype=np.intp)


def rewrite_without_forgotten(snapshot: Snapshot, key: bytes, table: Path, out: Path) -> int:
    """Write the table without forgotten people, and return the number of rows left.

    A file gets its name once it is complete and was read again: those rows are gone, and no others.
    It may replace the old one. Several files go into a folder under their old names, once all of
    them are complete.
    """
    files, names = files_of(table), {table: out}
    if is_pattern(table):
        names = {file: out / file.relative_to(root_of(table)) for file in files}
        for name in names.values():
            name.parent.mkdir(parents=True, exist_ok=True)
    elif out.suffix.lower() != table.suffix.lower():
        raise WrongInput(f"out must end in {table.suffix} as the table does, got {out.name}.")
    parts, n_left = {}, 0
    try:
        for file in files:
            name = names[file].resolve()
            parts[name] = name.with_name(f".{name.name}.part{name.suffix}")
            n_left += _rewrite(snapshot, key, file, parts[name])
        for name, part in parts.items():
            os.replace(part, name)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    for folder in {name.parent for name in parts}:
        sync_folder(folder)
    return n_left


def _rewrite(snapshot: Snapshot, key: bytes, table: Path, part: Path) -> int:
    drop = still_in_table(snapshot, key, table)
    write_without(table, drop, part)
    shutil.copymode(table, part)
    n_left = table_of(snapshot, part).n_rows
    if n_left != table_of(snapshot, table).n_rows - len(drop) or len(
        still_in_table(snapshot, key, part)
    ):
        raise WrongInput(
            f"{table} could not be written without the rows: read again, it had {n_left} rows, or "
            "some of them still. Nothing was changed."
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return n_left
