"""Progress bars: on a terminal, for work that takes longer than a moment."""

from typing import Any

from tqdm import tqdm

__all__ = ["progress_bar"]


def progress_bar(total: int, *, what: str, unit: str) -> Any:
    """A bar with `update(n)`, to be used as a context; silent where stderr is no terminal."""
    return tqdm(total=total, desc=what, unit=unit, disable=None, delay=1.0, leave=False)
