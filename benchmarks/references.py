"""What pilu is measured against: BLAS and LAPACK as the limit, and the paper's Algorithm 1."""

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from benchmarks.stopwatch import Stopwatch

Array = NDArray[np.float64]


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
    alpha, noise = 1e-4, 0.01  # the defaults of LangevinRidge
    theta = np.zeros((X.shape[1], Y.shape[1]))
    rng = np.random.default_rng(2)
    for _ in range(steps):
        gradient = X.T @ (X @ theta - Y) + alpha * theta
        theta = theta - step_size * gradient
        theta += math.sqrt(2 * step_size) * noise * rng.standard_normal(theta.shape)
    return theta


def wake() -> None:
    """Start the BLAS threads and load LAPACK, so that no first timing pays for it."""
    G = gram(np.random.default_rng(3).standard_normal((400, 200)))
    eigen(G)
    eigen_by_scipy(G)
