"""Writes the runs of docs/benchmarks_history.md: `python -m benchmarks.page [HISTORY]`.

With the history of a machine, its quiet lines from clean commits are kept in
`benchmarks/history.jsonl` first. Every table of the page follows from that file.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from benchmarks import history
from benchmarks.history import Line
from benchmarks.table import ratio_text, spread_text

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "history.jsonl"
PAGE = ROOT / "docs" / "benchmarks_history.md"
HEAD = "\n## Runs\n"
NONE = "\nNo run has been kept yet.\n"
SHOWN = 5  # runs of a machine

T = TypeVar("T")


def keep(path: Path) -> int:
    """Add what is quiet, of a clean commit and new to the lines that are kept; how many."""
    kept = history.read(KEPT)
    new = [
        line
        for line in history.read(path)
        if line["quiet"]
        and line["commit"] is not None
        and not line["commit"].endswith("-dirty")
        and line not in kept
    ]
    history.write(KEPT, new)
    return len(new)


def runs(lines: list[Line]) -> str:
    """A section for each machine, a table for each size, a column for each of the last runs."""
    if not lines:
        return NONE
    text = ""
    for machine in _each(line["machine"] for line in lines):
        here = [line for line in lines if line["machine"] == machine]
        text += f"\n### {machine['cores']} cores, {machine['processor'] or machine['system']}\n"
        text += f"{machine['system']}; {', '.join(machine['blas'])}.\n"
        for size in _each(line["size"] for line in here):
            text += _table(size, [line for line in here if line["size"] == size])
    return text


def _table(size: str, lines: list[Line]) -> str:
    last = _each((line["date"], line["commit"]) for line in lines)[-SHOWN:]
    head = ["work", "at most", *(f"{commit}, {date[:10]}" for date, commit in last), "change"]
    text = f"\n#### {size}\n| {' | '.join(head)} |\n| {' | '.join('---' for _ in head)} |\n"
    for work in _each(line["line"] for line in lines):
        mine = [line for line in lines if line["line"] == work]
        cells = {(line["date"], line["commit"]): _cell(line) for line in mine}
        limit = "" if mine[-1]["at_most"] is None else ratio_text(mine[-1]["at_most"])
        shown = [cells.get(run, "") for run in last]
        text += f"| {' | '.join([work, limit, *shown, history.change(mine[-1], mine[:-1])])} |\n"
    return text


def _cell(line: Line) -> str:
    spread = spread_text(line["spread"])
    return ratio_text(line["ratio"]) + (f" ({spread})" if spread else "")


def _each(values: Iterable[T]) -> list[T]:
    """Each value once, in the order of its first appearance."""
    found: list[T] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def main() -> None:
    """Keep lines if a history is given, and write the page again."""
    for path in sys.argv[1:]:
        print(f"{path}: {keep(Path(path))} new lines kept")
    text = PAGE.read_text()
    PAGE.write_text(text.partition(HEAD)[0] + HEAD + runs(history.read(KEPT)))


if __name__ == "__main__":
    main()
