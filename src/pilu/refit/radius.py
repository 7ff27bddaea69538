"""How far a point can be from the minimiser: proved bounds.

**Lemma.** Let F be convex, with a continuous gradient g at theta, and let its Hessian be at least
m > 0 within a distance b of theta. If |g| <= m b, then F has a minimiser, it is unique within that
ball, and it lies within |g|/m of theta.

There are two ways to m. Each is used on the ball of the radius that is aimed at, where the
curvature of every row is bounded from below (`ScoreLoss.curvature_range`).

- A factorisation: F's Hessian less m is positive definite, because its Cholesky factorisation
  succeeds with room for rounding (Rump 2006).
- The penalty: every penalised coordinate has at least the curvature d of its penalty. An intercept
  without a penalty is minimised over first; what remains is as convex in the other coordinates.

docs/refit.md proves both.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky

from pilu.refit.gram import gamma
from pilu.refit.objective import Objective, Point

Array = NDArray[np.float64]

_ROUNDED_UP = 1 + 1e-9


def distance_by_factorisation(
    objective: Objective, point: Point, hessians: list[Array], within: float
) -> float:
    """A bound on the distance to the minimiser, infinite if it is not proved to be in the ball.

    `hessians` are those of `Objective.hessians(point, within)`.
    """
    known = {id(H): H for H in hessians}
    least = {
        key: least_eigenvalue(H, objective.hessian_error(float(np.trace(H))))
        for key, H in known.items()
    }
    return distance_by_curvature(objective, point, [least[id(H)] for H in hessians], within)


def distance_by_curvature(
    objective: Objective, point: Point, least: list[float], within: float
) -> float:
    """The same from lower bounds on the eigenvalues of each group's Hessian in the ball."""
    squares = 0.0
    for group, m, error in zip(objective.groups, least, point.errors, strict=True):
        g = float(np.linalg.norm(point.gradient[:, group])) + float(error)
        if not (m > 0.0 and g < m * within):
            return math.inf
        squares += (g / m) ** 2
    return math.sqrt(squares) * _ROUNDED_UP


def least_eigenvalue(H: Array, error: float) -> float:
    """A lower bound on the least eigenvalue of a matrix known up to an error; 0 if none is proved.

    A shifted matrix H - t whose Cholesky factorisation succeeds in doubles has eigenvalues above
    -gamma_{P+1} trace(H) (Higham 2002, theorem 10.3, and Rump 2006).
    """
    P = len(H)
    error = error + 2 * gamma(P + 8) * float(np.trace(H))
    factor = _factor(H)
    if factor is None:
        return 0.0
    shift = 0.9 * _inverse_iteration(factor)
    for _ in range(6):
        if shift <= error:
            return 0.0
        shifted = H.copy()
        shifted[np.arange(P), np.arange(P)] -= shift
        if _factor(shifted) is not None:
            return shift - error
        shift *= 0.5
    return 0.0


def _factor(H: Array) -> Array | None:
    try:
        factor: Array = cholesky(H, lower=True, check_finite=False)
    except LinAlgError:
        return None
    return factor if np.isfinite(factor).all() else None


def _inverse_iteration(factor: Array) -> float:
    """An estimate of the least eigenvalue; it is checked afterwards."""
    v = np.random.default_rng(0).standard_normal(len(factor))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(12):
            v /= np.linalg.norm(v)
            v = cho_solve((factor, True), v, check_finite=False)
            length = float(np.linalg.norm(v))
            if not 0.0 < length < math.inf:
                return 0.0
    return 1.0 / length


def distance_by_penalty(objective: Objective, point: Point, within: float) -> float:
    """A bound on the distance from penalties alone; infinite if it is not below `within`.

    Without a free intercept it holds for every convex loss, wherever the point is. With one, let
    v*(u) be the best intercept for coefficients u, and phi(u) = F(u, v*(u)). phi is as convex as
    the penalty, so |u - u*| <= |grad phi(u)|/d, and v* moves with u by at most |B|/q, where B is
    the mixed second derivative and q the curvature of the intercept.
    """
    least = float(objective.penalty[: -1 if objective.free_intercept else None].min())
    if least <= 0.0:
        return math.inf
    g = point.gradient
    error = float(np.linalg.norm(point.errors))
    if not objective.free_intercept:
        bound = (float(np.linalg.norm(g)) + error) / least * _ROUNDED_UP
        return bound if bound <= within else math.inf
    if not float(np.linalg.norm(g[:-1])) <= least * within:  # spares the sums over rows below
        return math.inf
    intercept, mixed = _intercept_curvature(objective, point, within)
    if intercept <= 0.0:
        return math.inf
    gap = (float(np.linalg.norm(g[-1])) + point.intercept_error) / intercept
    coefficients = (float(np.linalg.norm(g[:-1])) + error + mixed * gap) / least
    bound = math.hypot(coefficients, gap + mixed / intercept * coefficients) * _ROUNDED_UP
    return bound if bound <= within else math.inf


def _intercept_curvature(objective: Objective, point: Point, within: float) -> tuple[float, float]:
    """Least curvature of the intercepts, and a bound on the mixed derivative, within a distance."""
    loss, w = objective.loss, objective.weights
    norms = objective.row_norms
    reach = objective.reach(point, within)
    least, most = loss.curvature_range(point.scores, objective.targets, reach)
    slack = gamma(objective.rows.shape[0] + 16)
    if not loss.joint:
        q = float((w * least).sum(axis=0).min()) * (1 - slack)
        w, least, most = np.broadcast_arrays(w, least, most)
        B = np.linalg.norm(objective.sum_over_rows(w * least)[:-1], axis=0)
        B = B + (w * ((most - least) + slack * most) * norms).sum(axis=0)
        return q, float(B.max()) * _ROUNDED_UP
    p, K = loss.curvatures(point.scores, objective.targets), objective.shape[1]
    mean = -(w * p).T @ p
    mean[np.arange(K), np.arange(K)] = (w * p * (1 - p)).sum(axis=0)
    rounding = (slack + 1e-14 * K) * float((w * p).sum())
    weakest = float(least.min())
    gauge = objective.gauge / K * np.ones((K, K))
    q = float(np.linalg.eigvalsh(weakest * mean + gauge)[0]) - rounding
    mixed = []
    for a in range(K):
        columns = -(w * p * p[:, a : a + 1])
        columns[:, a] = (w * p * (1 - p))[:, a]
        mixed.append(objective.sum_over_rows(columns)[:-1].ravel())
    B = math.sqrt(float(np.linalg.eigvalsh(np.array(mixed) @ np.array(mixed).T)[-1]) * (1 + 1e-9))
    largest = 2 * (p * (1 - p)).max(axis=1, keepdims=True) + 1e-15
    change = (w * largest * (most - least + slack * K) * norms).sum()
    return q, (B + float(change)) * _ROUNDED_UP
