"""Files that commands read and write outside of the store."""

import csv
import io
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pilu.exceptions import WrongArgument, WrongInput
from pilu.store.disk import replaced_by, sync_folder, write_new

if TYPE_CHECKING:
    from pilu.desk.receipt import Receipt

_MANY = 100  # people: file systems take long to make thousands of files


class ReceiptFiles:
    """Where receipts go: one into a file, those of several people into a new folder or archive.

    A path that ends in .zip is an archive, which is also the default for very many people. In it a
    receipt is named by the keyed name of the person. `index.csv` lists the names in the clear, as
    far as they are known.
    """

    def __init__(self, given: Path | None, store: Path, *, n_people: int) -> None:
        default = f"receipt-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        default += ".json" if n_people <= 1 else ".zip" if n_people > _MANY else ""
        self.path, self.store = given or Path(default), store
        self._in_folder = n_people > 1 and self.path.suffix.lower() != ".zip"
        check_output("receipt", self.path, store, is_folder=self._in_folder)
        if self.path.exists():
            kind = "folder" if self._in_folder else "file"
            raise WrongArgument("receipt", f"a new {kind}", str(self.path))

    def write(self, receipts: Sequence["Receipt"]) -> None:
        """Write receipts to the disk, all or none of them."""
        part = self.path.with_name(f".{self.path.name}.part")
        _remove(part)  # of a killed process
        try:
            if self._in_folder:
                _write_folder(part, receipts)
            elif self.path.suffix.lower() == ".zip":
                _write_archive(part, receipts)
            else:
                write_new(part, receipts[0].to_json().encode())
            # Fails if another process took the name; what it made is replaced in one step.
            if self._in_folder:
                self.path.mkdir()
            else:
                self.path.touch(exist_ok=False)
            os.rename(part, self.path)
        except BaseException:
            _remove(part)
            raise
        sync_folder(self.path.parent)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_folder(folder: Path, receipts: Sequence["Receipt"]) -> None:
    folder.mkdir()
    for name, content in _named(receipts):
        (folder / name).write_bytes(content)
    os.sync()  # all files at once


def _write_archive(path: Path, receipts: Sequence["Receipt"]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in _named(receipts):
            archive.writestr(name, content)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _named(receipts: Sequence["Receipt"]) -> Iterator[tuple[str, bytes]]:
    """The files of receipts, each with its name."""
    from pilu._progress import progress_bar

    with progress_bar(len(receipts), what="writing receipts", unit="person") as bar:
        for receipt in receipts:
            name = "receipt" if receipt.person is None else receipt.person.name
            yield f"{name}.json", receipt.to_json().encode()
            bar.update(1)
    yield "index.csv", _index(receipts).encode()


def _index(receipts: Sequence["Receipt"]) -> str:
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(("person", "file"))
    for receipt in receipts:
        if receipt.person is not None:
            lines.writerow((receipt.person.known_as or "", f"{receipt.person.name}.json"))
    return file.getvalue()


def read_names(path: Path) -> list[str]:
    """Names of people in a file, one on a line; empty lines are passed over."""
    names = [line.strip() for line in read_text(path, "a list of names").splitlines()]
    if not any(names):
        raise WrongInput(f"{path} must have a name on each line, got none.")
    return [name for name in names if name]


def check_output(
    name: str, path: Path, store: Path, *, inputs: Sequence[str] = (), is_folder: bool = False
) -> None:
    """Refuse to write into the store, over an input, or into a folder that does not exist."""
    from pilu.data.tables import is_among

    whole = path.resolve()
    problems = {
        "outside of the store": store.resolve() in [whole, *whole.parents],
        "another file than what is read": any(
            is_among(path, Path(given)) for given in inputs if "://" not in given
        ),
        "a folder, for several files": is_folder and path.exists() and not path.is_dir(),
        "a file, not a folder": path.is_dir() and not is_folder,
        "in an existing folder": not path.parent.is_dir(),
    }
    for allowed, is_wrong in problems.items():
        if is_wrong:
            raise WrongArgument(name, allowed, str(path))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it never exists in part."""
    with replaced_by(path) as part:
        part.write_text(text, encoding="utf-8")


def read_text(path: Path, what: str) -> str:
    """Read a text file, or raise an error that says what it must be."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise WrongInput(f"{path} must be {what}, got a file that is not text.") from None
    except OSError as error:
        raise WrongInput(f"{path} must be {what}: {error.strerror}.") from None
