"""Columns read with their checks: a problem is noted in words, and reading goes on.

Rows are counted from 1 in what is noted. A column that cannot be read gives None.
"""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import LARGEST_NUMBER
from pilu.exceptions import WrongTable
from pilu.tabular.cells import (
    absent,
    arrow,
    days_of,
    family_of,
    numbers_of,
    texts_of,
)

Array = NDArray[np.float64]

_EXACT_WHOLE = 2.0**53  # two whole numbers beyond may be the same double
_PLURAL = {"number": "numbers", "boolean": "booleans", "date": "dates", "text": "text"}


class Reader:
    """A table with the list of its problems.

    `first` says that the table is the one whose layout is being decided, so that options still
    help.
    """

    def __init__(self, table: Any, *, first: bool) -> None:
        self.table, self.first = table, first
        self.problems: list[str] = []
        self._reported: set[str] = set()

    def refuse(self) -> None:
        """Raise what was noted, if anything was."""
        if self.problems:
            raise WrongTable(self.problems)

    def has(self, name: str, option: str = "") -> bool:
        """Whether the table has a column, exactly once; otherwise that is noted."""
        names = self.table.column_names
        if names.count(name) == 1:
            return True
        if name not in self._reported:
            self._reported.add(name)
            said = f"{option} {name}: " if option else ""
            if name in names:
                self.problems.append(f"{said}two columns are called {name!r}. Rename one of them.")
            else:
                self.problems.append(f"{said}there is no column {name!r}. {_nearest(name, names)}")
        return False

    def names(self, name: str, option: str, *, unique: bool) -> list[str] | None:
        """Names of rows or people: text as it is typed, and whole numbers by their digits."""
        if not self.has(name, option):
            return None
        column = self.table.column(name)
        family = family_of(column.type)
        if family not in ("text", "number", "nothing"):
            self.problems.append(
                f"{option} {name}: names must be text or whole numbers, got {column.type}. "
                f"Write the column as text, or name another one by {option}."
            )
            return None
        remedy = f"Leave such rows out, or name another column by {option}."
        values = _whole_numbers(column) if family == "number" else texts_of(column)
        if values is None:
            self.problems.append(
                f"{option} {name}: names must be text or whole numbers, got fractions or numbers "
                f"beyond 2^53 in a column of {column.type}. Write the column as text."
            )
            return None
        listed: list[Any] = values.tolist()
        empty = absent(values)
        self._count(f"{option} {name}", "names are missing", empty, remedy)
        if unique and len(set(listed)) < len(listed) - int(empty.sum()) + bool(empty.any()):
            self._repeated(name, option, listed)
        return listed

    def _repeated(self, name: str, option: str, listed: list[Any]) -> None:
        seen: dict[str, int] = {}
        again = np.zeros(len(listed), dtype=bool)
        for place, value in enumerate(listed):
            again[place] = value is not None and value in seen
            seen.setdefault(value, place)
        at = int(np.flatnonzero(again)[0])
        remedy = f"Leave such rows out or {option} away; if it names people, use --subject {name}."
        self.problems.append(
            f"{option} {name}: every row must have a name of its own, got {int(again.sum()):,} "
            f"repeated, the first {listed[at]!r} in row {at + 1} as in row {seen[listed[at]] + 1}. "
            + (remedy if self.first else "Leave such rows out, or mend their names.")
        )

    def weights(self, name: str) -> Array | None:
        """Weights of rows: finite numbers that are not negative."""
        where = f"--weight {name}"
        if not self.has(name, "--weight"):
            return None
        column = self.table.column(name)
        if family_of(column.type) not in ("number", "nothing"):
            self.problems.append(f"{where}: weights must be numbers, got {column.type}.")
            return None
        values, remedy = numbers_of(column), "Mend them, or leave such rows out."
        self._count(where, "weights are missing", np.isnan(values), remedy)
        self._count(where, "weights are negative", values < 0, remedy)
        self._count(where, "weights are infinite", np.isinf(values), remedy)
        if len(values) and not values[~np.isnan(values)].any():
            self.problems.append(f"{where}: at least one weight must be above 0, got none.")
        return values

    def target_numbers(self, name: str, bound: str) -> Array | None:
        """Targets that are numbers."""
        where, column = f"--target {name}", self.table.column(name)
        family = family_of(column.type)
        if family not in ("number", "boolean", "nothing"):
            remedy = "Choose --model logistic for classes." if self.first else "Mend the column."
            if family != "text" and self.first:
                remedy = "Name another column by --target."
            self.problems.append(
                f"{where}: the target must be a number, got {column.type}"
                f"{self._first_text(column)}. {remedy}"
            )
            return None
        values, remedy = numbers_of(column), "Leave such rows out."
        self._count(where, "targets are missing", np.isnan(values), remedy)
        self._too_large(where, values, "Mend them, or leave such rows out.")
        low = values < 0 if bound == "non-negative" else values <= 0
        if bound != "none":
            said = "Leave such rows out" + (", or choose --model ridge." if self.first else ".")
            self._count(where, f"targets are not {bound}", low, said)
        return values

    def target_labels(self, name: str, labels: str) -> NDArray[Any] | None:
        """Targets that are classes, of the type of the layout."""
        where, column = f"--target {name}", self.table.column(name)
        needed = {"text": "text", "whole": "number", "boolean": "boolean"}[labels]
        family = family_of(column.type)
        if family not in (needed, "nothing"):
            self.problems.append(
                f"{where}: classes must be {_PLURAL[needed]} as at the first fit, got "
                f"{column.type}{self._first_text(column)}. Mend the column."
            )
            return None
        if labels == "text":
            texts = texts_of(column)
            empty = absent(texts)
            self._count(where, "classes are missing", empty, "Leave such rows out.")
            return None if empty.any() else np.array(texts.tolist(), dtype=np.str_)
        values = numbers_of(column)
        self._count(where, "classes are missing", np.isnan(values), "Leave such rows out.")
        odd = ~np.isnan(values) & ~((np.abs(values) <= _EXACT_WHOLE) & (values == np.floor(values)))
        self._count(where, "classes are not whole numbers", odd, "Write the classes as text.")
        if np.isnan(values).any() or odd.any():
            return None
        return values.astype(bool if labels == "boolean" else np.int64)

    def feature(self, name: str, kind: str, held: str) -> NDArray[Any] | None:
        """A feature in the type of its kind; `held` is what the column held at the first fit."""
        column = self.table.column(name)
        family = family_of(column.type)
        if family not in (held, "nothing"):
            self.problems.append(
                f"column {name!r}: it held {_PLURAL[held]} at the first fit and holds "
                f"{column.type} now{self._first_text(column)}. Mend the column, or read it as "
                f"{_PLURAL[held]}."
            )
            return None
        if kind == "date":
            return days_of(column)
        values = numbers_of(column) if held in ("number", "boolean") else None
        if values is not None and held == "number":
            ignore = f", or leave the column out: --ignore {name}" if self.first else ""
            self._too_large(f"column {name!r}", values, f"Mend them{ignore}.")
        if kind in ("number", "boolean"):
            return values
        texts = texts_of(column)
        if kind == "words":
            texts[absent(texts)] = ""
        return texts

    def _too_large(self, where: str, values: Array, remedy: str) -> None:
        beyond = np.abs(values) > LARGEST_NUMBER
        if beyond.any():
            what = f"values are infinite or beyond {LARGEST_NUMBER:g}"
            self._count(where, what, beyond, remedy)

    def _count(self, where: str, what: str, bad: NDArray[np.bool_], remedy: str) -> None:
        """Note how many rows are bad, and the first of them."""
        places = np.flatnonzero(bad)
        if len(places):
            first = f"the first in row {places[0] + 1}" if len(places) > 1 else ""
            first = first or f"in row {places[0] + 1}"
            if len(places) == 1:  # "names are missing", "values are infinite"
                what = what.replace("classes are ", "class is ").replace("s are ", " is ", 1)
            self.problems.append(f"{where}: {len(places):,} {what}, {first}. {remedy}")

    def _first_text(self, column: Any) -> str:
        """The first value that is no number, where numbers are expected in a column of text."""
        if family_of(column.type) != "text":
            return ""
        for place, text in enumerate(texts_of(column).tolist()):
            if text is not None and not is_number(text):
                return f", such as {text!r} in row {place + 1}"
        return ""


def _whole_numbers(column: Any) -> NDArray[Any] | None:
    """Whole numbers as text, None where they are missing; None instead if some are not whole."""
    pa, kind = arrow(), column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_floating(kind):
        values = numbers_of(column)
        values = values[~np.isnan(values)]
        if not ((np.abs(values) <= _EXACT_WHOLE) & (values == np.floor(values))).all():
            return None
    texts = texts_of(column)
    if pa.types.is_decimal(kind) and any("." in text for text in texts.tolist() if text):
        return None
    return texts


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if not near:  # by letters only, as people mistype case and separators
        plain = {_letters(other): other for other in names}
        near = [plain[m] for m in difflib.get_close_matches(_letters(name), list(plain), n=3)]
    if near:
        return f"Did you mean {' or '.join(repr(n) for n in near)}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"The columns are {shown}." if names else "The table has no columns."


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
