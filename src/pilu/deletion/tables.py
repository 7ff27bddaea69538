"""A user's table, read in batches: Parquet, CSV, .npy and .npz (needs the extra ``pilu[desk]``).

Rows are numbered as they stand in the file. Nothing is kept: what was read goes to the caller and
is dropped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu._extras import need

__all__ = ["Batch", "Columns", "Table", "feature_batches", "open_table"]

Array = NDArray[np.float64]
Names = list[Any]

_BATCH_BYTES = 32 * 2**20


class Batch(NamedTuple):
    """Some rows: places in the file, features, targets as they stand there, and names."""

    places: NDArray[np.intp]
    X: Array
    y: NDArray[Any]
    ids: Names | None
    subjects: Names | None


@dataclass(frozen=True)
class Columns:
    """Which columns mean what; the features are all others, unless they are named."""

    target: tuple[str, ...]
    id: str | None = None
    subject: str | None = None
    features: tuple[str, ...] | None = None

    @property
    def special(self) -> tuple[str, ...]:
        """All columns that are no features."""
        return tuple(name for name in (*self.target, self.id, self.subject) if name is not None)


class Table(Protocol):
    """What the desk asks of a table."""

    path: Path
    features: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        ...

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        ...

    def names(self) -> Iterator[tuple[NDArray[np.intp], Names | None, Names | None]]:
        """Places, ids and subjects of all rows, without their values."""
        ...

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The rows at sorted places."""
        ...


def open_table(path: str | Path, columns: Columns) -> Table:
    """The table in a file, by its ending; columns are looked for, rows are not read yet."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"table must be a file, got {path}. Check the path.")
    kinds: dict[str, Any] = {
        ".parquet": _Parquet,
        ".csv": _Csv,
        ".npz": _Archive,
        ".npy": _Matrix,
    }
    if path.suffix.lower() not in kinds:
        raise complaint("table", f"one of {', '.join(kinds)} by its ending", path.name)
    table: Table = kinds[path.suffix.lower()](path, columns)
    return table


def feature_batches(path: str | Path, features: Sequence[str]) -> Iterator[Array]:
    """Some columns of a table, in batches, as numbers."""
    # A table needs one column that is no feature; for predictions the first will do.
    first, *others = features
    for batch in open_table(path, Columns((first,), features=tuple(others))).batches():
        if batch.y.dtype.kind not in "iufb":
            raise ValueError(f"{path}: column {first!r} must be numeric, got {batch.y[0]!r}.")
        yield np.column_stack([batch.y.astype(np.float64), batch.X])


class _Arrow:
    """Parquet and CSV by pyarrow."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        arrow = need("pyarrow", for_="reading tables", extra="desk")
        try:
            names = self._open()
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {_line(error)}") from None
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path} must name its columns once, got {twice!r} twice.")
        _check_columns(path, names, columns)
        others = tuple(name for name in names if name not in columns.special)
        self.features = others if columns.features is None else columns.features

    def _open(self) -> list[str]:
        raise NotImplementedError

    def _record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        raise NotImplementedError

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        first = self.columns.special[0]
        return sum(batch.num_rows for batch in self._record_batches([first]))

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        first = 0
        for batch in self._record_batches([*self.features, *self.columns.special]):
            yield self._batch(batch, first + np.arange(batch.num_rows))
            first += batch.num_rows

    def names(self) -> Iterator[tuple[NDArray[np.intp], Names | None, Names | None]]:
        """Places, ids and subjects of all rows, without their values."""
        wanted = [name for name in (self.columns.id, self.columns.subject) if name is not None]
        first = 0
        for batch in self._record_batches(wanted):
            places = first + np.arange(batch.num_rows)
            yield (
                places,
                self._named(batch, self.columns.id),
                self._named(batch, self.columns.subject),
            )
            first += batch.num_rows

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The rows at sorted places."""
        arrow = need("pyarrow", for_="reading tables", extra="desk")
        parts, found, first = [], [], 0
        for batch in self._batches_around(places):
            start = batch[0]
            first, record = start, batch[1]
            here = places[(places >= first) & (places < first + record.num_rows)]
            if len(here):
                parts.append(record.take(arrow.array(here - first)))
                found.append(here)
        got = np.concatenate([*found, np.array([], dtype=np.intp)])
        if not np.array_equal(got, places):
            raise ValueError(f"{self.path} has fewer rows than it had: it was changed.")
        table = arrow.Table.from_batches(parts).combine_chunks()
        return self._batch(table, places)

    def _batches_around(self, places: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        first = 0
        for batch in self._record_batches([*self.features, *self.columns.special]):
            yield first, batch
            first += batch.num_rows
            if first > places[-1]:
                return

    def _batch(self, batch: Any, places: NDArray[np.intp]) -> Batch:
        X = np.empty((batch.num_rows, len(self.features)))
        for k, name in enumerate(self.features):
            X[:, k] = self._numbers(batch, name, places)
        y = [self._values(batch, name, places) for name in self.columns.target]
        return Batch(
            places,
            X,
            np.column_stack(y) if len(y) > 1 else y[0],
            self._named(batch, self.columns.id),
            self._named(batch, self.columns.subject),
        )

    def _numbers(self, batch: Any, name: str, places: NDArray[np.intp]) -> Array:
        values = self._values(batch, name, places)
        if values.dtype.kind not in "iufb":
            wrong = next((v for v in values if not _is_number(v)), values[0])
            raise ValueError(
                f"{self.path}: column {name!r} must be numeric, got {wrong!r}. Encode it as "
                "numbers, or leave the column out of the table."
            )
        return values.astype(np.float64)

    def _values(self, batch: Any, name: str, places: NDArray[np.intp]) -> NDArray[Any]:
        column = batch.column(name)
        if column.null_count:
            place = int(places[np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]])
            raise ValueError(
                f"{self.path}: column {name!r} must have no missing values, got one in row "
                f"{place}. Drop or impute such rows."
            )
        values: NDArray[Any] = np.asarray(column.to_numpy(zero_copy_only=False))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(
                f"{self.path}: column {name!r} must be finite, got {values[at]} in row "
                f"{int(places[at])}. Drop or impute such rows."
            )
        return values

    def _named(self, batch: Any, name: str | None) -> Names | None:
        if name is None:
            return None
        column = batch.column(name)
        if column.null_count:
            raise ValueError(
                f"{self.path}: column {name!r} must name every row, got a missing value."
            )
        return list(column.to_pylist())


class _Parquet(_Arrow):
    def _open(self) -> list[str]:
        parquet = need("pyarrow.parquet", for_="reading Parquet", extra="desk")
        self._file = parquet.ParquetFile(self.path)
        return list(self._file.schema_arrow.names)

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        return int(self._file.metadata.num_rows)

    def _record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        size = max(1, _BATCH_BYTES // (8 * max(len(names), 1)))
        yield from self._file.iter_batches(batch_size=size, columns=list(names))

    def _batches_around(self, places: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        # Only the row groups that hold one of the rows are read.
        metadata, first = self._file.metadata, 0
        names = [*self.features, *self.columns.special]
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).num_rows
            if np.any((places >= first) & (places < first + size)):
                start = first
                for batch in self._file.iter_batches(row_groups=[group], columns=names):
                    yield start, batch
                    start += batch.num_rows
            first += size


class _Csv(_Arrow):
    def _open(self) -> list[str]:
        self._csv = need("pyarrow.csv", for_="reading CSV", extra="desk")
        with self._csv.open_csv(self.path) as reader:
            return list(reader.schema.names)

    def _record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        arrow = need("pyarrow", for_="reading CSV", extra="desk")
        options = self._csv.ConvertOptions(include_columns=list(names))
        try:
            with self._csv.open_csv(self.path, convert_options=options) as reader:
                yield from reader
        except arrow.ArrowInvalid as error:
            # The kind of a column is taken from its first lines.
            raise ValueError(
                f"{self.path}: columns must be of one kind from the first row to the last: "
                f"{_line(error)}. Mend the row, or write the table as Parquet."
            ) from None


class _Numpy:
    """Arrays, mapped into memory where they can be."""

    path: Path
    features: tuple[str, ...]
    _X: NDArray[Any]
    _y: NDArray[Any]
    _ids: NDArray[Any] | None
    _subjects: NDArray[Any] | None

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        return len(self._X)

    def batches(self) -> Iterator[Batch]:
        """All rows in order."""
        size = max(1, _BATCH_BYTES // (8 * max(self._X.shape[1], 1)))
        for first in range(0, self.n_rows, size):
            yield self.take(np.arange(first, min(first + size, self.n_rows)))

    def names(self) -> Iterator[tuple[NDArray[np.intp], Names | None, Names | None]]:
        """Places, ids and subjects of all rows, without their values."""
        places = np.arange(self.n_rows)
        yield places, _listed(self._ids, places), _listed(self._subjects, places)

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The rows at sorted places."""
        if len(places) and places[-1] >= self.n_rows:
            raise ValueError(f"{self.path} has fewer rows than it had: it was changed.")
        X = np.asarray(self._X[places], dtype=np.float64)
        y = np.asarray(self._y[places])
        for name, values in (("features", X), ("target", y)):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                at = int(np.argwhere(~np.isfinite(values))[0][0])
                raise ValueError(
                    f"{self.path}: {name} must be finite, got another value in row "
                    f"{int(places[at])}. Drop or impute such rows."
                )
        return Batch(places, X, y, _listed(self._ids, places), _listed(self._subjects, places))

    def _check(self) -> None:
        if self._X.ndim != 2 or self._X.dtype.kind not in "iufb":
            raise ValueError(
                f"{self.path}: features must be a matrix of numbers, got {self._X.dtype} of shape "
                f"{self._X.shape}."
            )
        for name, array in (("target", self._y), ("id", self._ids), ("subject", self._subjects)):
            if array is not None and len(array) != len(self._X):
                raise ValueError(
                    f"{self.path}: {name} must have {len(self._X)} rows, got {len(array)}."
                )
        self.features = tuple(f"x{k}" for k in range(self._X.shape[1]))


class _Archive(_Numpy):
    """An .npz: the features are the array X, the others go by the names of the columns."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        arrays = _load(path)
        if "X" not in arrays:
            raise ValueError(f"{path} must hold an array X, got {', '.join(sorted(arrays))}.")
        _check_columns(path, list(arrays), columns)
        self._X, self._y = arrays["X"], np.column_stack([arrays[name] for name in columns.target])
        if len(columns.target) == 1:
            self._y = arrays[columns.target[0]]
        self._ids = None if columns.id is None else arrays[columns.id]
        self._subjects = None if columns.subject is None else arrays[columns.subject]
        self._check()


class _Matrix(_Numpy):
    """An .npy: a matrix whose columns are called by their numbers; rows have no names."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        matrix = _load(path)
        if matrix.ndim != 2:
            raise ValueError(f"{path} must hold a matrix, got shape {matrix.shape}.")
        names = [str(k) for k in range(matrix.shape[1])]
        _check_columns(path, names, columns)
        special = [names.index(name) for name in columns.special]
        kept = [k for k in range(len(names)) if k not in special]
        target = [names.index(name) for name in columns.target]
        self._X = matrix[:, kept]
        self._y = matrix[:, target[0] if len(target) == 1 else target]
        self._ids = None if columns.id is None else matrix[:, names.index(columns.id)]
        self._subjects = (
            None if columns.subject is None else matrix[:, names.index(columns.subject)]
        )
        self._check()


def _load(path: Path) -> Any:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        return dict(loaded) if path.suffix.lower() == ".npz" else loaded
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {_line(error)}") from None


def _check_columns(path: Path, names: Sequence[str], columns: Columns) -> None:
    for name in (*columns.special, *(columns.features or ())):
        if name not in names:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise ValueError(f"{path} must have a column {name!r}, got {shown}.")
    if len(set(columns.special)) != len(columns.special):
        raise ValueError("target, id and subject must be different columns.")


def _listed(array: NDArray[Any] | None, places: NDArray[np.intp]) -> Names | None:
    return None if array is None else list(array[places].tolist())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
