"""A privacy curve kept as a few certified points, and how two such curves chain.

Every curve delta(gamma) = sup_S P(S) - gamma Q(S), gamma = e^epsilon, is a supremum of affine
functions of gamma: convex, nonincreasing, and 1 at gamma = 0. So the chord between two certified
points is an upper bound, also from (gamma, delta) = (0, 1) to the first point; beyond the last
one its delta still holds.

If P against W1 has the curve delta_1 and W1 against W2 has delta_2, then for every real t

    P(S) <= e^t W1(S) + delta_1(t) <= e^eps W2(S) + delta_1(t) + e^t delta_2(eps - t).

With chords for curves the right side is convex and piecewise linear in e^t, with kinks where t or
eps - t is one of the points: the best t is among these (docs/guarantee.md, "Repeated requests").
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu._checks import complaint

__all__ = ["CurveTable", "chained"]

Array = NDArray[np.float64]

_MOST_POINTS = 32
_UP = 1 + 1e-12
_LARGEST_EXPONENT = 700.0  # its exponential is finite
_LEAST = 1e-300  # a positive delta is not kept smaller, so that e^700 of it is still above 1


@dataclass(frozen=True)
class CurveTable:
    """Points (epsilon, delta) at which P(S) <= e^epsilon Q(S) + delta is known for every S.

    Parameters
    ----------
    epsilons : numbers >= 0, increasing
    deltas : numbers in [0, 1], nonincreasing
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    def __post_init__(self) -> None:
        e, d = (np.array(v, dtype=np.float64) for v in (self.epsilons, self.deltas))
        if e.ndim != 1 or not 1 <= len(e) <= _MOST_POINTS:
            raise complaint("epsilons", f"1 to {_MOST_POINTS} numbers", self.epsilons)
        if not (np.isfinite(e).all() and e[0] >= 0 and (np.diff(e) > 0).all()):
            raise complaint("epsilons", "finite numbers >= 0, increasing", self.epsilons)
        if d.shape != e.shape:
            raise complaint("deltas", "as many as epsilons", self.deltas)
        if not (((d >= 0) & (d <= 1)).all() and (np.diff(d) <= 0).all()):
            raise complaint("deltas", "in [0, 1] and nonincreasing", self.deltas)
        object.__setattr__(self, "epsilons", tuple(e.tolist()))
        object.__setattr__(self, "deltas", tuple(d.tolist()))

    @classmethod
    def of(cls, epsilons: Array, deltas: Array) -> Self:
        """The table of certified points, brought into the form that a table has."""
        # What is certified at a smaller epsilon is certified at a larger one too.
        falling = np.minimum.accumulate(np.minimum(deltas, 1.0))
        kept = np.where(falling > 0, np.maximum(falling, _LEAST), 0.0)
        return cls(tuple(epsilons.tolist()), tuple(kept.tolist()))

    def at(self, epsilon: ArrayLike) -> Array:
        """delta(epsilon), rounded up, for epsilons of either sign: the chord in e^epsilon."""
        e = np.asarray(epsilon, dtype=np.float64)
        # The point (gamma, delta) = (0, 1) in front, the last delta carried on behind.
        points = np.array([-np.inf, *self.epsilons, np.inf])
        deltas = np.array([1.0, *self.deltas, self.deltas[-1]])
        right = np.searchsorted(points, e, side="right")
        left = right - 1
        # Both weights are formed by themselves: a tiny one may stand before a large delta.
        width = -np.expm1(points[left] - points[right])
        on_left = -np.expm1(e - points[right]) / width
        on_right = np.exp(e - points[right]) * -np.expm1(points[left] - e) / width
        chord = on_left * deltas[left] + on_right * deltas[right]
        return np.asarray(np.minimum(chord * _UP, 1.0))


def chained(first: CurveTable, second: CurveTable, epsilon: Array) -> Array:
    """inf_t delta_1(t) + e^t delta_2(epsilon - t) at every epsilon, rounded up."""
    shape = (len(epsilon), len(first.epsilons))
    t = np.hstack(
        [np.broadcast_to(first.epsilons, shape), epsilon[:, None] - np.array(second.epsilons)]
    )
    rest = np.nextafter(epsilon[:, None] - t, -np.inf)  # t + rest may not exceed epsilon
    growth = np.exp(np.minimum(t, _LARGEST_EXPONENT))
    totals = first.at(t) + growth * second.at(rest)
    return np.asarray(np.minimum(totals.min(axis=1) * _UP, 1.0))
