"""Newton's method without a Hessian: conjugate gradients, preconditioned by the rows' Gram matrix.

For many columns or classes. A product with the Hessian takes two passes over the rows. The
preconditioner is X'WX in its eigenbasis times the mean curvature of each class, where X'WX can be
formed, and its diagonal where it cannot.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.refit.line_search import better_point
from pilu.refit.objective import Objective, Point
from pilu.refit.radius import distance_by_penalty

__all__ = ["newton_cg"]

Array = NDArray[np.float64]
Operator = Callable[[Array], Array]

_MOST_COLUMNS = 4096  # for an eigenbasis of X'WX
_MOST_STEPS = 60
_MOST_PRODUCTS = 2000
_FARTHEST = 1e100  # no curvature to speak of in this direction


def newton_cg(objective: Objective, point: Point, within: float) -> tuple[Point, float]:
    """As `newton`, for heads whose Hessian is too large to write down."""
    precondition = _preconditioner(objective, point)
    with progress_bar(_MOST_STEPS, what="Newton-CG", unit="step") as bar:
        for _ in range(_MOST_STEPS):
            distance = distance_by_penalty(objective, point, within)
            if distance <= within:
                return point, distance
            length = float(np.linalg.norm(point.gradient))
            wanted = 0.2 * within * float(_least_positive(objective.penalty))
            direction = _conjugate_gradients(
                _hessian(objective, point),
                -point.gradient,
                precondition,
                relative=min(0.1, max(wanted / length, 1e-10)) if length > 0 else 0.1,
            )
            after = better_point(objective, point, direction)
            if after is None:
                break
            point = after
            bar.update(1)
    return point, np.inf


def _least_positive(penalty: Array) -> float:
    positive = penalty[penalty > 0]
    return float(positive.min()) if positive.size else 1.0


def _hessian(objective: Objective, point: Point) -> Operator:
    """Products with the Hessian at a point."""
    loss, w = objective.loss, objective.weights
    c = loss.curvatures(point.scores, objective.targets)

    def product(v: Array) -> Array:
        moved = objective.scores(v)
        if loss.joint:
            moved = moved - (c * moved).sum(axis=1, keepdims=True)
        moved = c * moved
        gauge = objective.gauge * v.mean(axis=1, keepdims=True) if loss.joint else 0.0
        return objective.sum_over_rows(w * moved) + objective.penalty * v + gauge

    return product


def _preconditioner(objective: Objective, point: Point) -> Operator:
    """An approximate inverse of the Hessian near a point."""
    c = objective.loss.curvatures(point.scores, objective.targets)
    if objective.loss.joint:
        c = c * (1 - c)
    w = np.broadcast_to(objective.weights, c.shape)
    mean = np.maximum((w * c).sum(axis=0) / w.sum(axis=0), 1e-12)
    if objective.shape[0] > _MOST_COLUMNS:
        squares = objective.rows * objective.rows
        diagonal = np.asarray(objective.weights.mean(axis=1)[None, :] @ squares).T * mean
        inverse: Array = 1.0 / (diagonal + objective.penalty + 1e-12 * diagonal.max())

        def divide(g: Array) -> Array:
            return inverse * g

        return divide
    gram = objective.gram(objective.weights.mean(axis=1, keepdims=True))
    scales = 1.0 / np.sqrt(np.maximum(objective.penalty.mean(axis=1), 1e-300))
    if objective.free_intercept:
        scales[-1] = 1.0 / np.sqrt(gram[-1, -1])
    # In coordinates where the penalty is 1: eigenvalues of the scaled Gram matrix.
    values, basis = np.linalg.eigh(scales[:, None] * gram * scales)
    values = np.maximum(values, 0.0)[:, None] * mean + 1.0

    def apply(g: Array) -> Array:
        inner = (basis.T @ (scales[:, None] * g)) / values
        outer: Array = scales[:, None] * (basis @ inner)
        return outer

    return apply


def _conjugate_gradients(
    product: Operator, b: Array, precondition: Operator, relative: float
) -> Array:
    """Solve H x = b until the residual is `relative` times b."""
    x, residual = np.zeros_like(b), b.copy()
    z = precondition(residual)
    direction, square = z, float((residual * z).sum())
    goal = relative * float(np.linalg.norm(b))
    for _ in range(_MOST_PRODUCTS):
        curved = product(direction)
        curvature = float((direction * curved).sum())
        if not curvature > 0.0:
            break
        step = square / curvature
        if not step * float(np.abs(direction).max()) < _FARTHEST:
            break
        x += step * direction
        residual -= step * curved
        if float(np.linalg.norm(residual)) <= goal:
            break
        z = precondition(residual)
        before, square = square, float((residual * z).sum())
        direction = z + (square / before) * direction
    return x if x.any() else b
