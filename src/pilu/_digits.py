"""Numbers rounded to a few digits, for readers and for records that should reveal little.

What is promised or spent is rounded up, and what is left is rounded down: a reader never sees a
smaller epsilon than was certified.

>>> up(1 / 30), down(1 / 30)
('0.03334', '0.03333')
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

_DIGITS = 4
_NEGLIGIBLE_ERROR = 1e-9


def up(value: float, digits: int = _DIGITS) -> str:
    """A number rounded up to a few digits."""
    return _short(value, digits, ROUND_CEILING)


def down(value: float, digits: int = _DIGITS) -> str:
    """A number rounded down to a few digits."""
    return _short(value, digits, ROUND_FLOOR)


def near(value: float, digits: int = _DIGITS) -> str:
    """A number rounded to a few digits."""
    return _short(value, digits, ROUND_HALF_EVEN)


def up_to_grid(value: float, per_octave: int) -> float:
    """The least power of 2^(1/per_octave) that is at least a number > 0, up to rounding."""
    step = math.ceil(per_octave * math.log2(value) - 1e-9)
    power = math.pow(2.0, step / per_octave)
    return power if power >= value else math.pow(2.0, (step + 1) / per_octave)


def decade_up(error: float) -> float:
    """The least power of ten that is not below an error, and at least 1e-9.

    >>> decade_up(3e-8)
    1e-07
    """
    if error <= _NEGLIGIBLE_ERROR or math.isinf(error):
        return max(error, _NEGLIGIBLE_ERROR)
    power = 10.0 ** math.ceil(math.log10(error) - 1e-12)
    return power if power >= error else 10.0 * power


def _short(value: float, digits: int, rounding: str) -> str:
    exact = Decimal(repr(float(value)))  # 0.05 is 0.05, not the double next to it
    if not exact or not exact.is_finite():
        return f"{value:g}"
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)
    if rounded.adjusted() < -4 or rounded.adjusted() > 9:
        return f"{float(rounded):.{digits}g}"
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
