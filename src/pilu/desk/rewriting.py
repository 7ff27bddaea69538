"""Rows of forgotten people that are still in the user's table, and a table without them."""

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import hash_of
from pilu.data.sources import open_source
from pilu.data.table import Columns
from pilu.data.tables import files_of, is_pattern, open_table, root_of, write_without
from pilu.exceptions import WrongInput
from pilu.store.disk import replaced_by, sync_folder
from pilu.tabular.cells import texts_of

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Forgotten:
    """Who was forgotten, and which columns of a table name people."""

    names: frozenset[bytes] = field(repr=False)  # keyed hashes
    key: bytes = field(repr=False)
    columns: Columns

    def still_in(self, table: str | Path) -> Places:
        """Places of the rows in the table whose subject was forgotten."""
        return np.flatnonzero(self.found_in(table))

    def found_in(self, table: str | Path) -> NDArray[np.bool_]:
        """For every row of the table: whether its subject was forgotten."""
        column = self.columns.subject or self.columns.id or ""
        content = open_source(table).read([column], as_text=[column])
        people = texts_of(content.column(column)).tolist()
        return np.array([hash_of(name, self.key) in self.names for name in people], dtype=bool)


def rewrite_without(forgotten: Forgotten, table: Path, out: Path) -> int:
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
            n_left += _rewrite(forgotten, file, part)
    for folder in {name.resolve().parent for name in names.values()}:
        sync_folder(folder)
    return n_left


def _rewrite(forgotten: Forgotten, table: Path, part: Path) -> int:
    before = forgotten.found_in(table)
    write_without(table, np.flatnonzero(before), part)
    shutil.copymode(table, part)
    if before.all():  # a source without rows is refused
        n_left, still = open_table(part, forgotten.columns).n_rows, False
    else:
        after = forgotten.found_in(part)
        n_left, still = len(after), bool(after.any())
    if n_left != len(before) - before.sum() or still:
        raise WrongInput(
            f"{table} could not be written without the rows: read again, it had {n_left} rows, or "
            "some of them still. Nothing was changed."
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return n_left
