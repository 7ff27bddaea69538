"""Arrays as tables: .npz and .npy, never unpickled."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import first_line
from pilu.deletion.table import (
    Batch,
    Columns,
    Part,
    Table,
    as_names,
    as_numbers,
    check_columns,
    rows_in_a_batch,
)

__all__ = ["ArchiveTable", "MatrixTable"]

Names = list[Any]


class _Numpy(Table):
    """Arrays, mapped into memory where they can be."""

    path: Path
    _columns: Columns
    features: tuple[str, ...]
    _X: NDArray[Any]
    _y: NDArray[Any]
    _ids: NDArray[Any] | None
    _subjects: NDArray[Any] | None

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        return len(self._X)

    def promises(self, most_bytes: int | None = None) -> Iterator[Callable[[], Batch]]:
        """All rows in order."""
        size = rows_in_a_batch(self._X.shape[1], most_bytes)
        for first in range(0, self.n_rows, size):
            yield partial(self.take, np.arange(first, min(first + size, self.n_rows)))

    def targets(self) -> Iterator[NDArray[Any]]:
        """The target columns of all rows."""
        yield np.asarray(self._y)

    def parts(self) -> list[Part]:
        """The file."""
        columns = replace(self._columns, features=self.features)  # a worker must find the same
        return [Part(self.path, columns, None, 0, self.n_rows)]

    def names(self) -> Iterator[tuple[NDArray[np.intp], Names | None, Names | None]]:
        """Places, ids and subjects of all rows, without their values."""
        places = np.arange(self.n_rows)
        yield places, *self._names_at(places)

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The rows at sorted places."""
        if len(places) and places[-1] >= self.n_rows:
            raise ValueError(f"{self.path} has fewer rows than it had: it was changed.")
        X = as_numbers(f"{self.path}: features", self._X[places])
        y = np.asarray(self._y[places])
        for name, values in (("features", X), ("target", y)):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                at = int(np.argwhere(~np.isfinite(values))[0][0])
                raise ValueError(
                    f"{self.path}: {name} must be finite, got another value in row "
                    f"{int(places[at])}. Drop or impute such rows."
                )
        return Batch(places, X, y, *self._names_at(places))

    def _names_at(self, places: NDArray[np.intp]) -> tuple[Names | None, Names | None]:
        ids, subjects = (
            None if array is None else as_names(f"{self.path}: {kind}", array[places].tolist())
            for kind, array in (("id", self._ids), ("subject", self._subjects))
        )
        return ids, subjects

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
        if not self._X.shape[1]:
            raise ValueError(f"{self.path} must have a column besides target, id and subject.")


class ArchiveTable(_Numpy):
    """An .npz: the features are the array X, the others go by the names of the columns.

    Archives cannot be mapped: all of it is read when it is opened.
    """

    @property
    def held_bytes(self) -> int:
        """All arrays."""
        return int(self._X.nbytes + self._y.nbytes)

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self._columns = path, columns
        arrays = _load(path)
        if "X" not in arrays:
            raise ValueError(f"{path} must hold an array X, got {', '.join(sorted(arrays))}.")
        check_columns(path, list(arrays), columns)
        self._X = arrays["X"]
        self._y = _side_by_side([arrays[name] for name in columns.target], len(self._X))
        self._ids = None if columns.id is None else arrays[columns.id]
        self._subjects = None if columns.subject is None else arrays[columns.subject]
        self._check()
        self.features = tuple(f"x{k}" for k in range(self._X.shape[1]))
        if columns.features is not None and columns.features != self.features:
            raise ValueError(
                f"{path}: X must have {len(columns.features)} columns as in the fit, got "
                f"{len(self.features)}."
            )


class MatrixTable(_Numpy):
    """An .npy: a matrix whose columns are called by their numbers; rows have no names."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self._columns = path, columns
        matrix = _load(path)
        if matrix.ndim != 2:
            raise ValueError(f"{path} must hold a matrix, got shape {matrix.shape}.")
        names = [str(k) for k in range(matrix.shape[1])]
        check_columns(path, [*names, *(columns.features or ())], columns)
        if columns.features is not None and len(columns.features) == matrix.shape[1]:
            names = list(columns.features)  # rows to predict: nothing but the features
        apart = (*columns.special, *columns.ignored)
        self.features = columns.features or tuple(n for n in names if n not in apart)
        missing = set(self.features) - set(names)
        if missing:
            raise ValueError(f"{path} must have a column {min(missing)!r}, got {len(names)}.")
        self._X = _Selected(matrix, [names.index(name) for name in self.features])  # type: ignore[assignment]
        self._y = _side_by_side(
            [matrix[:, names.index(name)] for name in columns.target], len(matrix)
        )
        self._ids = None if columns.id is None else matrix[:, names.index(columns.id)]
        self._subjects = (
            None if columns.subject is None else matrix[:, names.index(columns.subject)]
        )
        self._check()


class _Selected:
    """Some columns of a matrix that may be mapped: rows are read when they are asked for."""

    def __init__(self, matrix: NDArray[Any], columns: list[int]) -> None:
        self._matrix, self._columns = matrix, columns
        self.shape, self.ndim, self.dtype = (len(matrix), len(columns)), 2, matrix.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self._matrix[rows])[:, self._columns]


def _side_by_side(columns: list[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    if len(columns) == 1:
        return columns[0]
    return np.column_stack(columns) if columns else np.empty((n_rows, 0))


def _load(path: Path) -> Any:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        return dict(loaded) if path.suffix.lower() == ".npz" else loaded
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {first_line(error)}") from None
