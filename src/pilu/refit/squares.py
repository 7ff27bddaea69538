"""Squared error: the minimiser from the Gram matrix of the rows, with a proof from the rows.

    theta = H^-1 Z'WY,    H = Z'WZ + diag(d)

The Gram matrix Z'WZ gives directions and a lower bound on the curvature, with its error charged.
The gradient at the answer is summed over the rows, so the distance is proved whatever the matrix.

The answer does not depend on a start. With a matrix that was carried over from an earlier run it
depends on rows that are gone, so it is then proved to a small part of the distance, or computed
with a matrix that is summed anew.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pilu.refit.exact_newton import factors_of, newton_direction
from pilu.refit.gram import Gram
from pilu.refit.line_search import better_point
from pilu.refit.objective import Objective, Point
from pilu.refit.radius import distance_by_curvature, distance_by_penalty, least_eigenvalue

Array = NDArray[np.float64]

_MOST_STEPS = 60
_PART = 1 / 32  # of the distance, for a matrix that was carried over


def by_normal_equations(objective: Objective, within: float) -> tuple[Point, float]:
    """The last point and its proved distance from the minimiser, infinite if none was proved."""
    gram = objective.known_gram
    if gram is not None and gram.carried:
        point, distance = _solve(objective, _PART * within)
        if distance <= _PART * within:
            return point, distance
        objective = replace(objective, known_gram=Gram.of(objective.rows, objective.weights))
    return _solve(objective, within)


def _solve(objective: Objective, within: float) -> tuple[Point, float]:
    zero = objective.at(np.zeros(objective.shape))
    hessians = [H for _, H in objective.hessians(zero, within)]
    factors, curvatures = factors_of(hessians), _Curvatures(objective, hessians)
    point = objective.at(newton_direction(objective, zero, hessians, factors))
    for _ in range(_MOST_STEPS):
        distance = distance_by_penalty(objective, point, within)
        if distance > within:
            distance = distance_by_curvature(objective, point, curvatures.least(), within)
        if distance <= within:
            return point, distance
        direction = newton_direction(objective, point, hessians, factors)
        after = better_point(objective, point, direction)
        if after is None:
            break
        point = after
    return point, math.inf


class _Curvatures:
    """Lower bounds on the eigenvalues of Hessians, computed once and only if they are asked for."""

    def __init__(self, objective: Objective, hessians: list[Array]) -> None:
        self._objective, self._hessians = objective, hessians
        self._known: dict[int, float] = {}

    def least(self) -> list[float]:
        for H in self._hessians:
            if id(H) not in self._known:
                error = self._objective.hessian_error(float(np.trace(H)))
                self._known[id(H)] = least_eigenvalue(H, error)
        return [self._known[id(H)] for H in self._hessians]
