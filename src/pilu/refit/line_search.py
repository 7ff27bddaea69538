"""How far to go along a direction of descent."""

import numpy as np
from numpy.typing import NDArray

from pilu.refit.objective import Objective, Point

Array = NDArray[np.float64]

_ROUNDING = 1e-11  # relative size of a decrease that the value of the objective cannot show


def better_point(objective: Objective, point: Point, direction: Array) -> Point | None:
    """A better point along a direction, or None if rounding hides every improvement.

    Far from the minimiser a step must lower the objective. Near it, where its value no longer shows
    the difference, a step must shorten the gradient. Once the gradient is of the size of its
    rounding error, it is computed more accurately.
    """
    slope = float((point.gradient * direction).sum())
    length, error = (float(np.linalg.norm(v)) for v in (point.gradient, point.errors))
    accurately = point.accurate or (objective.can_be_accurate and length <= 2 * error)
    if accurately and not point.accurate:
        return objective.at(point.theta, accurately=True)
    if not slope < 0.0:
        return None
    near = -slope <= _ROUNDING * abs(point.value)
    step = 1.0
    for _ in range(60):
        theta = _centred(objective, point.theta + step * direction)
        after = objective.at(theta, accurately=accurately)
        if near:
            if float(np.linalg.norm(after.gradient)) < length:
                return after
            if step < 1e-3:
                return None
        elif np.isfinite(after.value) and after.value <= point.value + 1e-4 * step * slope:
            return after
        step *= 0.5
    return None


def _centred(objective: Objective, theta: Array) -> Array:
    """Softmax parameters with the mean over classes taken out."""
    return theta - theta.mean(axis=1, keepdims=True) if objective.loss.joint else theta
