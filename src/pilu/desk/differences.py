"""What appeared, changed and disappeared in a table since a store last read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pilu.desk.matching import Matched, Rows, are_among
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.exceptions import WrongInput


@dataclass(frozen=True)
class Difference:
    """A table compared with the rows of a model.

    Attributes
    ----------
    n_new, n_changed, n_missing, n_same : int
        Rows that appeared, have another content under their id, disappeared, and are as before.
    new_people : tuple of str
        Names of people who appeared.
    missing_rows : mapping
        Rows of people all of whose rows disappeared, by keyed names: their names are not kept.
    forgotten_people : tuple of str
        Names of forgotten people who turn up in the table.
    """

    n_new: int
    n_changed: int
    n_missing: int
    n_same: int
    new_people: tuple[str, ...] = field(repr=False)
    forgotten_people: tuple[str, ...] = field(repr=False)
    missing_rows: Mapping[bytes, int] = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether the model follows the table already."""
        return not (self.n_new or self.n_changed or self.n_missing)


def compare(held: RefitSnapshot, rows: Rows, matched: Matched) -> Difference:
    """The difference between a table and the rows of a store."""
    known = held.names.by_hash("subject")
    there = {row.tobytes() for row in rows.names.hashes["subject"]}
    missing = {name: len(places) for name, places in known.items() if name not in there}
    hidden = are_among(rows.names.hashes["subject"][matched.new], held.suppressed)
    new = matched.new[~hidden]
    appeared = [rows.people[k] for k in new.tolist()]
    are_new = ~are_among(rows.names.hashes["subject"][new], set(known))
    n_changed, n_missing = int(matched.changed.sum()), int(matched.missing.sum())
    return Difference(
        len(new),
        n_changed,
        n_missing,
        len(held.digests) - n_changed - n_missing,
        tuple(dict.fromkeys(np.array(appeared, dtype=object)[are_new].tolist())),
        tuple(dict.fromkeys(rows.people[k] for k in matched.new[hidden].tolist())),
        missing,
    )


def check_nothing_lost(folder: Path, matched: Matched, lost: Sequence[str]) -> None:
    """Refuse to take the rows of a table that is not there for rows that were erased."""
    if lost and matched.missing.any():
        raise WrongInput(
            f"{', '.join(lost)} cannot be read, and {int(matched.missing.sum())} row(s) of the "
            f"model are in no other table. Bring it back, or name the table to follow: `pilu sync "
            f"{folder} TABLE`."
        )


def refuse_forgotten(rows: Rows, gone: frozenset[bytes], *, leave_out: bool) -> Rows:
    """Rows without those of forgotten people; an error that names them unless they may be left out.

    Nobody who was forgotten is learned again without a word.
    """
    hidden = are_among(rows.names.hashes["subject"], gone)
    if not hidden.any():
        return rows
    if leave_out:
        return rows.take(np.flatnonzero(~hidden))
    names = list(dict.fromkeys(rows.people[k] for k in np.flatnonzero(hidden).tolist()))
    raise WrongInput(
        f"{listed(names)} {'was' if len(names) == 1 else 'were'} forgotten, and must not be "
        "learned again. Nothing was changed. Remove their rows, leave them out by "
        "--without-forgotten, or name those who came back by --returned NAME."
    )


def listed(names: Sequence[Any]) -> str:
    """Names as a list that stays readable."""
    shown = ", ".join(map(_shown, names[:10]))
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _shown(name: Any) -> str:
    """A name as it is, or in quotes if it would not be seen or break the line."""
    text = str(name)
    return text if text.isprintable() and text.strip() == text != "" else ascii(text)
