"""Optional dependencies, imported when they are needed."""

from importlib import import_module
from typing import Any

from pilu.exceptions import MissingExtra


def need(module: str, *, for_: str, extra: str, package: str | None = None) -> Any:
    """Import an optional module, or raise an error that names the extra to install.

    Parameters
    ----------
    module : str
    for_ : str
        The feature that needs the module, as users know it.
    extra : str
        The extra of pilu that installs it.
    package : str, optional
        The package's name, if it is not the first part of the module's.
    """
    package = package or module.split(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # installed, but one of its own dependencies is missing
        raise MissingExtra(
            f'{for_} needs {package}. Install it with: pip install "pilu[{extra}]"'
        ) from None
