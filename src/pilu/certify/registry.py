"""Accountants by name."""

from typing import Any

from pilu._checks import complaint
from pilu.certify.accountant import Accountant, Law
from pilu.certify.exact import Exact
from pilu.certify.theorem import Theorem

__all__ = ["ACCOUNTANTS", "default_options", "resolve_accountant", "usual_accountant"]

# A new accountant is one file and one line here: `verify` looks it up by the same name.
ACCOUNTANTS: dict[str, Accountant] = {"exact": Exact(), "theorem": Theorem()}


def default_options(name: str) -> dict[str, Any]:
    """Name and default options of an accountant; empty for an unknown name."""
    return ACCOUNTANTS[name].describe() if name in ACCOUNTANTS else {}


def usual_accountant(law: Law) -> Accountant:
    """The exact accountant if the iterates are Gaussian, otherwise the theorem."""
    return ACCOUNTANTS["exact" if law.is_gaussian else "theorem"]


def resolve_accountant(accountant: "str | Accountant") -> Accountant:
    """An accountant given by name or as an object."""
    if isinstance(accountant, str) and accountant in ACCOUNTANTS:
        return ACCOUNTANTS[accountant]
    if not isinstance(accountant, str | type) and hasattr(accountant, "calibrate"):
        return accountant
    names = ", ".join(map(repr, ACCOUNTANTS))
    raise complaint("accountant", f"one of {names} or an accountant object", accountant)
