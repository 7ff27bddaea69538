"""What the desk asks of a user's table, and checks that all formats share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.data.values import check_whole_numbers

__all__ = [
    "BATCH_BYTES",
    "Batch",
    "Columns",
    "Part",
    "Table",
    "as_names",
    "as_numbers",
    "check_columns",
    "rows_in_a_batch",
]

Array = NDArray[np.float64]
Names = list[Any]

BATCH_BYTES = 32 * 2**20


class Batch(NamedTuple):
    """Some rows: places in the file, features, targets as they stand there, and names."""

    places: NDArray[np.intp]
    X: Array
    y: NDArray[Any]
    ids: Names | None
    subjects: Names | None


@dataclass(frozen=True)
class Columns:
    """Which columns mean what; the features are all others, unless they are named."""

    target: tuple[str, ...]  # none for rows to predict
    id: str | None = None
    subject: str | None = None
    features: tuple[str, ...] | None = None
    classify: bool = False  # the target is a class; a CSV's are read as text
    ignored: tuple[str, ...] = ()  # columns that are no features either

    @property
    def special(self) -> tuple[str, ...]:
        """All columns that are no features."""
        return tuple(name for name in (*self.target, self.id, self.subject) if name is not None)


class Part(NamedTuple):
    """A piece of a table: a file, or some of its row groups."""

    path: Path
    columns: Columns
    groups: tuple[int, ...] | None
    first: int  # place of its first row in the whole table
    n_rows: int


class Table(Protocol):
    """What the desk asks of a table."""

    path: Path
    features: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        ...

    def promises(self, most_bytes: int | None = None) -> Iterator[Callable[[], Batch]]:
        """All rows in order, so many bytes of numbers at a time.

        The file is read as one goes along; what was read is made into a batch when that is asked
        for, by whichever thread asks.
        """
        ...

    def batches(self, most_bytes: int | None = None) -> Iterator[Batch]:
        """The same, made."""
        for promise in self.promises(most_bytes):
            yield promise()

    def targets(self) -> Iterator[NDArray[Any]]:
        """The target columns of all rows, in order, without their features."""
        ...

    @property
    def held_bytes(self) -> int:
        """What the table keeps in memory while it is open."""
        return 0

    def parts(self) -> "list[Part]":
        """Pieces of the file that can be read by themselves, in order."""
        ...

    def names(self) -> Iterator[tuple[NDArray[np.intp], Names | None, Names | None]]:
        """Places, ids and subjects of all rows, without their values."""
        ...

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The rows at sorted places."""
        ...


def as_names(where: str, values: Sequence[Any]) -> Names:
    """Names as people type them: text and whole numbers; anything else could merge two people."""
    names: Names = []
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, str | int) or value == "":
            raise ValueError(
                f"{where} must name every row by text or a whole number, got {value!r}."
            )
        names.append(value)
    return names


def as_numbers(where: str, values: NDArray[Any]) -> Array:
    """float64; whole numbers that it cannot hold are refused, not rounded."""
    check_whole_numbers(where, values)
    return np.asarray(values, dtype=np.float64)


def rows_in_a_batch(n_columns: int, most_bytes: int | None = None) -> int:
    """How many rows of so many numbers are read at a time."""
    return max(1, (BATCH_BYTES if most_bytes is None else most_bytes) // (8 * max(n_columns, 1)))


def check_columns(path: Path, names: Sequence[str], columns: Columns) -> None:
    """Refuse a table that lacks one of the columns that are named."""
    for name in (*columns.special, *columns.ignored):
        if name not in names:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise ValueError(f"{path} must have a column {name!r}, got {shown}.")
    if len(set(columns.special)) != len(columns.special):
        raise ValueError("target, id and subject must be different columns.")
