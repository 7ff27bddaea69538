"""Argument checks in one form: ``<name> must be <range>, got <name>=<value>. <remedy>``."""

import math
import numbers
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu.exceptions import WrongArgument, WrongInput

LARGEST_NUMBER = 1e50  # magnitude of data and noise
LARGEST_SQUARE = 1e100  # magnitude of sums of their squares
MOST_STEPS = 10**6  # of one segment: a request takes seconds with as many
_CACHED_NUMBERS = 2**15


def complaint(name: str, allowed: str, value: object, remedy: str = "") -> WrongArgument:
    """The error for an argument that is out of its range; the caller raises it."""
    return WrongArgument(name, allowed, value, remedy)


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
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
    allowed = "a finite number"
    if above is not None:
        allowed += f" > {above:g}"
    elif least is not None:
        allowed += f" >= {least:g}"
    number = _as_real(value)
    if most < number < math.inf:
        raise complaint(name, f"at most {most:g}", value)
    too_low = (above is not None and number <= above) or (least is not None and number < least)
    if too_low or not math.isfinite(number):
        raise complaint(name, allowed, value, remedy)
    return number


def check_real_or(word: str, name: str, value: Any) -> None:
    """A finite number > 0, or the one word that is allowed in its place."""
    if not isinstance(value, str):
        check_real(name, value, above=0.0)
    elif value != word:
        raise complaint(name, f"a number > 0 or {word!r}", value)


def check_integer(name: str, value: Any, *, least: int, remedy: str = "") -> int:
    """An integer (not a boolean, not a float) of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise complaint(name, f"an integer >= {least}", value, remedy)
    return int(value)


def check_steps(name: str, value: Any, remedy: str = "") -> int:
    """A number of Langevin steps. Every request accounts for each of them."""
    steps = check_integer(name, value, least=1)
    if steps > MOST_STEPS:
        why = "Every request accounts for each of them."
        raise complaint(name, f"at most {MOST_STEPS}", value, f"{why} {remedy}".rstrip())
    return steps


def check_probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    number = _as_real(value)
    if not 0.0 < number < 1.0:
        raise complaint(name, "in the open interval (0, 1)", value)
    return number


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
    """A float64 array of real numbers; refuses booleans, text and complex numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise complaint(name, "a real number or an array of real numbers", value)
    return array.astype(np.float64)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse work that needs more bytes of memory than this machine has, before it starts."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # this system does not report its memory
        return
    if needed > memory:
        raise WrongInput(
            f"{what} would take {needed / 1e9:.0f} GB, and this machine has {memory / 1e9:.0f} GB. "
            f"{remedy}"
        )


def check_scale(name: str, values: Any) -> None:
    """Refuse data and noise whose magnitudes the proofs' arithmetic does not cover."""
    # Squares, and products of squares, must not overflow on any path to a certificate.
    values, largest = np.atleast_1d(values), 0.0
    step = max(1, _CACHED_NUMBERS * len(values) // values.size)
    for start in range(0, len(values), step):  # each part stays in the cache for both passes
        some = values[start : start + step]
        largest = max(largest, abs(float(np.max(some))), abs(float(np.min(some))))
    if largest > LARGEST_NUMBER or 0.0 < largest < 1 / LARGEST_NUMBER:
        raise WrongInput(
            f"{name} must have its largest magnitude in [{1 / LARGEST_NUMBER:g}, "
            f"{LARGEST_NUMBER:g}], got {largest:g}. Choose other units."
        )


def _as_real(value: Any) -> float:
    """A real number as a float; anything else is NaN, which lies in no range."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return math.inf
