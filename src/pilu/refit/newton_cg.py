"""Newton's method without the whole Hessian, for heads with many columns or classes.

Conjugate gradients solve for each step. A product with the Hessian takes two passes over the rows.
The preconditioner is the Hessian's own block for every class: Z' diag(w c_k) Z plus the penalty,
where rows without curvature to speak of are left out. Steps are found in single precision and
corrected by the gradient, which is computed in double precision; no proof rests on them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pilu._progress import progress_bar
from pilu.refit.gram import block_gram
from pilu.refit.line_search import better_point
from pilu.refit.objective import Objective, Point
from pilu.refit.radius import distance_by_penalty

Array = NDArray[np.float64]
Operator = Callable[[NDArray[Any]], NDArray[Any]]

_MOST_COLUMNS = 8192  # for blocks of the Hessian
_MOST_IN_BLOCKS = 2**28  # numbers, 1 GB in single precision
_MOST_STEPS = 200
_MOST_PRODUCTS = 500
_PATIENCE = 30  # products without progress, where single precision ends it
_STALE = 20  # more products than this ask for a new preconditioner
_FARTHEST = 1e30  # no curvature to speak of in this direction


def newton_cg(objective: Objective, point: Point, within: float) -> tuple[Point, float]:
    """As `newton`, for heads whose Hessian is too large to write down."""
    precondition: Operator | None = None
    precision: np.dtype[Any] = np.dtype(np.float32)
    with progress_bar(_MOST_STEPS, what="Newton-CG", unit="step") as bar:
        for _ in range(_MOST_STEPS):
            distance = distance_by_penalty(objective, point, within)
            if distance <= within:
                return point, distance
            if precondition is None:
                precondition = _preconditioner(objective, point)
            product = _hessian(objective, point, precision)
            gradient = _centred(point.gradient, objective.loss.joint)  # but for rounding, it is
            direction, products = _conjugate_gradients(product, gradient, precondition, precision)
            after = better_point(objective, point, direction)
            if after is None:
                if precision == np.float64:
                    break
                precision = np.dtype(np.float64)
            else:
                point = after
            if products > _STALE:
                precondition = None
            bar.update(1)
    return point, np.inf


def _hessian(objective: Objective, point: Point, precision: np.dtype[Any]) -> Operator:
    """Products with the Hessian at a point; for softmax, on parameters that sum to zero."""
    loss, rows = objective.loss, objective.rows_in(precision)
    c = loss.curvatures(point.scores, objective.targets).astype(precision)
    w, penalty = objective.weights.astype(precision), objective.penalty.astype(precision)

    def product(v: NDArray[Any]) -> NDArray[Any]:
        objective.count(2)
        moved = rows @ v
        if loss.joint:
            moved = moved - (c * moved).sum(axis=1, keepdims=True)
        total: NDArray[Any] = rows.T @ (w * c * moved) + penalty * v
        return _centred(total, loss.joint).astype(precision, copy=False)

    return product


def _preconditioner(objective: Objective, point: Point) -> Operator:
    """An approximate inverse of the Hessian near a point."""
    joint, (P, K) = objective.loss.joint, objective.shape
    c = objective.loss.curvatures(point.scores, objective.targets)
    c = objective.weights * (c * (1 - c) if joint else c)
    penalty = np.broadcast_to(objective.penalty, (P, K))
    same = bool((c == c[:, :1]).all() and (penalty == penalty[:, :1]).all())
    n_blocks = 1 if same else K
    if P > _MOST_COLUMNS or n_blocks * P * P > _MOST_IN_BLOCKS:
        return _by_diagonal(objective, c, penalty)
    factors = [_block(objective, c[:, k], penalty[:, k]) for k in range(n_blocks)]

    def solve_blocks(g: NDArray[Any]) -> NDArray[Any]:
        if same:
            return _centred(cho_solve(factors[0], g, check_finite=False), joint)
        solved = [cho_solve(f, g[:, k], check_finite=False) for k, f in enumerate(factors)]
        return _centred(np.stack(solved, axis=1), joint)

    return solve_blocks


def _block(objective: Objective, c: Array, penalty: Array) -> tuple[NDArray[Any], bool]:
    """A Cholesky factor of one class's block of the Hessian, in single precision if possible."""
    least = penalty[penalty > 0].min(initial=np.inf)
    active = np.flatnonzero(c * objective.row_norms[:, 0] ** 2 > (least if least < np.inf else 0.0))
    for kind, added in ((np.float32, 1e-6), (np.float64, 1e-12), (np.float64, 1e-3)):
        objective.count(1)
        rows = objective.rows_in(np.dtype(kind))[active]
        H = block_gram(rows, c[active, None].astype(kind))
        size = max(float(np.trace(H)), float(penalty.max()), float(np.finfo(np.float32).tiny))
        H[np.arange(len(H)), np.arange(len(H))] += penalty + added * size / len(H)
        try:
            factor: tuple[NDArray[Any], bool] = cho_factor(
                H, lower=True, overwrite_a=True, check_finite=False
            )
        except LinAlgError:
            continue
        if np.isfinite(factor[0]).all():
            return factor
    raise ArithmeticError("the Hessian of the head is not finite; please report this.")


def _by_diagonal(objective: Objective, c: Array, penalty: Array) -> Operator:
    squares = objective.rows * objective.rows
    diagonal = np.asarray(squares.T @ c) + penalty
    inverse = 1.0 / (diagonal + 1e-12 * diagonal.max())
    return lambda g: _centred(inverse.astype(g.dtype) * g, objective.loss.joint)


def _centred(v: NDArray[Any], joint: bool) -> NDArray[Any]:
    """Without the mean over classes, which is zero at a softmax minimiser."""
    return v - v.mean(axis=1, keepdims=True) if joint else v


def _conjugate_gradients(
    product: Operator, gradient: Array, precondition: Operator, precision: np.dtype[Any]
) -> tuple[Array, int]:
    """Solve H x = -g until the residual is a hundredth of g; returns x and the products taken."""
    length = float(np.linalg.norm(gradient))
    if length == 0.0:
        return np.zeros_like(gradient), 0
    b = -gradient / length
    residual = b.astype(precision)
    x, z = np.zeros_like(residual), precondition(residual).astype(precision)
    direction, square, products, lengths = z, float((residual * z).sum()), 0, [1.0]
    for _ in range(_MOST_PRODUCTS):
        curved = product(direction)
        products += 1
        curvature = float((direction * curved).sum())
        if not (curvature > 0.0 and square > 0.0):
            break
        step = square / curvature
        if not step * float(np.abs(direction).max()) < _FARTHEST:
            break
        x += step * direction
        residual -= step * curved
        lengths.append(float(np.linalg.norm(residual)))
        ended = min(lengths[-_PATIENCE:]) > 0.9 * min(lengths[:-_PATIENCE], default=np.inf)
        if lengths[-1] <= 0.01 or ended:
            break
        z = precondition(residual).astype(precision)
        before, square = square, float((residual * z).sum())
        direction = z + (square / before) * direction
    x64 = x.astype(np.float64) if x.any() else b
    return length * x64, products
