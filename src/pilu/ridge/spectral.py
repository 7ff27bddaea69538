"""The chain in the eigenbasis: any number of steps at once, equal in law to taking them.

A step on A = V diag(a) V' maps each coordinate of V'theta by 1 - eta a and adds eta V'B and noise.
After k steps with noise sigma:

    theta -> decay_k theta + drift_k V'B + N(0, sigma^2 spread_k)
    decay_k  = (1 - eta a)^k
    drift_k  = eta sum_{j<k} (1 - eta a)^j     = (1 - (1 - eta a)^k) / a
    spread_k = 2 eta sum_{j<k} (1 - eta a)^2j  = 2 (1 - (1 - eta a)^2k) / (a (2 - eta a))

[PILU, Lemma mu-v-explicit], with 0 < eta a < 2 and the limits at a = 0. For a > 0, k may be
infinite: 0, 1/a and 2 / (a (2 - eta a)), the stationary law.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Segment
from pilu.chains.steps import langevin_steps
from pilu.ridge.spectrum import Spectrum

__all__ = ["Powers", "decay", "decays", "draw_after", "drift", "spread"]

Array = NDArray[np.float64]

_BLOCK = 256  # powers that are kept


def decay(a: Array, step_size: float, k: ArrayLike) -> Array:
    """(1 - eta a)^k."""
    t = step_size * np.asarray(a, dtype=np.float64)
    k = np.asarray(k, dtype=np.float64)
    small = t < 0.5
    with np.errstate(under="ignore"):
        gentle = np.exp(k * np.log1p(-np.where(small, t, 0.25)))  # unused where not small
        steep = np.power(np.where(small, 1.0, 1.0 - t), k)
    power: Array = np.where(small, gentle, steep)
    return power


def decays(a: Array, step_size: float, count: int) -> Array:
    """(1 - eta a)^k for every k < count: (len(a) x count), within 2k rounding units of each."""
    factor = 1.0 - step_size * np.asarray(a, dtype=np.float64)[:, None]
    powers = np.ones((len(factor), max(count, 1)))
    known = 1
    with np.errstate(under="ignore"):
        while known < count:  # twice as many at a time
            more = min(known, count - known)
            np.multiply(powers[:, :more], factor, out=powers[:, known : known + more])
            factor, known = factor * factor, known + more
    return powers[:, :count]


class Powers:
    """Sums over t^s, t = 1 - eta a, for many s >= 0, within 2s rounding units of each power.

    t^s for s = k B + j is (t^B)^k t^j: only a block of B powers, which stays in the cache, and the
    leap from one block to the next are kept.
    """

    def __init__(self, block: Array, leap: Array) -> None:
        self._block, self._leap = block, leap  # t^0 .. t^(_BLOCK - 1), and t^_BLOCK

    @classmethod
    def of(cls, a: Array, step_size: float) -> "Powers":
        """For t = 1 - eta a."""
        powers = decays(a, step_size, _BLOCK + 1)
        return cls(np.ascontiguousarray(powers[:, :-1]), powers[:, -1:].copy())

    def squared(self) -> "Powers":
        """The same for t^2, within twice as many units."""
        return Powers(np.square(self._block), np.square(self._leap))

    def weighted(self, series: Array) -> Array:
        """sum_s t^s series_s for every t: (m x d) from (count x d)."""
        total = np.zeros((len(self._block), series.shape[1]))
        for start in reversed(range(0, len(series), _BLOCK)):  # by Horner's rule
            part = series[start : start + _BLOCK]
            total = self._leap * total + self._block[:, : len(part)] @ part
        return total

    def series(self, columns: Array, count: int) -> Array:
        """sum over t of t^s v for every column v and s < count: (columns x count)."""
        sums, scaled = np.empty((columns.shape[1], count)), columns.T
        for start in range(0, count, _BLOCK):
            end = min(start + _BLOCK, count)
            np.matmul(scaled, self._block[:, : end - start], out=sums[:, start:end])
            scaled = scaled * self._leap[:, 0]
        return sums

    def norms(self, rows: Array, columns: Array, count: int) -> Array:
        """|rows diag(t^s) columns|_F for every s < count."""
        norms = np.empty(count)
        for start, squares in self._squares(rows, columns, count):
            norms[start : start + squares.shape[1]] = np.sqrt(squares.sum(axis=0))
        return norms

    def norm_sums(self, rows: Array, columns: Array, weights: Array) -> Array:
        """sum_s weights_s |rows diag(t^s) v| for every column v."""
        total = np.zeros(columns.shape[1])
        for start, squares in self._squares(rows, columns, len(weights)):
            total += np.sqrt(squares, out=squares) @ weights[start : start + squares.shape[1]]
        return total

    def _squares(self, rows: Array, columns: Array, count: int) -> Iterator[tuple[int, Array]]:
        """|rows diag(t^s) v|^2 by columns v and s, block after block."""
        columns = columns.T
        for start in range(0, count, _BLOCK):
            block = self._block[:, : min(_BLOCK, count - start)]
            squares = np.square((rows[0] * columns) @ block)
            for row in rows[1:]:
                squares += np.square((row * columns) @ block)
            yield start, squares
            columns = columns * self._leap[:, 0]


def drift(a: Array, step_size: float, k: ArrayLike) -> Array:
    """eta sum_{j<k} (1 - eta a)^j."""
    k = np.asarray(k, dtype=np.float64)
    a = np.asarray(a, dtype=np.float64)
    safe = np.where(a > 0, a, 1.0)
    return np.where(a > 0, _one_minus_power(safe, step_size, k) / safe, step_size * k)


def spread(a: Array, step_size: float, k: ArrayLike) -> Array:
    """2 eta sum_{j<k} (1 - eta a)^{2j}."""
    k = np.asarray(k, dtype=np.float64)
    a = np.asarray(a, dtype=np.float64)
    # (1 - eta a)^2 is the same for eta a and 2 - eta a, and the smaller of them does not cancel.
    t = np.minimum(step_size * a, 2 - step_size * a)
    safe = np.where(t > 0, t, 1.0)
    sums = 2 * step_size * _one_minus_power(safe, 1.0, 2 * k) / (safe * (2 - safe))
    return np.where(t > 0, sums, 2 * step_size * k)


def draw_after(
    theta: Array,
    spectrum: Spectrum,
    step_size: float,
    segment: Segment,
    gaussian: GaussianSource,
) -> Array:
    """One draw of theta after a segment of Langevin steps from `theta` (p x d).

    A segment at stationarity needs an eigenbasis without a correction.
    """
    V = spectrum.basis
    if spectrum.removed is not None:
        return np.asarray(V @ _stepped(V.T @ theta, spectrum, step_size, segment, gaussian))
    moved = V.T @ theta
    noise = gaussian.normal(theta.shape) if segment.noise > 0 else np.zeros(theta.shape)
    inside = V.T @ noise
    a = spectrum.eigenvalues[:, None]
    k = segment.duration
    result = V @ (
        decay(a, step_size, k) * moved
        + drift(a, step_size, k) * spectrum.cross
        + segment.noise * np.sqrt(spread(a, step_size, k)) * inside
    )
    if spectrum.has_complement:
        # Outside the row space A is alpha and B is zero.
        alpha = np.array(spectrum.alpha)
        result += decay(alpha, step_size, k) * (theta - V @ moved)
        result += segment.noise * np.sqrt(spread(alpha, step_size, k)) * (noise - V @ inside)
    return result


def _stepped(
    state: Array, spectrum: Spectrum, step_size: float, segment: Segment, gaussian: GaussianSource
) -> Array:
    # Rows taken out couple the coordinates, so the steps are taken one by one: O(p d) each. Noise
    # that is isotropic for theta is isotropic in the basis.
    def gradient(state: Array, step: int) -> Array:
        return spectrum.times(state) - spectrum.cross

    for moved in langevin_steps(state, gradient, step_size, segment, gaussian):
        state = moved
    return state


def _one_minus_power(a: Array, step_size: float, k: Array) -> Array:
    # 1 - (1 - eta a)^k without cancellation for small eta a; 1 - eta a may be zero or negative.
    t = step_size * np.asarray(a, dtype=np.float64)
    small = t < 0.5
    with np.errstate(under="ignore"):
        gentle = -np.expm1(k * np.log1p(-np.where(small, t, 0.25)))  # unused where not small
        steep = 1.0 - np.power(np.where(small, 0.0, 1.0 - t), k)
    return np.where(small, gentle, steep)
