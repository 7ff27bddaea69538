"""What commands print: JSON, a table on a terminal, or plain lines in a pipe."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from pilu._digits import down

__all__ = ["describe_left", "format_table", "print_answer", "print_checks"]

# Facts, of which "no" is an answer. Any other check that is false was not made.
_FACTS = ("noise_is_private", "unconditional")


def print_answer(record: Any, text: str, as_json: bool) -> None:
    """Print a command's answer."""
    typer.echo(json.dumps(record, indent=1) if as_json else text)


def print_checks(what: Any, checks: Mapping[str, bool], as_json: bool) -> None:
    """Print the result of each check."""
    lines = [
        f"  {'yes' if good else 'no ' if name in _FACTS else '-  '}  {name.replace('_', ' ')}"
        for name, good in checks.items()
    ]
    print_answer(dict(checks), "\n".join([f"{what} holds (-: not checked).", *lines]), as_json)


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, drawn on a terminal and aligned elsewhere."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (columns, *rows)
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


def describe_left(left: tuple[float, float]) -> str:
    """What is left of the budget."""
    return f"Left of the budget: epsilon {down(left[0])}, delta {down(left[1])}"
