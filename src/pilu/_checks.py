"""Argument checks in one form: ``<name> must be <range>, got <name>=<value>. <remedy>``."""

import math
import numbers
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu.exceptions import WrongArgument

__all__ = [
    "LARGEST_NUMBER",
    "LARGEST_SQUARE",
    "as_numbers",
    "check_choice",
    "check_flag",
    "check_integer",
    "check_memory",
    "check_probability",
    "check_real",
    "check_scale",
    "complaint",
    "first_line",
]

LARGEST_NUMBER = 1e50  # magnitude of data and noise
LARGEST_SQUARE = 1e100  # and of what is made of their squares
_CACHED_NUMBERS = 2**15


def complaint(name: str, allowed: str, value: object, remedy: str = "") -> WrongArgument:
    """The error for an argument out of its range, to be raised by the caller."""
    return WrongArgument(name, allowed, value, remedy)


def first_line(error: Exception) -> str:
    """What went wrong, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
    remedy: str = "",
) -> float:
    """A finite real number, strictly above `above` or at least `least`, and at most `most`."""
    if above is not None:
        allowed = f"a finite number > {above:g}"
    elif least is not None:
        allowed = f"a finite number >= {least:g}"
    else:
        allowed = "a finite number"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise complaint(name, allowed, value, remedy)
    number = float(value)
    if most < number < math.inf:
        raise complaint(name, f"at most {most:g}", value)
    too_low = (above is not None and not number > above) or (
        least is not None and not number >= least
    )
    if not math.isfinite(number) or too_low:
        raise complaint(name, allowed, value, remedy)
    return number


def check_integer(name: str, value: Any, *, least: int, remedy: str = "") -> int:
    """An integer (not a boolean, not a float) of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise complaint(name, f"an integer >= {least}", value, remedy)
    return int(value)


def check_probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not 0.0 < float(value) < 1.0
    ):
        raise complaint(name, "in the open interval (0, 1)", value)
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise complaint(name, "True or False", value)
    return bool(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        raise complaint(name, "one of " + ", ".join(map(repr, choices)), value)
    return value


def as_numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """A float64 array of real numbers; booleans, text and complex numbers are refused."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise complaint(name, "a real number or an array of real numbers", value)
    return array.astype(np.float64)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse what this machine cannot hold, before it is begun; `needed` in bytes."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    if needed > memory:
        raise ValueError(
            f"{what} would take {needed / 1e9:.0f} GB, and this machine has {memory / 1e9:.0f} GB. "
            f"{remedy}"
        )


def check_scale(name: str, values: Any) -> None:
    """Refuse data and noise of magnitudes that the proofs' arithmetic does not cover."""
    # Squares and their products must stay within the doubles on every path to a certificate.
    values, largest = np.atleast_1d(values), 0.0
    step = max(1, _CACHED_NUMBERS * len(values) // values.size)
    for start in range(0, len(values), step):  # few enough to be in the cache for the second look
        some = values[start : start + step]
        largest = max(largest, abs(float(np.max(some))), abs(float(np.min(some))))
    if largest > LARGEST_NUMBER or 0.0 < largest < 1 / LARGEST_NUMBER:
        raise ValueError(
            f"{name} must have its largest magnitude in [{1 / LARGEST_NUMBER:g}, "
            f"{LARGEST_NUMBER:g}], got {largest:g}. Choose other units."
        )
