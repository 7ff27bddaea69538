"""How far computed leave-one-out errors can be from the true ones.

The true ones are those of the exact affine images of a table's rows. Bounds are stated in units of
the head's columns, x - mean = scale * z, where the penalty of a candidate is alpha |a|^2. With
alpha |a|^2 <= |v|_K^2 for v = (a, b), every error of a Gram matrix is relative to alpha.
docs/refit.md, "Alpha by leave-one-out", derives each line.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pilu.refit.gram import gamma, rounding_of_sums

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_BLOCK = 256
ROW = 3.1 * _UNIT  # of an entry of a standard row: scaler, centring
_SAFE = 1.05  # for products of small errors, and for the rounding of the bounds themselves


def eigen_tolerance(p: int) -> float:
    """What V diag(v) V' may be off by, relative to the trace; it is checked."""
    return 3 * (p + 16) * _UNIT


def basis_tolerance(p: int) -> float:
    """What V'V may be off by; it is checked, and the check itself is known to half of this."""
    return 4 * (p + 8) * p * _UNIT


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes of weighted rows, in units of the head's columns, rounded up."""

    n: int
    p: int
    weight: float  # W, the sum of weights
    roots: Array = field(repr=False)  # sqrt(w_i)
    lengths: Array = field(repr=False)  # sqrt(w_i) |scale * z_i|
    shift: float  # what a scaler leaves of the means, |shift|; 0 if there is no scaler
    mean: float  # |scale * mean of z|, as computed

    @classmethod
    def of(cls, rows: Array, weights: Array, scale: Array, mean: Array, shift: float) -> "Sizes":
        """One pass over the rows; weights are n x 1."""
        n, p = len(rows), len(scale)
        squares = np.empty(n)
        for i in range(0, n, _BLOCK):
            squares[i : i + _BLOCK] = rows[i : i + _BLOCK, :p] ** 2 @ scale**2
        up = 1 + gamma(n + p + 32)
        roots = np.sqrt(weights[:, 0])
        length = float(np.linalg.norm(scale * mean)) * up
        weight = float(weights.sum()) * up
        return cls(n, p, weight, roots, roots * np.sqrt(squares) * up, shift, length)

    @property
    def length(self) -> float:
        """Root of the trace of the Gram matrix."""
        return float(np.linalg.norm(self.lengths)) * (1 + gamma(self.n + 8))

    @property
    def mean_error(self) -> float:
        """Of the mean of z: a sum over all rows, divided by W."""
        return 2 * gamma(self.n + 4) * self.length / math.sqrt(self.weight)

    @property
    def mean_bound(self) -> float:
        """Bound on |scale * mean of z|, of rounded rows and of exact ones."""
        rounded = ROW * (self.length / math.sqrt(self.weight) + self.shift)
        return self.mean + self.mean_error + rounded

    @property
    def row_error(self) -> float:
        """Norm of what rounding changes in all rows."""
        return ROW * (self.length + math.sqrt(self.weight) * self.shift)

    @property
    def row_errors(self) -> Array:
        """The same for each row."""
        return ROW * (self.lengths + self.roots * self.shift)


@dataclass(frozen=True, eq=False)
class ColdErrors:
    """Errors of `ridge_alpha.leave_one_out`, for one alpha each."""

    sizes: Sizes
    alphas: Array
    matrix: float  # of the Gram matrix and its eigendecomposition
    relative: Array  # of the root of a leverage
    per_length: Array  # of the root of a leverage, for each unit of a row's length

    @classmethod
    def of(cls, sizes: Sizes, alphas: Array) -> "ColdErrors":
        """Bounds that hold for every run of `leave_one_out` on rows of these sizes."""
        n, p, skewed = sizes.n, sizes.p, basis_tolerance(sizes.p)
        trace, weight, dz = sizes.length**2, sizes.weight, sizes.mean_error
        root = np.sqrt(alphas)
        matrix = (1.02 * rounding_of_sums(n) + 8 * _UNIT + 1.01 * eigen_tolerance(p)) * trace
        matrix += weight * dz * (2 * sizes.mean + dz)
        form = (
            matrix / alphas + skewed + 2 * math.sqrt(weight) * dz / root + weight * dz**2 / alphas
        )
        skew = 1.01 * skewed * np.sqrt(1 + 1.01 * trace / alphas)
        relative = form + gamma(n + 4) + skew + gamma(p + 16) + sizes.row_error / root
        relative = np.where(relative <= 0.01, _SAFE * relative, np.inf)
        return cls(sizes, alphas, matrix, relative, _SAFE * gamma(p + 8) * np.sqrt(p / alphas))

    def _rows(self) -> Array:
        """Lengths of centred rows."""
        return self.sizes.lengths + self.sizes.roots * self.sizes.mean_bound

    def leverages(self, h: Array) -> Array:
        """Bounds on the errors of leverages, n x alphas, whether h are computed or true ones."""
        roots = np.sqrt(np.maximum(h, 0.0))
        absolute = self._rows()[:, None] * self.per_length
        absolute += _SAFE * self.sizes.row_errors[:, None] / np.sqrt(self.alphas)
        t = 1.03 * (self.relative * roots + absolute)
        return t * (2 * roots + t)

    def sensitivities(self, computed: Array, h: Array) -> Array:
        """Upper bounds on sqrt(-alpha dh/dalpha), given computed squares and bounds on h."""
        sizes, alphas, root = self.sizes, self.alphas, np.sqrt(self.alphas)
        tol = basis_tolerance(sizes.p)
        relative = self.matrix / alphas + tol
        relative += 2.2 * sizes.row_error / root * np.sqrt(sizes.length**2 / alphas)
        rows, mean = self._rows()[:, None], sizes.roots[:, None]
        absolute = (2.1 * tol + gamma(sizes.p + 8) * math.sqrt(sizes.p)) * rows / root
        moved = sizes.mean_error + ROW * (sizes.length / math.sqrt(sizes.weight) + sizes.shift)
        absolute = absolute + (moved * mean + sizes.row_errors[:, None]) / root
        bound = np.sqrt(computed) * 1.002 + _SAFE * absolute
        return np.minimum(np.where(relative <= 1e-3, bound, np.inf), np.sqrt(np.minimum(h, 1.0)))

    def residuals(self, targets: Array, centred: Array, theta: Array) -> Array:
        """Bounds on the norm of the errors of residuals, alphas x targets.

        `targets` and `centred` are the norms of weighted targets, before and after centring;
        `theta` bounds the coefficients of the true minimisers, alphas x targets.
        """
        sizes = self.sizes
        n, p, alphas, root = sizes.n, sizes.p, self.alphas[:, None], np.sqrt(self.alphas)[:, None]
        W, dz, skewed = sizes.weight, sizes.mean_error, basis_tolerance(sizes.p)
        length = math.hypot(sizes.length, math.sqrt(W) * sizes.mean)
        rows = sizes.row_error / root * targets
        theta = 1.1 * theta + 6 * rows / root
        form = (self.matrix + skewed * alphas) * theta / (2 * root)
        form += skewed * length * (theta + 1.01 * centred / (2 * root))
        mean = (2 * math.sqrt(W) * dz / root + W * dz**2 / alphas) * centred
        mean = mean + 2 * gamma(n + 4) * length / root * targets
        cross = (5 * gamma(n + 4) + 1.1 * gamma(p + 4) * math.sqrt(p)) * length * targets
        floats = gamma(p + 16) * (math.sqrt(p) + 1) * length / root * targets
        total: Array = form + 2 * mean + cross / root + floats + 6 * rows
        total = _SAFE * (1.1 * total + 4 * gamma(n + 4) * targets)
        return np.where(np.isfinite(self.relative)[:, None], total, np.inf)
