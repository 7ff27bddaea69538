"""A copy of a table's file without some of its rows, in the format of the file."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.data.arrow_tables import text_of_csv

__all__ = ["write_without"]

Places = NDArray[np.intp]


def write_without(table: Path, drop: Places, out: Path) -> None:
    """Write the rows of a file that are not at the places to drop."""
    writers = {".parquet": _parquet, ".csv": _csv, ".npy": _npy, ".npz": _npz}
    writers[table.suffix.lower()](table, drop, out)


def _arrow(module: str = "pyarrow") -> Any:
    return need(module, for_="rewriting tables", extra="desk")


def _parquet(table: Path, drop: Places, out: Path) -> None:
    arrow, parquet, first = _arrow(), _arrow("pyarrow.parquet"), 0
    with parquet.ParquetFile(table) as file:
        codecs = _codecs(file.metadata)
        with parquet.ParquetWriter(out, file.schema_arrow, compression=codecs) as new:
            for group in range(file.metadata.num_row_groups):
                for batch in file.iter_batches(row_groups=[group]):
                    keep = _kept(first, batch.num_rows, drop)
                    first += batch.num_rows
                    left = batch.filter(arrow.array(keep))
                    # A dictionary would keep the names of the rows that are dropped.
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
    """Read as `CsvTable` counts the rows, with all columns as text."""
    arrow, csv, first = _arrow(), _arrow("pyarrow.csv"), 0
    with text_of_csv(table) as batches, csv.CSVWriter(out, batches.schema) as new:
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
