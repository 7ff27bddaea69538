"""The command line; `python -m pilu` is the same as `pilu`."""

from pilu._extras import need, need_posix
from pilu.exceptions import MissingExtra, UnsupportedPlatform

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        need_posix("the command line")
        need("typer", for_="the command line", extra="desk")
    except (MissingExtra, UnsupportedPlatform) as error:
        raise SystemExit(f"pilu: {error}") from None
    from pilu.cli.app import app

    app(prog_name="pilu")
