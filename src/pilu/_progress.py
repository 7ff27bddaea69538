"""Progress bars for work that takes longer than a second, on terminals only."""

from typing import NoReturn

from tqdm import tqdm


def progress_bar(total: int, *, what: str, unit: str) -> "tqdm[NoReturn]":
    """A context manager with `update(n)`; silent if stderr is not a terminal."""
    return tqdm(total=total, desc=what, unit=unit, disable=None, delay=1.0, leave=False)
