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
    from pilu.desk.desk import Desk
    from pilu.desk.differences import Difference
    from pilu.desk.handing_over import Outcome
    from pilu.desk.langevin_desk import LangevinDesk
    from pilu.desk.learned import Learned
    from pilu.desk.receipt import Receipt
    from pilu.desk.refit_desk import DryRun, RefitDesk
    from pilu.store.subjects import Waiting

__all__ = [
    "Desk",
    "Difference",
    "DryRun",
    "LangevinDesk",
    "Learned",
    "Outcome",
    "Receipt",
    "RefitDesk",
    "Waiting",
]

_HOME = {
    "Desk": "desk.desk",
    "Difference": "desk.differences",
    "DryRun": "desk.refit_desk",
    "LangevinDesk": "desk.langevin_desk",
    "Learned": "desk.learned",
    "Outcome": "desk.handing_over",
    "Receipt": "desk.receipt",
    "RefitDesk": "desk.refit_desk",
    "Waiting": "store.subjects",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:  # on first use: `pilu ledger` starts without NumPy
        return getattr(import_module(f"pilu.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pilu.desk' has no attribute {name!r}")
