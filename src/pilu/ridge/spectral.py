"""The chain in the eigenbasis: any number of steps at once, equal in law to taking them.

A step on A = X'X + alpha I = V diag(a) V' maps each coordinate of V'theta by 1 - eta a and adds
eta V'B and noise. After k steps with noise sigma:

    theta -> decay_k theta + drift_k V'B + N(0, sigma^2 spread_k)
    decay_k  = (1 - eta a)^k
    drift_k  = eta sum_{j<k} (1 - eta a)^j     = (1 - (1 - eta a)^k) / a
    spread_k = 2 eta sum_{j<k} (1 - eta a)^2j  = 2 (1 - (1 - eta a)^2k) / (a (2 - eta a))

[PILU, Lemma mu-v-explicit], with 0 < eta a < 2 and the limits at a = 0. For a > 0, k may be
infinite: 0, 1/a and 2 / (a (2 - eta a)), the stationary law.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from pilu._checks import check_memory
from pilu.chains.chain import langevin_steps
from pilu.chains.problem import GaussianSource
from pilu.chains.schedule import Segment

Array = NDArray[np.float64]

_MATRICES = 8  # p x p, held at a time when an eigenbasis is replaced (measured)
_BLOCK = 256  # powers that are kept


def check_room(n_columns: int) -> None:
    """Refuse too many columns for this machine's memory, before the rows are read."""
    check_memory(
        _MATRICES * 8 * n_columns**2,
        f"X must have fewer columns, got {n_columns:,}: their eigenbasis",
        "Reduce the columns by a map that does not depend on the rows (docs/sizes.md).",
    )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A = basis (diag(eigenvalues) - removed' removed) basis' + alpha (I - basis basis'), and X'Y.

    With fewer rows than columns the basis spans the row space only; on its complement A is alpha.
    `removed` holds the coordinates of rows removed since the basis was computed. While they are
    few, this correction is cheaper than a new basis.
    """

    eigenvalues: Array
    basis: Array
    cross: Array
    alpha: float
    seconds: float = 0.0  # time to compute it, the main cost of a redraw
    target_norm: float = math.inf  # at least |Y|
    removed: Array | None = None

    @classmethod
    def of_statistics(cls, gram: Array, cross: Array, alpha: float) -> "Spectrum":
        """From X'X and X'Y: one symmetric eigenproblem."""
        started = time.perf_counter()
        # NumPy's eigh uses the BLAS of the products. SciPy's would start the threads of another.
        # X'X has no negative eigenvalue: values below zero are rounding.
        values, basis = np.linalg.eigh(gram)
        values, cross = alpha + np.maximum(values, 0.0), basis.T @ cross
        return cls(values, basis, cross, alpha, time.perf_counter() - started)

    @classmethod
    def of_rows(cls, X: Array, Y: Array, alpha: float) -> "Spectrum":
        """From the rows, for fewer rows than columns: one thin SVD."""
        started = time.perf_counter()
        left, singular, right = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
        cross = singular[:, None] * (left.T @ Y)
        values, basis = alpha + singular**2, np.ascontiguousarray(right.T)
        seconds = time.perf_counter() - started
        return cls(values, basis, cross, alpha, seconds, target_norm=float(np.linalg.norm(Y)))

    @property
    def is_diagonal(self) -> bool:
        """Whether the basis is an eigenbasis of A, without a correction."""
        return self.removed is None

    def without(self, X: Array, Y: Array) -> "Spectrum":
        """The same basis without some rows, whose coordinates are kept as a correction."""
        Z = X @ self.basis
        removed = Z if self.removed is None else np.vstack([self.removed, Z])
        return replace(self, cross=self.cross - Z.T @ Y, removed=removed)

    def times(self, M: Array) -> Array:
        """A M, within the basis, for a vector or a matrix."""
        product = (self.eigenvalues if M.ndim == 1 else self.eigenvalues[:, None]) * M
        if self.removed is not None:
            product -= self.removed.T @ (self.removed @ M)
        return product

    def matrix(self) -> Array:
        """A itself, within the basis."""
        matrix = np.diag(self.eigenvalues)
        if self.removed is not None:
            matrix -= self.removed.T @ self.removed
        return matrix

    @property
    def n_parameters(self) -> int:
        """Rows of theta, p."""
        return len(self.basis)

    @property
    def has_complement(self) -> bool:
        """Whether there are directions outside the basis; A is alpha on them."""
        return bool(self.basis.shape[1] < self.basis.shape[0])

    @property
    def largest(self) -> float:
        """Largest eigenvalue of A."""
        return float(np.max(self.eigenvalues))


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


def _one_minus_power(a: Array, step_size: float, k: Array) -> Array:
    # 1 - (1 - eta a)^k without cancellation for small eta a; 1 - eta a may be zero or negative.
    t = step_size * np.asarray(a, dtype=np.float64)
    small = t < 0.5
    with np.errstate(under="ignore"):
        gentle = -np.expm1(k * np.log1p(-np.where(small, t, 0.25)))  # unused where not small
        steep = 1.0 - np.power(np.where(small, 0.0, 1.0 - t), k)
    return np.where(small, gentle, steep)


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
    k = segment.steps or np.inf  # no steps stand for stationarity
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


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A, or A' = A - X_f'X_f, on a space that contains X_f', in its own eigenvectors."""

    values: Array
    vectors: Array | None  # within the space; None is the identity
    rows: Array  # X_f' in the eigenvectors, m x R
    step_size: float

    @cached_property
    def powers(self) -> Powers:
        """Of 1 - eta A."""
        return Powers.of(self.values, self.step_size)

    def see(self, points: Array) -> Array:
        """Points of the space, one per row, in the eigenvectors."""
        return points if self.vectors is None else points @ self.vectors

    def last(self, width: int) -> Array:
        """E_last' in the eigenvectors: the last dimensions of the space."""
        assert self.vectors is not None
        return self.vectors[len(self.values) - width :]

    def leaks(self, coupling: Array, count: int) -> Array:
        """|B E_last' (1 - eta A)^i X_f'|_F for i < count and a coupling B."""
        return self.powers.norms(coupling @ self.last(coupling.shape[1]), self.rows, count)

    def reach(self, count: int) -> Array:
        """|(1 - eta A)^i X_f'|_F for i < count."""
        energies = np.sum(np.square(self.rows), axis=1, keepdims=True)
        return np.asarray(np.sqrt(self.powers.squared().series(energies, count)[0]))


@dataclass(frozen=True, eq=False)
class RequestSpace:
    """A and A' = A - X_f'X_f on a space that contains X_f'.

    The space is a Krylov space of X_f', with A = T and A' = T' = T - R_1 R_1', or the row space.
    """

    basis: Array | None  # Q, in the coordinates of the spectrum; None is the identity
    own: Diagonal  # A
    retained: Diagonal  # A'

    @classmethod
    def whole(cls, spectrum: Spectrum, step_size: float, Z: Array) -> "RequestSpace":
        """The row space, for rows with coordinates Z: exact up to rounding, O(p^3)."""
        full, own = spectrum.matrix(), Diagonal(spectrum.eigenvalues, None, Z.T, step_size)

        def diagonal(matrix: Array) -> Diagonal:
            # Divide and conquer: other drivers' vectors are less orthogonal than `step_error`
            # allows. X'X has no negative eigenvalue.
            values, vectors = scipy.linalg.eigh(matrix, check_finite=False, driver="evd")
            return Diagonal(np.maximum(values, spectrum.alpha), vectors, vectors.T @ Z.T, step_size)

        return cls(None, own if spectrum.is_diagonal else diagonal(full), diagonal(full - Z.T @ Z))

    @cached_property
    def turn(self) -> Array:
        """From the eigenvectors of A' to those of A."""
        own, retained = self.own.vectors, self.retained.vectors
        assert retained is not None
        return retained if own is None else own.T @ retained

    def see(self, points: Array) -> tuple[Array, Array]:
        """Points of the row space, one per row, in the eigenvectors of A and in those of A'."""
        inside = points if self.basis is None else points @ self.basis
        return self.own.see(inside), self.retained.see(inside)
