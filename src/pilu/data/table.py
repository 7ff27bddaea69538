"""A user's table: what is read of it, and the checks that all formats share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
NameList = list[Any]

BATCH_BYTES = 32 * 2**20


class TableBatch(NamedTuple):
    """Some rows: places in the table, features, targets as they are in the file, and names."""

    places: Positions
    X: Array
    y: NDArray[Any]
    ids: NameList | None
    subjects: NameList | None


class Scan(NamedTuple):
    """What a pass over a table reads; the other fields of its batches are empty."""

    features: bool = True
    targets: bool = True
    names: bool = True
    most_bytes: int | None = None  # of a batch's numbers; None for BATCH_BYTES
    groups: tuple[int, ...] | None = None  # the row groups of Parquet; None for all


EVERYTHING = Scan()


@dataclass(frozen=True)
class Columns:
    """Which columns mean what; the features are all others, unless they are named."""

    target: tuple[str, ...]  # none for rows to predict
    id: str | None = None
    subject: str | None = None
    features: tuple[str, ...] | None = None
    classify: bool = False  # the target is a class; a CSV's are read as text
    ignored: tuple[str, ...] = ()  # columns that are not features either

    @property
    def named(self) -> tuple[str, ...]:
        """The columns with names of rows."""
        return tuple(name for name in (self.id, self.subject) if name is not None)

    @property
    def special(self) -> tuple[str, ...]:
        """All columns of targets and names."""
        return *self.target, *self.named


class Part(NamedTuple):
    """A piece of a table: a file, or some of its row groups."""

    path: Path
    columns: Columns
    groups: tuple[int, ...] | None
    n_rows: int


class Table(Protocol):
    """A table, read in batches or by the places of rows."""

    path: Path
    columns: Columns
    features: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Rows in the table."""
        ...

    def deferred_batches(self, scan: Scan = EVERYTHING) -> Iterator[Callable[[], TableBatch]]:
        """All rows of a scan in order, in batches.

        The iterator reads the file. Each function that it yields makes a batch of what was read,
        in the thread that calls it.
        """
        ...

    def take(self, places: Positions) -> TableBatch:
        """The rows at sorted places."""
        ...

    def part(self, groups: tuple[int, ...] | None, n_rows: int) -> Part:
        """Some rows of the file, for a reader who must find the same features there."""
        return Part(self.path, replace(self.columns, features=self.features), groups, n_rows)

    def parts(self) -> list[Part]:
        """Pieces of the table that can be read independently, in order."""
        return [self.part(None, self.n_rows)]

    @property
    def held_bytes(self) -> int:
        """What the table keeps in memory while it is open."""
        return 0

    def batches(self, scan: Scan = EVERYTHING) -> Iterator[TableBatch]:
        """All rows of a scan in order, in batches."""
        for make_batch in self.deferred_batches(scan):
            yield make_batch()

    def targets(self) -> Iterator[NDArray[Any]]:
        """The target columns of all rows, in order."""
        for batch in self.batches(Scan(features=False, names=False)):
            yield batch.y

    def names(self) -> Iterator[tuple[Positions, NameList | None, NameList | None]]:
        """Places, ids and subjects of all rows, in order."""
        for batch in self.batches(Scan(features=False, targets=False)):
            yield batch.places, batch.ids, batch.subjects


def as_names(where: str, values: Sequence[Any]) -> NameList:
    """Names as they are typed: text and whole numbers; other types could merge two people."""
    names: NameList = []
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, str | int) or value == "":
            raise WrongInput(
                f"{where} must name every row by text or a whole number, got {value!r}."
            )
        names.append(value)
    return names


def rows_in_a_batch(n_columns: int, most_bytes: int | None = None) -> int:
    """How many rows of so many numbers are read at a time."""
    return max(1, (BATCH_BYTES if most_bytes is None else most_bytes) // (8 * max(n_columns, 1)))


def check_columns(path: Path, names: Sequence[str], columns: Columns) -> None:
    """Refuse a table that lacks one of the named columns."""
    for name in (*columns.special, *columns.ignored):
        if name not in names:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise WrongInput(f"{path} must have a column {name!r}, got {shown}.")
    if len(set(columns.special)) != len(columns.special):
        raise WrongInput("target, id and subject must be different columns.")


def features_among(path: Path, names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """The columns that are features: those named as such, or all without another meaning."""
    check_columns(path, names, columns)
    others = tuple(n for n in names if n not in (*columns.special, *columns.ignored))
    missing = set(columns.features or ()) - set(others)
    if missing:
        raise WrongInput(f"{path} must have a column {min(missing)!r}, got none of that name.")
    features = others if columns.features is None else columns.features
    if not features:
        raise WrongInput(f"{path} must have a column besides target, id and subject, got none.")
    return features
