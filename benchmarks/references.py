"""What pilu is measured against: BLAS and LAPACK as the limit, and the paper's Algorithm 1."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from benchmarks.stopwatch import Stopwatch

Array = NDArray[np.float64]

ALPHA, NOISE = 1e-4, 0.01  # the defaults of LangevinRidge


def gram(X: Array) -> Array:
    """X'X: half the work of a general product, as BLAS knows."""
    product: Array = X.T @ X
    return product


def eigen(G: Array) -> Array:
    """All eigenvectors of a symmetric matrix, by NumPy's LAPACK."""
    return np.linalg.eigh(G)[1]


def eigen_by_scipy(G: Array) -> Array:
    """The same by SciPy's LAPACK, which may be another build."""
    vectors: Array = scipy.linalg.eigh(G, driver="evd", check_finite=False)[1]
    return vectors


def time_eigh(watch: Stopwatch, G: Array) -> Array:
    """The eigenvectors; "eigh" keeps the faster of the two, so that no build flatters pilu."""
    V = watch.time("eigh by NumPy", eigen, G)
    watch.time("eigh by SciPy", eigen_by_scipy, G)
    both = (watch.times["eigh by NumPy"][-1], watch.times["eigh by SciPy"][-1])
    watch.keep("eigh", min(both))
    return V


def rotate(X: Array, V: Array) -> Array:
    """X V, the rows in the eigenbasis."""
    product: Array = X @ V
    return product


def squared_lengths(X: Array, V: Array, weights: Array) -> Array:
    """(X V)^2 times weights: the leverages of all rows, if V and weights are of a spectrum."""
    lengths: Array = (X @ V) ** 2 @ weights
    return lengths


def products(Z: Array, profiles: list[Array]) -> None:
    """One n x p x T product for each profile."""
    for profile in profiles:
        Z @ profile


def make_profiles(p: int, T: int, count: int) -> list[Array]:
    """Ordinary p x T numbers for `products`: no zeros, no denormals, whose cost would differ."""
    rng = np.random.default_rng(1)
    return [1.0 + rng.random((p, T)) for _ in range(count)]


def algorithm_1(X: Array, Y: Array, step_size: float, steps: int) -> Array:
    """Algorithm 1 as the paper states it: full-gradient Langevin steps on the rows.

    theta <- theta - eta grad f(theta) + sqrt(2 eta) sigma xi
    Learning and unlearning steps cost the same, so T + K of them are one run.
    """
    return _langevin(((X, Y) for _ in range(steps)), X.shape[1], Y.shape[1], step_size)


def algorithm_1_on_batches(
    X: Array, Y: Array, batch_size: int, step_size: float, steps: int
) -> Array:
    """The same on mini-batches in their fixed order."""
    batches = ((X[s], Y[s]) for s in _slices(len(X), batch_size, range(steps)))
    return _langevin(batches, X.shape[1], Y.shape[1], step_size)


def _langevin(data: Iterable[tuple[Array, Array]], p: int, d: int, step_size: float) -> Array:
    theta, rng = np.zeros((p, d)), np.random.default_rng(2)
    for x, y in data:
        gradient = x.T @ (x @ theta - y) + ALPHA * theta
        theta = theta - step_size * gradient
        theta += math.sqrt(2 * step_size) * NOISE * rng.standard_normal(theta.shape)
    return theta


def smoothness(X: Array, batch_size: int) -> float:
    """The largest eigenvalue of any batch, by X_t X_t' of its rows."""
    batches = (X[start : start + batch_size] for start in range(0, len(X), batch_size))
    return max(float(np.linalg.eigvalsh(x @ x.T)[-1]) for x in batches)


def walk_back(X: Array, points: Array, batch_size: int, step_size: float, steps: int) -> Array:
    """|a|^2 of points (p x R) at every step, last to first: a <- a - eta (X_t'X_t + alpha) a."""
    a, lengths = points, np.empty((steps, points.shape[1]))
    for k, s in enumerate(_slices(len(X), batch_size, reversed(range(steps)))):
        x = X[s]
        lengths[k] = np.einsum("ij,ij->j", a, a)
        a = a - step_size * (x.T @ (x @ a) + ALPHA * a)
    return lengths


def products_back(X: Array, points: Array, batch_size: int, steps: int) -> None:
    """The products of `walk_back` alone: X_t'(X_t a)."""
    for s in _slices(len(X), batch_size, reversed(range(steps))):
        x = X[s]
        x.T @ (x @ points)


def _slices(n: int, batch_size: int, steps: Iterable[int]) -> Iterator[slice]:
    """The rows of the batch that has its turn at each step."""
    n_batches = -(-n // batch_size)
    for k in steps:
        first = k % n_batches * batch_size
        yield slice(first, first + batch_size)


def wake() -> None:
    """Start the BLAS threads and load LAPACK, so that no first timing pays for it."""
    G = gram(np.random.default_rng(3).standard_normal((400, 200)))
    eigen(G)
    eigen_by_scipy(G)
