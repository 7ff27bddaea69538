"""The hockey-stick divergence between two Gaussians, exactly.

Whitened by Q's covariance, P differs from Q = N(0, I) in directions l, each repeated `counts_l`
times, by a variance 1 + x_l and a squared mean shift a_l^2 (summed over the repetitions). With
l = log dP/dQ, the cumulant under Q and the divergence are

    log M(s) = sum_l s(s-1) a^2 / (2 D) - (count/2) (log D + (s-1) log(1+x)),   D = 1 + (1-s) x
    delta(eps) = E_Q (e^l - e^eps)_+
               = (1/2 pi i) int_{Re s = c} M(s) e^{-eps (s-1)} / (s (s-1)) ds,
    1 < c < s_max = min_{x>0} (1+x)/x.

The integrand is positive and log-convex on the real axis and c is its minimum, so nothing
cancels. From there the path bends, s = c + b (i sinh tau + kappa (cosh tau - 1)), towards the side
on which the integrand dies out: far away it behaves like e^{-omega s} times a power of s, with

    omega = eps + sum_l a^2 / (2x) + (count/2) log(1+x),

and stays under 45 degrees from the vertical, where e^{s^2 a^2 / 2} dies out too. (Excesses of
very different size may want the other side, or none: all are tried.) Trapezoidal sums in tau then
converge exponentially in the step. `pilu.accounting.quadrature` bounds what they miss, and rounding
is charged by `pilu.accounting.cumulants`: both are proved (docs/margins.md). The result never
exceeds the guard, which needs no quadrature:

    delta <= M(s) e^{-eps (s-1)} (s-1)^(s-1) / s^s      for every real s in the strip.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pilu._checks import as_numbers, check_real, complaint
from pilu.accounting.cumulants import (
    Array,
    bend,
    cumulant,
    curvature,
    delta_from_log,
    largest_loss,
    log_guard,
    magnitude,
    rounding,
    slope,
)
from pilu.accounting.quadrature import CELL, Path, Remainder
from pilu.exceptions import BeyondPrecision

_STEPS = (0.04, 0.02, 0.01)  # in tau, tried in this order
_MAX_NODES = 5760
_BATCH = 96
_CONVERGED = 1e-9  # relative error at which no finer step is tried
_CUT = 1e-16  # relative size of the terms of a cell with which the sum may end
HOPELESS = 1e-6  # relative error beyond which nothing is answered
_LEAST_SIZE = 1e-60  # of the largest excess or squared shift that is evaluated unscaled
LEAST_GAP = 1e-12  # of the saddle from s = 1
_TOO_WIDE = (
    "one law is wider than the other beyond what can be resolved. More noise brings them together."
)
LARGEST_EXCESS = 1e8  # the strip next to s = 1 is then still wide against an ulp
_LEAST_LOG = -750.0  # log of less than any double
GROWN = 3.0  # log of the growth over the peak at which a path is given up


@dataclass(frozen=True, eq=False)
class GaussianPair:
    """Two Gaussians P and Q, reduced to what decides how well they can be distinguished.

    Parameters
    ----------
    excesses : array, > -1
        x: variance of P over that of Q, minus one, in each direction.
    squared_shifts : array, >= 0
        a^2: squared distance of the means in each direction, in units of Q's deviation.
    counts : array of int, >= 1, or int
        How many coordinates share the direction's excess (the number of outputs d, say).

    Examples
    --------
    Equal covariances are the Gaussian mechanism with mu = 1:

    >>> pair = GaussianPair([0.0], [1.0], 1)
    >>> round(pair.delta(1.0), 6)
    0.126937
    """

    excesses: Array
    squared_shifts: Array
    counts: Array

    def __post_init__(self) -> None:
        x = np.atleast_1d(_numbers("excesses", self.excesses))
        a2 = np.atleast_1d(_numbers("squared_shifts", self.squared_shifts))
        if x.ndim != 1 or a2.shape != x.shape or not np.isfinite(x).all() or not (x > -1).all():
            raise complaint("excesses", "finite numbers > -1, one for each shift", self.excesses)
        if not (np.isfinite(a2) & (a2 >= 0)).all():
            raise complaint("squared_shifts", "finite numbers >= 0", self.squared_shifts)
        counts = np.broadcast_to(_numbers("counts", self.counts), x.shape).copy()
        if not ((counts >= 1) & (counts == np.floor(counts))).all():
            raise complaint("counts", "integers >= 1", self.counts)
        for name, value in (("excesses", x), ("squared_shifts", a2), ("counts", counts)):
            object.__setattr__(self, name, value)

    @classmethod
    def _of_checked(cls, excesses: Array, squared_shifts: Array, counts: Array) -> "GaussianPair":
        pair = object.__new__(cls)
        pair.__dict__.update(excesses=excesses, squared_shifts=squared_shifts, counts=counts)
        return pair

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are the same."""
        return not (self.excesses.any() or self.squared_shifts.any())

    def reversed(self) -> "GaussianPair":
        """The pair with the roles of P and Q exchanged."""
        variances = 1 + self.excesses
        excesses = -self.excesses / variances
        if not float(np.min(excesses)) > -1:
            raise BeyondPrecision(_TOO_WIDE)
        return self._of_checked(excesses, self.squared_shifts / variances, self.counts)

    def without_dust(self) -> "GaussianPair":
        """The pair with directions of rounding size left out: for searching, not for certifying."""
        x, a2 = np.abs(self.excesses), self.squared_shifts
        seen = (x > 1e-13 * x.max()) | (a2 > 1e-13 * a2.sum())
        if seen.all() or not seen.any():
            return self
        return self._of_checked(self.excesses[seen], a2[seen], self.counts[seen])

    def merged(self, limit: int) -> "GaussianPair":
        """At most `limit` directions (if the signs allow) that are never safer than these.

        Less noise in a direction, on both sides, multiplies its x and a^2 alike and cannot make
        the laws harder to distinguish. So directions of one sign may be brought to the largest of
        their excesses; equal excesses then count as one direction, whose shifts add up.
        """
        columns = (self.excesses, self.squared_shifts, self.counts)
        groups = sorted(zip(*(column.tolist() for column in columns), strict=True))
        if len(groups) <= limit:
            return self
        while len(groups) > limit:
            costs = [_merge_cost(one, two) for one, two in itertools.pairwise(groups)]
            best = min(range(len(costs)), key=costs.__getitem__)
            if math.isinf(costs[best]):
                break
            groups[best : best + 2] = [_merge(groups[best], groups[best + 1])]
        x, a2, counts = (np.array(part) for part in zip(*groups, strict=True))
        return GaussianPair(x, a2, counts)

    def delta(self, epsilon: float) -> float:
        """delta(epsilon) of P against Q, rounded up: P(S) <= e^eps Q(S) + delta for all S.

        Raises
        ------
        ArithmeticError
            Where the quadrature does not converge and the guard is no answer either.
        """
        return delta_from_log(self.log_delta(check_real("epsilon", epsilon, least=0.0)))

    def log_delta(self, epsilon: float, enough: float = -math.inf, *, proved: bool = True) -> float:
        """log delta(epsilon), rounded up; -inf where the divergence is zero.

        Where the guard alone is below `enough`, it is the answer: cheaper, and an upper bound too.
        Without proof the error of the quadrature is only estimated: to search with.
        """
        if self.is_trivial:
            return -math.inf
        if float(np.max(self.excesses)) > LARGEST_EXCESS:
            raise BeyondPrecision(_TOO_WIDE)
        size = max(float(np.max(np.abs(self.excesses))), float(np.max(self.squared_shifts)))
        if size < _LEAST_SIZE:
            # The saddle would leave the doubles. Less noise multiplies x and a^2 alike and is
            # never safer (`merged`): answer for the wider pair.
            factor = 2 * _LEAST_SIZE / size
            x, a2 = self.excesses * factor, self.squared_shifts * factor
            return GaussianPair(x, a2, self.counts).log_delta(epsilon, enough, proved=proved)
        if epsilon >= largest_loss(*self._parts):
            return -math.inf
        gap = self._saddle(epsilon)
        if gap < LEAST_GAP:
            return 0.0  # so far apart that delta is 1 but for rounding
        parts, s = self._parts, 1 + gap
        log_m = float(cumulant(*parts, np.array([s]), np.array([gap]))[0])
        size = float(magnitude(*parts, s, gap))
        slack = float(rounding(size, epsilon * gap, len(self.excesses)))
        peak = log_m - epsilon * gap - math.log(s) - math.log(gap)
        guard = float(log_guard(log_m, s, gap, epsilon)) + slack
        if guard < max(enough, _LEAST_LOG):
            return guard
        total, error = 0.0, math.inf
        for kappa, step in itertools.product(self._bends(epsilon), _STEPS):
            value, inaccuracy = self._quadrature(gap, epsilon, peak, step, kappa, proved)
            if value > 0 and inaccuracy < error:
                total, error = value, inaccuracy
            if error <= _CONVERGED * total:
                break
        if total > 0 and error <= HOPELESS * total:
            return min(peak + math.log(total + error) + slack, guard, 0.0)
        raise ArithmeticError(
            f"the divergence at epsilon={epsilon!r} could not be evaluated to {HOPELESS:g}; it is "
            f"at most {math.exp(min(guard, 0.0)):.3g}. Please report this."
        )

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.excesses, self.squared_shifts, self.counts / 2

    def _slope(self, gap: float, epsilon: float) -> float:
        """Derivative of the log integrand on the real axis: increasing, by convexity."""
        with np.errstate(all="ignore"):
            rise = float(slope(*self._parts, 1 + gap, gap))
        rise -= epsilon + 1 / (1 + gap) + 1 / gap
        return math.inf if math.isnan(rise) else rise  # beyond the doubles: too far

    def _saddle(self, epsilon: float) -> float:
        """c - 1 for a point c of the strip near the minimum of the integrand.

        Any c in the strip is right; near the minimum the sum is short and nothing cancels.
        """
        positive = self.excesses[self.excesses > 0]
        end = float(np.min(1 / positive)) if len(positive) else math.inf  # s_max - 1

        def rises(gap: float) -> bool:
            return gap >= end or self._slope(gap, epsilon) >= 0

        guess = min(self._gaussian_saddle(epsilon), end / 2)
        low, high = guess / 1.02, guess * 1.02
        if not rises(low) and rises(high):
            return guess
        while not rises(high) and high < 1e250:
            low, high = high, 8 * high
        while rises(low) and low > 1e-250:
            low, high = low / 8, low
        high = min(high, end)
        for _ in range(60):
            middle = math.sqrt(low) * math.sqrt(high) if high > 4 * low else (low + high) / 2
            if rises(middle):
                high = middle
            else:
                low = middle
            if high - low < 0.05 * min(low, end - low):
                break
        return low if high >= end else (low + high) / 2

    def _gaussian_saddle(self, epsilon: float) -> float:
        """s - 1 at the minimum as if all excesses were zero: mostly close, and cheap."""
        energy = float(np.sum(self.squared_shifts))
        low, high = 1e-3, 1e3
        for _ in range(14):
            gap = math.sqrt(low * high)
            if energy * (gap + 0.5) - epsilon - 1 / (1 + gap) - 1 / gap >= 0:
                high = gap
            else:
                low = gap
        return math.sqrt(low * high)

    def _quadrature(
        self,
        gap: float,
        epsilon: float,
        peak: float,
        step: float,
        kappa: float,
        proved: bool = True,
    ) -> tuple[float, float]:
        """The integral in units of e^peak, and a bound on its error, or only an estimate."""
        bent = float(curvature(*self._parts, gap)) + 1 / (1 + gap) ** 2 + 1 / gap**2
        path = Path(np.array([gap]), np.array([1 / math.sqrt(bent)]), np.array([kappa]), step)
        unit = step * float(path.width[0]) / math.pi
        total, coarse, largest, centres, sums = 0.0, 0.0, 0.0, [], []
        for first in range(0, _MAX_NODES, _BATCH):
            tau = np.arange(first, first + _BATCH, dtype=np.float64) * step
            with np.errstate(all="ignore"):  # far out the integrand may leave the doubles
                z = path.gaps(tau)[0]
                s = 1 + z
                logs = cumulant(*self._parts, s, z) - epsilon * z - np.log(s * z) - peak
                terms = np.exp(logs) * path.speeds(tau)[0]
                if first == 0:
                    terms[0] *= 0.5
                sizes = np.abs(terms).reshape(-1, CELL).sum(axis=1)
                largest = max(largest, float(sizes[0]))
                small = np.flatnonzero(sizes <= _CUT * largest)
            used = int(small[0]) + 1 if small.size else len(sizes)
            logs = logs[: used * CELL].real
            if not (logs < GROWN).all():
                return 0.0, math.inf  # the path leads uphill, or out of the doubles
            total += float(terms.imag[: used * CELL].sum())
            coarse += float(terms.imag[: used * CELL : 2].sum())
            centres.append(logs[CELL // 2 :: CELL])
            sums.append(sizes[:used])
            if small.size:
                break
        if not proved:
            return total * unit, abs(total - 2 * coarse) * unit
        log_cells = np.concatenate(centres)[None]
        remainder = Remainder(
            self.excesses[None],
            self.squared_shifts[None],
            self.counts[None] / 2,
            path,
            np.array([log_cells.shape[1]]),
        )
        missed = remainder(
            log_cells,
            logs[-1:],
            np.concatenate(sums)[None],
            np.array([epsilon]),
            np.zeros(1, dtype=np.intp),
        )
        return total * unit, float(missed[0]) * unit

    def _bends(self, epsilon: float) -> tuple[float, ...]:
        """Values of kappa, the likely best first."""
        side = float(bend(*self._parts, epsilon))
        return side, -side, 0.0, side / 4, -side / 4


def _numbers(name: str, value: ArrayLike) -> Array:
    # Arrays of numbers, as pilu itself passes them, need no conversion that could fail.
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.astype(np.float64)
    return as_numbers(name, value)


_Group = tuple[float, float, float]


def _merge(one: _Group, two: _Group) -> _Group:
    x = max(one[0], two[0], key=abs)
    shifts = sum(a2 * (x / y if y != 0 else 1.0) for y, a2, _ in (one, two))
    return x, shifts * (1 + 1e-15), one[2] + two[2]


def _merge_cost(one: _Group, two: _Group) -> float:
    if one[0] == two[0]:
        return 0.0
    if one[0] * two[0] < 0 or any(y == 0 and a2 > 0 for y, a2, _ in (one, two)):
        return math.inf
    x, a2, count = _merge(one, two)
    return a2 - one[1] - two[1] + count * x * x - one[2] * one[0] ** 2 - two[2] * two[0] ** 2
