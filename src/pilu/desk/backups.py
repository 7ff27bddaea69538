"""Backups of a store: one tar file of plain files.

The first file, `backup.json`, names the others in their order, with sizes and hashes. Whoever reads
a backup takes these files and nothing else. `desk.restoring` makes a store of it.
"""

import hashlib
import io
import json
import os
import re
import sqlite3
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

from pilu.certify.certificate import strict_json
from pilu.exceptions import DoneWithTrouble, PiluError, StoreDamaged, WrongInput
from pilu.store.disk import replaced_by, sync_folder, write_new
from pilu.store.store import Store, now

FORMAT = "pilu.backup/1"
_CONTENTS = "backup.json"
_MEMBER = re.compile(r"key|ledger\.sqlite|arrays-\d{1,18}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.npy")
_MOST_CONTENTS = 10_000_000  # bytes of backup.json
_CHUNK = 1 << 20
_ANOTHER = "Take another copy of the backup. Nothing was changed."


def back_up(folder: Path, out: Path, *, with_key: bool = True) -> dict[str, Any]:
    """Write a copy of a store to a new file, as it is at one time; returns what is in it.

    Others may read and change the store meanwhile: files of arrays are never written again, and the
    copy holds them open, so that a commit waits for the ledger only.
    """
    check_new(folder, out)
    with ExitStack() as opened:
        store = opened.enter_context(closing(Store.open(folder)))
        store.read_state()  # its format and its key
        with store.ledger.reading() as ledger:
            state, log = ledger.state, ledger.log
            content = _content_of(ledger.path)
            arrays = [
                (f"arrays-{state['generation']}/{name}.npy", sha256)
                for name, sha256 in state["arrays"].items()
            ]
            files: list[tuple[str, IO[bytes], str]] = [
                (name, opened.enter_context(_opened(folder / name)), sha256)
                for name, sha256 in arrays
            ]
        small = {"ledger.sqlite": content} | ({"key": store.key} if with_key else {})
        files = [
            *((name, io.BytesIO(body), _sha256(body)) for name, body in small.items()),
            *files,
        ]
        contents = {
            "schema": FORMAT,
            "store": state["store"],
            "store_format": state["format"],
            "head": str(log.head),
            "made": now(),
            "files": [
                {"name": name, "size": file.seek(0, os.SEEK_END), "sha256": sha256}
                for name, file, sha256 in files
            ],
        }
        with as_errors_of(out), _private(out) as archive:
            body = json.dumps(contents, indent=1).encode()
            _put(archive, _CONTENTS, len(body), io.BytesIO(body))
            for name, file, sha256 in files:
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                hashed = _Hashing(file)
                _put(archive, name, size, hashed)
                if hashed.sha256.hexdigest() != sha256:
                    raise StoreDamaged(
                        f"{folder / name} was altered or cut. No backup was written. Restore the "
                        "store from an earlier one."
                    )
    return contents


def _content_of(ledger: Path) -> bytes:
    """The ledger as a file, by SQLite itself; the caller holds its lock.

    To read the file and close it would end the locks of this process.
    """
    with closing(sqlite3.connect(ledger, isolation_level=None)) as copied:
        copied.execute("BEGIN")
        copied.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return copied.serialize()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise StoreDamaged(
            f"{path} cannot be read: {error.strerror}. No backup was written. Restore the store "
            "from an earlier one."
        ) from None


class _Hashing:
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self.sha256.update(part)
        return part


@contextmanager
def _private(out: Path) -> Iterator[tarfile.TarFile]:
    """A new archive that only its owner can read; it gets its name once it is complete."""
    with replaced_by(out) as part:
        part.unlink(missing_ok=True)  # of a killed process
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            yield archive


def _put(archive: tarfile.TarFile, name: str, size: int, content: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o600, int(time.time())
    archive.addfile(member, content)


# A backup is read


def unpack(backup: Path, part: Path, key: bytes | None) -> dict[str, Any]:
    """Write the files of a backup to the disk, each checked; returns what it says of itself."""
    try:
        with backup.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            first = _member(backup, archive, _CONTENTS, None)
            contents = _checked_contents(backup, first)
            for listed in contents["files"]:
                content = _member(backup, archive, listed["name"], listed["size"])
                _write(part / listed["name"], content, listed["sha256"], backup)
            if archive.next() is not None:
                raise not_whole(backup, "it has files that it does not name")
    except (tarfile.TarError, EOFError, ValueError) as error:
        if isinstance(error, PiluError):
            raise
        raise not_whole(backup, str(error)) from None
    except OSError as error:
        if error.filename == str(backup):
            raise WrongInput(f"{backup} must be a backup: {error.strerror}.") from None
        raise
    has_key = (part / "key").exists()
    if has_key == (key is not None):
        raise WrongInput(
            "key must be left out: the backup has its key."
            if has_key
            else "key must be given: the backup was made without it. Nothing was changed."
        )
    if key is not None:
        write_new(part / "key", key)
    for folder in {path.parent for path in part.rglob("*")}:
        sync_folder(folder)
    return contents


def _member(backup: Path, archive: tarfile.TarFile, name: str, size: int | None) -> Iterator[bytes]:
    """The next file of an archive, which must be the one that is expected: no link, no device."""
    member = archive.next()
    if member is None or member.name != name or member.type != tarfile.REGTYPE or member.sparse:
        raise not_whole(backup, f"it has no file {name} where it must be")
    if member.size != size and (size is not None or member.size > _MOST_CONTENTS):
        raise not_whole(backup, f"{name} is of another size")
    file = archive.extractfile(member)
    assert file is not None
    return iter(lambda: file.read(_CHUNK), b"")


def _checked_contents(backup: Path, content: Iterable[bytes]) -> dict[str, Any]:
    try:
        record: dict[str, Any] = strict_json(b"".join(content).decode())
        if record["schema"] != FORMAT:
            raise WrongInput(
                f"{backup} must be of the format {FORMAT}, got {record['schema']!r}. Restore it "
                "with the version of pilu that wrote it."
            )
        names = [file["name"] for file in record["files"]]
        for file in record["files"]:
            if _MEMBER.fullmatch(file["name"]) is None:
                raise not_whole(backup, "it has a file that no store has")
            str.encode(file["sha256"]), int.to_bytes(file["size"], 8, "big")
        str.encode(record["store"]), str.encode(record["head"])
    except WrongInput:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise not_whole(backup, f"{_CONTENTS} cannot be read") from None
    folders = {name.partition("/")[0] for name in names if "/" in name}
    if len(set(names)) < len(names) or "ledger.sqlite" not in names or len(folders) > 1:
        raise not_whole(backup, "its files are not those of one store")
    return record


def _write(path: Path, content: Iterable[bytes], sha256: str, backup: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        for one in content:
            digest.update(one)
            file.write(one)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != sha256:
        raise not_whole(backup, f"{path.name} does not have its hash")


def not_whole(backup: Path, reason: str) -> WrongInput:
    """The error about a file that is no backup, or not a whole one."""
    return WrongInput(f"{backup} must be a whole backup by `pilu backup`: {reason}. {_ANOTHER}")


# Errors


def check_new(folder: Path, out: Path) -> None:
    """Refuse to replace a file, or to write into the store."""
    whole = out.resolve()
    if folder.resolve() in [whole, *whole.parents]:
        raise WrongInput(f"out must be outside of the store, got {out}.")
    if out.exists() or out.is_symlink():
        raise WrongInput(f"out must be a new file, got {out}, which there is. Choose another name.")


@contextmanager
def as_errors_of(path: Path) -> Iterator[None]:
    """Name what the user named in errors of the disk; it was not there before."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            raise DoneWithTrouble(
                f"{path} is whole, but its name may not outlive a power failure: {reason}. Move it "
                "away and try again."
            ) from None
        raise OSError(error.errno, reason, str(path)) from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
