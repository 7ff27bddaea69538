"""What a change of a refit store would do: the rows afterwards, and who is forgotten.

A plan reads the user's tables and compares them with what the store knows. It changes nothing.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.data.names import hash_of
from pilu.data.sources import open_source
from pilu.desk.differences import check_nothing_lost, compare, listed, refuse_forgotten
from pilu.desk.exposed import exposure_record
from pilu.desk.matching import Matched, Rows, are_among, listed_bytes, match
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.exceptions import BeyondPrecision, RowsChanged, WrongInput

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a change does."""

    rows: Rows  # of the model afterwards
    entry: Mapping[str, Any]  # for the log
    suppressed: frozenset[bytes]  # forgotten people afterwards
    forgotten: Mapping[bytes, int] = field(default_factory=dict)  # rows of people forgotten now
    returned: Sequence[bytes] = ()
    exposures: Mapping[str, Any] = field(default_factory=dict)  # by the person's keyed name
    state: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)  # names in the clear, by keyed names


def plan_to_forget(
    held: RefitSnapshot, names: Iterable[bytes], table: str | Path | None = None
) -> Plan:
    """Forget people, whether their rows are still in the table or not."""
    people = dict.fromkeys(names)
    hashes = held.names.hashes["subject"]
    leaving = are_among(hashes, frozenset(people))
    if leaving.all():
        raise WrongInput(
            f"all {len(leaving)} rows that are left belong to the people to forget. Delete the "
            "store and the model instead."
        )
    rows, lost = held.read_rows(table)
    matched = match(held.names, held.digests, rows)
    _check_unchanged(held.folder, matched, ~leaving, lost)
    gone = held.suppressed | people.keys()
    emptied = [] if table is not None else _emptied(held, gone, lost)
    return Plan(
        rows.take(matched.place[~leaving]),
        {"kind": "unlearn", "n_forgotten": int(leaving.sum())},
        gone,
        state={"sources": [name for name in held.sources if name not in emptied]},
        forgotten=_counts(hashes[leaving], people),
        exposures=_exposures(held, rows, matched, leaving, list(people)),
        notes=(*_notes(held.folder, rows, matched, gone), *map(_note_of_emptied, emptied)),
        known=_known_names(rows, frozenset(people)),
    )


def plan_to_add(
    held: RefitSnapshot, table: str | Path, returned: Sequence[str], *, without_forgotten: bool
) -> Plan:
    """Learn all rows of a table, which the store reads from now on, too."""
    name = open_source(table).name
    if _real(name) in map(_real, held.sources):
        raise WrongInput(
            f"table must be new, got {name}, which the store has. To learn what appeared in it, "
            f"use `pilu sync {held.folder}`."
        )
    back, gone = came_back(returned, held.suppressed, held.key)
    new = refuse_forgotten(held.rows_of(table), gone, leave_out=without_forgotten)
    if not len(new):
        raise WrongInput(f"{name} has no row that may be learned: all are of forgotten people.")
    _check_new_ids(held, new)
    after = _known_rows(held).followed_by(new)
    return Plan(
        after.take(np.arange(len(after))),
        {"kind": "add", "n_added": len(new)},
        gone,
        returned=back,
        state={"sources": [*held.sources, name]},
    )


def plan_to_correct(held: RefitSnapshot, table: str | Path) -> Plan:
    """Replace rows by those of the same ids in a table."""
    if held.layout.id is None:
        raise WrongInput(
            "rows can be corrected only in a store with ids: it was fitted without --id. Change "
            f"them in the table, then use `pilu sync {held.folder}`."
        )
    name, new = open_source(table).name, held.rows_of(table)
    matched = match(held.names, held.digests, new)
    if len(matched.new):
        if are_among(new.names.hashes["id"][matched.new], set(held.names.by_hash("id"))).any():
            raise WrongInput(
                f"a row of {name} belongs to another person than before. Forget the one and add "
                "the other."
            )
        raise WrongInput(
            f"{len(matched.new)} row(s) of {name} have ids that the model does not know. Use "
            "`pilu add` for new rows."
        )
    where = np.flatnonzero(~matched.missing)
    known = _known_rows(held)
    order = np.arange(len(known))
    order[where] = len(known) + matched.place[where]
    return Plan(
        known.followed_by(new).take(order),
        {"kind": "correct", "n_corrected": int(matched.changed.sum())},
        held.suppressed,
        state={"sources": [*(s for s in held.sources if s != name), name]},
    )


def plan_to_follow(
    held: RefitSnapshot,
    table: str | Path | None,
    returned: Sequence[str],
    *,
    forget_missing: bool,
    without_forgotten: bool,
) -> Plan:
    """Learn what appeared in a table, and drop what disappeared."""
    rows, lost = held.read_rows(table)
    matched = match(held.names, held.digests, rows)
    check_nothing_lost(held.folder, matched, lost)
    back, gone = came_back(returned, held.suppressed, held.key)
    hidden = are_among(rows.names.hashes["subject"][matched.new], gone)
    if hidden.any() and not without_forgotten:
        refuse_forgotten(rows.take(matched.new), gone, leave_out=False)
    new, stay = matched.new[~hidden], matched.place[~matched.missing]
    if not len(new) and not len(stay):
        raise WrongInput(
            "none of the rows of the table may be learned: nothing would be left. Delete the store "
            "and the model instead."
        )
    leaving = compare(held, rows, matched).missing_rows if forget_missing else {}
    return Plan(
        rows.take(np.concatenate([stay, new])),
        {
            "kind": "sync",
            "n_added": len(new),
            "n_corrected": int(matched.changed.sum()),
            "n_dropped": int(matched.missing.sum()),
        },
        gone | leaving.keys(),
        forgotten=leaving,
        returned=back,
        exposures=_unknown_exposures(held, leaving),
        state={"sources": list(held.sources) if table is None else [open_source(table).name]},
    )


def _real(name: str) -> str:
    """A table's own path, where there are several that lead to it; an address as it is."""
    return name if "://" in name else os.path.realpath(name)


def came_back(
    returned: Sequence[str], gone: frozenset[bytes], key: bytes
) -> tuple[list[bytes], frozenset[bytes]]:
    """Keyed names of people who came back, and those who are still forgotten."""
    named = [returned] if isinstance(returned, str) else returned
    hashed = {name: hash_of(name, key) for name in named}
    if strange := [name for name, one in hashed.items() if one not in gone]:
        raise WrongInput(
            f"returned must name people who were forgotten, got {listed(strange)}. Leave them out."
        )
    return list(hashed.values()), gone - set(hashed.values())


def _known_rows(held: RefitSnapshot) -> Rows:
    """The rows of the model as they are in the user's tables: all there and unchanged."""
    rows, lost = held.read_rows()
    matched = match(held.names, held.digests, rows)
    _check_unchanged(held.folder, matched, np.ones(len(held.digests), dtype=bool), lost)
    return rows.take(matched.place)


def _check_new_ids(held: RefitSnapshot, new: Rows) -> None:
    if "id" not in new.names.hashes:
        return
    known = set(held.names.by_hash("id"))
    again = [k for k, name in enumerate(listed_bytes(new.names.hashes["id"])) if name in known]
    if again:
        raise WrongInput(
            f"{len(again)} row(s) of the table have ids that the model knows, the first in row "
            f"{again[0] + 1}. Use `pilu correct` for rows that changed, or `pilu sync` for a whole "
            "table."
        )


def _check_unchanged(folder: Path, matched: Matched, stay: Mask, lost: Sequence[str]) -> None:
    """Refuse a table in which rows of people who stay are missing or changed."""
    missing, changed = int((matched.missing & stay).sum()), int((matched.changed & stay).sum())
    if not missing and not changed:
        return
    problems = [f"{missing} row(s) of people who stay are not there"] * bool(missing)
    problems += [f"{changed} row(s) of people who stay were changed"] * bool(changed)
    problems += [f"the table {', '.join(lost)} is not there"] * bool(lost)
    raise RowsChanged(
        f"the table is not as the model knows it: {', and '.join(problems)}. Nothing was changed. "
        f"`pilu sync {folder}` shows the difference, and makes the model follow the table. To "
        "forget several people whose rows are erased already, name all of them."
    )


def _notes(folder: Path, rows: Rows, matched: Matched, gone: frozenset[bytes]) -> Iterable[str]:
    hidden = are_among(rows.names.hashes["subject"], gone)
    new = int((~hidden[matched.new]).sum())
    if new:
        yield f"{new} row(s) of the table are not in the model. `pilu sync {folder}` adds them."
    if hidden.any():
        yield (
            f"{int(hidden.sum())} row(s) of forgotten people are still in the table. "
            f"`pilu table {folder} --rewrite FILE` writes it without them."
        )


def _emptied(held: RefitSnapshot, gone: frozenset[bytes], lost: Sequence[str]) -> list[str]:
    """Tables after the first that have rows of forgotten people only.

    Without those rows they are empty, and an empty table is refused, as it may be damaged.
    """
    forgotten = held.forgotten(gone)
    there = (name for name in held.sources[1:] if name not in lost)
    return [name for name in there if forgotten.found_in(name).all()]


def _note_of_emptied(name: str) -> str:
    return f"{name} has rows of forgotten people only. The store does not read it any more."


def _known_names(rows: Rows, people: frozenset[bytes]) -> dict[str, str]:
    hashes = rows.names.hashes["subject"]
    places = np.flatnonzero(are_among(hashes, people)).tolist()
    return {hashes[k].tobytes().hex(): rows.people[k] for k in places}


def _counts(hashes: NDArray[np.uint8], names: Iterable[bytes]) -> dict[bytes, int]:
    counts = dict.fromkeys(names, 0)
    for row in hashes:
        counts[row.tobytes()] += 1
    return counts


def _exposures(
    held: RefitSnapshot, rows: Rows, matched: Matched, leaving: Mask, names: Sequence[bytes]
) -> dict[str, Any]:
    """What the releases that were handed out told about each person, while the rows are there."""
    unknown = _unknown_exposures(held, names)
    now, _ = releases = held.state["releases"]
    if now == 0 or matched.missing.any() or matched.changed.any():
        return unknown
    whole = rows.take(matched.place)
    places = whole.names.by_hash("subject")
    people = [name for name in names if name in places]
    try:
        exposure = held.forgetful(whole).exposure([places[name] for name in people])
    except BeyondPrecision:
        return unknown
    told = zip(people, exposure.epsilon.tolist(), strict=True)
    return unknown | {
        name.hex(): exposure_record(epsilon, exposure.delta, releases) for name, epsilon in told
    }


def _unknown_exposures(held: RefitSnapshot, names: Iterable[bytes]) -> dict[str, Any]:
    """Nothing is told where nothing was handed out; otherwise what was told is not bounded."""
    releases = held.state["releases"]
    epsilon = math.inf if sum(releases) else 0.0
    return {name.hex(): exposure_record(epsilon, None, releases) for name in names}
