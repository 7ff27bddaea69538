"""Arguments and options that several commands take."""

import re
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Delta",
    "EmptyClasses",
    "Epsilon",
    "Json",
    "Out",
    "Receipt",
    "Recollect",
    "RedrawIfNeeded",
    "Sign",
    "Steps",
    "Store",
    "Subject",
    "TableNow",
    "bytes_of",
    "only",
]

Store = Annotated[Path, typer.Argument(help="The store, a folder made by `pilu fit`.")]
Subject = Annotated[
    list[str],
    typer.Option(help="Whom to forget: a value of the subject column, or else of the id column."),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for machines.")]
TableNow = Annotated[
    Path | None, typer.Option("--table", help="Where the table is now, if it was moved.")
]
Epsilon = Annotated[float, typer.Option(help="The guarantee asked for.")]
Delta = Annotated[float | None, typer.Option(help="Default: one over the number of rows.")]
Steps = Annotated[int, typer.Option("--steps", help="Noisy steps on the rows that are left, K.")]
RedrawIfNeeded = Annotated[bool, typer.Option(help="Redraw where the budget would not do.")]
EmptyClasses = Annotated[
    bool, typer.Option(help="Keep the name of a class that loses its last row.")
]
Recollect = Annotated[
    bool,
    typer.Option(help="Sum the statistics anew from the table: no rounding of the past is left."),
]
Receipt = Annotated[
    Path | None,
    typer.Option("--receipt", help="Where to write the certificate with its evidence."),
]
Sign = Annotated[
    Path | None, typer.Option("--sign", help="Sign the receipt with this private key.")
]
Out = Annotated[Path, typer.Option(help="The file to write, outside of the store.")]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def bytes_of(text: str) -> int:
    """A number of bytes as people write it: 2GB, 500 MB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B|)", text.strip().upper())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"memory must be a size such as 2GB, got {text!r}.")
    return int(float(match[1]) * _UNITS[match[2]])


def only(subjects: list[str]) -> str:
    """The subject; several at once are refused, for one of them would be dropped unnoticed."""
    if len(subjects) != 1:
        raise ValueError(
            f"subject must be given once, got {len(subjects)}. Queue people by `pilu request`, one "
            "after the other, and forget them together by `pilu run`."
        )
    return subjects[0]
