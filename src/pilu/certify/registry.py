"""Accountants by name."""

from typing import Any

from pilu._checks import complaint
from pilu.certify.accountant import Accountant
from pilu.certify.exact import Exact
from pilu.certify.theorem import Theorem

__all__ = ["resolve_accountant", "usual_options"]

_BY_NAME: dict[str, Accountant] = {"exact": Exact(), "theorem": Theorem()}


def usual_options(name: str) -> dict[str, Any]:
    """What the accountant of this name describes by default; nothing for one from elsewhere."""
    return _BY_NAME[name].describe() if name in _BY_NAME else {}


def resolve_accountant(accountant: "str | Accountant") -> Accountant:
    """An accountant given by name or as an object."""
    if isinstance(accountant, str) and accountant in _BY_NAME:
        return _BY_NAME[accountant]
    if not isinstance(accountant, str | type) and hasattr(accountant, "calibrate"):
        return accountant
    names = ", ".join(map(repr, _BY_NAME))
    raise complaint("accountant", f"one of {names} or an accountant object", accountant)
