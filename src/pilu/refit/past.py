"""The privacy losses of everybody's earlier releases, in few digits.

Releases have independent noise, so the privacy losses of a person's releases add up, and two
Gaussians with the directions of all of them describe the sum. Directions whose variances have the
same ratio are one direction with a larger count, so the record of a person stays short. Ratios and
shifts are rounded up to powers of 2^(1/8): less noise in a direction, on both sides, multiplies
excess and squared shift alike and is never safer (`accounting.gaussians`).

A record depends on the rows of other people in the table, some of whom may be forgotten later. So
it stays in memory. A pickle has only what depends on no row: the number of releases and, where each
had a cap for everybody, the sums of the caps (docs/exposure.md, "Before and after").
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import PrivacyCurve
from pilu.accounting.gaussians import GaussianPair
from pilu.refit.program import Prepared
from pilu.refit.settings import Options
from pilu.refit.shifts import Measured

Array = NDArray[np.float64]

_PER_OCTAVE = 8
_LEAST = 1e-12  # excess below which a direction counts as equal

Rung = tuple[int, int]  # sign of the excess and a power; (0, 0) for equal variances


@dataclass(frozen=True)
class Losses:
    """The privacy losses of k releases that had a person, together."""

    n_releases: int = 0
    directions: Mapping[Rung, tuple[int, float]] | None = field(default_factory=dict)
    caps: tuple[float, float] | None = (0.0, 0.0)  # sums of epsilon and delta, if all had a cap
    each: tuple[float | None, ...] = ()  # epsilon of each release at its own delta, rounded up

    def pair(self) -> GaussianPair | None:
        """The two laws of all releases together; None if they are not known."""
        if self.directions is None:
            return None
        items = sorted(self.directions.items()) or [((0, 0), (1, 0.0))]
        excesses = [_excess(rung) for rung, _ in items]
        counts, squares = zip(*(value for _, value in items), strict=True)
        return GaussianPair(np.array(excesses), np.array(squares), np.array(counts))

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases together, both directions; infinite if it is not known."""
        pair = self.pair()
        return math.inf if pair is None else PrivacyCurve(pair, both=True).epsilon(delta)

    def followed_by(
        self,
        excesses: Array,
        squares: Array,
        count: int,
        cap: tuple[float, float] | None = None,
        epsilon: float | None = None,
    ) -> "Losses":
        """With one more release, whose cap on epsilon and delta holds for everybody, if any."""
        after = self.followed_by_unknown(cap)
        if epsilon is not None and math.isfinite(epsilon):
            after = replace(after, each=(*self.each, _up(epsilon)))
        if self.directions is None:
            return after
        directions = dict(self.directions)
        for x, a2 in zip(excesses.tolist(), squares.tolist(), strict=True):
            rung = _rung(x)
            factor = _excess(rung) / x if rung[0] else 1.0
            have, total = directions.get(rung, (0, 0.0))
            directions[rung] = (have + count, total + _up(a2 * factor))
        return replace(after, directions=directions)

    def followed_by_unknown(
        self, cap: tuple[float, float] | None = None, count: int = 1
    ) -> "Losses":
        """With more releases of which no more than a cap is known."""
        caps = None
        if self.caps is not None and cap is not None:
            caps = (self.caps[0] + count * cap[0], self.caps[1] + count * cap[1])
        each = (*self.each, *(None if cap is None else cap[0],) * count)
        return Losses(self.n_releases + count, None, caps, each)

    def without_values(self) -> "Losses":
        """What depends on no row: the number of releases and the sums of their caps."""
        return replace(self, directions=None, each=(None,) * self.n_releases)

    def record(self, delta: float) -> dict[str, Any]:
        """As plain numbers: an epsilon at a delta, and what it follows from.

        "losses" is followed by the two laws. "caps" is the sum of caps. None: nothing is known.
        """
        pair, epsilon = self.pair(), self.epsilon(delta)
        record = {"n_releases": self.n_releases, "delta": delta, "each": list(self.each)}
        if pair is not None and math.isfinite(epsilon):
            return {
                **record,
                "epsilon": epsilon,
                "follows_from": "losses",
                "excesses": pair.excesses.tolist(),
                "squared_shifts": pair.squared_shifts.tolist(),
                "counts": [int(c) for c in pair.counts],
            }
        if self.caps is not None and 0.0 < self.caps[1] < 1.0:
            total, delta = (value * (1 + 1e-12) for value in self.caps)
            return {**record, "delta": delta, "epsilon": total, "follows_from": "caps"}
        return {**record, "epsilon": None, "follows_from": None}


@dataclass(frozen=True)
class Past:
    """The losses of each person, by name."""

    people: Mapping[Hashable, Losses] = field(default_factory=dict)

    def after(
        self,
        names: Sequence[Hashable],
        measured: Measured | None,
        prepared: Prepared,
        options: Options,
    ) -> "Past":
        """With one more release, in which these people were; nobody else is kept.

        Nothing is measured of a release without shaped noise.
        """
        cap = None
        if options.max_exposure is not None and options.exposure_quantile == 1.0:
            cap = (options.max_exposure, options.exposure_delta)
        known = [self.people.get(name, Losses()) for name in names]
        if measured is None:
            return Past({n: k.followed_by_unknown() for n, k in zip(names, known, strict=True)})
        epsilons = measured.epsilons(prepared.noise, prepared.charge, options.exposure_delta)
        nothing = np.zeros(0)  # of people without rows of weight
        now = [k.followed_by(nothing, nothing, 1, cap, 0.0) for k in known]
        for places, shifts in measured.parts:
            bounded = np.isfinite(shifts.rest) & (shifts.leverages.max(axis=1) < 1)
            excesses, squares = shifts.pairs(prepared.noise, prepared.charge)
            for i, place in enumerate(places.tolist()):
                if bounded[i]:
                    given = excesses[i], squares[i], shifts.count
                    now[place] = known[place].followed_by(*given, cap, float(epsilons[place]))
                else:
                    now[place] = known[place].followed_by_unknown()
        return Past(dict(zip(names, now, strict=True)))

    def unbounded(self, names: Iterable[Hashable], count: int) -> "Past":
        """With earlier releases of which nothing is known."""
        return Past({name: Losses().followed_by_unknown(count=count) for name in names})

    def without_values(self) -> "Past":
        """What depends on no row."""
        return Past({name: losses.without_values() for name, losses in self.people.items()})


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
