"""All linear figures, in the order in which they are computed and drawn."""

from importlib import import_module
from typing import Any

# The sweeps stand beside the literal run that measures them.
TABLES = (
    "rows",
    "references",
    "sensitivities",
    "timing",
    "privacy_utility",
    "uniform",
    "unlearning_steps",
    "learning_steps",
    "newton",
    "leave_one_out",
    "dp_gd",
    "dp_gd_tuned",
    "minibatches",
    "other_scene",
)
PICTURES = (
    "rows",
    "difficulty",
    "sensitivities",
    "privacy_utility",
    "noise",
    "unlearning_steps",
    "learning_steps",
    "newton",
    "dp_gd",
    "minibatches",
)
ONLY_DEPTH = {"minibatches", "other_scene"}


def of_study(names: tuple[str, ...], study: str) -> list[str]:
    return [name for name in names if study == "depth" or name not in ONLY_DEPTH]


def script(part: str, name: str) -> Any:
    """The module that computes a table or renders a picture."""
    return import_module(f"experiments.linear.{part}.{name}")
