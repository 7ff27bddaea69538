"""What the trapezoidal sum on the bent path misses of delta: a proved bound.

Let G(tau) = F(z(tau)) z'(tau)/b with F(z) = M e^{-eps z} / (z (z+1)), z = s - 1, and
z(tau) = gap + b (i sinh tau + kappa (cosh tau - 1)). With n nodes 0, h, ..., (n-1) h, of which the
first counts half, and T = (n - 1/2) h, the sum of Im G times h b/pi differs from delta by at most
b/pi times

    int_0^T |G(tau + id)| + |G(tau - id)| dtau / (e^{2 pi d/h} - 1)      [aliases]
    + int_{-d}^d |G(T + iy)| / (1 + e^{2 pi |y|/h}) dy                   [the sides]
    + |F(z_T)| e^rise |z_T| |z_T + 1| / (b Im z_T)                       [what is cut]

because all singularities are on the real axis and outside of the strip |Im tau| <= d, and because
on the vertical ray above z_T, where the path may go on, M grows by at most

    rise = sum over x Re z > 1 of  (1+x) a^2 / (2 x^2) (x Re z - 1) / |1 - x z|^2.

n is a multiple of 8. Nodes 4, 12, 20, ... are the centres of cells 8 h wide. On a cell, and d above
and below it,

    log |F| <= log |F(centre)| + |(log F)'(centre)| reach + sup |(log F)''| reach^2 / 2,

where the reach bounds |z - z(centre)|, and the sum of the moduli of its parts bounds (log F)''.
docs/margins.md ("The contour integral") has the proof.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.cumulants import Array, Complex, rounding

__all__ = ["CELL", "Path", "Remainder"]

Index = NDArray[np.intp]

CELL = 8  # nodes of a cell
_STRIP = 0.2  # d
_MOST = 600.0  # its exponential is finite
_UP = 1 + 1e-6  # for the rounding of the bound itself


@dataclass(frozen=True, eq=False)
class Path:
    """The paths of some pairs, and the step in tau of the nodes on them."""

    gap: Array  # of the saddles
    width: Array  # b
    kappa: Array
    step: float

    def gaps(self, tau: Array) -> Complex:
        """z at some tau, one row a pair."""
        bent = 1j * np.sinh(tau) + self.kappa[:, None] * (np.cosh(tau) - 1)
        path: Complex = self.gap[:, None] + self.width[:, None] * bent
        return path

    def speeds(self, tau: Array) -> Complex:
        """z'/b."""
        moved: Complex = 1j * np.cosh(tau) + self.kappa[:, None] * np.sinh(tau)
        return moved


class Remainder:
    """The bound for some pairs (rows) at every epsilon: what needs no sum over the nodes.

    `n_cells` is the number of cells of each pair's sum. `log_cells`, log |F| at the centres of the
    cells, and `log_last`, at the last node, are given relative to one number for each pair.
    """

    def __init__(self, x: Array, a2: Array, half: Array, path: Path, n_cells: Index) -> None:
        h, most = path.step, int(np.max(n_cells, initial=1))
        self._step, self._directions = h, x.shape[-1]
        self._used = np.arange(most) < n_cells[:, None]
        # One disc a cell, about its centre. The next is about the last node and holds the sides.
        tau = np.empty((len(n_cells), most + 2))
        tau[:, :most] = h * (CELL * np.arange(most) + CELL // 2)
        tau[:, most] = h * (CELL * n_cells - 1)
        tau[:, most + 1] = tau[:, most] + h / 2  # T
        aside = np.full(most + 1, CELL // 2 * h)
        aside[most] = h / 2
        z = path.gaps(tau)
        z, end = z[:, :-1], z[:, -1]
        radius, size = np.hypot(aside, _STRIP), np.abs(z)
        steepest = np.sqrt(1 + path.kappa[:, None] ** 2) * np.cosh(tau[:, :-1] + aside)  # |z'|/b
        reach = path.width[:, None] * steepest * radius
        self._reach, self._farthest, self._aside = reach, size + reach, _STRIP / radius[most]
        self._to_end = end - z[:, -1]
        with np.errstate(all="ignore"):
            D = 1 - z[..., None] * x[:, None, :]
            # Bounds on 1/D, 1/z and 1/(1+z) from anywhere in the discs: inf where there is none.
            near = 1 / np.maximum(np.abs(D) - reach[..., None] * np.abs(x)[:, None, :], 0.0)
            at_1, at_0 = 1 / np.maximum(size - reach, 0.0), 1 / np.maximum(abs(1 + z) - reach, 0.0)
            self._slopes, bent, self._sizes = _derivatives(
                x, a2, half, z, 1 / D, near, self._farthest
            )
            bent += at_1**2 + at_0**2
            self._curved = np.log(steepest) + bent * reach**2 / 2
            self._log_cut = np.abs(self._to_end) ** 2 * bent[:, -1] / 2 + _rise(x, a2, end)
            self._log_cut += np.log(np.abs(end * (1 + end)) / (path.width * end.imag))

    def __call__(
        self, log_cells: Array, log_last: Array, sums: Array, epsilon: Array, rows: Index
    ) -> Array:
        """The bound in units of the sum; `sums` are those of |G| over the nodes of each cell."""
        h, e = self._step, epsilon[:, None]
        slack = np.asarray(rounding(self._sizes[rows], e * self._farthest[rows], self._directions))
        rates = self._slopes[rows] - e
        log_end = log_last + (rates[:, -1] * self._to_end[rows]).real + 2 * slack[:, -1]
        steep = np.abs(rates) * self._reach[rows]
        edges = log_cells + (steep + self._curved[rows] + 2 * slack)[:, :-1]
        edges = np.sum(np.exp(np.minimum(edges, _MOST)), axis=1, where=self._used[rows])
        # Both edges of the strip, each cell 8 h wide; divided by h.
        aliases = edges * (2 * CELL / math.expm1(2 * math.pi * _STRIP / h))
        # Aside by y the modulus grows by e^{|y| steep/d} at most; the kernel is e^{-2 pi |y|/h}.
        over = np.maximum(steep[:, -1] * self._aside - 2 * math.pi * _STRIP / h, 0.0)
        sides = np.exp(np.minimum(log_end + self._curved[rows, -1] + over, _MOST)) * 2 * _STRIP / h
        cut = np.exp(np.minimum(log_end + self._log_cut[rows], _MOST)) / h
        rounded = (sums * np.expm1(np.minimum(slack[:, :-1], _MOST))).sum(axis=1)
        bound: Array = (aliases + sides + cut + rounded) * _UP
        return bound


def _derivatives(
    x: Array, a2: Array, half: Array, z: Complex, inverse: Complex, most: Array, farthest: Array
) -> tuple[Complex, Array, Array]:
    """(log F)' + eps at z, and bounds on |(log F)''| and on what is summed, less those of z (z+1).

    `inverse` is 1/D with D = 1 - z x, and `most` bounds its modulus where |z| <= `farthest`.
    The formulas are those of `pilu.accounting.cumulants`, sorted by powers of 1/D.
    """
    size, logs = np.abs(x), np.log1p(x)
    first = inverse @ np.stack([a2, half * x], axis=-1)
    second = np.square(inverse) @ a2[..., None]
    slopes = z / 2 * first[..., 0] + (1 + z) / 2 * second[..., 0] + first[..., 1]
    slopes -= np.sum(half * logs, axis=-1, keepdims=True) + 1 / z + 1 / (1 + z)
    once = most @ np.stack([a2, half * size], axis=-1)
    twice = np.square(most) @ np.stack([half * x * x, a2 * size], axis=-1)
    thrice = (most**2 * most) @ (a2 * (1 + x))[..., None]
    sizes = (1 + farthest) * (once[..., 0] + farthest * twice[..., 1]) + 2 * once[..., 1]
    sizes += 2 * np.sum(half * (size + np.abs(logs)), axis=-1, keepdims=True)
    return slopes, twice[..., 0] + thrice[..., 0], farthest * sizes


def _rise(x: Array, a2: Array, end: Complex) -> Array:
    """By how much log |M| may grow on the vertical ray above the end of each path."""
    passed = x * end.real[:, None] - 1
    if not (passed > 0).any():
        return np.zeros(len(end))
    above = (1 + x) * a2 / (2 * x * x) * passed / np.square(np.abs(1 - x * end[:, None]))
    return np.asarray(np.where(passed > 0, above, 0.0).sum(axis=-1))
