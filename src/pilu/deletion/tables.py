"""A user's table by its ending: Parquet, CSV, .npy and .npz.

Rows are numbered as they stand in the file. Nothing is kept: what was read goes to the caller and
is dropped.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.deletion.arrow_tables import CsvTable, ParquetTable
from pilu.deletion.file_sets import FileSet, is_pattern
from pilu.deletion.numpy_tables import ArchiveTable, MatrixTable
from pilu.deletion.table import Batch, Columns, Part, Table

__all__ = ["Batch", "Columns", "Table", "feature_batches", "open_file", "open_part", "open_table"]

Array = NDArray[np.float64]


def open_table(path: str | Path, columns: Columns) -> Table:
    """The table in a file, by its ending; columns are looked for, rows are not read yet.

    A pattern (`data/*.parquet`) stands for all files that match it, as one table.
    """
    path = Path(path)
    if is_pattern(path):
        return FileSet(path, lambda file: open_file(file, columns))
    return open_file(path, columns)


def open_file(path: Path, columns: Columns) -> Table:
    """The table in one file; brackets and stars are letters of its name."""
    if not path.is_file():
        raise ValueError(f"table must be a file, got {path}. Check the path.")
    kinds: dict[str, Any] = {
        ".parquet": ParquetTable,
        ".csv": CsvTable,
        ".npz": ArchiveTable,
        ".npy": MatrixTable,
    }
    if path.suffix.lower() not in kinds:
        raise complaint("table", f"one of {', '.join(kinds)} by its ending", path.name)
    table: Table = kinds[path.suffix.lower()](path, columns)
    return table


def open_part(part: Part) -> tuple[Table, Iterator[Batch]]:
    """The table that a part is of, and the batches of the part, numbered from 0."""
    table: Any = open_file(part.path, part.columns)
    promises = table.promises() if part.groups is None else table.promises(groups=part.groups)
    return table, (promise() for promise in promises)


def feature_batches(path: str | Path, features: Sequence[str]) -> Iterator[Array]:
    """Some columns of a table, in batches, as numbers."""
    for batch in open_table(path, Columns((), features=tuple(features))).batches():
        yield batch.X
