"""Predictions of a chain that loses rows on the way, by dense steps and by simulation.

A run is a list of (rows, steps, noise): each phase takes its steps on the rows it lists. Nothing
here is in an eigenbasis or in closed form.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

Array = NDArray[np.float64]
Phases = list[tuple[list[int], int, float]]


def law_of_run(
    X: Array, Y: Array, alpha: float, step_size: float, phases: Phases, start: Array
) -> tuple[Array, Array]:
    """Mean (p x d) and covariance (p x p) at the end of a run, one step after the other."""
    p = X.shape[1]
    mean, covariance = start.copy(), np.zeros((p, p))
    for rows, steps, noise in phases:
        A = X[rows].T @ X[rows] + alpha * np.eye(p)
        M, B = np.eye(p) - step_size * A, X[rows].T @ Y[rows]
        for _ in range(steps):
            mean = M @ mean + step_size * B
            covariance = M @ covariance @ M + 2 * step_size * noise**2 * np.eye(p)
    return mean, covariance


def simulated_runs(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    phases: Phases,
    runs: int,
    rng: np.random.Generator,
) -> Array:
    """Parameters (runs x p x d) of independent runs from zero, by gradient steps on the rows."""
    theta = np.zeros((runs, X.shape[1], Y.shape[1]))
    for rows, steps, noise in phases:
        for _ in range(steps):
            gradient = X[rows].T @ (X[rows] @ theta - Y[rows]) + alpha * theta
            shock = math.sqrt(2 * step_size) * noise * rng.standard_normal(theta.shape)
            theta = theta - step_size * gradient + shock
    return theta


def rmse_of_law(mean: Array, covariance: Array, points: Array, targets: Array) -> float:
    """Root of the expected mean squared error."""
    total = 0.0
    for v, y in zip(points, targets, strict=True):
        total += float(np.sum((v @ mean - y) ** 2) + len(y) * (v @ covariance @ v))
    return math.sqrt(total / targets.size)


def accuracy_of_law(mean: Array, covariance: Array, points: Array, labels: list[int]) -> float:
    """Expected accuracy: one adaptive integral for every point."""
    return float(
        np.mean(
            [
                chance_of_label(v @ mean, math.sqrt(v @ covariance @ v), label)
                for v, label in zip(points, labels, strict=True)
            ]
        )
    )


def chance_of_label(scores: Array, sd: float, label: int) -> float:
    """P(label has the largest of the scores), each with its own noise of deviation sd."""
    if label < 0:
        return 0.0
    others = np.delete(scores, label)

    def density(score: float) -> float:
        below = np.prod(ndtr((score - others) / sd))
        z = (score - scores[label]) / sd
        return float(below) * math.exp(-z * z / 2) / (sd * math.sqrt(2 * math.pi))

    low, high = scores[label] - 12 * sd, scores[label] + 12 * sd
    inside = [s for s in others if low < s < high]
    value, _ = quad(density, low, high, points=inside or None, limit=400, epsabs=1e-12)
    return float(value)
