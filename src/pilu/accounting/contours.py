"""delta of many pairs of Gaussians by the contour integral of `pilu.accounting.gaussians`.

The same integral, path and margins, for all pairs in one array. Two things make a search cheap.
The saddle point c fixes epsilon in closed form,

    eps(c) = (log M)'(c) - 1/c - 1/(c-1),

and delta nearly (to some percent), by the Gaussian integral across it:

    log delta ~ log M(c) - eps (c-1) - log(c (c-1)) - log(2 pi k)/2,
    k = (log M)''(c) + 1/c^2 + 1/(c-1)^2,

so one bisection over c finds where to start. And epsilon enters the integrand only as
e^{-eps (s-1)}: near the start M is not evaluated again. The derivative needs one more sum:

    -d delta / d eps = (1/2 pi i) int M(s) e^{-eps (s-1)} / s ds.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.cumulants import (
    Array,
    bend,
    cumulant,
    curvature,
    largest_loss,
    log_guard,
    magnitude,
    rounding,
    slope,
)
from pilu.accounting.gaussians import GROWN, HOPELESS, LARGEST_EXCESS, LEAST_GAP
from pilu.accounting.quadrature import CELL, Path, Remainder

_LEAST_LOG_GAP, _MOST_LOG_GAP = math.log(LEAST_GAP), math.log(1e60)
_NEAREST = 20.0  # -log of the least distance from the end of the strip, relative to its length
_BLURRED = 1e12
_LOG_CUT = -40.0  # log of the terms, relative to the peak, with which a sum may end
_BISECTIONS = 18  # the saddle to some thousandths


@dataclass(frozen=True, eq=False)
class Pairs:
    """Excesses, squared shifts and half of the counts of many pairs, one a row."""

    x: Array
    a2: Array
    half: Array

    def rows(self, which: NDArray[np.intp]) -> "Pairs":
        """Some of the pairs."""
        return Pairs(self.x[which], self.a2[which], self.half[which])

    def reversed(self) -> "Pairs":
        """The pairs with P and Q exchanged."""
        variances = 1 + self.x
        return Pairs(-self.x / variances, self.a2 / variances, self.half)

    def saddles(self, floor: Array, target: float, most: float) -> tuple[Array, Array]:
        """c - 1, and epsilon, near the least epsilon in [floor, most] with log delta <= target.

        c - 1 is NaN where the strip, or the saddle in it, is too close to 1 for an integral.
        """
        with np.errstate(all="ignore"):
            end = np.min(np.where(self.x > 0, 1 / self.x, np.inf), axis=1)
            low = np.full(len(floor), _LEAST_LOG_GAP)
            high = np.minimum(_MOST_LOG_GAP, np.log(end) + _NEAREST)
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                epsilon, log_delta = self._at_saddle(1 / (1 / end + np.exp(-middle)))
                # Where rounding blurs log delta it is far below every target.
                blurred = ~(epsilon * np.exp(middle) < _BLURRED)
                far = ~(epsilon < floor) & (blurred | (log_delta <= target) | (epsilon > most))
                low, high = np.where(far, low, middle), np.where(far, middle, high)
            gap = 1 / (1 / end + np.exp(-(low + high) / 2))
            epsilon, log_delta = self._at_saddle(gap)
            guess = np.clip(epsilon + (log_delta - target) / gap, floor, most)
            fine = (gap > 2 * LEAST_GAP) & (self.x.max(axis=1) <= LARGEST_EXCESS)
            return np.where(fine, gap, np.nan), np.nan_to_num(guess, nan=1.0)

    def _at_saddle(self, gap: Array) -> tuple[Array, Array]:
        s, column = 1 + gap, 1 + gap[:, None]
        log_m = cumulant(self.x, self.a2, self.half, column, gap[:, None])[:, 0]
        epsilon = slope(self.x, self.a2, self.half, column, gap[:, None]) - 1 / s - 1 / gap
        bent = curvature(self.x, self.a2, self.half, gap[:, None]) + 1 / s**2 + 1 / gap**2
        log_delta = log_m - epsilon * gap - np.log(s) - np.log(gap) - np.log(2 * np.pi * bent) / 2
        return epsilon, log_delta

    def log_guards(self, gap: Array, epsilon: Array) -> Array:
        """The bound on log delta at s = 1 + gap that needs no quadrature, rounded up."""
        with np.errstate(all="ignore"):
            s, column = 1 + gap, 1 + gap[:, None]
            log_m = cumulant(self.x, self.a2, self.half, column, gap[:, None])[:, 0]
            size = magnitude(self.x, self.a2, self.half, column, gap[:, None])
            guard = log_guard(log_m, s, gap, epsilon) + rounding(
                size, epsilon * gap, self.x.shape[1]
            )
            none = epsilon >= largest_loss(self.x, self.a2, self.half)
            return np.where(none, -np.inf, guard)


class Contours:
    """M along one path a pair, from which delta follows for every epsilon near the start."""

    def __init__(
        self, pairs: Pairs, gap: Array, epsilon: Array, step: float, n_nodes: int, side: float
    ) -> None:
        x, a2, half = pairs.x, pairs.a2, pairs.half
        with np.errstate(all="ignore"):
            bent = curvature(x, a2, half, gap[:, None]) + 1 / (1 + gap) ** 2 + 1 / gap**2
            path = Path(gap, 1 / np.sqrt(bent), side * bend(x, a2, half, epsilon), step)
            tau = np.arange(n_nodes, dtype=np.float64) * step
            gaps = path.gaps(tau)
            nodes = 1 + gaps
            logs = cumulant(x, a2, half, nodes, gaps) - np.log(nodes * gaps)
            self.peak = (logs[:, 0] - epsilon * gap).real
            logs -= epsilon[:, None] * gaps + self.peak[:, None]
            # The sum of each pair ends with the first cell without terms that count.
            small = (logs.real + tau)[:, CELL - 1 :: CELL] <= _LOG_CUT
            n_cells = np.where(small.any(axis=1), np.argmax(small, axis=1) + 1, small.shape[1])
            most = CELL * int(np.max(n_cells, initial=1))
            self.gaps, self.logs = gaps[:, :most], logs[:, :most]
            self.used = np.arange(most) < CELL * n_cells[:, None]
            self.last = CELL * n_cells - 1
            self.weights = np.where(self.used, path.speeds(tau[:most]), 0.0)
            self.remainder = Remainder(x, a2, half, path, n_cells)
        self.weights[:, 0] *= 0.5
        self.magnitude = magnitude(x, a2, half, 1 + gap[:, None], gap[:, None])
        self.n_directions = x.shape[1]
        self.start, self.log_unit = epsilon, np.log(step * path.width / math.pi)

    def log_delta(self, epsilon: Array, rows: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """log delta of some pairs, rounded up; how steeply it falls; how far the sum may be off.

        NaN where the path leads uphill, out of the doubles, or not to an answer.
        """
        gaps = self.gaps[rows]
        logs = self.logs[rows] - (epsilon - self.start[rows])[:, None] * gaps
        grown = ~((logs.real < logs.real[:, :1] + GROWN) | ~self.used[rows]).all(axis=1)
        terms = np.exp(np.where(self.used[rows], logs, 0.0)) * self.weights[rows]
        total = terms.imag.sum(axis=1)
        error = self.remainder(
            logs[:, CELL // 2 :: CELL].real,
            logs[np.arange(len(logs)), self.last[rows]].real,
            np.abs(terms).reshape(len(terms), terms.shape[1] // CELL, CELL).sum(axis=-1),
            epsilon,
            rows,
        )
        exponent = epsilon * gaps[:, 0].real
        slack = rounding(self.magnitude[rows], exponent, self.n_directions)
        value = self.peak[rows] + np.log(total + error) + self.log_unit[rows] + slack
        fall = (terms * gaps).imag.sum(axis=1) / total
        value[grown | ~(error <= HOPELESS * total)] = np.nan
        return value, fall, 2 * error / total
