"""What the adapters for one parameter share."""

from collections.abc import Callable

import numpy as np

from experiments.truth.laws import Array
from experiments.truth.problems import Problem


def langevin_map(problem: Problem, step_size: float) -> Callable[[Array], Array]:
    """A step without noise, for many values of the one parameter."""

    def step(theta: Array) -> Array:
        return theta - step_size * problem.gradient(theta[None, :])[0]

    return step


def perturbed_minimiser(problem: Problem, deviation: float) -> Callable[[Array], Array]:
    """z(t) with law(theta <= t) = Phi(z(t)), theta the minimiser of f + b theta, b normal.

    b = -f'(theta) decreases in theta, so theta <= t means b >= -f'(t).
    """

    def z(t: Array) -> Array:
        return problem.gradient(t[None, :])[0] / deviation

    return z


def minimisers_at(problem: Problem, z: Array, deviation: float) -> Array:
    """The t with `perturbed_minimiser`(t) = z, by bisection."""
    reach = (np.abs(problem.X).sum() * max(1.0, np.abs(problem.y).max()) / problem.alpha) + (
        np.abs(z).max() * deviation / problem.alpha
    )
    low, high = np.full(len(z), -reach), np.full(len(z), reach)
    at = perturbed_minimiser(problem, deviation)
    for _ in range(80):
        middle = (low + high) / 2
        above = at(middle) > z
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2
