"""Options that several commands share, and the checks that only options need.

A command's parameter has the name of the library's argument that it sets, and its option the name
that users type. An error about the argument can thus name the option (`option_names`).
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo
from typer.utils import get_params_from_function

from pilu.exceptions import WrongArgument, WrongInput

if TYPE_CHECKING:
    from pilu.desk.desk import Desk

# Panels of `--help`, which say with which method an option may be given.
REFIT, LANGEVIN = "With --method refit", "With --method langevin"

refit_option = partial(typer.Option, rich_help_panel=REFIT)
langevin_option = partial(typer.Option, rich_help_panel=LANGEVIN)

Store = Annotated[
    Path, typer.Argument(metavar="STORE", help="The store: a folder made by `pilu fit`.")
]
Subject = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A person: a value of the subject column, or of the id column if there is no subject "
        "column. Repeat it for several.",
    ),
]
Subjects = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of people, one name on each line.")
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print the answer as JSON.")]
TableNow = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="The table, if it was moved.")
]
Epsilon = Annotated[
    float | None, langevin_option(metavar="NUMBER", help="The epsilon to certify. Default: 1.")
]
Delta = Annotated[
    float | None,
    langevin_option(metavar="NUMBER", help="The delta to certify. Default: 1 / rows."),
]
Steps = Annotated[
    int | None,
    langevin_option("--steps", metavar="NUMBER", help="Unlearning steps, K. Default: 80."),
]
RedrawIfNeeded = Annotated[
    bool | None,
    langevin_option(
        "--redraw-if-needed", metavar="", help="Redraw if the request would exceed the budget."
    ),
]
KeepEmptyClasses = Annotated[
    bool | None,
    langevin_option(
        "--keep-empty-classes",
        metavar="",
        help="Keep the name of a class that loses its last row.",
    ),
]
Recollect = Annotated[
    bool | None,
    langevin_option(
        "--recollect",
        metavar="",
        help="Sum the statistics again from the table, so that no rounding error stays.",
    ),
]
Receipt = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The file for a receipt; for those of several people, a new folder."
    ),
]
Sign = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The private key that signs receipts.")
]
Returned = Annotated[
    list[str] | None,
    refit_option(
        metavar="NAME",
        help="A forgotten person who came back and may be learned again; repeat it for several.",
    ),
]
WithoutForgotten = Annotated[
    bool | None,
    refit_option("--without-forgotten", metavar="", help="Leave out rows of forgotten people."),
]
Since = Annotated[
    str | None, typer.Option(metavar="HEAD", help="A head of the log that you noted earlier.")
]
Out = Annotated[Path, typer.Option(metavar="FILE", help="The file to write, outside of the store.")]

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


def refuse_options(given: Mapping[str, Any], names: Mapping[str, str], reason: str) -> None:
    """Refuse options that only another method has, all of them at once."""
    refuse_if({f"{names[name]} {reason}": value is not None for name, value in given.items()})


def options_of_langevin(
    desk: "Desk", own: Mapping[str, Any], command: Callable[..., Any]
) -> dict[str, Any]:
    """Options that were given and only the Langevin desk has; refused for another."""
    if desk.method != "langevin":
        reason = f"must be left out: {desk.folder} forgets by {desk.method}."
        refuse_options(own, option_names(command), reason)
    return {name: value for name, value in own.items() if value is not None}


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
