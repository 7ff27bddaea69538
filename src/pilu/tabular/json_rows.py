"""Rows that come as JSON, as a table with the types that a layout asks for.

JSON has no dates: a column that held dates at the fit takes ISO 8601, such as 2027-01-31.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pilu._extras import need
from pilu.exceptions import WrongTable

_DATES = (("us", None), ("us", "UTC"))  # with a time zone or without


def table_of_rows(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> Any:
    """A `pyarrow.Table`; `kinds` are those of a layout. Problems are listed, all at once."""
    arrow = need("pyarrow", for_="rows as JSON", extra="desk")
    problems: list[str] = []
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            column = arrow.array(values)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            found = sorted({type(value).__name__ for value in values if value is not None})
            problems.append(
                f"column {name!r}: values must be of one type, got {' and '.join(found)}."
            )
            continue
        if kinds.get(name) == "date" and arrow.types.is_string(column.type):
            column = _dates(arrow, column)
            if column is None:
                problems.append(f"column {name!r}: dates must be as in ISO 8601: 2027-01-31.")
                continue
        columns[name] = column
    if problems:
        raise WrongTable(problems)
    return arrow.table(columns)


def _dates(arrow: Any, column: Any) -> Any | None:
    for unit, zone in _DATES:
        try:
            return column.cast(arrow.timestamp(unit, tz=zone))
        except arrow.ArrowInvalid:
            continue
    return None
