"""Theorem 1 from end to end by brute force: data in, least unlearning noise out."""

import math
from collections.abc import Sequence

import numpy as np

from .dense import Array, Segments, sensitivity_bounds
from .high_precision import mu_from_epsilon_mp
from .qp import minmax_mu


def group_sum_bounds(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    step_size: float,
    segments: Segments,
    theta0: Array,
    delta_s: float,
) -> Array:
    """s_k = sum over the R rows of their bounds at tail delta_s / (R N)  [PILU, App. on groups].

    One row is a group of R = 1. All N steps of `segments` share the union bound, as in Theorem 1.
    """
    n_steps = sum(steps for steps, _ in segments)
    tail = delta_s / (len(rows) * n_steps)
    problem = (X, Y, alpha, step_size, segments, theta0, tail)
    return np.sum([sensitivity_bounds(X[i], Y[i], *problem) for i in rows], axis=0)


def dense_mu(
    s: Array, segments: Segments, sigma: float, n_unlearn_steps: int, step_size: float, m: float
) -> float:
    """Value mu of (QP): sensitivities s while learning, then unlearning with noise sigma.

    The contraction is c = 1 - eta m, m the strong convexity.
    """
    noises = [noise for steps, noise in segments for _ in range(steps)]
    variances = 2 * step_size * np.array(noises + [sigma] * n_unlearn_steps) ** 2
    all_s = np.concatenate([s, np.zeros(n_unlearn_steps)])
    return minmax_mu(all_s, variances, 1 - step_size * m)


def dense_noise(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    step_size: float,
    segments: Segments,
    theta0: Array,
    epsilon: float,
    delta: float,
    n_unlearn_steps: int,
    delta_split: float = 0.5,
    strong_convexity: float | None = None,
) -> float:
    """The least sigma_unlearn of Theorem 1(ii), to 1e-12 relative, from above.

    delta_s = delta_split * delta pays for the sensitivity bounds and delta_m = delta - delta_s for
    the mechanism: mu(sigma), the value of (QP), must not exceed mu*(epsilon, delta_m). The
    contraction is c = 1 - eta m with m = `strong_convexity`, or lambda (`alpha`) if None.
    Returns 0 if no noise is needed, inf if no noise suffices (possible only without steps).
    """
    delta_s = delta_split * delta
    s = group_sum_bounds(X, Y, rows, alpha, step_size, segments, theta0, delta_s)
    target = float(mu_from_epsilon_mp(epsilon, delta - delta_s))
    m = alpha if strong_convexity is None else strong_convexity

    def enough(sigma: float) -> bool:
        return dense_mu(s, segments, sigma, n_unlearn_steps, step_size, m) <= target

    if enough(0.0):
        return 0.0
    if n_unlearn_steps == 0:
        return math.inf
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
