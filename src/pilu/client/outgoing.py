"""Rows as JSON has them, from dictionaries or from a DataFrame; pandas is not imported for it."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pilu.exceptions import WrongInput


class Frame(Protocol):
    """A DataFrame of pandas."""

    def to_dict(self, orient: Any, /) -> Any:
        """Its rows as dictionaries."""


Rows = Iterable[Mapping[str, Any]] | Frame


def listed(rows: Rows) -> list[dict[str, Any]]:
    """Rows with dates as texts, and NaN and other missing values as null.

    >>> listed([{"age": 30, "income": float("nan")}])
    [{'age': 30, 'income': None}]
    """
    found = (
        rows
        if isinstance(rows, Mapping) or not hasattr(rows, "to_dict")
        else rows.to_dict("records")
    )
    found = list(found)
    if not all(isinstance(row, Mapping) for row in found):
        raise WrongInput("rows must be dictionaries of columns and values, or a DataFrame.")
    return [{name: _cell(name, value) for name, value in row.items()} for row in found]


def _cell(name: str, value: Any) -> Any:
    if getattr(value, "shape", None) == ():  # a number of NumPy
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if type(value).__name__ == "NAType":  # of pandas; it cannot be compared
        return None
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()  # NaT
    if not isinstance(value, float):
        kind = type(value).__name__
        raise WrongInput(f"column {name!r} must have numbers, texts or dates, got {kind}.")
    if math.isinf(value):
        raise WrongInput(f"column {name!r} must have finite numbers, got {value}.")
    return None if math.isnan(value) else value
