"""Files that commands write: outside of the store, under their names when they are whole."""

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pilu.exceptions import DoneWithTrouble

__all__ = ["ReceiptFile", "check_output", "read_text", "write_whole"]


class ReceiptFile:
    """A receipt, written before the change it speaks of and given its name when that is done.

    Killed in between, a part beside it is left: `pilu verify` against the store tells whether the
    change was done.
    """

    def __init__(self, given: Path | None, store: Path, private_key: Path | None) -> None:
        self.path = given or Path(f"receipt-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json")
        self._part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        self._private_key = private_key
        self._receipt: Any = None  # once it is there
        check_output("receipt", self.path, store)
        if self.path.exists():
            raise ValueError(
                f"receipt must be a new file, got {self.path}, which is there already."
            )
        if private_key is not None:
            from pilu.deletion.signing import check_private_key

            check_private_key(private_key)  # before the work is done

    def delivered_by(self, desk: Any, change: Callable[..., Any], **options: Any) -> Any:
        """Make a change that hands its receipt to `deliver`; what it returns."""
        try:
            found = change(deliver=self._write, **options)
        except BaseException:
            # Whether it came before or after the change was done, the log knows.
            if self._receipt is not None:
                if desk.has(self._receipt):
                    self._give_name()
                else:
                    self._part.unlink(missing_ok=True)
            raise
        self._give_name()
        return found

    def _write(self, receipt: Any) -> None:
        from pilu.deletion.arrays import write_new
        from pilu.deletion.signing import sign

        if self._private_key is not None:
            receipt = receipt.signed(sign(receipt, self._private_key))
        self._receipt = receipt
        write_new(self._part, receipt.to_json().encode())

    def _give_name(self) -> None:
        if self._receipt is None:  # nobody was to be forgotten
            return
        try:
            os.link(self._part, self.path)  # never over another file
            self._part.unlink()
        except OSError as error:
            raise DoneWithTrouble(
                f"the change is done, but its receipt could not be called {self.path}: "
                f"{error.strerror}. It is in {self._part}."
            ) from None


def check_output(
    name: str, path: Path, store: Path, *, inputs: tuple[Path, ...] = (), is_folder: bool = False
) -> None:
    """Refuse to write into the store, over an input, or where there is no folder."""
    from pilu.data.file_sets import is_among

    whole = path.resolve()
    if store.resolve() in [whole, *whole.parents]:
        raise ValueError(f"{name} must be outside of the store, got {path}.")
    if any(is_among(path, given) for given in inputs):
        raise ValueError(f"{name} must be another file than what is read, got {path} for both.")
    if is_folder and path.exists() and not path.is_dir():
        raise ValueError(f"{name} must be a folder for several files, got the file {path}.")
    if path.is_dir() and not is_folder:
        raise ValueError(f"{name} must be a file, got the folder {path}.")
    if not path.parent.is_dir():
        raise ValueError(f"{name} must be in a folder that is there, got {path}.")


def write_whole(path: Path, text: str) -> None:
    """A file that is there as a whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_text(path: Path, what: str) -> str:
    """A text file, or an error that says what it should be."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be {what}: it is no text.") from None
    except OSError as error:
        raise ValueError(f"{path} must be {what}: {error.strerror}.") from None
