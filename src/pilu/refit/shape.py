"""Noise that is shaped by the rows, so that nobody's part in the release stands out.

    theta + s A^-1/2 N(0, I),     A = kappa Z'WZ + f diag(d)

with the weights W and penalties d of the objective. kappa is the usual curvature of the loss; for
squares with f = 1, A is the Hessian itself. A larger f makes A depend less on single rows. In the
coordinates of the head's own columns the law is N(coef, s^2 A^-1) with A of these columns, so it
does not depend on the standard coordinates.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from pilu.exceptions import BeyondPrecision
from pilu.refit.gram import gamma, rounding_of_sums
from pilu.refit.objective import Objective
from pilu.refit.radius import least_eigenvalue

Array = NDArray[np.float64]

_LARGEST_ERROR = 1e-6  # of a matrix, relative to itself as a form


@dataclass(frozen=True, eq=False)
class Metric:
    """A positive definite matrix, its Cholesky factor, and how well both are known."""

    matrix: Array
    factor: Array  # L, lower: matrix = L L'
    least: float  # a lower bound on the eigenvalues
    error: float  # bound on the norm of the error of matrix and factor, relative to `least`

    @classmethod
    def of(cls, matrix: Array, error: float) -> "Metric":
        """Factor a matrix that is known up to an error in norm."""
        error = error + 2 * gamma(len(matrix) + 8) * float(np.trace(matrix))
        least = least_eigenvalue(matrix, error)
        if not error <= _LARGEST_ERROR * least:
            raise BeyondPrecision(
                "the curvature of the objective is too small in some direction to be computed in "
                "double precision. Regularise more, or drop columns that repeat others."
            )
        return cls(matrix, _factor(matrix), least, error / least)

    @cached_property
    def largest(self) -> float:
        """An upper bound on the eigenvalues."""
        sums = float(np.abs(self.matrix).sum(axis=0).max())
        return min(sums, float(np.trace(self.matrix))) * (1 + self.error) * (1 + 1e-9)

    def solve(self, columns: Array) -> Array:
        """The inverse times columns, each within `error` of itself in this metric."""
        out: Array = cho_solve((self.factor, True), columns, check_finite=False)
        return out

    def whiten(self, columns: Array) -> Array:
        """L^-1 times columns: their inner products are those of the inverse matrix."""
        out: Array = solve_triangular(self.factor, columns, lower=True, check_finite=False)
        return out

    def solve_whitened(self, columns: Array) -> Array:
        """L^-T times columns: noise of this shape from standard noise."""
        out: Array = solve_triangular(
            self.factor, columns, lower=True, trans="T", check_finite=False
        )
        return out

    def ratio(self, other: Array) -> float:
        """A number c with other <= c matrix as forms; `other` is positive semidefinite."""
        half = self.whiten(np.ascontiguousarray(self.whiten(other).T))
        top = float(np.linalg.eigvalsh((half + half.T) / 2)[-1])
        rounding = gamma(8 * len(half)) * float(np.trace(half))
        return (top + rounding) * (1 + 4 * self.error)


def _factor(matrix: Array) -> Array:
    try:
        factor: Array = cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:  # pragma: no cover - `least_eigenvalue` has factored it already
        raise BeyondPrecision("the curvature is not positive in double precision.") from None
    return factor


@dataclass(frozen=True, eq=False)
class Shape:
    """The matrices A of an objective: one for all outputs, or one for each."""

    curvature: float  # kappa
    penalty_factor: float  # f
    metrics: tuple[Metric, ...]

    @classmethod
    def of(
        cls, objective: Objective, *, curvature: float | None = None, penalty_factor: float = 1.0
    ) -> "Shape":
        """The shape for the rows of an objective; the curvature is its own by default."""
        kappa = curvature
        if kappa is None:
            kappa = objective.loss.usual_curvature(objective.targets, objective.weights)
        weights, penalty = objective.weights, objective.penalty
        metrics, known = [], objective.known_gram
        count = max(weights.shape[1], penalty.shape[1])
        for k in range(count):
            w, d = weights[:, min(k, weights.shape[1] - 1)], penalty[:, min(k, len(penalty.T) - 1)]
            if known is not None and weights.shape[1] == 1:
                gram, error = kappa * known.matrix, kappa * known.error
            elif k == 0 or weights.shape[1] > 1:
                gram = objective.gram(kappa * w[:, None])
                error = rounding_of_sums(len(w), 4) * float(np.trace(gram))
            metrics.append(Metric.of(gram + np.diag(penalty_factor * d), 1.01 * error))
        return cls(kappa, penalty_factor, tuple(metrics))

    def of_rows(self, objective: Objective) -> "Shape":
        """The shape of the same kind for other rows."""
        return Shape.of(objective, curvature=self.curvature, penalty_factor=self.penalty_factor)

    def metric(self, output: int) -> Metric:
        """The matrix of an output."""
        return self.metrics[min(output, len(self.metrics) - 1)]

    def noise(self, normal: Array) -> Array:
        """A^-1/2 times standard noise, P x K."""
        if len(self.metrics) == 1:
            return self.metrics[0].solve_whitened(normal)
        columns = [m.solve_whitened(normal[:, k]) for k, m in enumerate(self.metrics)]
        return np.stack(columns, axis=1)

    def lengths(self, difference: Array) -> Array:
        """L' times a difference of parameters, P x K: what noise of scale 1 would be there."""
        columns = [self.metric(k).factor.T @ difference[:, k] for k in range(difference.shape[1])]
        return np.stack(columns, axis=1)

    def typical_score(self, objective: Objective) -> float:
        """Root mean square of the noise of a row's score at scale 1, over rows and outputs."""
        total = 0.0
        for k, metric in enumerate(self.metrics):
            w = objective.weights[:, min(k, objective.weights.shape[1] - 1)]
            d = objective.penalty[:, min(k, objective.penalty.shape[1] - 1)]
            gram = metric.matrix - np.diag(self.penalty_factor * d)
            inverse = metric.solve_whitened(metric.whiten(gram))
            total += float(np.trace(inverse)) / self.curvature / float(w.sum())
        return math.sqrt(max(total, 0.0) / len(self.metrics))

    @property
    def largest(self) -> float:
        """An upper bound on the eigenvalues of all matrices."""
        return max(m.largest for m in self.metrics)

    def distance(self, radius: float) -> float:
        """A Euclidean distance that is at most `radius` in this metric."""
        return radius / math.sqrt(self.largest) * (1 - 1e-9)
