"""Optional dependencies, imported when they are needed, and the platform that the desk needs."""

import sys
from importlib import import_module
from typing import Any

from pilu.exceptions import MissingExtra, UnsupportedPlatform


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


def need_posix(for_: str) -> None:
    """Raise an error that names the platform if it has no POSIX locks of files."""
    try:
        import_module("fcntl")
    except ImportError:
        raise UnsupportedPlatform(
            f"{for_} needs a POSIX system such as Linux or macOS, got {sys.platform}. On Windows, "
            "use the Windows Subsystem for Linux or a container."
        ) from None
