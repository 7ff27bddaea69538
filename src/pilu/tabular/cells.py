"""Columns of Arrow as NumPy arrays. What becomes of a cell depends on that cell alone."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need

Array = NDArray[np.float64]

_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def arrow(module: str = "pyarrow") -> Any:
    """The library pyarrow."""
    return need(module, for_="reading a table", extra="desk")


def family_of(kind: Any) -> str:
    """What an Arrow type holds: "number", "boolean", "date", "text", "nothing" or "other"."""
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if str(kind) in ("string", "large_string", "string_view"):
        return "text"
    return "nothing" if types.is_null(kind) else "other"


def numbers_of(column: Any) -> Array:
    """Numbers or booleans as float64; NaN where the value is missing."""
    array = _whole(column)
    if arrow().types.is_null(array.type):
        return np.full(len(array), np.nan)
    # Unsafe only in that whole numbers beyond 2^53 are rounded.
    values: Array = array.cast(arrow().float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def days_of(column: Any) -> Array:
    """Dates and times as days since 1970-01-01 UTC; times without a zone are taken as UTC."""
    pa, array = arrow(), _whole(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_date32(array.type):
        return numbers_of(array.cast(pa.int32()))
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    ticks = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(ticks, _PER_DAY[unit])  # nanoseconds have more digits than a double
    values: Array = days + rest / _PER_DAY[unit]
    values[missing_in(array)] = np.nan
    return values


def texts_of(column: Any) -> NDArray[Any]:
    """Values as objects of type str; None where the value is missing or an empty text."""
    codes, levels = encoded(column)
    table = np.array([*levels, None], dtype=object)
    return table[codes]


def encoded(column: Any) -> tuple[NDArray[np.int64], list[str | None]]:
    """Codes of all rows and the text of each code; -1 is missing.

    The levels may have some that do not occur, or one level twice.
    """
    pa, array = arrow(), column
    if pa.types.is_null(array.type) or not len(array):
        return np.full(len(array), -1), []
    if not pa.types.is_dictionary(array.type):
        if str(array.type) in ("string_view", "halffloat"):  # they have no dictionaries
            wider = pa.large_string() if str(array.type) == "string_view" else pa.float64()
            array = array.cast(wider)
        array = array.dictionary_encode()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    levels = [_as_text(value) for value in array.dictionary.to_pylist()]
    return codes, levels


def absent(texts: NDArray[Any]) -> NDArray[np.bool_]:
    """Which texts are None."""
    none: NDArray[np.bool_] = np.equal(texts, np.array(None, dtype=object)).astype(bool)
    return none


def missing_in(column: Any) -> NDArray[np.bool_]:
    """Which values are null."""
    nulls: NDArray[np.bool_] = _whole(column.is_null()).to_numpy(zero_copy_only=False)
    return nulls


def _whole(column: Any) -> Any:
    """A column in one piece and without a dictionary."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_text(value: Any) -> str | None:
    """A value as people write it: 3, also where it is stored as 3.0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        if value != value or value in (float("inf"), float("-inf")):
            return None  # infinite values are reported elsewhere
        return str(int(value)) if value == int(value) else _shortest(value)
    return None if value is None or value == "" else str(value)


def _shortest(value: float | Decimal) -> str:
    return repr(value) if isinstance(value, float) else format(value.normalize(), "f")
