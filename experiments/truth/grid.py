"""Laws of one parameter: noisy steps on a grid, and functions of one normal variable."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from experiments.truth.laws import Array, Bins

CELLS = 1000
_REACH = 8.5  # deviations of a step's noise; 2e-17 of it is beyond
_TAIL = 1e-17
_MARGIN, _FILLED = 0.1, 0.8  # a new grid is that much wider, and is kept while that much is in use


@dataclass(frozen=True, eq=False)
class Phase:
    """Steps theta -> step(theta) + deviation N(0, 1), then projected to [-radius, radius].

    `step` increases, as gradient steps of size 1/L do.
    """

    step: Callable[[Array], Array]
    deviation: float
    count: int
    radius: float = math.inf


def steps_on_line(
    first: Sequence[Phase], second: Sequence[Phase], cells: int = CELLS
) -> tuple[Bins, Bins]:
    """Two laws of noisy steps from zero, each by its phases, which follow one another.

    Both end with the same step. They share a grid that is as wide as they are just then, because
    the noise of learning and that of forgetting may be many orders of magnitude apart.
    """
    fine, coarse = (_propagated((first, second), n) for n in (cells, cells // 2))
    return Bins(fine[0], coarse[0]), Bins(fine[1], coarse[1])


def _propagated(laws: Sequence[Sequence[Phase]], cells: int) -> list[Array]:
    steps = [[phase for phase in law for _ in range(phase.count)] for law in laws]
    longest = max(map(len, steps))
    grid, kernels = np.zeros(1), {}
    states, masses = [grid, grid], [np.ones(1), np.ones(1)]
    for k in range(-longest, 0):
        moving = [(j, law[k]) for j, law in enumerate(steps) if -k <= len(law)]
        low, high = _range([(phase, states[j], masses[j]) for j, phase in moving])
        kept = grid[0] <= low and high <= grid[-1] and high - low >= _FILLED * (grid[-1] - grid[0])
        if not kept:
            grid, kernels = _grid(low, high, min(phase.radius for _, phase in moving), cells), {}
        for j, phase in moving:
            key = phase, id(states[j])
            if key not in kernels:
                kernels[key] = _kernel(phase, states[j], grid)
            masses[j] = kernels[key] @ masses[j]
        for j, _ in moving:
            states[j] = grid
    return masses


def _range(moves: Sequence[tuple[Phase, Array, Array]]) -> tuple[float, float]:
    """Where the laws are after their steps, but for a share of _TAIL."""
    lows, highs = [], []
    for phase, states, masses in moves:
        there = np.flatnonzero(
            (np.cumsum(masses) > _TAIL) & (np.cumsum(masses[::-1])[::-1] > _TAIL)
        )
        ends = phase.step(states[there[[0, -1]]]) + np.array([-1, 1]) * _REACH * phase.deviation
        low, high = np.clip(ends, -phase.radius, phase.radius)
        lows.append(low)
        highs.append(high)
    return min(lows), max(highs)


def _grid(low: float, high: float, radius: float, cells: int) -> Array:
    more = _MARGIN / 2 * (high - low)
    return np.linspace(max(low - more, -radius), min(high + more, radius), cells + 1)


def _kernel(phase: Phase, states: Array, grid: Array) -> Array:
    """Column j: how a step from state j is shared by the grid. Its ends take what is beyond."""
    means, width, deviation = phase.step(states), grid[1] - grid[0], phase.deviation
    if deviation >= width:
        middles = (grid[1:] + grid[:-1]) / 2
        return interval_masses((middles[:, None] - means) / deviation)
    # Noise inside a cell is shared by the two nearest states so that its mean is right. Up to state
    # i that is the mean of (grid_{i+1} - theta) / width, cut to [0, 1].
    away = grid[:, None] - means
    beyond = deviation * _overshoot(away / max(deviation, 1e-300))
    shares = np.clip(away[1:] / width, 0, 1) + np.diff(beyond, axis=0) / width
    ends = np.ones((1, len(means)))
    return np.maximum(np.diff(np.concatenate([0 * ends, shares, ends]), axis=0), 0.0)


def _overshoot(z: Array) -> Array:
    """E (N(0, 1) - |z|)_+"""
    z = np.minimum(np.abs(z), 40.0)
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z)


def interval_masses(z: Array) -> Array:
    """Normal probabilities of (-inf, z_0], (z_0, z_1], ..., (z_m, inf), exact in both tails."""
    ends = np.full((1, *z.shape[1:]), np.inf)
    low, high = np.concatenate([-ends, z]), np.concatenate([z, ends])
    right = low > 0  # in the right tail the upper tails are the exact ones
    return np.where(right, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def of_normal(
    P: Callable[[Array], Array], Q: Callable[[Array], Array], edges: Array
) -> tuple[Bins, Bins]:
    """Two laws by their increasing maps t -> z, with law(theta <= t) = Phi(z(t))."""
    laws = []
    for law in (P, Q):
        fine, coarse = (interval_masses(law(points)) for points in (edges, edges[::2]))
        laws.append(Bins(fine, coarse))
    return laws[0], laws[1]
