"""Rows of forgotten people that are still in the user's table, and a table without them."""

import csv
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.deletion.arrays import sync_folder
from pilu.deletion.history import forgotten
from pilu.deletion.lazy_rows import table_of
from pilu.deletion.names import hash_of
from pilu.deletion.store import Moment

__all__ = ["rewrite_without", "still_in_table"]

Places = NDArray[np.intp]


def still_in_table(moment: Moment, key: bytes, table: str | Path | None = None) -> Places:
    """Places of the rows in the table whose subject was forgotten."""
    gone = forgotten(moment.entries)
    found: list[int] = []
    for places, ids, subjects in table_of(moment, table).names():
        named = zip(places.tolist(), subjects or ids or (), strict=True)
        found += [place for place, name in named if hash_of("subject", name, key) in gone]
    return np.array(found, dtype=np.intp)


def rewrite_without(table: Path, drop: Places, out: Path) -> int:
    """Write a table without some rows, under its name when it is whole; the number of rows left.

    The new table may take the old one's place.
    """
    writers: dict[str, Callable[[Path, Places, Path], int]] = {
        ".parquet": _parquet,
        ".csv": _csv,
        ".npy": _npy,
        ".npz": _npz,
    }
    if out.suffix.lower() != table.suffix.lower():
        raise ValueError(f"out must end in {table.suffix} as the table does, got {out.name}.")
    part = out.with_name(f".{out.name}.part{out.suffix}")
    try:
        n_left = writers[table.suffix.lower()](table, drop, part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(out.parent)
    return n_left


def _parquet(table: Path, drop: Places, out: Path) -> int:
    arrow = need("pyarrow", for_="rewriting tables", extra="desk")
    parquet = need("pyarrow.parquet", for_="rewriting tables", extra="desk")
    first = n_left = 0
    with parquet.ParquetFile(table) as file, parquet.ParquetWriter(out, file.schema_arrow) as new:
        for batch in file.iter_batches():
            keep = _kept(first, batch.num_rows, drop)
            first += batch.num_rows
            new.write_batch(batch.filter(arrow.array(keep)))
            n_left += int(keep.sum())
    return n_left


def _csv(table: Path, drop: Places, out: Path) -> int:
    gone, n_left = set(drop.tolist()), 0
    with (
        table.open(newline="", encoding="utf-8") as file,
        out.open("w", newline="", encoding="utf-8") as new,
    ):
        lines, writer = csv.reader(file), csv.writer(new, lineterminator="\n")
        writer.writerow(next(lines))
        for place, line in enumerate(line for line in lines if line):
            if place not in gone:
                writer.writerow(line)
                n_left += 1
    return n_left


def _npy(table: Path, drop: Places, out: Path) -> int:
    matrix = np.load(table, mmap_mode="r", allow_pickle=False)
    kept = np.delete(matrix, drop, axis=0)
    np.save(out, kept, allow_pickle=False)
    return len(kept)


def _npz(table: Path, drop: Places, out: Path) -> int:
    with np.load(table, allow_pickle=False) as archive:
        arrays: dict[str, Any] = dict(archive)
        n = len(arrays["X"])
        # Arrays of another length are not about rows.
        kept = {
            name: np.delete(array, drop, axis=0) if array.ndim and len(array) == n else array
            for name, array in arrays.items()
        }
    with zipfile.ZipFile(table) as archive_file:
        packed = any(i.compress_type != zipfile.ZIP_STORED for i in archive_file.infolist())
    (np.savez_compressed if packed else np.savez)(out, **kept)
    return n - len(drop)


def _kept(first: int, size: int, drop: Places) -> NDArray[np.bool_]:
    keep = np.ones(size, dtype=bool)
    keep[drop[(drop >= first) & (drop < first + size)] - first] = False
    return keep
