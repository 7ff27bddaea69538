"""The deletion desk: a store that forgets and a ledger that remembers.

>>> from pilu.desk import Desk
>>> Desk.open("no such store")
Traceback (most recent call last):
...
pilu.exceptions.WrongInput: no such store must be a store, got no such folder. `pilu fit` makes one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilu.desk.desk import Desk, Outcome
    from pilu.desk.langevin_desk import LangevinDesk
    from pilu.desk.receipt import Receipt
    from pilu.store.subjects import Waiting

__all__ = ["Desk", "LangevinDesk", "Outcome", "Receipt", "Waiting"]

_HOME = {
    "Desk": "desk",
    "LangevinDesk": "langevin_desk",
    "Outcome": "desk",
    "Receipt": "receipt",
    "Waiting": "people",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:  # on first use: `pilu ledger` starts without NumPy
        return getattr(import_module(f"pilu.desk.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pilu.desk' has no attribute {name!r}")
