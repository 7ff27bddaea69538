"""What a run on squared error keeps for the next one: sums over its rows, and their leverages.

It stays in memory beside the rows. It also holds the scaler's means of the last run from scratch:
with those of today they give away a row that was forgotten since. So it is never pickled, and
`attach` and `Forgetful.consolidate` drop it.

A deletion subtracts from it and charges the error. It can change neither the chosen alpha, which is
proved to be that of a run from scratch, nor the released minimiser beyond the proved radius
(docs/refit.md).
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pilu.refit.front import Front
from pilu.refit.gram import Gram, gamma
from pilu.refit.held_rows import Table
from pilu.refit.loo_errors import ROW

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

_UNIT = 2.0**-53
_WORST = 1e-10  # relative error of a Gram matrix at which it is summed anew


@dataclass(frozen=True, eq=False)
class Leverages:
    """Leverages of rows for every candidate alpha, with penalties alpha units^2 on raw columns."""

    candidates: Array
    units: Array
    values: Array = field(repr=False)  # n x alphas
    errors: Array = field(repr=False)  # bounds on their errors
    slopes: Array = field(repr=False)  # upper bounds on sqrt(-alpha dh/dalpha)


@dataclass(frozen=True, eq=False)
class Kept:
    """Statistics of the rows of a run."""

    table: Table = field(repr=False)
    used: Positions = field(repr=False)  # positions of the rows with weight
    weights: Array = field(repr=False)  # theirs, n x 1
    front: Front = field(repr=False)  # in whose coordinates the Gram matrix is
    gram: Gram = field(repr=False)  # its error is from that of the exact rows
    leverages: Leverages | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        used: Positions,
        weights: Array,
        front: Front,
        gram: Gram,
        leverages: Leverages | None,
    ) -> "Kept":
        """Of a run from scratch, whose Gram matrix is that of rounded rows."""
        error = gram.error + _rounded_rows(front, float(np.trace(gram.matrix)), weights)
        return cls(table, used, weights, front, Gram(gram.matrix, error), leverages)


@dataclass(frozen=True, eq=False)
class Deletion:
    """A run's rows as those of the run before without some."""

    stay: Positions  # of the rows before
    gone: Array = field(repr=False)  # raw rows
    gone_weights: Array  # k x 1
    before: Gram = field(repr=False)  # of the rows that stay, in the old coordinates
    after: Gram = field(repr=False)  # the same in the new ones


def deletion(
    kept: Kept, table: Table, used: Positions, weights: Array, front: Front
) -> Deletion | None:
    """How a table follows from the one before; None if not by a deletion, or not accurately."""
    numbers, digests = kept.table.numbers[kept.used], kept.table.digests[kept.used]
    stay = np.searchsorted(numbers, table.numbers[used])
    if len(used) > len(numbers) or (len(stay) and stay[-1] >= len(numbers)):
        return None
    if not (
        (np.diff(numbers) > 0).all()
        and np.array_equal(numbers[stay], table.numbers[used])
        and np.array_equal(digests[stay], table.digests[used])
        and np.array_equal(kept.weights[stay], weights)
        and len(kept.front.scale) == len(front.scale)
        and kept.front.coordinates.intercept_column == front.coordinates.intercept_column
    ):
        return None
    gone = np.delete(np.arange(len(numbers)), stay)
    X, places = kept.table.X, kept.used[gone]
    x = np.asarray(X.iloc[places] if hasattr(X, "iloc") else X[places], dtype=np.float64)
    w = kept.weights[gone]
    before = _without(kept, np.sqrt(w) * kept.front.rows(x), w)
    after = _in_coordinates(before, kept.front, front, weights)
    if not after.error <= _WORST * float(np.trace(after.matrix)):
        return None
    return Deletion(stay, x, w, before, after)


def _without(kept: Kept, rows: Array, w: Array) -> Gram:
    """The Gram matrix without weighted rows."""
    trace, energy = float(np.trace(kept.gram.matrix)), float((rows**2).sum())
    error = kept.gram.error + 1.02 * gamma(len(rows) + 6) * (trace + energy)
    error += _rounded_rows(kept.front, energy, w)
    return Gram(kept.gram.matrix - rows.T @ rows, error)


def _rounded_rows(front: Front, energy: float, weights: Array) -> float:
    """How far the Gram matrix of rounded rows with this trace is from that of exact ones."""
    shift = front.coordinates.shift / front.coordinates.scale
    left = float(np.linalg.norm(shift)) if front.scaled else 0.0
    length = math.sqrt(max(energy, 0.0))
    changed = ROW * (length + math.sqrt(float(weights.sum())) * left)
    return 1.05 * changed * (2 * length + changed)


def _in_coordinates(gram: Gram, old: Front, new: Front, weights: Array) -> Gram:
    """L'GL for new rows z' = z L, where z'_j = a_j z_j + f_j."""
    p, G = len(new.scale), gram.matrix
    a, f = old.unit / new.unit, (old.centre - new.centre) / new.unit
    trace, most = float(np.trace(G)), float(np.abs(a).max(initial=0.0))
    if len(G) == p:  # no intercept, and no centring
        f = np.zeros(p)
    total, sums = (G[p, p], G[p, :p]) if len(G) > p else (0.0, np.zeros(p))
    out = np.empty_like(G)
    block = np.multiply(G[:p, :p], a, out=out[:p, :p])
    block *= a[:, None]
    moved = np.outer(a * sums + 0.5 * total * f, f)
    block += moved
    block += moved.T
    if len(G) > p:
        out[p, :p] = out[:p, p] = a * sums + total * f
        out[p, p] = total
    size = [np.abs(v.mean) + np.abs(v.scale * v.coordinates.shift) for v in (old, new)]
    wrong = 6 * _UNIT * float(np.linalg.norm((size[0] + size[1]) / new.unit + np.abs(f)))
    shift = float(np.linalg.norm(f))
    after = max(float(np.trace(out)), 0.0)
    changed = 4 * _UNIT * most * math.sqrt(max(trace, 0.0)) + math.sqrt(total) * wrong
    floats = most**2 * trace + 2 * most * float(np.linalg.norm(sums)) * shift + total * shift**2
    error = (max(most, 1.0) + shift) ** 2 * gram.error + gamma(12) * floats
    error += changed * (2 * math.sqrt(after) + changed) + _rounded_rows(new, after, weights)
    return Gram(out, 1.05 * error, carried=True)
