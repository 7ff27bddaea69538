"""Gaussian noise: from the operating system's entropy, or from a seed for experiments."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = [
    "GaussianSource",
    "SeededGaussian",
    "SimulatedGaussian",
    "SystemGaussian",
    "gaussian_source",
]

Array = NDArray[np.float64]


class GaussianSource(Protocol):
    """Anything that draws independent standard normals."""

    private: bool

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        ...


class SystemGaussian:
    """Standard normals from `os.urandom` by the inverse CDF. There is no state to share in a fork.

    One bit is the sign and 63 bits are the lower tail. Small tail probabilities keep full relative
    precision, so draws reach beyond nine standard deviations.
    """

    private = True

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        count = int(np.prod(shape))
        bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64  # in (0, 1/2]
        sign = 1.0 - 2.0 * (bits & np.uint64(1)).astype(np.float64)
        draws: Array = sign * ndtri(tail)
        return draws.reshape(shape)


class SeededGaussian:
    """Reproducible standard normals; each request of a model has its own `stream`."""

    private = False

    def __init__(self, seed: int, stream: int) -> None:
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        return self._rng.standard_normal(shape)


class SimulatedGaussian:
    """Fast standard normals for simulations, not for privacy."""

    private = False

    def __init__(self, seed: tuple[int, ...]) -> None:
        self._rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""
        return self._rng.standard_normal(shape)


def gaussian_source(random_state: int | None, stream: int) -> GaussianSource:
    """Noise for learning (stream 0) or for the stream-th request; private without a seed."""
    return SystemGaussian() if random_state is None else SeededGaussian(int(random_state), stream)
