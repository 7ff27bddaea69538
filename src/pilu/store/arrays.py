"""Arrays of one generation: a folder of .npy files, identified by their hashes.

A new generation is written beside the old one and takes effect when the ledger points to it. Any
other folder is left over from a process that was killed.
"""

import contextlib
import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import StoreDamaged
from pilu.store.disk import sync_folder

_FOLDER = re.compile(r"arrays-(\d+)")
_THREADS = 4  # a file each: hashing and writing release the interpreter lock


def write_arrays(
    store: Path, generation: int, arrays: Iterable[tuple[str, NDArray[Any]]]
) -> dict[str, str]:
    """Write a generation to the disk, each array as soon as it is computed; return their sha256."""
    folder = _folder(store, generation)
    if folder.exists():
        shutil.rmtree(folder)  # of a killed process
    try:
        folder.mkdir()
        with ThreadPoolExecutor(_THREADS) as pool:
            written = {
                name: pool.submit(_write, folder / f"{name}.npy", array) for name, array in arrays
            }
            hashes = {name: future.result() for name, future in written.items()}
        sync_folder(folder)
        sync_folder(store)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreDamaged(
            f"{error.filename or folder} cannot be written: {error.strerror}. Nothing was changed."
        ) from None
    return hashes


def read_arrays(store: Path, generation: int, hashes: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Read a generation; a file that does not have its hash is refused."""
    with ThreadPoolExecutor(_THREADS) as pool:
        paths = [_folder(store, generation) / f"{name}.npy" for name in hashes]
        contents = list(pool.map(_read, paths, hashes.values()))
    # By one thread: Python 3.11 cannot parse the headers of two files at once (gh-106905).
    return {
        name: _array(path, content)
        for name, path, content in zip(hashes, paths, contents, strict=True)
    }


def generations(store: Path) -> list[int]:
    """Numbers of all generations in the folder, complete or not."""
    matches = (_FOLDER.fullmatch(folder.name) for folder in store.iterdir())
    return [int(match[1]) for match in matches if match]


def drop_others(store: Path, generation: int) -> list[int]:
    """Remove all other generations; return their numbers."""
    others = [number for number in generations(store) if number != generation]
    for number in others:
        with contextlib.suppress(FileNotFoundError):  # another process may remove it too
            shutil.rmtree(_folder(store, number))
    if others:
        sync_folder(store)
    return others


def _read(path: Path, sha256: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreDamaged(
            f"{path} cannot be read: {error.strerror}. Restore the directory from a backup."
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StoreDamaged(f"{path} was altered or cut. Restore the directory from a backup.")
    return content


def _array(path: Path, content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise StoreDamaged(f"{path} holds objects, which pilu never writes.")
    array: NDArray[Any] = np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
    return array


def _write(path: Path, array: NDArray[Any]) -> str:
    array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    body: Any = array.reshape(-1).view(np.uint8)
    digest = hashlib.sha256(header.getvalue())
    with path.open("wb") as file, ThreadPoolExecutor(1) as other:
        hashed = other.submit(digest.update, body)  # while the disk writes
        _put(file, header.getvalue())
        _put(file, body)
        file.flush()
        os.fsync(file.fileno())
        hashed.result()
    return digest.hexdigest()


def _put(file: BinaryIO, content: Any) -> None:
    file.write(content)


def _folder(store: Path, generation: int) -> Path:
    return store / f"arrays-{generation}"
