"""Parquet and CSV by pyarrow (needs the extra ``pilu[desk]``).

Not by `pyarrow.dataset`: its `take` reads the whole file for one row, and its scans are no faster.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import first_line
from pilu._extras import need
from pilu.data.table import (
    EVERYTHING,
    Columns,
    NameList,
    Part,
    Scan,
    Table,
    TableBatch,
    as_names,
    features_among,
    rows_in_a_batch,
)
from pilu.data.values import as_floats
from pilu.exceptions import RowsChanged, WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

_WHOLE_GROUP_BYTES = 256 * 2**20
_PART_BYTES = 64 * 2**20  # of a table, for one task of a cluster


def _arrow(module: str = "pyarrow") -> Any:
    return need(module, for_="reading tables", extra="desk")


class _ArrowTable(Table):
    """A file of record batches."""

    def __init__(self, path: Path, columns: Columns, names: list[str]) -> None:
        self.path, self.columns = path, columns
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise WrongInput(f"{path} must name its columns once, got {twice!r} twice.")
        self.features = features_among(path, names, columns)

    @abstractmethod
    def _records(self, names: Sequence[str], scan: Scan = EVERYTHING) -> Iterator[Any]:
        """Record batches of some columns."""

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        return sum(record.num_rows for record in self._records(self.features[:1]))

    def deferred_batches(self, scan: Scan = EVERYTHING) -> Iterator[Callable[[], TableBatch]]:
        """All rows in order, or those of some row groups."""
        first = 0
        for record in self._records(self._columns_for(scan), scan):
            yield partial(self._batch, record, first + np.arange(record.num_rows), scan)
            first += record.num_rows

    def take(self, places: Positions) -> TableBatch:
        """The rows at sorted places."""
        arrow, parts = _arrow(), []
        for first, record in self._around(places):
            here = places[(places >= first) & (places < first + record.num_rows)]
            if len(here):
                parts.append(record.take(arrow.array(here - first)))
        if sum(part.num_rows for part in parts) != len(places):
            raise WrongInput(f"{self.path} has fewer rows than it had: it was changed.")
        return self._batch(arrow.Table.from_batches(parts).combine_chunks(), places, EVERYTHING)

    def _columns_for(self, scan: Scan) -> list[str]:
        return [
            *(self.features if scan.features else ()),
            *(self.columns.target if scan.targets else ()),
            *(self.columns.named if scan.names else ()),
        ]

    def _around(self, places: Positions) -> Iterator[tuple[int, Any]]:
        """Records that may hold the rows at some places, with the place of their first row."""
        first = 0
        for record in self._records(self._columns_for(EVERYTHING)):
            yield first, record
            first += record.num_rows
            if first > places[-1]:
                return

    def _batch(self, record: Any, places: Positions, scan: Scan) -> TableBatch:
        X = self._matrix(record, places) if scan.features else np.empty((len(places), 0))
        y = self._targets(record, places, scan)
        ids, subjects = (
            self._named(record, name) if name is not None and scan.names else None
            for name in (self.columns.id, self.columns.subject)
        )
        return TableBatch(places, X, y, ids, subjects)

    def _targets(self, record: Any, places: Positions, scan: Scan) -> NDArray[Any]:
        names = self.columns.target if scan.targets else ()
        y = [self._values(record, name, places) for name in names]
        return y[0] if len(y) == 1 else np.array(y).reshape(len(y), len(places)).T

    def _matrix(self, record: Any, places: Positions) -> Array:
        is_floating = _arrow().types.is_floating
        columns = record.select(list(self.features)).columns
        # Column by column, as they come: a tenth of the time of writing row by row.
        X = np.empty((record.num_rows, len(columns)), order="F")
        if all(is_floating(column.type) and not column.null_count for column in columns):
            for k, column in enumerate(columns):
                X[:, k] = column.to_numpy(zero_copy_only=False)
            if np.isfinite(X).all():
                return X
        for k, name in enumerate(self.features):  # one by one, to say which is wrong
            X[:, k] = self._numbers(record, name, places)
        return X

    def _numbers(self, record: Any, name: str, places: Positions) -> Array:
        values = self._values(record, name, places)
        if values.dtype.kind not in "iufb":
            wrong = next((v for v in values if not _is_number(v)), values[0])
            raise WrongInput(
                f"{self.path}: column {name!r} must be numeric, got {wrong!r}. Encode it as "
                f"numbers, or leave the column out: --ignore {name}."
            )
        return as_floats(f"{self.path}: column {name!r}", values)

    def _values(self, record: Any, name: str, places: Positions) -> NDArray[Any]:
        column = record.column(name)
        if column.null_count:
            place = int(places[np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]])
            raise WrongInput(
                f"{self.path}: column {name!r} must have no missing values, got one in row "
                f"{place}. Drop or impute such rows."
            )
        values: NDArray[Any] = np.asarray(column.to_numpy(zero_copy_only=False))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise WrongInput(
                f"{self.path}: column {name!r} must be finite, got {values[at]} in row "
                f"{int(places[at])}. Drop or impute such rows."
            )
        return values

    def _named(self, record: Any, name: str) -> NameList:
        column, types = record.column(name), _arrow().types
        if column.null_count:
            raise WrongInput(
                f"{self.path}: column {name!r} must name every row, got a missing value."
            )
        values: NameList = column.to_pylist()
        plain = types.is_integer(column.type) or types.is_string(column.type)
        if plain and "" not in values:  # no need to check them one by one
            return values
        return as_names(f"{self.path}: column {name!r}", values)


class ParquetTable(_ArrowTable):
    """A Parquet file; rows are found by their row group."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._metadata: Any = None
        self.path, self._stamp = path, stamp(path)
        with _readable(path), self._opened() as file:
            self._metadata = file.metadata
            names = list(file.schema_arrow.names)
        super().__init__(path, columns, names)

    def _opened(self) -> Any:
        """The file, open while something is read: a table may consist of thousands of files."""
        if stamp(self.path) != self._stamp:  # its offsets would be wrong for another file
            raise RowsChanged(f"{self.path} was changed while it was in use. Nothing was kept.")
        # Reading ahead would keep the bytes of all row groups in memory.
        return _arrow("pyarrow.parquet").ParquetFile(
            self.path, metadata=self._metadata, pre_buffer=False
        )

    @cached_property
    def n_rows(self) -> int:
        """Rows in the file."""
        return int(self._metadata.num_rows)

    @cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """Rows and bytes of every row group."""
        about = [self._metadata.row_group(k) for k in range(self._metadata.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in about]

    def parts(self) -> list[Part]:
        """Row groups, several small ones together."""
        parts, groups, n_rows, size = list[Part](), list[int](), 0, 0
        for group, (rows, group_bytes) in enumerate(self._groups):
            groups.append(group)
            n_rows, size = n_rows + rows, size + group_bytes
            if size >= _PART_BYTES or group == len(self._groups) - 1:
                parts.append(self.part(tuple(groups), n_rows))
                groups, n_rows, size = [], 0, 0
        return parts

    def _records(self, names: Sequence[str], scan: Scan = EVERYTHING) -> Iterator[Any]:
        with self._opened() as file:
            yield from file.iter_batches(
                batch_size=rows_in_a_batch(len(names), scan.most_bytes),
                columns=list(names),
                row_groups=scan.groups and [*scan.groups],
            )

    def _around(self, places: Positions) -> Iterator[tuple[int, Any]]:
        # Only the row groups that hold one of the rows are read.
        names, start = self._columns_for(EVERYTHING), 0
        with self._opened() as file:
            for group, (n_rows, size) in enumerate(self._groups):
                first, start = start, start + n_rows
                if not np.any((places >= first) & (places < start)):
                    continue
                if size <= _WHOLE_GROUP_BYTES:  # all columns at once, by several threads
                    records = file.read_row_group(group, columns=names).to_batches()
                else:
                    some = rows_in_a_batch(len(names))
                    records = file.iter_batches(row_groups=[group], columns=names, batch_size=some)
                for record in records:
                    yield first, record
                    first += record.num_rows

    @staticmethod
    def write_without(table: Path, drop: Positions, out: Path) -> None:
        """Copy the file without some rows, by row groups."""
        arrow, parquet, first = _arrow(), _arrow("pyarrow.parquet"), 0
        with parquet.ParquetFile(table) as file:
            codecs = _codecs(file.metadata)
            with parquet.ParquetWriter(out, file.schema_arrow, compression=codecs) as new:
                for group in range(file.metadata.num_row_groups):
                    for batch in file.iter_batches(row_groups=[group]):
                        keep = _kept(first, batch.num_rows, drop)
                        first += batch.num_rows
                        left = batch.filter(arrow.array(keep))
                        # A dictionary would keep the names of the rows that are dropped.
                        columns = [_encoded_anew(column, arrow) for column in left.columns]
                        new.write_batch(arrow.record_batch(columns, schema=file.schema_arrow))


class CsvTable(_ArrowTable):
    """A CSV file with a header; it is read from the start."""

    def __init__(self, path: Path, columns: Columns) -> None:
        with _readable(path), _csv_reader(path) as reader:
            names = list(reader.schema.names)
        super().__init__(path, columns, names)

    def _records(self, names: Sequence[str], scan: Scan = EVERYTHING) -> Iterator[Any]:
        # A CSV comes in blocks of a megabyte of text, which are small enough for any memory.
        arrow = _arrow()
        # Names are text, whatever they look like: 007 is not 7. Features are numbers.
        text, numbers = [*self.columns.named], [*self.features]
        (text if self.columns.classify else numbers).extend(self.columns.target)
        kinds = dict.fromkeys(text, arrow.string()) | dict.fromkeys(numbers, arrow.float64())
        try:
            with _csv_reader(self.path, include_columns=list(names), column_types=kinds) as reader:
                yield from reader
        except arrow.ArrowInvalid as error:
            raise WrongInput(
                f"{self.path}: features and target must be numeric, or a class with --classify: "
                f"{first_line(error)}. Mend the row, or leave the column out by --ignore."
            ) from None

    @staticmethod
    def write_without(table: Path, drop: Positions, out: Path) -> None:
        """Copy the file without some rows, with all columns as text."""
        arrow, csv, first = _arrow(), _arrow("pyarrow.csv"), 0
        with _text_of_csv(table) as batches, csv.CSVWriter(out, batches.schema) as new:
            for batch in batches:
                keep = _kept(first, batch.num_rows, drop)
                first += batch.num_rows
                new.write_batch(batch.filter(arrow.array(keep)))


def _text_of_csv(path: Path) -> Any:
    """A reader of a CSV's batches with every column as text, rows as `CsvTable` counts them."""
    with _csv_reader(path) as reader:
        names = reader.schema.names
    return _csv_reader(path, column_types=dict.fromkeys(names, _arrow().string()))


def _csv_reader(path: Path, **convert: Any) -> Any:
    csv = _arrow("pyarrow.csv")
    return csv.open_csv(
        path,
        convert_options=csv.ConvertOptions(**convert),
        parse_options=csv.ParseOptions(newlines_in_values=True),
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Report a file that pyarrow cannot open."""
    try:
        yield
    except (_arrow().ArrowException, OSError) as error:
        raise WrongInput(f"{path} cannot be read: {first_line(error)}") from None


def stamp(path: Path) -> tuple[int, ...]:
    """What changes when another file takes the path."""
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _codecs(metadata: Any) -> Any:
    if not metadata.num_row_groups:
        return "snappy"
    group = metadata.row_group(0)
    return {
        column.path_in_schema: column.compression.lower().replace("uncompressed", "none")
        for column in map(group.column, range(group.num_columns))
    }


def _encoded_anew(column: Any, arrow: Any) -> Any:
    if not arrow.types.is_dictionary(column.type):
        return column
    return column.dictionary_decode().dictionary_encode().cast(column.type)


def _kept(first: int, size: int, drop: Positions) -> NDArray[np.bool_]:
    return np.isin(np.arange(first, first + size), drop, invert=True)
