"""Tables by their paths: one file by its ending, or all files that match a pattern as one table.

Rows are numbered as they are in the file, and through the files in the order of their names.
Nothing is kept: what was read goes to the caller.
"""

import glob
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.data.arrow_tables import CsvTable, ParquetTable
from pilu.data.numpy_tables import ArchiveTable, MatrixTable
from pilu.data.table import EVERYTHING, Columns, NameList, Part, Scan, Table, TableBatch
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

_FORMATS: dict[str, type[ParquetTable | CsvTable | ArchiveTable | MatrixTable]] = {
    ".parquet": ParquetTable,
    ".csv": CsvTable,
    ".npz": ArchiveTable,
    ".npy": MatrixTable,
}


def open_table(path: str | Path, columns: Columns) -> Table:
    """The table in a file, by its ending; columns are looked up, rows are not read yet.

    A pattern (`data/*.parquet`) means all files that match it, as one table.
    """
    path = Path(path)
    return FileSet(path, columns) if is_pattern(path) else open_file(path, columns)


def open_file(path: Path, columns: Columns) -> Table:
    """The table in one file; brackets and stars are letters of its name."""
    if not path.is_file():
        raise WrongInput(f"table must be a file, got {path}. Check the path.")
    if path.suffix.lower() not in _FORMATS:
        raise complaint("table", f"one of {', '.join(_FORMATS)} by its ending", path.name)
    return _FORMATS[path.suffix.lower()](path, columns)


def feature_batches(path: str | Path, features: Sequence[str]) -> Iterator[Array]:
    """Some columns of a table, in batches, as numbers."""
    for batch in open_table(path, Columns((), features=tuple(features))).batches():
        yield batch.X


def can_be_rewritten(path: str | Path) -> bool:
    """Whether a table's format is one of those that `write_without` writes."""
    return Path(path).suffix.lower() in _FORMATS


def write_without(path: Path, drop: Positions, out: Path) -> None:
    """Copy a table's file, in its format, without the rows at the places to drop."""
    if not can_be_rewritten(path):
        raise WrongInput(
            f"{path} must end in {', '.join(_FORMATS)} to be written again. Remove the rows where "
            "the table is made."
        )
    _FORMATS[path.suffix.lower()].write_without(path, drop, out)


def is_pattern(path: Path) -> bool:
    """Whether a path means several files; an existing file of that name means itself."""
    return glob.has_magic(str(path)) and not path.exists()


def files_of(path: Path) -> list[Path]:
    """The files that match a pattern, by name; a path that is no pattern is itself the file."""
    if not is_pattern(path):
        return [path]
    files = sorted(Path(name) for name in glob.glob(str(path)))
    if not files:
        raise WrongInput(f"table must be one or more files, got {path}, which matches none.")
    return files


def root_of(path: Path) -> Path:
    """The innermost folder that holds all files of a pattern, whatever they are."""
    fixed = itertools.takewhile(lambda part: not glob.has_magic(part), path.parent.parts)
    return Path(*fixed)


def is_among(path: Path, table: Path) -> bool:
    """Whether a path is one of a table's files, or would be if it were written."""
    if not is_pattern(table):
        return path.resolve() == table.resolve()
    root = root_of(table)
    pattern = root.resolve() / table.relative_to(root)
    whole = path.parent.resolve() / path.name
    return whole.match(str(pattern)) or path.resolve() in [
        Path(name).resolve() for name in glob.glob(str(table))
    ]


def is_there(path: Path) -> bool:
    """Whether there is a file, or a file that matches."""
    return bool(glob.glob(str(path))) if is_pattern(path) else path.is_file()


class FileSet(Table):
    """Tables of one kind, one after the other; a row is read from its own file alone."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        self._tables: Sequence[Table] = [open_file(file, columns) for file in files_of(path)]
        self.features = self._tables[0].features
        for table in self._tables[1:]:
            if table.features != self.features:
                raise WrongInput(
                    f"{table.path} must have the columns of {self._tables[0].path}, in their "
                    "order, got others."
                )

    @cached_property
    def _ends(self) -> Positions:
        return np.cumsum([table.n_rows for table in self._tables])

    @property
    def n_rows(self) -> int:
        """Rows in all files."""
        return int(self._ends[-1])

    def deferred_batches(self, scan: Scan = EVERYTHING) -> Iterator[Callable[[], TableBatch]]:
        """All rows in order."""
        for table, first in self._with_starts():
            for make_batch in table.deferred_batches(scan):
                yield partial(_moved, make_batch, first)

    def parts(self) -> list[Part]:
        """The parts of all files."""
        return [part for table in self._tables for part in table.parts()]

    @property
    def held_bytes(self) -> int:
        """What the files keep in memory."""
        return sum(table.held_bytes for table in self._tables)

    def take(self, places: Positions) -> TableBatch:
        """The rows at sorted places."""
        if len(places) and places[-1] >= self.n_rows:
            raise WrongInput(f"{self.path} has fewer rows than it had: it was changed.")
        parts = []
        for (table, first), end in zip(self._with_starts(), self._ends, strict=True):
            here = places[(places >= first) & (places < end)]
            if len(here):
                parts.append(table.take(here - first))
        return TableBatch(
            places,
            np.vstack([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            _joined([part.ids for part in parts]),
            _joined([part.subjects for part in parts]),
        )

    def _with_starts(self) -> Iterator[tuple[Table, int]]:
        yield from zip(self._tables, [0, *self._ends[:-1].tolist()], strict=True)


def _moved(make_batch: Callable[[], TableBatch], first: int) -> TableBatch:
    batch = make_batch()
    return batch._replace(places=batch.places + first)


def _joined(parts: Sequence[NameList | None]) -> NameList | None:
    if any(part is None for part in parts):
        return None
    return [name for part in parts for name in part or ()]
