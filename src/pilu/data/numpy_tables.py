"""Arrays as tables: .npz and .npy, never unpickled."""

import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import first_line
from pilu.data.table import (
    EVERYTHING,
    Columns,
    Scan,
    Table,
    TableBatch,
    as_names,
    check_columns,
    features_among,
    rows_in_a_batch,
)
from pilu.data.values import as_floats
from pilu.exceptions import WrongInput

Positions = NDArray[np.intp]


class _ArrayTable(Table):
    """Arrays, mapped into memory where they can be; `chosen` columns of X are the features."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        X: NDArray[Any],
        others: dict[str, NDArray[Any]],
        features: tuple[str, ...],
        chosen: list[int] | slice,
    ) -> None:
        self.path, self.columns, self.features = path, columns, features
        self._X, self._chosen = X, chosen
        if X.ndim != 2 or X.dtype.kind not in "iufb":
            raise WrongInput(
                f"{path}: features must be a matrix of numbers, got {X.dtype} of shape {X.shape}."
            )
        y = [others[name] for name in columns.target]
        for name, array in others.items():
            if len(array) != len(X):
                raise WrongInput(f"{path}: {name} must have {len(X)} rows, got {len(array)}.")
        if not features:
            raise WrongInput(f"{path} must have a column besides target, id and subject, got none.")
        self._y = np.column_stack(y) if len(y) > 1 else [*y, np.empty((len(X), 0))][0]
        self._names = [
            None if name is None else others[name] for name in (columns.id, columns.subject)
        ]

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        return len(self._X)

    def deferred_batches(self, scan: Scan = EVERYTHING) -> Iterator[Callable[[], TableBatch]]:
        """All rows in order; an array has no row groups."""
        size = rows_in_a_batch(len(self.features), scan.most_bytes)
        for first in range(0, self.n_rows, size):
            places = np.arange(first, min(first + size, self.n_rows))
            yield partial(self._batch, places, scan)

    def take(self, places: Positions) -> TableBatch:
        """The rows at sorted places."""
        if len(places) and places[-1] >= self.n_rows:
            raise WrongInput(f"{self.path} has fewer rows than it had: it was changed.")
        return self._batch(places, EVERYTHING)

    def _batch(self, places: Positions, scan: Scan) -> TableBatch:
        X, y = np.empty((len(places), 0)), np.empty((len(places), 0))
        if scan.features:
            X = as_floats(f"{self.path}: features", self._X[places][:, self._chosen])
        if scan.targets:
            y = np.asarray(self._y[places])
        for name, values in (("features", X), ("target", y)):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                at = int(np.argwhere(~np.isfinite(values))[0][0])
                raise WrongInput(
                    f"{self.path}: {name} must be finite, got another value in row "
                    f"{int(places[at])}. Drop or impute such rows."
                )
        ids, subjects = (
            as_names(f"{self.path}: {kind}", array[places].tolist())
            if array is not None and scan.names
            else None
            for kind, array in zip(("id", "subject"), self._names, strict=True)
        )
        return TableBatch(places, X, y, ids, subjects)


class ArchiveTable(_ArrayTable):
    """An .npz: the features are the array X, the others go by the names of the columns.

    Archives cannot be mapped: all of it is read when it is opened.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        arrays = load_arrays(path)
        if "X" not in arrays:
            raise WrongInput(f"{path} must hold an array X, got {', '.join(sorted(arrays))}.")
        check_columns(path, list(arrays), columns)
        X, others = arrays["X"], {name: arrays[name] for name in columns.special}
        features = tuple(f"x{k}" for k in range(X.shape[1] if X.ndim == 2 else 0))
        super().__init__(path, columns, X, others, features, slice(None))
        if columns.features is not None and columns.features != features:
            raise WrongInput(
                f"{path}: X must have {len(columns.features)} columns as in the fit, got "
                f"{len(features)}."
            )

    @property
    def held_bytes(self) -> int:
        """All arrays."""
        return int(self._X.nbytes + self._y.nbytes)

    @staticmethod
    def write_without(table: Path, drop: Positions, out: Path) -> None:
        """Copy the arrays without some rows; an array of another length is not about rows."""
        with np.load(table, allow_pickle=False) as archive:
            arrays: dict[str, Any] = dict(archive)
        n = len(arrays["X"])
        kept = {
            name: np.delete(array, drop, axis=0) if array.ndim and len(array) == n else array
            for name, array in arrays.items()
        }
        with zipfile.ZipFile(table) as file:
            packed = any(i.compress_type != zipfile.ZIP_STORED for i in file.infolist())
        (np.savez_compressed if packed else np.savez)(out, **kept)


class MatrixTable(_ArrayTable):
    """An .npy: a matrix whose columns are called by their numbers."""

    def __init__(self, path: Path, columns: Columns) -> None:
        matrix = load_arrays(path)
        if matrix.ndim != 2:
            raise WrongInput(f"{path} must hold a matrix, got shape {matrix.shape}.")
        names = [str(k) for k in range(matrix.shape[1])]
        if columns.features is not None and len(columns.features) == matrix.shape[1]:
            names = list(columns.features)  # rows to predict: nothing but the features
        features = features_among(path, names, columns)
        others = {name: matrix[:, names.index(name)] for name in columns.special}
        chosen = [names.index(name) for name in features]
        super().__init__(path, columns, matrix, others, features, chosen)

    @staticmethod
    def write_without(table: Path, drop: Positions, out: Path) -> None:
        """Copy the matrix without some rows."""
        matrix = np.load(table, mmap_mode="r", allow_pickle=False)
        np.save(out, np.delete(matrix, drop, axis=0), allow_pickle=False)


def load_arrays(path: Path) -> Any:
    """The arrays of an .npz by their names, or the array of an .npy, mapped into memory."""
    try:
        if path.suffix.lower() != ".npz":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with path.open("rb") as file:  # NumPy leaves a damaged archive open
            return dict(np.load(file, allow_pickle=False))
    except (TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise WrongInput(f"{path} cannot be read: {first_line(error)}") from None
