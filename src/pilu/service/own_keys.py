"""Keys that the service makes at their first use: once, however many processes want them."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def made_once(private: Path, public: Path, make: Callable[[Path, Path], None]) -> tuple[Path, Path]:
    """A pair of files; they are made if they are not there. The public one comes last."""
    if public.exists():
        return private, public
    private.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(private.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not public.exists():
            private.unlink(missing_ok=True)  # of a process that was killed in between
            make(private, public)
    finally:
        os.close(handle)
    return private, public
