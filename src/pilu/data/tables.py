"""A user's table by its ending (Parquet, CSV, .npy, .npz), and its targets as numbers.

Rows are numbered as they are in the file. Nothing is kept: what was read goes to the caller.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.data.arrow_tables import CsvTable, ParquetTable
from pilu.data.file_sets import FileSet, is_pattern
from pilu.data.numpy_tables import ArchiveTable, MatrixTable
from pilu.data.table import Columns, Part, Scan, Table, TableBatch
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.exceptions import WrongInput

__all__ = [
    "Columns",
    "Table",
    "encoded_targets",
    "feature_batches",
    "open_part",
    "open_table",
    "sorted_classes",
]

Array = NDArray[np.float64]

_MOST_CLASSES = 1000
_FORMATS: dict[str, Callable[[Path, Columns], Table]] = {
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
    if is_pattern(path):
        return FileSet(path, lambda file: _open_file(file, columns))
    return _open_file(path, columns)


def _open_file(path: Path, columns: Columns) -> Table:
    """The table in one file; brackets and stars are letters of its name."""
    if not path.is_file():
        raise WrongInput(f"table must be a file, got {path}. Check the path.")
    if path.suffix.lower() not in _FORMATS:
        raise complaint("table", f"one of {', '.join(_FORMATS)} by its ending", path.name)
    return _FORMATS[path.suffix.lower()](path, columns)


def open_part(part: Part) -> tuple[Table, Iterator[TableBatch]]:
    """The table that a part is of, and the batches of the part, numbered from 0."""
    table = _open_file(part.path, part.columns)
    return table, table.batches(Scan(groups=part.groups))


def feature_batches(path: str | Path, features: Sequence[str]) -> Iterator[Array]:
    """Some columns of a table, in batches, as numbers."""
    for batch in open_table(path, Columns((), features=tuple(features))).batches():
        yield batch.X


def encoded_targets(path: Path, y: NDArray[Any], targets: NumericTargets | ClassTargets) -> Array:
    """Targets as they are in a table, as numbers, n x d."""
    if isinstance(targets, NumericTargets) and y.dtype.kind not in "iufb":
        raise WrongInput(
            f"{path}: the target must be numeric, got {y[:1].tolist()[0]!r}. For classes pass "
            "--classify or --loss logistic."
        )
    return targets.encode(y, where=f"{path}: the target")


def sorted_classes(path: Path, columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """All labels of a table: text or whole numbers, at least two of them."""
    labels: set[Any] = set()
    for y in columns:
        if y.ndim > 1:
            raise WrongInput(f"{path}: a class must be in one column, got several targets.")
        if y.dtype.kind in "mM":
            raise WrongInput(
                f"{path}: classes must be text or whole numbers, got {y.dtype}. Write dates as "
                "text."
            )
        labels |= set(y.tolist())
        if "" in labels:
            raise WrongInput(
                f"{path}: every row must have a class, got an empty one. Drop such rows, or name "
                "what is missing."
            )
        if len(labels) > _MOST_CLASSES:
            raise WrongInput(
                f"{path}: the target must have at most {_MOST_CLASSES} classes, got more. For "
                "numbers leave out --classify."
            )
    texts = [label for label in labels if isinstance(label, str)]
    others = [label for label in labels if not (isinstance(label, str) or _is_whole(label))]
    if others or 0 < len(texts) < len(labels):
        raise WrongInput(
            f"{path}: classes must be text or whole numbers, all of one kind, got "
            f"{(others or texts)[0]!r}."
        )
    if len(labels) < 2:
        raise WrongInput(f"{path}: the target must have at least 2 classes, got {labels}.")
    classes = np.array(sorted(labels))
    if len(np.unique(classes)) < len(labels):  # as numbers, or as text that ends in NUL
        raise WrongInput(
            f"{path}: classes must differ as numbers or text of one kind, got two of "
            f"{len(labels)} that do not. Write them as text."
        )
    return classes


def _is_whole(label: Any) -> bool:
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())
