"""Where a table comes from, by its address: files, DuckDB or PostgreSQL.

people.parquet   data/*.csv   folder   duckdb:///file.duckdb?table=people
postgresql://user@host/database?table=schema.people
"""

import re
from pathlib import Path

from pilu.data.databases import DuckDbSource, PostgresSource
from pilu.data.file_sources import FileSource
from pilu.data.source import Source
from pilu.exceptions import WrongInput

__all__ = ["Source", "open_source"]

_DATABASES: dict[str, type[DuckDbSource | PostgresSource]] = {
    "duckdb": DuckDbSource,
    "postgresql": PostgresSource,
    "postgres": PostgresSource,
}


def open_source(where: str | Path) -> Source:
    """The source at a path or an address; nothing is opened or read yet.

    Parameters
    ----------
    where : str or Path
        A file, a pattern, a folder, or the address of a table in a database. A `Path` is
        never an address.

    Raises
    ------
    WrongInput
        The address is wrong, or the file's ending is unknown.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", where) if isinstance(where, str) else None
    if scheme is None or not isinstance(where, str):
        if not str(where):
            raise WrongInput("table must be a path or an address, got ''. Name a file.")
        return FileSource(Path(where))
    database = _DATABASES.get(scheme[1].lower())
    if database is None:  # the rest may hold a password
        raise WrongInput(
            f"table must be a path, duckdb:///... or postgresql://..., got {scheme[1]}://. "
            "Copy the table to a file."
        )
    return database(where)
