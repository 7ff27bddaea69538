"""Errors on the command line: one line that says what to do, and an exit code with a meaning.

Wrong input is a `PiluError`, and the system's refusals are an `OSError` or a `MemoryError`. Any
other error is a bug, and shows its traceback.
"""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pilu.cli.options import option_names
from pilu.exceptions import BudgetSpent, DoneWithTrouble, PiluError, WrongArgument

if TYPE_CHECKING:
    from pilu.deletion.desk import Desk

__all__ = ["in_one_line", "opened", "show_tracebacks"]

# Exit codes; docs/desk.md explains them.
WRONG_INPUT, BUDGET_SPENT, DONE_WITH_TROUBLE, BUG, INTERRUPTED = 2, 3, 4, 70, 130

_debug: ContextVar[bool] = ContextVar("debug", default=False)


def in_one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Report a command's errors in one line on stderr, with its arguments named as options."""
    options = option_names(command)

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            _stop("interrupted; `pilu ledger` shows what was done.", INTERRUPTED)
        except (PiluError, OSError, MemoryError) as error:
            if _debug.get():
                traceback.print_exc()
            _stop(_message(error, options), _exit_code(error))
        except Exception:
            traceback.print_exc()
            _stop("This is a bug in pilu; please report it.", BUG)

    return guarded


def show_tracebacks(wanted: bool) -> None:
    """Whether an error in the user's input shows its traceback, too."""
    _debug.set(wanted)


@contextmanager
def opened(store: Path) -> Iterator["Desk"]:
    """Open a desk, and report what it repaired."""
    from pilu.deletion.desk import Desk

    with Desk.open(store) as desk:
        if desk.store.recovered:
            _print_error(desk.store.recovered)
        yield desk


def _message(error: Exception, options: dict[str, str]) -> str:
    if isinstance(error, WrongArgument):
        text = error.under(options.get(error.name, error.name))
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}. Nothing was changed."
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())


def _exit_code(error: Exception) -> int:
    if isinstance(error, DoneWithTrouble):
        return DONE_WITH_TROUBLE
    return BUDGET_SPENT if isinstance(error, BudgetSpent) else WRONG_INPUT


def _stop(text: str, code: int) -> NoReturn:
    _print_error(text)
    raise SystemExit(code) from None


def _print_error(text: str) -> None:
    print(f"pilu: {text}", file=sys.stderr)
