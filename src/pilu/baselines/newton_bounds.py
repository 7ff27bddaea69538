"""Bounds on the gradient that T steps on perturbed ridge leave, and the resulting epsilon."""

import math

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_probability, check_real
from pilu.baselines.interface import Task
from pilu.ridge.spectral import decay, drift

__all__ = ["certified_epsilon", "residual_bound"]

Array = NDArray[np.float64]

_UP = 1 + 1e-9


def certified_epsilon(task: Task, sigma: float) -> float:
    """epsilon at delta of T steps and a Newton step, against the retained minimiser.

    The same for every request.
    """
    spectrum = task.need_closed_forms("the bound of the Newton step").spectrum
    eta, T, d = task.step_size, task.n_steps, task.Y.shape[1]
    # Eigenvalues are taken as small as their rounding allows, which means less learning. The
    # rounding of the residual is a shift too, of a few eps |X| |Y| p at most.
    rounding = task.eigenvalue_rounding
    a = np.maximum(spectrum.eigenvalues - rounding * spectrum.largest, task.alpha)
    q, moved = decay(a, eta, T), np.minimum(a * drift(a, eta, T), 1.0)
    floor = rounding * float(np.linalg.norm(task.X) * np.linalg.norm(task.Y))
    pull = (np.linalg.norm(spectrum.cross, axis=1) + floor) / sigma
    if not (moved > 0).all():  # a direction that has not moved distinguishes the runs
        return math.inf
    shift = q * pull + floor / sigma
    mean = float(np.sum(np.square(shift))) / 2 + d * float(np.sum(_shrinkage(q, moved)))
    variance = float(np.sum(np.square(moved * q * pull + floor / sigma)))
    variance += d / 2 * float(np.sum(np.square(q * (1 + moved))))
    return float((mean + math.sqrt(2 * math.log(1 / task.delta) * variance)) * _UP)


def _shrinkage(q: Array, moved: Array) -> Array:
    """-log(1 - q) - q + q^2/2, where `moved` is 1 - q; q^2 (1 + q/3 + ...) for small q."""
    small = q < 1e-3
    series = np.square(q) * (1 + q / 3 + np.square(q))  # the terms left out are below q^4
    return np.where(small, series, -np.log(moved) - q + np.square(q) / 2)


def residual_bound(task: Task, sigma: float, tail: float) -> float:
    """The paper's bound on the residual after T steps, which fails with probability `tail`.

    L (1 - eta m)^T (|X'Y| + sigma (sqrt(pd) + sqrt(2 log(1/tail)))) / m with m = alpha. The factor
    L / m is not needed: |r| = |M^T (B - b)| has the rest as a bound.
    """
    check_probability("tail", tail)
    task.check_short_steps("the paper's bound")
    check_real("alpha", task.alpha, above=0.0)
    cross = task.need_closed_forms("the paper's bound").cross
    contracted = float(decay(np.array(task.alpha), task.step_size, task.n_steps))
    # |b| <= sigma (sqrt(pd) + sqrt(2 log(1/tail))) except with probability `tail`
    b = sigma * (math.sqrt(math.prod(task.shape)) + math.sqrt(2 * math.log(1 / tail))) * _UP
    total = float(np.linalg.norm(cross)) + b
    return float(task.largest * contracted * total / task.alpha * _UP)
