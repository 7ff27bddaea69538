"""Wall-clock times by name, kept raw."""

import sys
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Times = dict[str, list[float]]

Given = ParamSpec("Given")
Result = TypeVar("Result")


def say(text: str, end: str = "\n") -> None:
    """Progress goes to stderr; the table alone to stdout."""
    print(text, end=end, file=sys.stderr, flush=True)


class Stopwatch:
    """Times calls; with a title it says which, and `save` is called after each one."""

    def __init__(
        self, times: Times, title: str = "", save: Callable[[], None] = lambda: None
    ) -> None:
        self.times = times
        self._title, self._save = title, save

    def time(
        self,
        name: str,
        call: Callable[Given, Result],
        /,
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """The call's result; its time is kept under `name`."""
        if self._title:
            say(f"{self._title}: {name} ... ", end="")
        start = time.perf_counter()
        result = call(*args, **kwargs)
        took = time.perf_counter() - start
        if self._title:
            say(f"{took:.4g} s")
        self.keep(name, took)
        return result

    def keep(self, name: str, value: float) -> None:
        self.times.setdefault(name, []).append(value)
        self._save()
