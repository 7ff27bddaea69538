"""Files that commands write: outside of the store, and never over another one."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pilu.exceptions import DoneButNotCleared

__all__ = ["check_outside", "new_receipt", "read_text", "void_unless_done"]


def new_receipt(given: Path | None, store: Path) -> Path:
    """Where a receipt will be written."""
    path = given or Path(f"receipt-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json")
    check_outside("receipt", path, store)
    if path.exists():
        raise ValueError(f"receipt must be a new file, got {path}, which is there already.")
    if not path.parent.is_dir():
        raise ValueError(f"receipt must be in a folder that is there, got {path}.")
    return path


def check_outside(name: str, path: Path, store: Path) -> None:
    """Refuse to write into the store."""
    if store.resolve() in [path.resolve(), *path.resolve().parents]:
        raise ValueError(f"{name} must be outside of the store, got {path}.")


@contextlib.contextmanager
def void_unless_done(path: Path) -> Iterator[None]:
    """Take a receipt back if what it speaks of did not come to its end."""
    try:
        yield
    except DoneButNotCleared:
        raise
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_text(path: Path, what: str) -> str:
    """A text file, or an error that says what it should be."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be {what}: it is no text.") from None
