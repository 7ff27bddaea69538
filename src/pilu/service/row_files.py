"""Rows that came over HTTP: a Parquet file for each request, which the store reads as a table.

The files are the service's own, so it also erases forgotten people from them.
"""

import contextlib
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilu._extras import need
from pilu.service.configuration import Configuration
from pilu.service.stores import OpenStore
from pilu.store.disk import replaced_by

if TYPE_CHECKING:
    from pilu.desk.desk import Desk

_HOUR = 3600.0


def rows_file(configuration: Configuration, store: str, request: str) -> Path:
    """The file for the rows of a request."""
    return configuration.own / "rows" / store / f"{request}.parquet"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], store: OpenStore) -> None:
    """Write rows as the store will read them; rows that it cannot read are refused."""
    parquet = need("pyarrow.parquet", for_="rows over HTTP", extra="serve")
    with store.desk() as desk:
        table = desk.table_of(rows)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replaced_by(path) as part:
        parquet.write_table(table, part)
        part.chmod(0o600)


def own_tables(configuration: Configuration, store: str, desk: "Desk") -> list[Path]:
    """The service's files that a store reads."""
    ours = {path.resolve(): path for path in _files(configuration, store)}
    return [ours[Path(name).resolve()] for name in desk.tables() if Path(name).resolve() in ours]


def erase_forgotten(
    configuration: Configuration,
    store: str,
    desk: "Desk",
    also: frozenset[bytes] = frozenset(),
) -> None:
    """Rewrite the service's files without people who were forgotten.

    A file that waits to be learned is deleted: they must not be learned again. `also` are people,
    by keyed hashes, who asked to be forgotten and were not in the model.
    """
    from pilu.desk.rewriting import rewrite_without

    forgotten, used = desk.forgotten(), set(own_tables(configuration, store, desk))
    asked = replace(forgotten, names=forgotten.names | also)
    for path in _files(configuration, store):
        try:
            if path in used and forgotten.found_in(path).any():
                rewrite_without(forgotten, path, path)
            elif path not in used and asked.found_in(path).any():
                path.unlink(missing_ok=True)
        except FileNotFoundError:  # its request was not made in the end
            continue


def drop_unused(
    configuration: Configuration, store: str, desk: "Desk", needed: Container[str]
) -> None:
    """Delete files of requests that failed, were cancelled, or were never made."""
    used, old = set(own_tables(configuration, store, desk)), time.time() - _HOUR
    for path in (configuration.own / "rows" / store).glob("*"):
        # A file is written before its request is made, so a young one may have none yet.
        with contextlib.suppress(FileNotFoundError):
            if path not in used and path.stem not in needed and path.stat().st_mtime < old:
                path.unlink()


def _files(configuration: Configuration, store: str) -> list[Path]:
    """Files that are complete; one that is being written begins with a dot."""
    found = (configuration.own / "rows" / store).glob("*.parquet")
    return sorted(path for path in found if not path.name.startswith("."))
