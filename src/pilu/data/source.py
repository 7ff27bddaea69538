"""What all sources of a table share: files, DuckDB and PostgreSQL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pilu._checks import complaint, first_line
from pilu._extras import need
from pilu.exceptions import WrongInput

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED = 12  # names in a message


@runtime_checkable
class Source(Protocol):
    """A table that can be read whole, now and again later."""

    @property
    def name(self) -> str:
        """The absolute path or the address, without its password."""

    def exists(self) -> bool:
        """Whether it can be opened now; rows are not read."""

    def schema(self, as_text: Sequence[str] = ()) -> "pa.Schema":
        """Names and types of all columns, as a `pyarrow.Schema`."""

    def read(
        self, columns: Sequence[str] | None = None, *, as_text: Sequence[str] = ()
    ) -> "pa.Table":
        """All rows of some columns, or of all, as a `pyarrow.Table`.

        Parameters
        ----------
        columns : sequence of str, optional
            In the order of the result. By default all, in the order of the source.
        as_text : sequence of str
            Columns with names of people or rows. In a CSV they are text as typed: 007 is not 7.
            Typed sources keep their type, and their decimals stay exact.
        """


def arrow(module: str = "pyarrow") -> Any:
    """Pyarrow, or one of its modules."""
    return need(module, for_="reading tables", extra="desk")


def check_unique(name: str, there: Sequence[str]) -> None:
    """Refuse a table that has two columns of one name."""
    twice = next((column for k, column in enumerate(there) if column in there[:k]), None)
    if twice is not None:
        raise WrongInput(
            f"{name} must name its columns once, got {twice!r} twice. Rename one of them."
        )


def chosen(
    name: str, there: Sequence[str], columns: Sequence[str] | None, as_text: Sequence[str]
) -> list[str]:
    """The columns to read, all of which are there."""
    for argument, given in (("columns", columns), ("as_text", as_text)):
        if isinstance(given, str):
            raise complaint(argument, "a list of names", given, f"Pass [{given!r}].")
        for k, column in enumerate(given or ()):
            if column not in there:
                raise WrongInput(
                    f"{argument} must be columns of {name}, got {column!r}. It has {listed(there)}."
                )
            if column in (given or ())[:k]:
                raise complaint(
                    argument, "different columns", list(given or ()), "Drop the second."
                )
    if columns is not None and not len(columns):
        raise complaint("columns", "one or more names", [], "Leave it out to read all columns.")
    return list(there if columns is None else columns)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    shown = ", ".join(names[:_LISTED])
    more = len(names) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def with_rows(name: str, table: "pa.Table") -> "pa.Table":
    """The table, unless it has no rows."""
    if not table.num_rows:
        raise WrongInput(
            f"{name} must have at least one row, got none. Check that it was written to its end."
        )
    return table


def plain(table: "pa.Table", as_text: Sequence[str]) -> "pa.Table":
    """Without metadata, and decimals as double precision, except in columns of names."""
    pa = arrow()
    fields = [
        pa.field(field.name, pa.float64() if _is_amount(field, as_text) else field.type)
        for field in table.schema
    ]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    return table


def plain_schema(schema: "pa.Schema", as_text: Sequence[str]) -> "pa.Schema":
    """The schema that `plain` gives to a table."""
    return plain(schema.empty_table(), as_text).schema


def reason(error: Exception) -> str:
    """What another library says is wrong, to stand in the middle of a sentence."""
    return first_line(error).rstrip(".! ")


def _is_amount(field: "pa.Field[Any]", as_text: Sequence[str]) -> bool:
    return bool(arrow().types.is_decimal(field.type)) and field.name not in as_text
