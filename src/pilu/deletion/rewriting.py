"""Rows of forgotten people that are still in the user's table, and a table without them."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.deletion.arrays import sync_folder
from pilu.deletion.arrow_tables import as_text
from pilu.deletion.file_sets import files_of, is_pattern, root_of
from pilu.deletion.lazy_rows import table_of
from pilu.deletion.names import hash_of
from pilu.deletion.store import Snapshot

__all__ = ["rewrite_without_forgotten", "still_in_table"]

Places = NDArray[np.intp]


def still_in_table(snapshot: Snapshot, key: bytes, table: str | Path | None = None) -> Places:
    """Places of the rows in the table whose subject was forgotten."""
    gone = snapshot.log.forgotten
    found: list[int] = []
    for places, ids, subjects in table_of(snapshot, table).names():
        named = zip(places.tolist(), subjects or ids or (), strict=True)
        found += [place for place, name in named if hash_of(name, key) in gone]
    return np.array(found, dtype=np.intp)


def rewrite_without_forgotten(snapshot: Snapshot, key: bytes, table: Path, out: Path) -> int:
    """Write the table without forgotten people; the number of rows left.

    It gets its name when it is whole, and was read again: the very rows are gone, and no others. It
    may take the old one's place. Several files go into a folder, under their names in their own,
    when all of them are there.
    """
    files, names = files_of(table), {table: out}
    if is_pattern(table):
        names = {file: out / file.relative_to(root_of(table)) for file in files}
        for name in names.values():
            name.parent.mkdir(parents=True, exist_ok=True)
    elif out.suffix.lower() != table.suffix.lower():
        raise ValueError(f"out must end in {table.suffix} as the table does, got {out.name}.")
    parts, n_left = {}, 0
    try:
        for file in files:
            name = names[file].resolve()
            parts[name] = name.with_name(f".{name.name}.part{name.suffix}")
            n_left += _rewrite(snapshot, key, file, parts[name])
        for name, part in parts.items():
            os.replace(part, name)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    for folder in {name.parent for name in parts}:
        sync_folder(folder)
    return n_left


def _rewrite(snapshot: Snapshot, key: bytes, table: Path, part: Path) -> int:
    writers: dict[str, Callable[[Path, Places, Path], None]] = {
        ".parquet": _parquet,
        ".csv": _csv,
        ".npy": _npy,
        ".npz": _npz,
    }
    drop = still_in_table(snapshot, key, table)
    writers[table.suffix.lower()](table, drop, part)
    shutil.copymode(table, part)
    n_left = table_of(snapshot, part).n_rows
    if n_left != table_of(snapshot, table).n_rows - len(drop) or len(
        still_in_table(snapshot, key, part)
    ):
        raise ValueError(
            f"{table} could not be written without the rows: read again, it had {n_left} rows, or "
            "some of them still. Nothing was changed."
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return n_left


def _parquet(table: Path, drop: Places, out: Path) -> None:
    arrow = need("pyarrow", for_="rewriting tables", extra="desk")
    parquet = need("pyarrow.parquet", for_="rewriting tables", extra="desk")
    first = 0
    with parquet.ParquetFile(table) as file:
        codecs = _codecs(file.metadata)
        with parquet.ParquetWriter(out, file.schema_arrow, compression=codecs) as new:
            for group in range(file.metadata.num_row_groups):
                for batch in file.iter_batches(row_groups=[group]):
                    keep = _kept(first, batch.num_rows, drop)
                    first += batch.num_rows
                    left = batch.filter(arrow.array(keep))
                    # A dictionary would keep the names of all who were in it.
                    columns = [_encoded_anew(column, arrow) for column in left.columns]
                    new.write_batch(arrow.record_batch(columns, schema=file.schema_arrow))


def _codecs(metadata: Any) -> Any:
    if not metadata.num_row_groups:
        return "snappy"
    group = metadata.row_group(0)
    columns = [group.column(k) for k in range(group.num_columns)]
    return {
        column.path_in_schema: "none"
        if column.compression == "UNCOMPRESSED"
        else column.compression.lower()
        for column in columns
    }


def _encoded_anew(column: Any, arrow: Any) -> Any:
    if not arrow.types.is_dictionary(column.type):
        return column
    return column.dictionary_decode().dictionary_encode().cast(column.type)


def _csv(table: Path, drop: Places, out: Path) -> None:
    """By the reader that counts the rows, all columns as text."""
    arrow = need("pyarrow", for_="rewriting tables", extra="desk")
    csv = need("pyarrow.csv", for_="rewriting tables", extra="desk")
    first = 0
    with as_text(table) as batches, csv.CSVWriter(out, batches.schema) as new:
        for batch in batches:
            keep = _kept(first, batch.num_rows, drop)
            first += batch.num_rows
            new.write_batch(batch.filter(arrow.array(keep)))


def _npy(table: Path, drop: Places, out: Path) -> None:
    matrix = np.load(table, mmap_mode="r", allow_pickle=False)
    np.save(out, np.delete(matrix, drop, axis=0), allow_pickle=False)


def _npz(table: Path, drop: Places, out: Path) -> None:
    with np.load(table, allow_pickle=False) as archive:
        arrays: dict[str, Any] = dict(archive)
    n = len(arrays["X"])
    # Arrays of another length are not about rows.
    kept = {
        name: np.delete(array, drop, axis=0) if array.ndim and len(array) == n else array
        for name, array in arrays.items()
    }
    with zipfile.ZipFile(table) as file:
        packed = any(i.compress_type != zipfile.ZIP_STORED for i in file.infolist())
    (np.savez_compressed if packed else np.savez)(out, **kept)


def _kept(first: int, size: int, drop: Places) -> NDArray[np.bool_]:
    keep = np.ones(size, dtype=bool)
    keep[drop[(drop >= first) & (drop < first + size)] - first] = False
    return keep
