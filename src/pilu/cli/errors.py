"""Errors on the command line: one line that says what to do, and a code that means something."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilu.exceptions import BudgetSpent, DoneWithTrouble, PiluError, WrongArgument

if TYPE_CHECKING:
    from pilu.deletion.desk import Desk

__all__ = ["BUDGET_SPENT", "WRONG_INPUT", "in_one_line", "opened", "show_tracebacks"]

_debug: ContextVar[bool] = ContextVar("debug", default=False)

WRONG_INPUT = 2  # or a file that is not what it should be; nothing was changed
BUDGET_SPENT = 3  # nothing was changed either
WITH_TROUBLE = 4  # it is done, and something after it failed
INTERRUPTED = 130

_AS_TYPED = {  # arguments whose options have other names
    "n_unlearn_steps": "steps",
    "n_steps": "learning-steps",
    "n_auxiliary_runs": "auxiliary-runs",
}


def in_one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn pilu's own errors into one line on stderr; `--debug` before the command shows all."""

    @wraps(command)
    def quiet(*given: Any, **options: Any) -> Any:
        try:
            return command(*given, **options)
        except (PiluError, ValueError, OSError, ArithmeticError) as error:
            if _debug.get():
                raise
            _complain(_in_words(error))
            raise SystemExit(_code(error)) from None
        except KeyboardInterrupt:
            _complain("interrupted; `pilu ledger` shows what is done.")
            raise SystemExit(INTERRUPTED) from None

    return quiet


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}. Nothing was changed."
    text = str(error)
    if isinstance(error, WrongArgument):
        text = error.under(_AS_TYPED.get(error.name, error.name))
    return " ".join(text.split())


def show_tracebacks(wanted: bool) -> None:
    """What `--debug` says."""
    _debug.set(wanted)


@contextmanager
def opened(store: Path) -> Iterator["Desk"]:
    """A desk; what was found unfinished is said."""
    from pilu.deletion.desk import Desk

    with Desk.open(store) as desk:
        if desk.store.recovered:
            _complain(desk.store.recovered)
        yield desk


def _complain(text: str) -> None:
    print(f"pilu: {text}", file=sys.stderr)


def _code(error: Exception) -> int:
    if isinstance(error, DoneWithTrouble):
        return WITH_TROUBLE
    return BUDGET_SPENT if isinstance(error, BudgetSpent) else WRONG_INPUT
