"""Find a minimiser to a proved distance, by the solver that suits the size of the head."""

from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from pilu._processes import blas
from pilu.exceptions import BeyondPrecision
from pilu.refit.exact_newton import newton
from pilu.refit.newton_cg import newton_cg
from pilu.refit.objective import Objective, Point
from pilu.refit.squares import by_normal_equations

Array = NDArray[np.float64]

MOST_PARAMETERS = 2048  # in a Hessian that is written down
_FEW_OPERATIONS = 1e8  # to form one, below which one thread is faster


def solve(objective: Objective, start: Array | None, within: float) -> Array:
    """Parameters that are proved to be within a distance of the minimiser.

    `start` may be anything: it can change the answer only within the distance.

    Raises
    ------
    BeyondPrecision
        If the distance cannot be proved in double precision.
    """
    if objective.known_gram is not None:
        point, distance = by_normal_equations(objective, within)
        if distance <= within:
            return point.theta
        raise _not_proved(objective, point, within)
    solver = newton if has_exact_hessian(objective) else newton_cg
    with blas().limit(limits=1) if _is_small(objective) else nullcontext():
        point = _better_start(objective, start)
        for smaller in (1.0, 1 / 16, 1 / 256, 1 / 4096):
            # In a large ball little curvature may be certain; a smaller one serves as well.
            point, distance = solver(objective, point, smaller * within)
            if distance <= within:
                return point.theta
    raise _not_proved(objective, point, within)


def has_exact_hessian(objective: Objective) -> bool:
    """Whether the Hessian is small enough to be written down."""
    if objective.known_gram is not None:
        return True
    P, K = objective.shape
    return P * (K if objective.loss.joint else 1) <= MOST_PARAMETERS


def _is_small(objective: Objective) -> bool:
    """Whether threads would wait for each other longer than they work."""
    (P, K), n = objective.shape, objective.rows.shape[0]
    return bool(n * (P * K) ** 2 < _FEW_OPERATIONS)


def _better_start(objective: Objective, start: Array | None) -> Point:
    """The given start if it is better than the cold one."""
    cold = np.zeros(objective.shape)
    if objective.free_intercept:
        w = np.broadcast_to(objective.weights, objective.targets.shape)
        means = (w * objective.targets).sum(axis=0) / w.sum(axis=0)
        cold[-1] = [objective.loss.first_score(float(m)) for m in means]
    point = objective.at(cold)
    if start is None or start.shape != objective.shape or not np.isfinite(start).all():
        return point
    warm = objective.at(start)
    return warm if warm.value <= point.value else point


def _not_proved(objective: Objective, point: Point, within: float) -> BeyondPrecision:
    error = float(np.linalg.norm(point.errors))
    length = float(np.linalg.norm(point.gradient))
    return BeyondPrecision(
        "the minimiser could not be found to the required distance in double precision: it must be "
        f"proved to {within:.2g}, and the gradient ended at {length:.2g} with a rounding error of "
        f"up to {error:.2g}. Regularise more (a smaller C, a larger alpha), put a scaler in front "
        "of the head, drop columns that repeat others, or raise score_noise or epsilon."
    )
