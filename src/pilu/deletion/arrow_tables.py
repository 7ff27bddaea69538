"""Parquet and CSV by pyarrow (needs the extra ``pilu[desk]``)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import first_line
from pilu._extras import need
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
from pilu.exceptions import RowsChanged

__all__ = ["CsvTable", "ParquetTable", "as_text"]

Array = NDArray[np.float64]
Names = list[Any]


_WHOLE_GROUP_BYTES = 256 * 2**20
_PART_BYTES = 64 * 2**20  # of a table, for one task of a cluster


class ArrowTable(Table):
    """Parquet and CSV by pyarrow."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        arrow = need("pyarrow", for_="reading tables", extra="desk")
        try:
            names = self._open()
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {first_line(error)}") from None
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path} must name its columns once, got {twice!r} twice.")
        check_columns(path, names, columns)
        others = tuple(n for n in names if n not in (*columns.special, *columns.ignored))
        missing = set(columns.features or ()) - set(others)
        if missing:
            raise ValueError(f"{path} must have a column {min(missing)!r}, got none of that name.")
        self.features = others if columns.features is None else columns.features
        if not self.features:
            raise ValueError(f"{path} must have a column besides target, id and subject, got none.")

    def _open(self) -> list[str]:
        raise NotImplementedError

    def _record_batches(
        self,
        names: Sequence[str],
        most_bytes: int | None = None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        raise NotImplementedError

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        first = self.features[0]
        return sum(batch.num_rows for batch in self._record_batches([first]))

    def promises(
        self, most_bytes: int | None = None, groups: Sequence[int] | None = None
    ) -> Iterator[Callable[[], Batch]]:
        """All rows in order, or those of some row groups."""
        first, names = 0, [*self.features, *self.columns.special]
        for batch in self._record_batches(names, most_bytes, groups):
            yield partial(self._batch, batch, first + np.arange(batch.num_rows))
            first += batch.num_rows

    def targets(self) -> Iterator[NDArray[Any]]:
        """The target columns of all rows, in order."""
        first = 0
        for batch in self._record_batches(self.columns.target):
            yield self._targets(batch, first + np.arange(batch.num_rows))
            first += batch.num_rows

    def parts(self) -> list[Part]:
        """The file."""
        return [Part(self.path, self._named_columns, None, 0, self.n_rows)]

    @property
    def _named_columns(self) -> Columns:
        """What is read, feature by feature: another file of that name must have the same."""
        return replace(self.columns, features=self.features)

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
        parts, found = [], []
        for first, record in self._batches_around(places):
            here = places[(places >= first) & (places < first + record.num_rows)]
            if len(here):
                taken = record.take(arrow.array(here - first))
                is_table = isinstance(taken, arrow.Table)
                parts.append(taken if is_table else arrow.Table.from_batches([taken]))
                found.append(here)
        got = np.concatenate([*found, np.array([], dtype=np.intp)])
        if not np.array_equal(got, places):
            raise ValueError(f"{self.path} has fewer rows than it had: it was changed.")
        table = arrow.concat_tables(parts).combine_chunks()
        return self._batch(table, places)

    def _batches_around(self, places: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        first = 0
        for batch in self._record_batches([*self.features, *self.columns.special]):
            yield first, batch
            first += batch.num_rows
            if first > places[-1]:
                return

    def _batch(self, batch: Any, places: NDArray[np.intp]) -> Batch:
        X = self._matrix(batch, places)
        return Batch(
            places,
            X,
            self._targets(batch, places),
            self._named(batch, self.columns.id),
            self._named(batch, self.columns.subject),
        )

    def _targets(self, batch: Any, places: NDArray[np.intp]) -> NDArray[Any]:
        y = [self._values(batch, name, places) for name in self.columns.target]
        return y[0] if len(y) == 1 else np.array(y).reshape(len(y), len(places)).T

    def _matrix(self, batch: Any, places: NDArray[np.intp]) -> Array:
        arrow = need("pyarrow", for_="reading tables", extra="desk")
        columns = batch.select(list(self.features)).columns
        # Columns stand one after the other, as they come: a tenth of the time of setting them out
        # row by row.
        X = np.empty((batch.num_rows, len(columns)), order="F")
        if all(arrow.types.is_floating(c.type) and not c.null_count for c in columns):
            for k, column in enumerate(columns):
                X[:, k] = column.to_numpy(zero_copy_only=False)
            if np.isfinite(X).all():
                return X
        for k, name in enumerate(self.features):  # one by one, to say which is wrong
            X[:, k] = self._numbers(batch, name, places)
        return X

    def _numbers(self, batch: Any, name: str, places: NDArray[np.intp]) -> Array:
        values = self._values(batch, name, places)
        if values.dtype.kind not in "iufb":
            wrong = next((v for v in values if not _is_number(v)), values[0])
            raise ValueError(
                f"{self.path}: column {name!r} must be numeric, got {wrong!r}. Encode it as "
                f"numbers, or leave the column out: --ignore {name}."
            )
        return as_numbers(f"{self.path}: column {name!r}", values)

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
        values: Names = column.to_pylist()
        types = need("pyarrow", for_="reading tables", extra="desk").types
        whole = types.is_integer(column.type) or types.is_string(column.type)
        if whole and "" not in values:  # they need not be looked at one by one
            return values
        return as_names(f"{self.path}: column {name!r}", values)


class ParquetTable(ArrowTable):
    """A Parquet file; rows are found by their row group."""

    def _open(self) -> list[str]:
        self._metadata: Any = None
        self._stamp = self._seen()
        with self._opened() as file:
            self._metadata = file.metadata
            return list(file.schema_arrow.names)

    def _opened(self) -> Any:
        """For as long as something is read: a table may be of thousands of files."""
        if self._seen() != self._stamp:
            raise RowsChanged(f"{self.path} was changed while it was in use. Nothing was kept.")
        parquet = need("pyarrow.parquet", for_="reading Parquet", extra="desk")
        # Reading ahead would keep the bytes of all row groups that are asked for.
        return parquet.ParquetFile(self.path, metadata=self._metadata, pre_buffer=False)

    def _seen(self) -> tuple[int, ...]:
        """Another file of the name would be read by the metadata of this one."""
        found = self.path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        return int(self._metadata.num_rows)

    def parts(self) -> list[Part]:
        """Row groups, several small ones together."""
        metadata, found, first = self._metadata, list[Part](), 0
        groups: list[int] = []
        n_rows = size = 0
        for group in range(metadata.num_row_groups):
            groups.append(group)
            n_rows += metadata.row_group(group).num_rows
            size += metadata.row_group(group).total_byte_size
            if size >= _PART_BYTES or group == metadata.num_row_groups - 1:
                found.append(Part(self.path, self._named_columns, tuple(groups), first, n_rows))
                first, groups, n_rows, size = first + n_rows, [], 0, 0
        return found

    def _record_batches(
        self,
        names: Sequence[str],
        most_bytes: int | None = None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        size = rows_in_a_batch(len(names), most_bytes)
        with self._opened() as file:
            yield from file.iter_batches(
                batch_size=size,
                columns=list(names),
                row_groups=None if groups is None else [*groups],
            )

    def _batches_around(self, places: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        # Only the row groups that hold one of the rows are read.
        first, names = 0, [*self.features, *self.columns.special]
        with self._opened() as file:
            for group in range(file.metadata.num_row_groups):
                about = file.metadata.row_group(group)
                if not np.any((places >= first) & (places < first + about.num_rows)):
                    pass
                elif about.total_byte_size <= _WHOLE_GROUP_BYTES:
                    # All columns at once, by several threads.
                    yield first, file.read_row_group(group, columns=names)
                else:
                    start = first
                    for batch in file.iter_batches(
                        row_groups=[group], columns=names, batch_size=rows_in_a_batch(len(names))
                    ):
                        yield start, batch
                        start += batch.num_rows
                first += about.num_rows


class CsvTable(ArrowTable):
    """A CSV file with a header; it is read from the start."""

    def _open(self) -> list[str]:
        self._csv = need("pyarrow.csv", for_="reading CSV", extra="desk")
        with self._csv.open_csv(self.path, parse_options=_parsing(self._csv)) as reader:
            return list(reader.schema.names)

    def _record_batches(
        self,
        names: Sequence[str],
        most_bytes: int | None = None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        # A CSV comes in blocks of a megabyte of text, which are small enough for any memory.
        arrow = need("pyarrow", for_="reading CSV", extra="desk")
        # Names are text, whatever they look like: 007 is not 7. Features are numbers.
        text = [name for name in (self.columns.id, self.columns.subject) if name is not None]
        numbers = [*self.features]
        (text if self.columns.classify else numbers).extend(self.columns.target)
        kinds = dict.fromkeys(text, arrow.string()) | dict.fromkeys(numbers, arrow.float64())
        options = self._csv.ConvertOptions(include_columns=list(names), column_types=kinds)
        try:
            with self._csv.open_csv(
                self.path, convert_options=options, parse_options=_parsing(self._csv)
            ) as reader:
                yield from reader
        except arrow.ArrowInvalid as error:
            raise ValueError(
                f"{self.path}: features and target must be numeric, or a class with --classify: "
                f"{first_line(error)}. Mend the row, or leave the column out by --ignore."
            ) from None


def as_text(path: Path) -> Any:
    """A reader of a CSV's batches with every column as text, rows as `CsvTable` counts them."""
    arrow = need("pyarrow", for_="reading CSV", extra="desk")
    csv = need("pyarrow.csv", for_="reading CSV", extra="desk")
    with csv.open_csv(path, parse_options=_parsing(csv)) as reader:
        names = reader.schema.names
    options = csv.ConvertOptions(column_types=dict.fromkeys(names, arrow.string()))
    return csv.open_csv(path, convert_options=options, parse_options=_parsing(csv))


def _parsing(csv: Any) -> Any:
    return csv.ParseOptions(newlines_in_values=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
