"""Shifts between two releases along the directions in which their laws differ, for many people."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from pilu.accounting.many_pairs import epsilons_of_pairs

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_UP = 1 + 1e-9
_PIECE = 1024  # people whose epsilons one thread computes at a time


@dataclass(frozen=True, eq=False)
class Shifts:
    """Directions of N groups of rows and the shifts along them, for noise of scale 1."""

    leverages: Array  # N x D; zero for directions whose variance does not change
    known: Array  # N x D: length of the computed shift
    rest: Array  # N: what may have to be added to each; infinite if nothing is proved
    count: int  # outputs that share the directions
    stretch: Array | None = None  # N: units of the narrower noise in one of the wider; None for 1

    def pairs(self, scale: float, charge: float, *, least: bool = False) -> tuple[Array, Array]:
        """Excesses and squared shifts, the largest possible ones or the least.

        `charge` is the solver's part in units of the noise.
        """
        known, rest = self.known / scale, self.rest[:, None] / scale + charge
        if self.stretch is not None:
            rest = rest * self.stretch[:, None]
        shifts = np.maximum(known - rest, 0.0) if least else known + rest
        return -self.leverages, np.asarray(shifts**2 * _UP)

    def epsilons(self, scale: float, charge: float, delta: float, *, least: bool = False) -> Array:
        """Epsilon of each group, both directions; infinite where nothing is proved."""
        out = np.full(len(self.rest), 0.0 if least else np.inf)
        fine = np.isfinite(self.rest) & (self.leverages.max(axis=1) < 1.0)
        if fine.any():
            pairs = self.take(fine).pairs(scale, charge, least=least)
            out[fine] = epsilons_of_pairs(*pairs, self.count, delta)
        return out

    def lengths(self) -> Array:
        """Length of each shift, without its rest."""
        return np.asarray(np.sqrt((self.known**2).sum(axis=1)))

    def take(self, which: NDArray[np.bool_] | Rows) -> "Shifts":
        """Some of the groups."""
        return replace(
            self,
            leverages=self.leverages[which],
            known=self.known[which],
            rest=self.rest[which],
            stretch=None if self.stretch is None else self.stretch[which],
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Shifts of people, in parts of people with equally many rows."""

    n: int
    parts: tuple[tuple[Rows, Shifts], ...]  # places among the n people, and their shifts

    @classmethod
    def of(cls, n: int, parts: Sequence[tuple[Rows, Shifts]]) -> "Measured":
        """Parts with equally many directions, which are worked on together, as one."""
        alike: dict[tuple[int, int], list[tuple[Rows, Shifts]]] = {}
        for places, shifts in parts:
            alike.setdefault((shifts.known.shape[1], shifts.count), []).append((places, shifts))
        together = [
            (np.concatenate([p for p, _ in some]), joined([s for _, s in some]))
            for some in alike.values()
        ]
        return cls(n, tuple(together))

    def epsilons(self, scale: float, charge: float, delta: float, *, least: bool = False) -> Array:
        """Epsilon of each person, or the least that it can be."""

        def answer(some: tuple[Rows, Shifts]) -> Array:
            return some[1].epsilons(scale, charge, delta, least=least)

        out, pieces = np.zeros(self.n), list(self._pieces())
        workers = 1 if self.n < _PIECE else cpu_count(only_physical_cores=False)
        with ThreadPoolExecutor(workers) as pool:  # NumPy's loops let other threads run
            for (places, _), epsilons in zip(pieces, pool.map(answer, pieces), strict=True):
                out[places] = epsilons
        return out

    def _pieces(self) -> Iterator[tuple[Rows, Shifts]]:
        """The parts, in pieces of similar size."""
        for places, shifts in self.parts:
            for i in range(0, len(places), _PIECE):
                piece = np.arange(i, min(i + _PIECE, len(places)))
                yield places[piece], shifts.take(piece)

    def lengths(self) -> Array:
        """Largest possible length of the shift of each person, at noise of scale 1."""
        out = np.zeros(self.n)
        for places, shifts in self.parts:
            out[places] = shifts.lengths() + shifts.rest
        return out

    def leverages(self) -> Array:
        """Largest leverage of each person."""
        out = np.zeros(self.n)
        for places, shifts in self.parts:
            out[places] = shifts.leverages.max(axis=1)
        return out

    def loose(self, share: float, within: float) -> Rows:
        """Places of people whose shift is not proved to a share of its length or to `within`."""
        some = [p[s.rest >= np.maximum(share * s.lengths(), within)] for p, s in self.parts]
        return np.sort(np.concatenate([*some, np.array([], dtype=np.intp)]))

    def corrected(self, other: "Measured") -> "Measured":
        """With the shifts that another measurement has of some people."""
        places = np.concatenate([p for p, _ in other.parts])
        kept = [(p, s, ~np.isin(p, places)) for p, s in self.parts]
        parts = [(p[left], s.take(left)) for p, s, left in kept if left.any()]
        return Measured.of(self.n, [*parts, *other.parts])

    def with_unbounded(self, places: Rows) -> "Measured":
        """The same with people of whom nothing was measured, and to whom nothing is promised."""
        if not len(places):
            return self
        zeros = np.zeros((len(places), 1))
        nothing = Shifts(zeros, zeros, np.full(len(places), np.inf), 1)
        return Measured(self.n, (*self.parts, (places, nothing)))

    def take(self, places: Rows) -> "Measured":
        """Some people, numbered anew."""
        number = np.full(self.n, -1)
        number[places] = np.arange(len(places))
        parts = [(number[p], s.take(number[p] >= 0)) for p, s in self.parts]
        return Measured(len(places), tuple((p[p >= 0], s) for p, s in parts if (p >= 0).any()))


def joined(parts: list[Shifts]) -> Shifts:
    """Shifts of several parts with equally many directions."""
    stretch = None
    if any(p.stretch is not None for p in parts):
        stretch = [np.ones(len(p.rest)) if p.stretch is None else p.stretch for p in parts]
    return Shifts(
        np.concatenate([p.leverages for p in parts]),
        np.concatenate([p.known for p in parts]),
        np.concatenate([p.rest for p in parts]),
        parts[0].count,
        None if stretch is None else np.concatenate([np.asarray(s) for s in stretch]),
    )
