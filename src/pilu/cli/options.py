"""Options that several commands share, and the checks that only options need.

A command's parameter has the name of the library's argument that it sets, and its option the name
that users type. An error about the argument can thus name the option (`option_names`).
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo
from typer.utils import get_params_from_function

from pilu.exceptions import WrongArgument, WrongInput

Store = Annotated[Path, typer.Argument(help="The store: a folder made by `pilu fit`.")]
Subject = Annotated[
    list[str] | None,
    typer.Option(
        help="A person: a value of the subject column, or of the id column if there is no subject "
        "column. Repeat it for several."
    ),
]
Subjects = Annotated[
    Path | None, typer.Option("--subjects", help="A file of people, one name on each line.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
TableNow = Annotated[str | None, typer.Option("--table", help="The table, if it was moved.")]
Epsilon = Annotated[float, typer.Option(help="The epsilon to certify.")]
Delta = Annotated[
    float | None, typer.Option(help="The delta to certify. Default: 1 / (number of rows).")
]
Steps = Annotated[int, typer.Option("--steps", help="Unlearning steps, K.")]
RedrawIfNeeded = Annotated[
    bool, typer.Option(help="Redraw if the request would exceed the budget.")
]
KeepEmptyClasses = Annotated[
    bool, typer.Option(help="Keep the name of a class that loses its last row.")
]
Recollect = Annotated[
    bool,
    typer.Option(help="Sum the statistics again from the table, so that no rounding error stays."),
]
Receipt = Annotated[
    Path | None,
    typer.Option(help="The file for a receipt; for those of several people, a new folder."),
]
Sign = Annotated[Path | None, typer.Option(help="The private key that signs receipts.")]
Returned = Annotated[
    list[str] | None,
    typer.Option(help="A forgotten person who came back and may be learned again; repeat it."),
]
WithoutForgotten = Annotated[
    bool,
    typer.Option("--without-forgotten", help="Leave out rows of forgotten people."),
]
Since = Annotated[str | None, typer.Option(help="A head of the log that you noted earlier.")]
Out = Annotated[Path, typer.Option(help="The file to write, outside of the store.")]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def option_names(command: Callable[..., Any]) -> dict[str, str]:
    """The option that sets each argument of a command."""
    return {
        name: (parameter.default.param_decls or [f"--{name.replace('_', '-')}"])[0]
        for name, parameter in get_params_from_function(command).items()
        if isinstance(parameter.default, OptionInfo)
    }


def refuse_if(problems: dict[str, bool]) -> None:
    """Raise one error that lists all problems that are present."""
    if present := [text for text, is_present in problems.items() if is_present]:
        raise WrongInput(" ".join(present))


def bytes_of(text: str) -> int:
    """A number of bytes, written as 2GB or 500 MB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B|)", text.strip().upper())
    if match is None or float(match[1]) <= 0:
        raise WrongArgument("memory", "a size such as 2GB", text)
    return int(float(match[1]) * _UNITS[match[2]])


def number_or_auto(name: str, text: str) -> float | str:
    """A number, or the word auto."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise WrongArgument(name, "a number or auto", text) from None


def people(subject: list[str] | None, subjects: Path | None) -> list[str]:
    """The people whom a command names, by options or in a file; each once."""
    from pilu.cli.files import read_names

    named = [*(subject or ()), *(read_names(subjects) if subjects is not None else ())]
    if not named:
        raise WrongInput("--subject or --subjects must name at least one person.")
    return list(dict.fromkeys(named))
