"""The privacy losses of everybody's earlier releases, in few digits.

Releases have independent noise, so the privacy losses of a person's releases add up, and two
Gaussians with the directions of all of them describe the sum. Directions whose variances have the
same ratio are one direction with a larger count, so the record of a person stays short. Ratios and
shifts are rounded up to powers of 2^(1/8): less noise in a direction, on both sides, multiplies
excess and squared shift alike and is never safer (`accounting.gaussians`).

A record depends on the rows of other people in the table, some of whom may be forgotten later. The
rounding leaves little of that (docs/exposure.md, "What is kept").
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import PrivacyCurve
from pilu.accounting.gaussians import GaussianPair
from pilu.refit.exposures import Measured

Array = NDArray[np.float64]

_PER_OCTAVE = 8
_LEAST = 1e-12  # excess below which a direction counts as equal

Rung = tuple[int, int]  # sign of the excess and a power; (0, 0) for equal variances


@dataclass(frozen=True)
class Losses:
    """The privacy losses of k releases that had a person, together."""

    n_releases: int = 0
    directions: Mapping[Rung, tuple[int, float]] | None = field(default_factory=dict)

    def pair(self) -> GaussianPair | None:
        """The two laws of all releases together; None if nothing is bounded."""
        if self.directions is None:
            return None
        items = sorted(self.directions.items()) or [((0, 0), (1, 0.0))]
        excesses = [_excess(rung) for rung, _ in items]
        counts, squares = zip(*(value for _, value in items), strict=True)
        return GaussianPair(np.array(excesses), np.array(squares), np.array(counts))

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases together, both directions; infinite if nothing is bounded."""
        pair = self.pair()
        return math.inf if pair is None else PrivacyCurve(pair, both=True).epsilon(delta)

    def followed_by(self, excesses: Array, squares: Array, count: int) -> "Losses":
        """With one more release."""
        if self.directions is None:
            return Losses(self.n_releases + 1, None)
        directions = dict(self.directions)
        for x, a2 in zip(excesses.tolist(), squares.tolist(), strict=True):
            rung = _rung(x)
            factor = _excess(rung) / x if rung[0] else 1.0
            have, total = directions.get(rung, (0, 0.0))
            directions[rung] = (have + count, total + _up(a2 * factor))
        return Losses(self.n_releases + 1, directions)

    def record(self) -> dict[str, Any]:
        """As plain numbers."""
        pair = self.pair()
        if pair is None:
            return {"n_releases": self.n_releases, "excesses": None}
        return {
            "n_releases": self.n_releases,
            "excesses": pair.excesses.tolist(),
            "squared_shifts": pair.squared_shifts.tolist(),
            "counts": [int(c) for c in pair.counts],
        }


@dataclass(frozen=True)
class Past:
    """The losses of each person, by name."""

    people: Mapping[Hashable, Losses] = field(default_factory=dict)

    def after(
        self, names: Iterable[Hashable], measured: Measured, scale: float, charge: float
    ) -> "Past":
        """With one more release, in which these people were; nobody else is kept."""
        listed = list(names)
        known = [self.people.get(name, Losses()) for name in listed]
        now = [Losses(k.n_releases + 1, k.directions) for k in known]  # without rows of weight
        for places, shifts in measured.parts:
            excesses, squares = shifts.pairs(scale, charge)
            bounded = np.isfinite(shifts.rest) & (excesses.min(axis=1) > -1)
            for i, place in enumerate(places.tolist()):
                if bounded[i]:
                    now[place] = known[place].followed_by(excesses[i], squares[i], shifts.count)
                else:
                    now[place] = Losses(known[place].n_releases + 1, None)
        return Past(dict(zip(listed, now, strict=True)))


def _up(value: float) -> float:
    """The next power of 2^(1/8)."""
    if value <= 0.0:
        return 0.0
    power = math.ceil(_PER_OCTAVE * math.log2(value) - 1e-9) / _PER_OCTAVE
    return float(2.0**power) * (1 + 1e-9)


def _rung(x: float) -> Rung:
    """The power above an excess; negative ones by h/(1 - h), h = -x, so that h stays below 1."""
    if abs(x) < _LEAST:
        return (0, 0)
    size = x if x > 0 else -x / (1 + x)
    return (1 if x > 0 else -1, math.ceil(_PER_OCTAVE * math.log2(size) - 1e-9))


def _excess(rung: Rung) -> float:
    sign, power = rung
    size = 2.0 ** (power / _PER_OCTAVE) * (1 + 1e-8)
    return sign * (size if sign >= 0 else size / (1 + size)) if sign else 0.0
