"""Ratios of all runs, a line of JSON each, and how a run compares to the last on its machine."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import blas

NAME = "history.jsonl"

Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """The lines, oldest first; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, lines: Iterable[Line]) -> None:
    """Append lines."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def add(
    folder: Path, machine: Mapping[str, Any], name: str, entry: Mapping[str, Any], *, quiet: bool
) -> None:
    """Compare a size's rows to the last quiet run, say so in each row, and keep them."""
    path = folder / NAME
    lines = list(_lines(machine, name, entry, quiet=quiet))
    earlier = read(path)
    for row, line in zip(entry["rows"], lines, strict=True):
        row["change"] = change(line, earlier)
    write(path, lines)


def _lines(
    machine: Mapping[str, Any], name: str, entry: Mapping[str, Any], *, quiet: bool
) -> Iterator[Line]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    above = ""
    for row in entry["rows"]:
        indented = row["work"].startswith(" ")
        above = above if indented else row["work"]
        yield {
            "commit": machine["commit"],
            "date": now,
            "machine": {
                **{key: machine[key] for key in ("processor", "cores", "system")},
                "blas": blas(dict(machine)),
            },
            "versions": {"python": machine["python"], **machine["versions"]},
            "quiet": quiet,
            "others": entry["others"],
            "size": name,
            # What was timed, and how much of it; lines with other values do not compare
            "plan": {
                **{key: value for key, value in entry["size"].items() if value},
                **{key: entry["plan"][key] for key in ("literal_steps", "exact_rows")},
            },
            "line": f"{above}: {row['work'].strip()}" if indented else row["work"],
            "reference": row["reference"],
            "remark": row["remark"],
            "ratio": row["ratio"],
            "spread": row["spread"],
            "repeats": row["repeats"],
            "at_most": row["at_most"],
        }


def is_same(line: Line, other: Line) -> bool:
    """Whether two lines measure the same on the same machine; versions may differ."""
    keys = ("machine", "size", "plan", "line", "reference", "remark")
    return all(line[key] == other[key] for key in keys)


def change(line: Line, earlier: Sequence[Line]) -> str:
    """Against the last quiet run: better or worse only where the two spreads are apart."""
    if not line["quiet"]:
        return "busy"
    last = next((o for o in reversed(earlier) if o["quiet"] and is_same(o, line)), None)
    if last is None:
        return "first"
    if line["spread"] is None or last["spread"] is None:
        return "no spread"
    (low, high), (last_low, last_high) = line["spread"], last["spread"]
    if high < last_low:
        return "better"
    return "worse" if low > last_high else "within the spread"
