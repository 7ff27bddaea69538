"""Files that exist whole or not at all, also after a crash."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pilu.exceptions import DoneWithTrouble


@contextmanager
def replaced_by(path: Path) -> Iterator[Path]:
    """A new file of the same kind, to be written in the block; at its end it takes the name."""
    part = path.with_name(f".{path.name}.part{path.suffix}")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def named_after(path: Path | None, content: bytes) -> Iterator[None]:
    """Write a file to the disk before the block, and give it its name after it.

    In the block something is committed that must not be without the file. If the block fails, there
    is no file. Without a path there is nothing to do.
    """
    if path is None:
        yield
        return
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # of a killed process
    write_new(part, content)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, DoneWithTrouble):
            part.unlink(missing_ok=True)
        raise
    try:
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as error:
        raise DoneWithTrouble(
            f"the change is done, but its file could not be named {path}: {error.strerror}. It is "
            f"in {part}."
        ) from None


def write_new(path: Path, content: bytes) -> None:
    """Write a new file, readable by its owner only, to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except BaseException as error:
        path.unlink(missing_ok=True)  # it is ours, and incomplete
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
