"""Newton's method with the exact Hessian, for heads of up to a few thousand parameters."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pilu.refit.line_search import better_point
from pilu.refit.objective import Objective, Point
from pilu.refit.radius import distance_by_factorisation, distance_by_penalty

Array = NDArray[np.float64]
Factors = dict[int, tuple[Array, bool]]

_MOST_STEPS = 200


def newton(objective: Objective, point: Point, within: float) -> tuple[Point, float]:
    """Newton steps until the point is proved to be within a distance of the minimiser.

    Returns the last point and the proved distance, which is infinite where rounding ends progress
    first.
    """
    for _ in range(_MOST_STEPS):
        hessians = [H for _, H in objective.hessians(point, within)]
        distance = distance_by_factorisation(objective, point, hessians, within)
        if distance > within:
            distance = distance_by_penalty(objective, point, within)
        if distance <= within:
            return point, distance
        direction = newton_direction(objective, point, hessians, factors_of(hessians))
        after = better_point(objective, point, direction)
        if after is None:
            break
        point = after
    return point, np.inf


def newton_direction(
    objective: Objective, point: Point, hessians: list[Array], factors: Factors
) -> Array:
    """-H^-1 g, group by group."""
    direction = np.empty(objective.shape)
    for group, H in zip(objective.groups, hessians, strict=True):
        g = point.gradient[:, group].ravel(order="F")
        step = cho_solve(factors[id(H)], g, check_finite=False)
        direction[:, group] = -step.reshape(objective.shape[0], -1, order="F")
    return direction


def factors_of(hessians: list[Array]) -> Factors:
    """A factor of each different Hessian, by its id."""
    return {key: _factor(H) for key, H in {id(H): H for H in hessians}.items()}


def _factor(H: Array) -> tuple[Array, bool]:
    """A Cholesky factor of H, with a small multiple of 1 added until it exists."""
    scale = max(float(np.trace(H)) / len(H), np.finfo(np.float64).tiny)
    for added in (0.0, 1e-14, 1e-10, 1e-6, 1e-2, 1.0):
        try:
            factor: tuple[Array, bool] = cho_factor(
                H + added * scale * np.eye(len(H)) if added else H, lower=True, check_finite=False
            )
        except LinAlgError:
            continue
        if np.isfinite(factor[0]).all():
            return factor
    raise ArithmeticError("the Hessian of the head is not finite; please report this.")
