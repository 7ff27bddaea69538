"""What commands say: JSON for machines, tables on a terminal, plain lines in a pipe."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from pilu._digits import down, up

__all__ = ["entry_in_words", "left_in_words", "say", "say_checks", "table_text"]


# These may be false and are no failure; whatever else is false was not looked at.
_FACTS = ("noise_is_private", "unconditional")


def say(record: Any, text: str, as_json: bool) -> None:
    """The answer of a command."""
    typer.echo(json.dumps(record, indent=1) if as_json else text)


def say_checks(what: Any, checks: Mapping[str, bool], as_json: bool) -> None:
    """What was found true or not, and, behind a dash, what was not looked at."""
    lines = [
        f"  {'yes' if good else 'no ' if name in _FACTS else '-  '}  {name.replace('_', ' ')}"
        for name, good in checks.items()
    ]
    text = "\n".join([f"{what} holds (-: not looked at).", *lines])
    say(dict(checks), text, as_json)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: drawn on a terminal, columns in line elsewhere."""
    if not sys.stdout.isatty():
        wide = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        lines = [columns, *rows]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip()
            for line in lines
        )
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()


def left_in_words(left: tuple[float, float]) -> str:
    """What is left of the budget."""
    return f"Left of the budget: epsilon {down(left[0])}, delta {down(left[1])}"


def entry_in_words(entry: Mapping[str, Any]) -> str:
    """One line of the log."""
    kind = entry["kind"]
    if kind == "fit":
        return f"learned {entry['n_rows']:,} rows of {entry['n_features']:,} features"
    if kind == "request":
        return f"asked for {entry['subject'][:12]}..., due {entry['due'] or 'any time'}"
    if kind == "release":
        return f"released {entry['sha256'][:12]}..."
    found = entry["certificate"]
    people = len(entry["subjects"])
    return (
        f"{kind}: {people} person(s), {len(found['rows'])} row(s) by {found['method']}, epsilon "
        f"{up(found['epsilon'])}, total {up(found['total_epsilon'])} at {up(found['total_delta'])}"
    )
