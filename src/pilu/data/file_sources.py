"""Tables in files: one file, a pattern, or a folder, whose names may hold columns (`year=2026`).

Files are read one by one in the order of their names, so that an error can say which is wrong.
"""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pilu.data.arrow_tables import stamp
from pilu.data.csv_files import CsvFile
from pilu.data.source import arrow, check_unique, chosen, listed, plain, plain_schema, with_rows
from pilu.data.tables import is_pattern, root_of
from pilu.data.typed_files import ArrayFile, IpcFile, ParquetFile
from pilu.exceptions import RowsChanged, WrongInput

TableFile = ParquetFile | CsvFile | IpcFile | ArrayFile
Stamps = dict[Path, tuple[int, ...]]

FORMATS: dict[str, type[TableFile]] = {
    ".parquet": ParquetFile,
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".tsv": CsvFile,
    ".tsv.gz": CsvFile,
    ".feather": IpcFile,
    ".arrow": IpcFile,
    ".ipc": IpcFile,
    ".npz": ArrayFile,
    ".npy": ArrayFile,
}
_BY_PATTERN = "Choose files by a pattern, such as 'folder/*.parquet'."
_MISSING = "__HIVE_DEFAULT_PARTITION__"  # how folders spell a missing value


class FileSource:
    """One or more files of one format as one table."""

    def __init__(self, path: Path) -> None:
        if is_pattern(path) and not path.is_absolute():
            path = Path(glob.escape(str(Path.cwd())), path)  # stars of the folder are letters
        self._path = path.absolute()
        self.name = str(self._path)
        if self._path.suffix and not is_pattern(self._path) and not self._path.is_dir():
            _format_of(self._path)

    def __repr__(self) -> str:
        return f"FileSource({self.name!r})"

    def exists(self) -> bool:
        """Whether there are files, and the first can be opened; rows are not read."""
        try:
            return bool(self._open(next(iter(self._stamps()))).names)
        except (WrongInput, OSError):
            return False

    def schema(self, as_text: Sequence[str] = ()) -> Any:
        """Names and types of all columns; types in a CSV depend on all rows."""
        with self._unchanged() as paths:
            first = self._open(paths[0])
            if not first.is_typed:
                return self._table(paths, None, as_text).schema
            files = [self._like(first, path) for path in paths]
            folders = self._folders(paths, first, as_text)
            chosen(self.name, [*first.names, *folders], None, as_text)
            schemas = {file.path: file.schema for file in files if not isinstance(file, CsvFile)}
            types = _common_types(first, schemas, first.names)
            fields = [*types.items(), *((name, value.type) for name, value in folders.items())]
            return plain_schema(arrow().schema(fields), as_text)

    def read(self, columns: Sequence[str] | None = None, *, as_text: Sequence[str] = ()) -> Any:
        """All rows of some columns, files in the order of their names."""
        with self._unchanged() as paths:
            table = self._table(paths, columns, as_text)
        return with_rows(self.name, table)

    def _table(
        self, paths: Sequence[Path], columns: Sequence[str] | None, as_text: Sequence[str]
    ) -> Any:
        pa, first = arrow(), self._open(paths[0])
        folders = self._folders(paths, first, as_text)
        names = chosen(self.name, [*first.names, *folders], columns, as_text)
        here = [name for name in names if name not in folders] or first.names[:1]
        forced = {} if first.is_typed else dict.fromkeys(as_text, pa.string())
        tables = {path: self._like(first, path).read(here, forced) for path in paths}
        types = _common_types(first, {p: table.schema for p, table in tables.items()}, here)
        for path, table in tables.items():
            if table.schema.types != list(types.values()):
                tables[path] = self._open(path).read(here, types)
        lengths = [table.num_rows for table in tables.values()]
        table = pa.concat_tables(_bare(table) for table in tables.values())
        for name in names:
            if name in folders:
                table = table.append_column(name, _repeated(folders[name], lengths))
        return plain(table.select(names), as_text)

    def _open(self, path: Path) -> TableFile:
        file = _format_of(path)(path)
        check_unique(str(path), file.names)
        return file

    def _like(self, first: TableFile, path: Path) -> TableFile:
        """A file that must have the columns of the first."""
        if path == first.path:
            return first
        file = self._open(path)
        odd = sorted(set(file.names) ^ set(first.names))
        if odd:
            got = f"none called {odd[0]!r}" if odd[0] in first.names else f"also {odd[0]!r}"
            raise WrongInput(
                f"{path} must have the columns of {first.path.name}, got {got}. "
                "Write the files with the same columns."
            )
        return file

    def _stamps(self) -> Stamps:
        """The files in order, with what changes when they do."""
        if is_pattern(self._path):
            found = [Path(name) for name in glob.glob(self.name, recursive=True)]
            paths = [file for match in found for file in _files_under(match)]
        else:
            paths = list(_files_under(self._path))
        if not paths:
            raise WrongInput(
                f"table must be a file, a folder or a pattern with files, got {self.name}, "
                "where there is none. Check the path."
            )
        paths = sorted(set(paths))
        kind = _format_of(paths[0])
        odd = next((path for path in paths if _format_of(path, self.name) is not kind), None)
        if odd is not None:
            raise WrongInput(
                f"{self.name} must hold files of one format, got {paths[0].name} and {odd.name}. "
                + _BY_PATTERN
            )
        return {path: stamp(path) for path in paths}

    @contextmanager
    def _unchanged(self) -> Iterator[list[Path]]:
        """The files; if they have changed at the end, that is the error."""
        before = self._stamps()
        try:
            yield list(before)
        except (WrongInput, OSError):
            self._compare(before)
            raise
        self._compare(before)

    def _compare(self, before: Stamps) -> None:
        try:
            after = self._stamps()
        except (WrongInput, OSError):
            after = {}
        for path in [*before, *after]:
            if before.get(path) != after.get(path):
                raise RowsChanged(
                    f"{path} was changed while it was read. Nothing was kept; read it again."
                ) from None

    def _folders(
        self, paths: Sequence[Path], first: TableFile, as_text: Sequence[str]
    ) -> dict[str, Any]:
        """Columns in the names of folders: their values, one for each file."""
        base = root_of(self._path) if is_pattern(self._path) else self._path
        if base == paths[0]:
            return {}
        keys = [_keys(path.parent.relative_to(base).parts) for path in paths]
        for path, found in zip(paths, keys, strict=True):
            if list(found) != list(keys[0]):
                raise WrongInput(
                    f"{path} must be in folders for {listed(list(keys[0]))} as {paths[0].name} "
                    f"is, got {listed(list(found))}. Move it."
                )
        check_unique(self.name, [*first.names, *keys[0]])
        return {
            name: _inferred([found[name] for found in keys], name in as_text) for name in keys[0]
        }


def _format_of(path: Path, where: str | None = None) -> type[TableFile]:
    name = path.name.lower()
    for ending, kind in FORMATS.items():
        if name.endswith(ending):
            return kind
    subject = "table must end" if where is None else f"{where} must hold files that end"
    remedy = "Check the path, or convert the file." if where is None else _BY_PATTERN
    raise WrongInput(f"{subject} in one of {', '.join(FORMATS)}, got {path.name}. {remedy}")


def _files_under(path: Path) -> Iterator[Path]:
    """The file itself, or the files of a folder; hidden ones and `_SUCCESS` hold no rows."""
    if path.is_file():
        yield path
    seen = set()
    for root, folders, files in os.walk(path, followlinks=True):
        seen.add(os.path.realpath(root))
        folders[:] = sorted(
            name
            for name in folders
            if name[0] not in "._" and os.path.realpath(os.path.join(root, name)) not in seen
        )
        yield from (Path(root, name) for name in files if name[0] not in "._")


def _common_types(
    first: TableFile, schemas: Mapping[Path, Any], names: Sequence[str]
) -> dict[str, Any]:
    pa, types = arrow(), {}
    for name in names:
        found = {path: schema.field(name).type for path, schema in schemas.items()}
        kinds = list(dict.fromkeys(found.values()))
        try:
            types[name] = kinds[0] if len(kinds) == 1 else first.common_type(kinds)
        except pa.ArrowException:
            odd = next(path for path, kind in found.items() if kind != kinds[0])
            raise WrongInput(
                f"{odd}: column {name!r} must be {kinds[0]} as in {first.path.name}, got "
                f"{found[odd]}. Write the files with one type."
            ) from None
    return types


def _bare(table: Any) -> Any:
    """Without metadata, which may differ between files."""
    pa = arrow()
    fields = [(field.name, field.type) for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def _keys(folders: Sequence[str]) -> dict[str, str | None]:
    pairs = [folder.partition("=") for folder in folders if folder.find("=") > 0]
    return {name: None if text == _MISSING else unquote(text) for name, _, text in pairs}


def _inferred(values: Sequence[str | None], is_text: bool) -> Any:
    """Whole numbers, dates, or text."""
    pa = arrow()
    column = pa.array(values, pa.string())
    for kind in () if is_text else (pa.int64(), pa.date32()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def _repeated(values: Any, lengths: Sequence[int]) -> Any:
    pa = arrow()
    chunks = [pa.repeat(value, n) for value, n in zip(values, lengths, strict=True)]
    return pa.chunked_array(chunks, values.type)
