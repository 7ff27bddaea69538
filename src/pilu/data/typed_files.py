"""Files that know their types: Parquet, Arrow IPC (Feather) and NumPy arrays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pilu.data.numpy_tables import load_arrays
from pilu.data.source import arrow, reason
from pilu.exceptions import WrongInput


class _TypedFile(ABC):
    """One file; its columns are read as they are, then cast where files differ."""

    label: str
    is_typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.schema: Any = self._schema()

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def read(self, names: Sequence[str], types: Mapping[str, Any]) -> Any:
        """Some columns, in other types where they are given."""
        pa = arrow()
        table = self._read(names).select(list(names))
        for k, name in enumerate(names):
            if name in types and table.schema.field(k).type != types[name]:
                try:
                    column = table.column(k).cast(types[name])
                except pa.ArrowException as error:
                    raise WrongInput(
                        f"{self.path}: column {name!r} must be {types[name]} as in other files, "
                        f"got {reason(error)}. Write the files with one type."
                    ) from None
                table = table.set_column(k, name, column)
        return table

    def common_type(self, types: Sequence[Any]) -> Any:
        """A type that holds the values of all files; an ArrowException if there is none."""
        pa = arrow()
        schemas = [pa.schema([("x", kind)]) for kind in types]
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type

    @abstractmethod
    def _schema(self) -> Any:
        """The columns of the file and their types."""

    @abstractmethod
    def _read(self, names: Sequence[str]) -> Any:
        """Some columns of all rows."""

    @contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except (arrow().ArrowException, OSError) as error:
            raise WrongInput(
                f"{self.path} cannot be read as {self.label}: {reason(error)}. "
                "Write it or copy it again."
            ) from None


class ParquetFile(_TypedFile):
    """One Parquet file; all columns at once, by several threads."""

    label = "Parquet"

    def _schema(self) -> Any:
        with self._whole(), arrow("pyarrow.parquet").ParquetFile(self.path) as file:
            self._metadata = file.metadata
            return file.schema_arrow

    def _read(self, names: Sequence[str]) -> Any:
        # Not `read_table`: it would take folders of its path for columns.
        open_file: Callable[..., Any] = arrow("pyarrow.parquet").ParquetFile
        with self._whole(), open_file(self.path, metadata=self._metadata, pre_buffer=True) as file:
            return file.read(columns=list(names))


class IpcFile(_TypedFile):
    """One Arrow or Feather file, or a stream of Arrow batches; read, not mapped into memory."""

    label = "Arrow"

    def _schema(self) -> Any:
        with self._opened(()) as reader:
            return reader.schema

    def _read(self, names: Sequence[str]) -> Any:
        with self._opened([self.schema.get_field_index(name) for name in names]) as reader:
            return reader.read_all()

    @contextmanager
    def _opened(self, places: Sequence[int]) -> Iterator[Any]:
        pa = arrow()
        options = pa.ipc.IpcReadOptions(included_fields=sorted(places))
        with self._whole(), pa.OSFile(str(self.path)) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            kind = pa.ipc.open_file if is_file else pa.ipc.open_stream
            with kind(file, options=options) as reader:
                yield reader


class ArrayFile(_TypedFile):
    """An .npz (X as x0, x1, ... and vectors by their names) or an .npy (columns by number)."""

    label = "NumPy"

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        try:
            loaded = load_arrays(self.path)
        except WrongInput:  # NumPy's own advice would be to unpickle it
            raise WrongInput(
                f"{self.path} must hold plain arrays, got a damaged file or Python objects. "
                "Save it again by numpy.save or numpy.savez."
            ) from None
        if not isinstance(loaded, dict):
            return self._columns_of(loaded, "")
        if "X" not in loaded:
            raise WrongInput(
                f"{self.path} must hold an array X, got {', '.join(sorted(loaded)) or 'none'}. "
                "Save the features as X."
            )
        n, columns = len(np.atleast_1d(loaded["X"])), self._columns_of(loaded.pop("X"), "x")
        for name, array in loaded.items():
            if not array.ndim or len(array) != n:
                continue  # not about rows
            if array.ndim > 1 or name in columns:
                raise WrongInput(
                    f"{self.path}: {name} must be a vector whose name no column of X has, got "
                    f"shape {array.shape}. Save its columns as vectors with other names."
                )
            columns[name] = array
        return columns

    def _columns_of(self, matrix: Any, prefix: str) -> dict[str, Any]:
        if matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
            raise WrongInput(
                f"{self.path} must hold a matrix of numbers, got {matrix.dtype} of shape "
                f"{matrix.shape}. Save one row a line."
            )
        return {f"{prefix}{k}": matrix[:, k] for k in range(matrix.shape[1])}

    def _schema(self) -> Any:
        pa = arrow()
        return pa.schema([(name, self._column(name, 0).type) for name in self._arrays])

    def _read(self, names: Sequence[str]) -> Any:
        return arrow().table({name: self._column(name) for name in names})

    def _column(self, name: str, n: int | None = None) -> Any:
        pa = arrow()
        values = np.array(self._arrays[name][:n])  # a copy: the file may change later
        try:
            return pa.array(values)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise WrongInput(
                f"{self.path}: {name} must be numbers, text or dates, got {values.dtype} "
                f"({reason(error)}). Leave the array out."
            ) from None
