"""Something heavy, in a process of its own: `python -m pilu.service.job` with a task on stdin.

The answer on stdout is JSON: `done`, or `refused` with words for the user.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilu.desk.desk import Desk
from pilu.exceptions import PiluError, WrongInput


def main() -> None:
    """Do the task on stdin."""
    json.dump(do(json.load(sys.stdin)), sys.stdout)


def do(task: Mapping[str, Any]) -> dict[str, Any]:
    """Do a task."""
    try:
        return {"done": _TASKS[task["what"]](task)}
    except PiluError as error:
        return {"refused": str(error)}


def _quote(task: Any) -> dict[str, Any]:
    with Desk.open(task["store"]) as desk:
        return desk.price(task["subjects"])


def _report(task: Any) -> str:
    with Desk.open(task["store"]) as desk:
        return desk.report()


def _letter(task: Any) -> str:
    from pilu.desk.checking import check_receipt
    from pilu.desk.letters import letter_of
    from pilu.desk.receipt import Receipt

    receipt = Receipt.from_json(task["receipt"])
    if receipt.person is None:
        raise WrongInput("a letter needs the receipt of one person.")
    with Desk.open(Path(task["store"])) as desk:
        checks = check_receipt(receipt, desk)
    return letter_of(receipt, format=task["format"], verified=checks, **task["details"])


_TASKS = {"quote": _quote, "report": _report, "letter": _letter}

if __name__ == "__main__":
    main()
