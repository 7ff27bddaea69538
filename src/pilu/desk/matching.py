"""Rows of a user's table, by keyed hashes, compared with the rows that a store knows.

A row is known by its person and id, or, without an id column, by its person and content. So an id
that now belongs to another person is a row that disappeared, and one that appeared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import Hashes, Names, hashes_of
from pilu.refit.held_rows import Table
from pilu.refit.schema import Schema
from pilu.tabular.frames import Frame

Positions = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as a refit uses them, with the keyed names of rows and people."""

    table: Table
    names: Names  # "subject", and "id" if there is such a column
    people: Sequence[str] = field(repr=False)  # names of the people in the clear

    @classmethod
    def of(cls, frame: Frame, key: bytes, *, labels: bool) -> "Rows":
        """The rows of a frame."""
        schema = Schema.of(frame.X, frame.y, labels=labels)
        table = Table.of(frame.X, frame.y, frame.weights, key=key, schema=schema)
        people = frame.subjects if frame.subjects is not None else frame.ids or []
        hashes = {"subject": _hashes_of_repeated(people, key)}
        if frame.ids is not None:
            hashes["id"] = hashes_of(frame.ids, key) if frame.subjects else hashes["subject"]
        return cls(table, Names(hashes), people)

    def __len__(self) -> int:
        return len(self.table)

    def take(self, positions: Positions) -> "Rows":
        """Some rows, numbered anew in the given order, with a code for the person of each."""
        hashes = {kind: values[positions] for kind, values in self.names.hashes.items()}
        taken = self.table.take(positions)
        numbered = Table(
            taken.X,
            taken.y,
            taken.weights,
            codes_of(hashes["subject"]),
            np.arange(len(positions)),
            taken.schema,
            taken.digests,
        )
        return Rows(numbered, Names(hashes), [self.people[k] for k in positions.tolist()])

    def followed_by(self, other: "Rows") -> "Rows":
        """These rows, then those of another table."""
        hashes = {
            kind: np.concatenate([values, other.names.hashes[kind]])
            for kind, values in self.names.hashes.items()
        }
        joined = self.table.followed_by(other.table)
        return Rows(joined, Names(hashes), [*self.people, *other.people])

    @cached_property
    def keys(self) -> list[bytes]:
        """What rows are known by."""
        return keys_of(self.names, self.table.digests)


@dataclass(frozen=True, eq=False)
class Matched:
    """Rows of a table compared with the rows of a store, by position.

    Attributes
    ----------
    place : array of int
        For every row of the store its position in the table; -1 if it is not there.
    changed : array of bool
        For every row of the store: whether it is there under its id and person with another
        content.
    new : array of int
        Positions in the table of rows that the store does not know.
    """

    place: Positions
    changed: NDArray[np.bool_]
    new: Positions

    @property
    def missing(self) -> NDArray[np.bool_]:
        """For every row of the store: whether it is not in the table."""
        return self.place < 0


def match(names: Names, digests: Hashes, rows: Rows) -> Matched:
    """Find the rows of a store in a table; of equal rows, the first are taken."""
    place = np.array(_places(keys_of(names, digests), rows.keys), dtype=np.intp)
    changed = np.zeros(len(place), dtype=bool)
    there = np.flatnonzero(place >= 0)
    changed[there] = (digests[there] != rows.table.digests[place[there]]).any(axis=1)
    new = np.ones(len(rows), dtype=bool)
    new[place[there]] = False
    return Matched(place, changed, np.flatnonzero(new))


def _places(wanted: Sequence[bytes], keys: Sequence[bytes]) -> list[int]:
    """The position of each wanted key, every position at most once; -1 where there is none."""
    position = dict(zip(keys, range(len(keys)), strict=True))
    if len(position) == len(keys) and len(set(wanted)) == len(wanted):
        return [position.get(key, -1) for key in wanted]
    waiting: dict[bytes, list[int]] = {}
    for place in range(len(keys) - 1, -1, -1):
        waiting.setdefault(keys[place], []).append(place)
    found = (waiting.get(key) for key in wanted)
    return [one.pop() if one else -1 for one in found]


def keys_of(names: Names, digests: Hashes) -> list[bytes]:
    """What rows are known by: their person, and their id or their content."""
    return listed_bytes(np.hstack([names.hashes.get("id", digests), names.hashes["subject"]]))


def listed_bytes(hashes: Hashes) -> list[bytes]:
    """Hashes as a list of bytes."""
    raw, width = np.ascontiguousarray(hashes).tobytes(), hashes.shape[1]
    return [raw[k : k + width] for k in range(0, len(raw), width)]


def codes_of(hashes: Hashes) -> NDArray[np.intp]:
    """A code for the person of each row, in the order of their first rows."""
    codes: dict[bytes, int] = {}
    listed = listed_bytes(hashes)
    return np.array([codes.setdefault(one, len(codes)) for one in listed], dtype=np.intp)


def are_among(hashes: Hashes, some: set[bytes] | frozenset[bytes]) -> NDArray[np.bool_]:
    """Which of the hashed names are among some."""
    return np.array([one in some for one in listed_bytes(hashes)], dtype=bool)


def _hashes_of_repeated(names: Sequence[Any], key: bytes) -> Hashes:
    """Keyed hashes of names that occur several times, each hashed once."""
    codes: dict[Any, int] = {}
    places = [codes.setdefault(name, len(codes)) for name in names]
    return hashes_of(list(codes), key)[places]
