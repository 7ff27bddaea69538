"""What commands print: JSON, a table on a terminal or plain lines in a pipe, and errors.

An error is one line that says what to do (a table's problems: one each), and an exit code with a
meaning. Wrong input is a
`PiluError`, and the system's refusals are an `OSError` or a `MemoryError`. Any other error is a
bug, and shows its traceback.
"""

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pilu._digits import down, up
from pilu.exceptions import BudgetSpent, DoneWithTrouble, PiluError, WrongArgument, WrongTable

if TYPE_CHECKING:
    from pilu.desk.desk import Desk

# Exit codes; docs/desk.md explains them.
WRONG_INPUT, BUG, INTERRUPTED = 2, 70, 130
_EXIT_CODES: dict[type[Exception], int] = {BudgetSpent: 3, DoneWithTrouble: 4}

# Whether an error in the user's input shows its traceback, too.
debugging: ContextVar[bool] = ContextVar("debugging", default=False)

# Facts, of which "no" is an answer. Any other check that is false was not made.
_FACTS = ("noise_is_private", "unconditional")


def print_answer(record: Any, text: str, as_json: bool) -> None:
    """Print a command's answer."""
    print(json.dumps(record, indent=1) if as_json else text, flush=True)


def print_checks(what: Any, checks: Mapping[str, bool], as_json: bool) -> None:
    """Print the result of each check."""
    unknown = checks.get("in_the_log_of_its_head") and not checks["in_the_log_of_the_store"]
    lines = [
        f"  {'yes' if good else 'no ' if name in _FACTS else '-  '}  {name.replace('_', ' ')}"
        for name, good in checks.items()
    ]
    if unknown:
        lines.append(
            "It is not shown to be in any log: pass --store, or compare its head with one that you "
            "noted."
        )
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


def describe_exposure(records: Sequence[Mapping[str, Any]]) -> str:
    """What the parameters until now, and releases of them, told about the forgotten people."""
    if not records:
        return ""
    record = records[0]
    n, others = record["n_releases"], record["n_of_other_parameters"]
    epsilons = [one["epsilon"] for one in records]
    if record["delta"] is None and n == 0 and not any(epsilons):
        return "Exposure: no model that had them was released."
    if any(e is None for e in epsilons):
        told = "what the parameters until now tell about them is not bounded"
    else:
        told = (
            "the parameters until now are within epsilon "
            f"{up(max(epsilons))} at delta {up(record['delta'])} of parameters without them"
        )
    made = "none of them was released"
    if n:
        made = f"{n} release{'s' * (n > 1)} had them"
        made += f", {others} of earlier parameters, of which nothing is known" if others else ""
    return f"Exposure: {told}; {made}."


def describe_left(desk: Any) -> str:
    """When the budget of a store ends, in words."""
    left, more = desk.left(), desk.more_like_the_last()
    if more is None:
        return f"Left of the budget: epsilon {down(left[0])}, delta {down(left[1])}"
    if more == 0:
        return (
            "Left of the budget: not enough for one more request like the last. `pilu redraw` "
            "gives a full budget."
        )
    return f"Left of the budget: at least {more:,} more request{'s' * (more > 1)} like the last"


def in_one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Report a command's errors in one line on stderr, with its arguments named as options."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with _warnings_in_one_line():
                return command(*args, **kwargs)
        except KeyboardInterrupt:
            _stop("interrupted; `pilu ledger` shows what was done.", INTERRUPTED)
        except (PiluError, OSError, MemoryError) as error:
            if debugging.get():
                traceback.print_exc()
            from pilu.cli.options import option_names  # imports typer

            _stop(_message(error, option_names(command)), _EXIT_CODES.get(type(error), WRONG_INPUT))
        except Exception:
            traceback.print_exc()
            _stop("This is a bug in pilu; please report it.", BUG)

    return guarded


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show warnings as errors are shown: without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        _print_error(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def opened(store: Path, *, quiet: bool = False) -> Iterator["Desk"]:
    """Open a desk, and report what it repaired."""
    from pilu.desk.desk import Desk

    with Desk.open(store) as desk:
        if desk.store.recovered and not quiet:
            _print_error(desk.store.recovered)
        yield desk


def _message(error: Exception, options: dict[str, str]) -> str:
    if isinstance(error, WrongTable):  # a line for each problem
        head, *_ = str(error).splitlines()
        return "\n  ".join([head, *error.problems])
    if isinstance(error, WrongArgument):
        text = error.under(options.get(error.name, error.name))
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}. Nothing was changed."
    else:
        text = str(error) or type(error).__name__
    for name, option in options.items():  # what the library's callers would pass
        text = text.replace(f"pass {name}=True", f"pass {option}")
    return " ".join(text.split())


def _stop(text: str, code: int) -> NoReturn:
    _print_error(text)
    raise SystemExit(code) from None


def print_warning(text: str) -> None:
    """Something to know that is no error."""
    _print_error(f"warning: {text}")


def _print_error(text: str) -> None:
    for line in text.splitlines():
        print(f"pilu: {line}", file=sys.stderr)
