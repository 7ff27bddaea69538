"""Numbers for people, to a few digits.

What is promised or spent is rounded up and what is left is rounded down: no reader may be told of
a smaller epsilon than was certified.

>>> up(1 / 30), down(1 / 30)
('0.03334', '0.03333')
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

__all__ = ["down", "near", "up"]

_DIGITS = 4


def up(value: float, digits: int = _DIGITS) -> str:
    """A number to a few digits, never smaller than it is."""
    return _short(value, digits, ROUND_CEILING)


def down(value: float, digits: int = _DIGITS) -> str:
    """A number to a few digits, never greater than it is."""
    return _short(value, digits, ROUND_FLOOR)


def near(value: float, digits: int = _DIGITS) -> str:
    """A number to a few digits."""
    return _short(value, digits, ROUND_HALF_EVEN)


def _short(value: float, digits: int, rounding: str) -> str:
    exact = Decimal(value)
    if not exact or not exact.is_finite():
        return f"{value:g}"
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)
    if rounded.adjusted() < -4 or rounded.adjusted() > 9:
        return f"{float(rounded):.{digits}g}"
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
