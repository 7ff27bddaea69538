"""Files that commands read and write outside of the store."""

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pilu.exceptions import DoneWithTrouble, WrongArgument, WrongInput
from pilu.store.disk import replaced_by, write_new


class ReceiptFile:
    """A receipt, written to a temporary file before its change and renamed after it.

    If the process is killed in between, the temporary file stays: `pilu verify` against the store
    tells whether the change was made.
    """

    def __init__(self, given: Path | None, store: Path, private_key: Path | None) -> None:
        self.path = given or Path(f"receipt-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json")
        self._part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        self.store, self._private_key = store, private_key
        self._receipt: Any = None  # until it is written
        check_output("receipt", self.path, store)
        if self.path.exists():
            raise WrongArgument("receipt", "a new file", str(self.path))
        if private_key is not None:
            from pilu.desk.signing import load_key

            load_key(private_key, "private")  # refuses another file before the work starts

    @property
    def exposure(self) -> Any:
        """What the receipt says about earlier releases, if anything."""
        return None if self._receipt is None else self._receipt.exposure

    def delivered_by(self, desk: Any, change: Callable[..., Any], **options: Any) -> Any:
        """Make a change that passes its receipt to `deliver`, and return its result."""
        try:
            result = change(deliver=self._write, **options)
        except BaseException:
            # Only the log knows whether the change was made before the error.
            if self._receipt is not None:
                if self._receipt.is_in(desk.log()):
                    self._rename()
                else:
                    self._part.unlink(missing_ok=True)
            raise
        self._rename()
        return result

    def _write(self, receipt: Any) -> None:
        from pilu.desk.signing import sign

        if self._private_key is not None:
            receipt = receipt.signed(sign(receipt, self._private_key))
        self._receipt = receipt
        write_new(self._part, receipt.to_json().encode())

    def _rename(self) -> None:
        if self._receipt is None:  # there was nothing to forget
            return
        try:
            os.link(self._part, self.path)  # fails if the name is taken
            self._part.unlink()
        except OSError as error:
            raise DoneWithTrouble(
                f"the change was made, but its receipt could not be named {self.path}: "
                f"{error.strerror}. It is in {self._part}."
            ) from None


def check_output(
    name: str, path: Path, store: Path, *, inputs: tuple[Path, ...] = (), is_folder: bool = False
) -> None:
    """Refuse to write into the store, over an input, or into a folder that does not exist."""
    from pilu.data.tables import is_among

    whole = path.resolve()
    problems = {
        "outside of the store": store.resolve() in [whole, *whole.parents],
        "another file than what is read": any(is_among(path, given) for given in inputs),
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
