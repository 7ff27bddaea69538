"""All tables and pictures of these studies, in the order in which they are made."""

from importlib import import_module
from typing import Any

TABLES = ("noise", "accuracy", "flips", "horizons")
PICTURES = ("noise", "accuracy", "rows", "flips")
ONLY = {"flips": ("mnist38",), "horizons": ("mnist38", "vader")}


def of_study(names: tuple[str, ...], study: str) -> list[str]:
    return [name for name in names if study in ONLY.get(name, (study,))]


def script(part: str, name: str) -> Any:
    """The module that computes a table or renders a picture."""
    return import_module(f"experiments.smooth.{part}.{name}")
