"""The command line; `python -m pilu` is the same as `pilu`."""

import sys
from importlib.util import find_spec
from pathlib import Path

from pilu._extras import need, need_posix
from pilu.exceptions import MissingExtra, UnsupportedPlatform

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        need_posix("the command line")
        if not _showed_log(sys.argv[1:]):
            need("typer", for_="the command line", extra="desk")
            from pilu.cli.app import app

            app(prog_name="pilu")
    except (MissingExtra, UnsupportedPlatform) as error:
        raise SystemExit(f"pilu: {error}") from None


def _showed_log(arguments: list[str]) -> bool:
    """Run `pilu ledger STORE`, which has no options to parse: typer would double its time."""
    match arguments:
        case ["ledger", store] if not store.startswith("-") and find_spec("typer"):
            from pilu.cli.answers import in_one_line
            from pilu.cli.showing import show_log

            in_one_line(show_log)(Path(store))
            return True
    return False
