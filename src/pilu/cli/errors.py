"""Errors on the command line: one line that says what to do, and a code that means something."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from pilu.exceptions import BudgetSpent, PiluError

__all__ = ["BUDGET_SPENT", "WRONG_INPUT", "in_one_line"]

WRONG_INPUT = 2  # or a file that is not what it should be; nothing was changed
BUDGET_SPENT = 3  # nothing was changed either


def in_one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn pilu's own errors into one line on stderr; `--debug` before the command shows all."""

    @wraps(command)
    def quiet(*given: Any, **options: Any) -> Any:
        try:
            return command(*given, **options)
        except (PiluError, ValueError, OSError) as error:
            if "--debug" in sys.argv:
                raise
            print(f"pilu: {' '.join(str(error).split())}", file=sys.stderr)
            raise SystemExit(_code(error)) from None

    return quiet


def _code(error: Exception) -> int:
    return BUDGET_SPENT if isinstance(error, BudgetSpent) else WRONG_INPUT
