"""The objective of a head in standard coordinates, and its gradient with a bound on its error.

    F(theta) = sum_i w_i l(z_i' theta, y_i) + 1/2 sum_j d_j theta_j^2        theta is P x K

A row z is a transformed row, shifted and scaled (`coordinates.py`), with one column more where the
model has an intercept; an intercept that is not penalised has d = 0 and is the last column.

Rounding. With u = 2^-53 and gamma_k = k u/(1 - k u), a computed score is within
gamma_{P+4} |z_i| |theta| of the true one, centring included. A sum over blocks of rows is within
gamma of the size of its terms (Higham 2002, sections 3.1 and 4.2). docs/refit.md, "Rounding", adds
these up.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.refit.gram import Gram, gamma, rounding_of_sums, weighted_gram
from pilu.refit.score_losses import ScoreLoss

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_ELEMENTARY = 16 * _UNIT  # relative error of one exp, division or product in a slope
_ROWS_IN_BLOCK = 256
_SAFE = 1.01  # for the rounding of the bounds themselves


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters with what one pass over the rows computes there."""

    theta: Array
    scores: Array
    gradient: Array
    value: float
    errors: Array = field(repr=False)  # bounds on |gradient error|, one per group of outputs
    intercept_error: float  # the same for the last row of the gradient alone, all outputs
    score_errors: Array = field(repr=False)  # n x 1
    accurate: bool = False


@dataclass(frozen=True, eq=False)
class Objective:
    """Rows, targets and penalties of a head."""

    loss: ScoreLoss
    rows: Any  # n x P, an array or a CSR matrix
    targets: Array  # n x K
    weights: Array  # n x 1 or n x K
    penalty: Array  # P x 1 or P x K
    free_intercept: bool  # whether the last column is that of an unpenalised intercept, all ones
    known_gram: Gram | None = None  # Z'WZ, where it is already known
    _passes: list[int] = field(default_factory=list, repr=False)  # all that changes: a count

    @property
    def n_passes(self) -> int:
        """How often all rows were read: scores and gradients, Hessians, products with them."""
        return sum(self._passes)

    def count(self, passes: int) -> None:
        """Keep count of what was read; it belongs to a run, never to a certificate."""
        self._passes.append(passes)

    def without(self, rows: NDArray[np.intp]) -> "Objective":
        """The objective without some rows: the same penalties, the same coordinates."""
        keep = np.ones(self.rows.shape[0], dtype=bool)
        keep[rows] = False
        kept = self.rows[keep], self.targets[keep], self.weights[keep]
        gram = None if self.known_gram is None else Gram.of(kept[0], kept[2])
        return Objective(self.loss, *kept, self.penalty, self.free_intercept, gram)

    @property
    def shape(self) -> tuple[int, int]:
        """Of theta: P x K."""
        return self.rows.shape[1], self.targets.shape[1]

    @property
    def groups(self) -> list[slice]:
        """Outputs that are solved together: all K if they share a loss, else each on its own."""
        K = self.shape[1]
        return [slice(0, K)] if self.loss.joint else [slice(k, k + 1) for k in range(K)]

    @cached_property
    def blocks(self) -> list[tuple[slice, Any]]:
        """The rows in blocks."""
        n = self.rows.shape[0]
        parts = [slice(i, min(i + _ROWS_IN_BLOCK, n)) for i in range(0, n, _ROWS_IN_BLOCK)]
        return [(part, self.rows[part]) for part in parts]

    def rows_in(self, precision: np.dtype[Any]) -> Any:
        """The rows in single or double precision."""
        return self._single_rows if precision == np.float32 else self.rows

    @cached_property
    def _single_rows(self) -> Any:
        return self.rows.astype(np.float32)

    @cached_property
    def row_norms(self) -> Array:
        """Upper bounds on |z_i|, n x 1."""
        squares = [_squares(block) for _, block in self.blocks]
        norms: Array = np.sqrt(np.concatenate(squares))[:, None] * (1 + gamma(self.shape[0] + 8))
        return norms

    @cached_property
    def gauge(self) -> float:
        """Weight of a penalty on the mean over classes, which is zero at a softmax minimiser.

        Softmax scores do not change when all classes get the same summand. The penalty makes the
        objective strongly convex in that direction and leaves its minimiser as it is.
        """
        if not self.loss.joint:
            return 0.0
        return float((self.weights * self.row_norms**2).sum() / self.rows.shape[0] + 1.0)

    def scores(self, theta: Array) -> Array:
        """Scores of all rows, n x K."""
        return np.concatenate([np.asarray(block @ theta) for _, block in self.blocks])

    def accurate_scores(self, theta: Array) -> Array:
        """Scores of all rows, almost as if summed exactly; for rows in an array with |z_j| <= 1.

        Rows and theta are split into their first bits, about twenty, and the rest. Products of the
        first parts are sums of whole numbers below 2^53, hence exact. The others are 2^20 times
        smaller, and so is their rounding.
        """
        fine = 2.0**-self._split
        grid = fine * np.ldexp(1.0, np.frexp(np.abs(theta).max(axis=0))[1])
        first = np.round(theta / grid) * grid
        parts = []
        for _, block in self.blocks:
            top = np.round(block / fine) * fine
            parts.append(top @ first + (top @ (theta - first) + (block - top) @ theta))
        return np.concatenate(parts)

    @property
    def _split(self) -> int:
        return (52 - math.ceil(math.log2(self.shape[0] + 1))) // 2

    @cached_property
    def can_be_accurate(self) -> bool:
        """Whether `accurate_scores` applies."""
        dense = isinstance(self.rows, np.ndarray)
        return dense and all(np.abs(block).max() <= 1.0 for _, block in self.blocks)

    def _score_errors(self, theta: Array, scores: Array, accurately: bool) -> Array:
        """Bounds on the scores' errors, n x 1."""
        length = float(np.linalg.norm(theta) if self.loss.joint else _column_norms(theta).max())
        sums = gamma(self._most_terms + 4)
        if not accurately:
            return sums * length * self.row_norms
        rest = sums * 2.0**-self._split * math.sqrt(self.shape[0])
        # gamma_2 is for the rounding of rows when they were centred.
        errors = length * (rest * (self.row_norms + 1.0) + gamma(2) * self.row_norms)
        total: Array = errors + gamma(4) * np.abs(scores).max(axis=1, keepdims=True)
        return total

    @cached_property
    def _most_terms(self) -> int:
        """Most entries of a row."""
        if isinstance(self.rows, np.ndarray):
            return self.shape[0]
        return int(np.diff(self.rows.indptr).max())

    def sum_over_rows(self, v: Array) -> Array:
        """Z' v, summed by blocks."""
        total = np.zeros((self.shape[0], v.shape[1]))
        for part, block in self.blocks:
            total += block.T @ v[part]
        return total

    def value(self, theta: Array, scores: Array) -> float:
        """The objective, without the gauge."""
        losses = self.loss.values(scores, self.targets)
        return float((self.weights * losses).sum() + 0.5 * (self.penalty * theta**2).sum())

    def at(self, theta: Array, *, accurately: bool = False) -> Point:
        """What one pass over the rows computes; an accurate one takes three times as long.

        Far from the minimiser a slope may overflow. The value is then infinite or not a number, and
        a line search turns back.
        """
        self.count(4 if accurately else 2)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._at(theta, accurately)

    def _at(self, theta: Array, accurately: bool) -> Point:
        scores = self.accurate_scores(theta) if accurately else self.scores(theta)
        slopes = self.loss.slopes(scores, self.targets)
        weighted = self.weights * slopes
        means = theta.mean(axis=1, keepdims=True) if self.loss.joint else np.zeros((len(theta), 1))
        gradient = self.sum_over_rows(weighted) + self.penalty * theta + self.gauge * means
        score_errors = self._score_errors(theta, scores, accurately)
        errors, intercept = self._gradient_errors(theta, scores, slopes, weighted, score_errors)
        value = self.value(theta, scores)
        return Point(theta, scores, gradient, value, errors, intercept, score_errors, accurately)

    def _gradient_errors(
        self, theta: Array, scores: Array, slopes: Array, weighted: Array, score_errors: Array
    ) -> tuple[Array, float]:
        """Bounds on the gradient's error for each group, and for its last row, the intercept's."""
        slope_errors = self._slope_errors(scores, slopes, score_errors)
        sums = gamma(_ROWS_IN_BLOCK + len(self.blocks) + 6)
        per_row = self.weights * slope_errors + sums * np.abs(weighted)
        penalty = gamma(4) * np.abs(self.penalty * theta)
        if self.loss.joint:
            per_row = np.linalg.norm(per_row, axis=1, keepdims=True)
            means = gamma(theta.shape[1] + 2) * np.abs(theta).max(axis=1, keepdims=True)
            penalty = np.hstack([penalty, self.gauge * np.sqrt(theta.shape[1]) * means])
            fixed = np.array([np.linalg.norm(penalty)])
        else:
            fixed = _column_norms(penalty)
        tiny = np.finfo(np.float64).tiny
        bounds: Array = _SAFE * ((self.row_norms * per_row).sum(axis=0) + fixed) + tiny
        last = float(np.linalg.norm(per_row.sum(axis=0) + np.linalg.norm(penalty[-1])))
        return bounds, _SAFE * last + tiny

    def _slope_errors(self, scores: Array, slopes: Array, score_errors: Array) -> Array:
        """Bounds on the slopes' errors: from the scores, and from their own evaluation."""
        K = self.shape[1]
        unit = (1 + K * self.loss.joint) * _ELEMENTARY
        own = unit * self.loss.largest_terms(scores, self.targets, slopes)
        if not self.loss.joint:
            most = self.loss.curvature_range(scores, self.targets, score_errors)[1]
            return own + most * score_errors
        p = self.loss.curvatures(scores, self.targets)
        # The largest eigenvalue of diag(p) - p p' is at most 2 max_c p_c (1 - p_c).
        largest = 2 * (p * (1 - p)).max(axis=1, keepdims=True) + 1e-15
        reach = 2 * score_errors
        from_scores = largest * np.exp(reach) * score_errors
        total: Array = own + from_scores / np.sqrt(K)  # its norm over K columns is from_scores
        return total

    def hessians(self, point: Point, within: float) -> Iterator[tuple[slice, Array]]:
        """For each group a Hessian that bounds all Hessians within a distance from below."""
        reach = self.reach(point, within)
        least, _ = self.loss.curvature_range(point.scores, self.targets, reach)
        if self.loss.joint:
            p = self.loss.curvatures(point.scores, self.targets)
            yield self.groups[0], self._joint_hessian(p, self.weights * least)
            return
        if self.loss.constant_curvature and self.weights.shape[1] == 1:
            matrices = self.constant_hessians
            yield from ((group, matrices[i % len(matrices)]) for i, group in enumerate(self.groups))
            return
        curvatures = np.broadcast_to(self.weights * least, point.scores.shape)
        penalty = np.broadcast_to(self.penalty, self.shape)
        for group in self.groups:
            k = group.start
            yield group, self.gram(curvatures[:, k : k + 1]) + np.diag(penalty[:, k])

    @cached_property
    def constant_gram(self) -> Gram:
        """Z'WZ of squared error, with a bound on its error."""
        return self.known_gram or Gram.of(self.rows, self.weights)

    @cached_property
    def constant_hessians(self) -> list[Array]:
        """Hessians of squared error: one for all targets, or one for each."""
        return [self.constant_gram.matrix + np.diag(d) for d in self.penalty.T]

    def reach(self, point: Point, within: float) -> Array:
        """How far a row's scores can move within a distance; for softmax, their range (n x 1)."""
        moved = self.row_norms * within + point.score_errors
        return 2.0 * moved if self.loss.joint else moved

    def gram(self, curvatures: Array) -> Array:
        """Z' diag(c) Z, summed by blocks."""
        self.count(1)
        return weighted_gram(self.rows, curvatures)

    def hessian_error(self, trace: float) -> float:
        """Bound on the norm of the rounding error of a Hessian with this trace."""
        if self.loss.constant_curvature and self.weights.shape[1] == 1:
            return _SAFE * (self.constant_gram.error + gamma(4) * trace)
        n, K = self.rows.shape[0], self.shape[1] if self.loss.joint else 1
        sums = rounding_of_sums(n, 4 * K) * trace
        # 1 - p is rounded where p is near 1, and is small compared with what was rounded.
        saturated = 16 * K * _UNIT * float((self.weights * self.row_norms**2).sum())
        return _SAFE * (sums + saturated * self.loss.joint)

    def _joint_hessian(self, p: Array, weights: Array) -> Array:
        """The PK x PK Hessian of softmax; theta is read column by column."""
        P, K = self.shape
        H = np.zeros((K, P, K, P))
        for a in range(K):
            H[a, :, a, :] = self.gram(weights * p[:, a : a + 1] * (1 - p[:, a : a + 1]))
            for b in range(a):
                H[a, :, b, :] = -self.gram(weights * p[:, a : a + 1] * p[:, b : b + 1])
                H[b, :, a, :] = H[a, :, b, :]
        penalty = np.broadcast_to(self.penalty, self.shape)
        for a in range(K):
            H[a, np.arange(P), a, np.arange(P)] += penalty[:, a]
            for b in range(K):
                H[a, np.arange(P), b, np.arange(P)] += self.gauge / K
        return H.reshape(P * K, P * K)


def _squares(block: Any) -> Array:
    squares = block.multiply(block) if hasattr(block, "multiply") else block * block
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def _column_norms(matrix: Array) -> Array:
    norms: Array = np.sqrt((matrix**2).sum(axis=0))
    return norms
