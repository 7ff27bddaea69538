"""CSV files: types inferred from whole columns, errors that name the line and the column.

By `pyarrow.csv.read_csv`, not by `pyarrow.dataset`: a dataset infers types from the first
block alone, and fails later on a column that it knows only by its number.
"""

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilu.data.source import arrow, reason
from pilu.exceptions import WrongInput

_LONGEST_ROW = 256 * 2**20  # bytes
_REMEDY = "Mend the line."


class CsvFile:
    """One CSV or TSV with a header, maybe compressed by gzip.

    Only an empty value is missing. "NA" and "null" are text, because they are also names.
    """

    label = "CSV"
    is_typed = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._delimiter = "\t" if ".tsv" in path.suffixes[-2:] else ","
        try:
            with self._rows() as rows:
                header = next((row for row in rows if row), None)
        except (OSError, EOFError, csv.Error) as error:
            raise self._unreadable(error) from None
        if header is None:
            raise WrongInput(
                f"{path} must have a header and rows, got an empty file. Write it again."
            )
        if any(_is_broken(name) for name in header):
            raise self._not_text("its header")
        self.names = header

    def read(self, names: Sequence[str], types: Mapping[str, Any]) -> Any:
        """Some columns; types that are not given are inferred from all rows."""
        pa = arrow()
        try:
            table = self._parsed(names, types)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._trouble() or self._unreadable(error) from None
        for field in table.schema:
            if pa.types.is_binary(field.type):  # pyarrow's word for text it cannot decode
                raise self._trouble() or self._not_text(f"column {field.name!r}")
        if self._has_odd_quotes() and (trouble := self._open_quote()):
            raise trouble
        return table

    def common_type(self, types: Sequence[Any]) -> Any:
        """The type that one file with all the rows would have."""
        pa = arrow()
        kinds = set(types) - {pa.null()}
        if len(kinds) <= 1:
            return next(iter(kinds), pa.null())
        for tower in (
            [pa.int64(), pa.float64()],
            [pa.date32(), pa.timestamp("s"), pa.timestamp("ns")],
            [pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")],
        ):
            if kinds <= set(tower):
                return max(kinds, key=tower.index)
        return pa.string()

    def _parsed(self, names: Sequence[str], types: Mapping[str, Any]) -> Any:
        reader = arrow("pyarrow.csv")
        convert = reader.ConvertOptions(
            include_columns=list(names),
            column_types={name: types[name] for name in names if name in types},
            null_values=[""],
            strings_can_be_null=True,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        )
        parse = reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        try:
            return reader.read_csv(self.path, parse_options=parse, convert_options=convert)
        except arrow().ArrowInvalid as error:
            if "straddling" not in str(error):
                raise
        large = reader.ReadOptions(block_size=_LONGEST_ROW)  # for a row above a megabyte
        return reader.read_csv(self.path, large, parse_options=parse, convert_options=convert)

    def _trouble(self) -> WrongInput | None:
        """The first line that is wrong, found by reading again slowly."""
        try:
            with self._rows() as rows:
                for row in rows:
                    if row and len(row) != len(self.names):
                        return WrongInput(
                            f"{self.path}: line {rows.line_num} must have {len(self.names)} "
                            f"values as the header has, got {len(row)}. {_REMEDY}"
                        )
                    broken = next((k for k, value in enumerate(row) if _is_broken(value)), None)
                    if broken is not None:
                        return self._not_text(
                            f"column {self.names[broken]!r} in line {rows.line_num}"
                        )
        except (OSError, EOFError, csv.Error):
            pass
        return None

    def _has_odd_quotes(self) -> bool:
        with self._bytes() as file:
            blocks = iter(lambda: file.read(2**20), b"")
            return bool(sum(block.count(b'"') for block in blocks) % 2)

    def _open_quote(self) -> WrongInput | None:
        """A quote that is never closed: every parser takes all rows after it for one value."""
        start = 1
        try:
            with self._rows(strict=True) as rows:
                for _ in rows:
                    start = rows.line_num + 1
        except csv.Error as error:
            if "unexpected end" in str(error):
                return WrongInput(
                    f"{self.path}: line {start} must close its quotes, got the end of the file. "
                    f"{_REMEDY}"
                )
        return None

    def _bytes(self) -> Any:
        return (gzip.open if self.path.suffix.lower() == ".gz" else open)(self.path, "rb")

    @contextmanager
    def _rows(self, strict: bool = False) -> Iterator[Any]:
        # Bytes that are not UTF-8 come as surrogates, to be found by `_is_broken`.
        with self._bytes() as file:
            text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
            yield csv.reader(text, delimiter=self._delimiter, strict=strict)

    def _unreadable(self, error: Exception) -> WrongInput:
        return WrongInput(
            f"{self.path} cannot be read as CSV: {reason(error)}. Write it or copy it again."
        )

    def _not_text(self, what: str) -> WrongInput:
        return WrongInput(
            f"{self.path} must be text in UTF-8, got other bytes in {what}. Save it as UTF-8."
        )


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)
