"""Optional dependencies: imported when they are needed, and named when they are missing."""

from importlib import import_module
from typing import Any

from pilu.exceptions import MissingExtra

__all__ = ["need"]


def need(module: str, *, for_: str, extra: str, package: str | None = None) -> Any:
    """An optional module; if it is not there, the error says which extra brings it.

    Parameters
    ----------
    module : str
    for_ : str
        Who needs it, as users know it.
    extra : str
        The extra of pilu that installs it.
    package : str, optional
        What users call it where that is not the module's first name.
    """
    package = package or module.split(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, and misses something itself
        raise MissingExtra(
            f'{for_} needs {package}. Install it with: pip install "pilu[{extra}]"'
        ) from None
