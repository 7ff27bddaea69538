"""Requests by row numbers, ids or subjects, resolved to fit-time positions."""

import numbers
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.data.names import hash_of
from pilu.data.values import is_missing
from pilu.exceptions import AlreadyForgotten, PartOfPersonWarning, WrongInput

Index = Mapping[Hashable, tuple[int, ...]]  # positions of rows by name
Rows = NDArray[np.intp]
Live = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowBook:
    """Positions of the rows by id and by subject.

    Names of forgotten rows are kept only as keyed hashes, which suffice for `AlreadyForgotten`.
    """

    ids: Index | None
    subjects: Index | None
    key: bytes = field(repr=False)
    forgotten: frozenset[bytes] = frozenset()

    @classmethod
    def open(
        cls, n_rows: int, key: bytes, sample_ids: Any = None, subjects: Any = None
    ) -> "RowBook":
        """A book of n rows, none forgotten; ids must be unique, subjects may repeat.

        None and NaN name no row and nobody, and are refused.
        """
        by_id = _index("sample_ids", sample_ids, n_rows)
        if by_id is not None and len(by_id) != n_rows:
            twice = next(name for name, rows in by_id.items() if len(rows) > 1)
            raise WrongInput(
                f"sample_ids must be unique, got {twice!r} more than once. "
                "Use `subjects` for a person with several rows."
            )
        return cls(by_id, _index("subjects", subjects, n_rows), key)

    def find(
        self,
        live: Live,
        *,
        rows: Any = None,
        ids: Any = None,
        subject: Any = None,
        subjects: Any = None,
        may_be_none: bool = False,
    ) -> Rows:
        """Positions of one request, given in exactly one of four ways: sorted, none forgotten.

        `subjects` is a list of names, whose rows are one group.
        """
        ways = {"rows": rows, "ids": ids, "subject": subject, "subjects": subjects}
        if may_be_none and all(value is None for value in ways.values()):
            return np.array([], dtype=np.intp)
        check_only_one(**ways)
        if ids is not None:
            rows = [self._lookup("ids", i)[0] for i in _listed(ids)]
        elif rows is None:
            people = [subject] if subjects is None else _people(subjects)
            kind = "subject" if subjects is None else "subjects"
            rows = [r for name in people for r in self._lookup(kind, name)]
        return live_rows(live, rows)

    def warn_of_parts(self, rows: Rows, stacklevel: int = 2) -> None:
        """Warn of people who have rows in a request, but not all of their rows.

        The message names no person: who is asked for by row number need not be known to a log.
        """
        gone = set(rows.tolist())
        people = (self.subjects or {}).values()
        parts = [p for p in people if not (gone.isdisjoint(p) or gone.issuperset(p))]
        if not parts:
            return
        named = [row for row in parts[0] if row in gone]
        several = len(named) > 1
        shown = ", ".join(map(str, named[:5])) + ", ..." * (len(named) > 5)
        text = (
            f"row{'s' * several} {shown} {'are' if several else 'is'} {len(named)} of the "
            f"{len(parts[0])} rows of {'their' if several else 'its'} person; the others stay."
        )
        if len(parts) > 1:
            text = f"{len(parts)} people are forgotten in part. For instance, {text}"
        text += " To forget the person, pass subject=... in place of rows."
        warnings.warn(text, PartOfPersonWarning, stacklevel=stacklevel + 1)

    def find_each(
        self, live: Live, *, subject: Any = None, subjects: Any = None
    ) -> list[list[int]]:
        """Positions of several requests, one for every subject."""
        return [rows.tolist() for rows in self._people_one_by_one(live, subject, subjects)]

    def find_named(
        self, live: Live, requests: Any = None, *, subject: Any = None, subjects: Any = None
    ) -> tuple[tuple[Hashable, ...], list[Rows]]:
        """Names and positions of several requests; by default of every subject, or of every row.

        The name is that of the subject, or the row's id, or its number. A group has those of all
        its rows.
        """
        if subject is not None or subjects is not None:
            check_only_one(requests=requests, subject=subject, subjects=subjects)
        elif requests is None and self.subjects is not None:  # all of them have rows that are left
            return tuple(self.subjects), [np.array(rows) for rows in self.subjects.values()]
        if subject is not None or subjects is not None:
            people = [subject] if subjects is None else _people(subjects)
            names = tuple(_plain(name) for name in people)
            return names, self._people_one_by_one(live, subject, subjects)
        if requests is None:
            groups = [np.array([row]) for row in np.flatnonzero(live)]
        else:
            groups = [live_rows(live, request) for request in separate(requests)]
        name_of = {rows[0]: name for name, rows in (self.ids or {}).items()}
        named = (tuple(name_of.get(row, row) for row in rows.tolist()) for rows in groups)
        return tuple(name[0] if len(name) == 1 else name for name in named), groups

    def find_in_order(self, live: Live, *, rows: Any = None, ids: Any = None) -> Rows:
        """Positions of rows that are to be replaced, in the given order."""
        check_only_one(rows=rows, ids=ids)
        if ids is not None:
            rows = [self._lookup("ids", i)[0] for i in _listed(ids)]
        listed = np.array([_row_number(r, len(live)) for r in _listed(rows)], dtype=np.intp)
        live_rows(live, listed, may_be_all=True)
        return listed

    def extended(self, n_rows: int, n_new: int, sample_ids: Any, subjects: Any) -> "RowBook":
        """The book with new rows after the first `n_rows`, named like those of the fit."""
        for name, known, given in (
            ("sample_ids", self.ids, sample_ids),
            ("subjects", self.subjects, subjects),
        ):
            if (known is None) != (given is None):
                which = (
                    "must be given, as it was" if given is None else "must be left out, as it was"
                )
                raise WrongInput(f"{name} {which} at fit.")
        new = RowBook.open(n_new, self.key, sample_ids, subjects)
        again = [name for name in new.ids or () if name in (self.ids or ())]
        if again:
            raise WrongInput(
                f"sample_ids must be new, got {again[0]!r}, which the model has. Use correct for "
                "rows that changed."
            )
        ids = _appended(self.ids, new.ids, n_rows)
        people = _appended(self.subjects, new.subjects, n_rows)
        back = self._hashes(new.ids or (), new.subjects or ())
        return replace(self, ids=ids, subjects=people, forgotten=self.forgotten - back)

    def without(self, rows: Rows) -> "RowBook":
        """The book after `rows` are forgotten."""
        gone = {int(r) for r in rows}
        ids, lost_ids = _strike(self.ids, gone)
        subjects, lost_subjects = _strike(self.subjects, gone)
        lost = self._hashes(lost_ids, lost_subjects)
        return replace(self, ids=ids, subjects=subjects, forgotten=self.forgotten | lost)

    def _people_one_by_one(self, live: Live, subject: Any, subjects: Any) -> list[Rows]:
        if subjects is None:
            return [self.find(live, subject=subject)]
        return [self.find(live, subjects=[name]) for name in _people(subjects)]

    def _lookup(self, kind: str, name: Any) -> tuple[int, ...]:
        index = self.ids if kind == "ids" else self.subjects
        if index is None:
            source = "sample_ids" if kind == "ids" else "subjects"
            raise WrongInput(
                f"{kind} must be known to the model, got {kind}={name!r} for a model fitted "
                f"without `{source}`. Pass {source}=... to fit, or use row numbers."
            )
        name = _plain(name)
        try:
            if name in index:
                return index[name]
        except TypeError:
            remedy = "Use subjects=[...] for several people." if kind == "subject" else ""
            raise complaint(kind, "hashable", name, remedy) from None
        one = "ids" if kind == "ids" else "subject"
        if self._hash(one, name) in self.forgotten:
            raise AlreadyForgotten(
                f"{one} {name!r} has already been forgotten; nothing was changed."
            )
        raise WrongInput(
            f"{kind} must be among those given to fit, got unknown {name!r}. {_hint(name, index)}"
        )

    def _hashes(self, ids: Iterable[Hashable], subjects: Iterable[Hashable]) -> set[bytes]:
        hashes = {self._hash("ids", name) for name in ids}
        return hashes | {self._hash("subject", name) for name in subjects}

    def _hash(self, kind: str, name: Hashable) -> bytes:
        return hash_of(f"{kind}:{name!r}", self.key)


def check_only_one(**ways: Any) -> None:
    """Refuse a request that is given in no way or in several."""
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        *first, last = ways
        raise WrongInput(
            f"exactly one of {', '.join(first)} and {last} must be given, got "
            f"{' and '.join(given) if given else 'none of them'}."
        )


def separate(requests: Any) -> list[Any]:
    """Several requests, or one row number, as a list of requests."""
    if isinstance(requests, np.ndarray):
        return list(np.atleast_1d(requests))
    if isinstance(requests, str) or not isinstance(requests, Iterable):
        return [requests]
    return list(requests)


def live_rows(live: Live, rows: Any, *, may_be_all: bool = False) -> Rows:
    """Check row numbers: integers in range, distinct, none forgotten, not all remaining rows."""
    listed = [_row_number(r, len(live)) for r in _listed(rows)]
    if not listed:
        raise complaint("rows", "at least one row number", rows)
    requested = np.array(sorted(listed), dtype=np.intp)
    if len(np.unique(requested)) != len(requested):
        twice = requested[:-1][np.diff(requested) == 0][0]
        raise WrongInput(
            f"rows must be distinct, got row {twice} more than once. Remove the duplicates."
        )
    gone = requested[~live[requested]]
    if len(gone):
        raise AlreadyForgotten(
            f"row(s) {', '.join(map(str, gone))} have already been forgotten; nothing was changed."
        )
    if not may_be_all and len(requested) == int(live.sum()):
        raise WrongInput(
            f"rows must leave at least one row, got all {len(requested)} remaining rows. "
            "Delete the model instead."
        )
    return requested


def _hint(name: Hashable, index: Index) -> str:
    """What may be wrong with an unknown name; it shows no name that was not asked for."""
    types = sorted({type(known).__name__ for known in index})
    if not types or type(name).__name__ in types:
        return "Check the spelling."
    return (
        f"It is of type {type(name).__name__}, those of the fit are of type {' or '.join(types)}."
    )


def _index(kind: str, names: Any, n_rows: int) -> dict[Hashable, tuple[int, ...]] | None:
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise complaint(kind, f"a sequence, one for each of the {n_rows} rows", names)
    if getattr(names, "ndim", 1) != 1:  # iterating over a frame gives the names of its columns
        shape = getattr(names, "shape", "")
        raise WrongInput(f"{kind} must be one column, got shape {shape}. Pass the column.")
    listed = [_plain(v) for v in names]
    if len(listed) != n_rows:
        raise WrongInput(
            f"{kind} must be one for each of the {n_rows} rows, got {len(listed)} names."
        )
    index: dict[Hashable, list[int]] = {}
    for position, name in enumerate(listed):
        if is_missing(name):
            raise WrongInput(
                f"{kind} must name every row, got {name!r} for row {position}. None and NaN name "
                "nobody. Give such rows names of their own, or leave them out of the fit."
            )
        try:
            index.setdefault(name, []).append(position)
        except TypeError:
            raise complaint(kind, "hashable", name) from None
    return {name: tuple(rows) for name, rows in index.items()}


def index_as_ids(index: Any) -> Any:
    """A pandas index, if it names every row by itself; else None."""
    if getattr(index, "is_unique", False) and not any(map(is_missing, index)):
        return index
    return None


def _people(names: Any) -> list[Any]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise complaint("subjects", "a list of names", names, "Use subject=... for one person.")
    listed = list(names)
    if not listed:
        raise complaint("subjects", "at least one name", names)
    if len({repr(_plain(name)) for name in listed}) != len(listed):
        raise complaint("subjects", "distinct", names, "Remove the duplicates.")
    return listed


def _appended(
    index: Index | None,
    new: Index | None,
    n_rows: int,
) -> dict[Hashable, tuple[int, ...]] | None:
    if index is None or new is None:
        return None
    joined = dict(index)
    for name, rows in new.items():
        joined[name] = joined.get(name, ()) + tuple(n_rows + r for r in rows)
    return joined


def _strike(
    index: Index | None, gone: set[int]
) -> tuple[dict[Hashable, tuple[int, ...]] | None, list[Hashable]]:
    # A subject keeps its name while it has remaining rows.
    if index is None:
        return None, []
    left = {n: tuple(r for r in rows if r not in gone) for n, rows in index.items()}
    return {n: rows for n, rows in left.items() if rows}, [n for n, r in left.items() if not r]


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _listed(names: Any) -> list[Any]:
    if isinstance(names, np.ndarray):
        return list(np.atleast_1d(names))
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        return [names]
    return list(names)


def _row_number(row: Any, n_rows: int) -> int:
    if isinstance(row, bool | np.bool_) or not isinstance(row, numbers.Integral):
        remedy = ""
        if isinstance(row, bool | np.bool_):
            remedy = "Turn a boolean mask into row numbers with np.flatnonzero(mask)."
        elif isinstance(row, str):
            remedy = "Pass names as subject=, subjects= or ids=."
        raise complaint("rows", "integers", row, remedy)
    if not 0 <= int(row) < n_rows:
        raise complaint("rows", f"in [0, {n_rows - 1}], fit-time positions", int(row))
    return int(row)
