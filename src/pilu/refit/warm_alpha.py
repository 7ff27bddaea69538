"""Alpha by leave-one-out after a deletion, from the leverages of the run before.

With K the penalised Gram matrix of the rows that are left, S the rows that are gone, and
Y = K^-1 Z_S' sqrt(W_S), the leverage of a row that is left grows by

    h_i' - h_i = v_i (I + H)^-1 v_i',    v_i = sqrt(w_i) z_i Y,    H = sqrt(W_S) Z_S Y

A scaler in front turns alpha into alpha s_j^2 on raw columns. Leverages are kept for the s of a run
from scratch. Where s^2 has changed by factors in [1 - r, 1 + r'], they change by at most
r t/(1 - r) and r' t, with t = -alpha dh/dalpha.

The answer is an alpha whose error is proved to be the least, by more than what a run from scratch
could be wrong by, or none. docs/refit.md, "Alpha by leave-one-out", derives every bound.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve

from pilu.refit.coordinates import Coordinates
from pilu.refit.front import Front
from pilu.refit.gram import gamma
from pilu.refit.head import HeadProblem
from pilu.refit.kept import Deletion, Leverages
from pilu.refit.loo_errors import ROW, ColdErrors, Sizes

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_ROWS = 1024
_MOST_COLUMNS = 256  # of all Y together; for more, a run from scratch is as fast
_MOST_DRIFT = 0.3  # of s^2
_LEAST_ALPHA = 1e-100  # far above what underflow can do
_REFINEMENTS = 8
_ENOUGH = 1e-9  # relative size of the last refinement
_SAFE = 1.05


def cold_leverages(
    candidates: Array, front: Front, sizes: Sizes, computed: Array, slopes: Array
) -> Leverages:
    """Leverages of a run from scratch with bounds on their errors."""
    with np.errstate(invalid="ignore"):
        cold = ColdErrors.of(sizes, candidates)
        errors = np.nan_to_num(cold.leverages(computed), nan=np.inf)
        bounds = cold.sensitivities(slopes, computed + errors)
    return Leverages(candidates, front.scale, computed, errors, bounds)


@dataclass(frozen=True, eq=False)
class Warm:
    """A proved choice, and leverages for the next deletion."""

    alpha: Any
    leverages: Leverages = field(repr=False)


def warm_alpha(
    known: Leverages,
    change: Deletion,
    problem: HeadProblem,
    coordinates: Coordinates,
    front: Front,
    rows: Array,
    sizes: Sizes,
) -> Warm | None:
    """The alpha that a run from scratch would choose, if that is proved."""
    alphas = known.candidates
    if len(change.gone) * len(alphas) > _MOST_COLUMNS or len(rows) < len(coordinates.scale):
        return None
    if not alphas.min() > _LEAST_ALPHA:
        return None
    ratio = (known.units / front.scale) ** 2
    if not (ratio.min() > 1 - _MOST_DRIFT and ratio.max() < 1 + _MOST_DRIFT):
        return None
    with np.errstate(all="ignore"):  # what cannot be bounded is infinite or not a number
        work = _Work.of(known, change, problem, coordinates, front, rows, sizes, ratio)
        if work is None:
            return None
        leverages = work.updated(known, change)
        low, high = _after_drift(leverages, ratio)
        bounds = work.bounds(low, high)
        choice = None if bounds is None else _proved(problem, alphas, *bounds)
    return None if choice is None else Warm(choice, leverages)


def _after_drift(leverages: Leverages, ratio: Array) -> tuple[Array, Array]:
    """Bounds on the leverages for the scales of today; `ratio` is old over new s^2."""
    shrunk = max(0.0, 1 - 1 / float(ratio.max())) + 8 * _UNIT
    grown = max(0.0, 1 / float(ratio.min()) - 1) + 8 * _UNIT
    h, error, t = leverages.values, leverages.errors, leverages.slopes**2
    low, high = h - error - 1.0001 * grown * t, h + error + 1.0001 * shrunk / (1 - shrunk) * t
    return np.maximum(low, 0.0), high


@dataclass(frozen=True, eq=False)
class _Work:
    """Solutions for all candidates, and what one pass over the rows says of them."""

    problem: HeadProblem
    alphas: Array
    sizes: Sizes
    scale: Array
    ratio: Array
    theta: Array  # P x alphas x targets
    gone: Array  # k x P, weighted standard rows
    Y: Array  # P x alphas x k
    residuals: Array  # n x alphas x targets, weighted
    v: Array  # n x alphas x k
    theta_left: Array  # what the normal equations leave
    Y_left: Array

    @classmethod
    def of(
        cls,
        known: Leverages,
        change: Deletion,
        problem: HeadProblem,
        coordinates: Coordinates,
        front: Front,
        rows: Array,
        sizes: Sizes,
        ratio: Array,
    ) -> "_Work | None":
        alphas, w, scale = known.candidates, problem.weights, coordinates.scale
        n, P = rows.shape
        p, m, K = len(scale), len(alphas), problem.targets.shape[1]
        gone = np.sqrt(change.gone_weights) * front.rows(change.gone)
        k, root = len(gone), np.sqrt(w)
        targets, centre = problem.targets, np.zeros(K)
        if p < P:
            centre = (w * targets).sum(axis=0) / w.sum()
        cross = _sum_over(rows, w * (targets - centre))
        plain, other = np.zeros((P, m)), np.zeros((P, m))
        plain[:p] = alphas / scale[:, None] ** 2
        other[:p] = ratio[:, None] * plain[:p]
        solved = _solutions(change.after.matrix, plain, other, cross, gone.T)
        if solved is None:
            return None
        theta, Y = solved
        if p < P:
            theta[p] += centre
        columns = np.hstack([theta.reshape(P, m * K), Y.reshape(P, m * k)])
        U, left = np.empty((n, columns.shape[1])), np.zeros((P, columns.shape[1]))
        for i in range(0, n, _ROWS):
            part = slice(i, i + _ROWS)
            block = rows[part] @ columns
            block[:, : m * K] = np.tile(targets[part], m) - block[:, : m * K]
            U[part] = root[part] * block
            left += rows[part].T @ (root[part] * U[part])
        return cls(
            problem,
            alphas,
            sizes,
            scale,
            ratio,
            theta,
            gone,
            Y,
            U[:, : m * K].reshape(n, m, K),
            U[:, m * K :].reshape(n, m, k),
            left[:, : m * K].reshape(P, m, K) - plain[:, :, None] * theta,
            gone.T[:, None] - left[:, m * K :].reshape(P, m, k) - other[:, :, None] * Y,
        )

    def _beyond(
        self, left: Array, solution: Array, u: Array, low: Array, high: Array, right: Array
    ) -> Array:
        """Bounds on |K^-1/2 F|, F what a solution truly leaves of its normal equations.

        `u` are the norms of the weighted scores of the solution, `right` those of what the scores
        and the sums are compared with. Penalties are between `low` and `high`.
        """
        sizes, p = self.sizes, len(self.scale)
        n, W, length = sizes.n, sizes.weight, sizes.length
        root = np.sqrt(low)
        x, b = self._parts(solution)
        size = np.linalg.norm(left[:p] * self.scale[:, None, None], axis=0)
        last = np.abs(left[p]) if len(left) > p else np.zeros_like(size)
        known = np.hypot((size + sizes.mean_bound * last) / root, last / math.sqrt(W))
        scores = gamma(p + 8) * (length * x + math.sqrt(W) * b + right)
        sums = gamma(_ROWS + n // _ROWS + 24) * (u + right) * (length / root + 1)
        penalty = 16 * _UNIT * high * x / root
        rows = sizes.row_error * (x + u / root)
        total: Array = known + scores + sums + penalty + rows
        return _SAFE * total

    def _parts(self, solution: Array) -> tuple[Array, Array]:
        """Norms of the coefficients, in units of the head's columns, and sizes of intercepts."""
        p = len(self.scale)
        x = np.linalg.norm(solution[:p] / self.scale[:, None, None], axis=0)
        b = np.abs(solution[p]) if len(solution) > p else np.zeros_like(x)
        return x * (1 + gamma(p + 8)), b

    def updated(self, known: Leverages, change: Deletion) -> Leverages:
        """Leverages without the rows that are gone, for the penalties of `known`."""
        sizes, k, p = self.sizes, len(self.gone), len(self.scale)
        low, high = self.alphas * self.ratio.min(), self.alphas * self.ratio.max()
        low, high = low * (1 - 1e-14), high * (1 + 1e-14)
        roots = np.sqrt(change.gone_weights[:, 0])
        own = np.linalg.norm(self.gone[:, :p] * self.scale, axis=1) * (1 + gamma(p + 8))
        rounded = float(np.linalg.norm(ROW * (own + roots * sizes.shift)))
        u = np.linalg.norm(self.v, axis=0)  # alphas x k
        beyond = self._beyond(self.Y_left, self.Y, u, low[:, None], high[:, None], np.zeros_like(u))
        length = float(np.linalg.norm(own))
        phi = np.linalg.norm(beyond, axis=1)
        phi = phi + _SAFE * (rounded + gamma(8) * length) / np.sqrt(low)
        phi = np.where(phi <= 0.01, phi, np.inf)
        x, b = (np.linalg.norm(part, axis=1) for part in self._parts(self.Y))
        # What each row's v is off by: its own rounding, and sqrt(h') phi.
        own_errors = gamma(p + 8) * (np.outer(sizes.lengths, x) + np.outer(sizes.roots, b))
        own_errors = _SAFE * (own_errors + np.outer(sizes.row_errors, x))
        h, error = known.values[change.stay], known.errors[change.stay]
        sizes_v = np.linalg.norm(self.v, axis=2)
        most = np.minimum((np.sqrt(h + error) + sizes_v + own_errors) / (1 - phi), 1.0)
        off = own_errors + most * phi
        grown, wrong = np.empty_like(h), np.empty_like(h)
        for j in range(len(self.alphas)):
            M, error_of_m = self._middle(j, phi[j], x[j], b[j], length, rounded, roots)
            grown[:, j] = ((self.v[:, j] @ M) * self.v[:, j]).sum(axis=1)
            wrong[:, j] = (sizes_v[:, j] + off[:, j]) ** 2 * error_of_m
        wrong += off * (2 * sizes_v + off) + gamma(2 * k + 8) * k * sizes_v**2
        values = h + np.maximum(grown, 0.0)
        longer = x * math.sqrt(self.ratio.max()) + phi / np.sqrt(low) * math.sqrt(self.ratio.max())
        slopes = known.slopes[change.stay]
        slopes = slopes + 1.001 * np.sqrt(self.alphas) * longer * (sizes_v + off)
        errors = error + 1.01 * wrong + 4 * _UNIT * values
        known_now = np.isfinite(values + errors)
        values, errors = np.where(known_now, values, 1.0), np.where(known_now, errors, np.inf)
        slopes = np.minimum(np.nan_to_num(slopes, nan=1.0), np.sqrt(np.minimum(values + errors, 1)))
        return Leverages(known.candidates, known.units, values, errors, slopes)

    def _middle(
        self,
        j: int,
        phi: float,
        x: float,
        b: float,
        length: float,
        rounded: float,
        roots: Array,
    ) -> tuple[Array, float]:
        """(I + H)^-1 and a bound on its error; it is at most 1."""
        p, k = len(self.scale), len(self.gone)
        H = self.gone @ self.Y[:, j]
        H = 0.5 * (H + H.T)
        floats = gamma(p + 8) * (length * x + float(np.linalg.norm(roots)) * b) + rounded * x
        trace = math.sqrt(max(float(np.trace(H)), 0.0) + math.sqrt(k) * floats)
        wrong = (trace + math.sqrt(k) * phi) * phi + floats
        if not wrong < 0.01:
            return np.eye(k), math.inf
        whole = np.eye(k) + H
        try:
            M: Array = np.asarray(np.linalg.inv(whole), dtype=np.float64)
        except LinAlgError:  # rows of leverage near 1 that repeat each other
            return np.eye(k), math.inf
        left = float(np.linalg.norm(whole @ M - np.eye(k)))
        left += gamma(k + 4) * float(np.linalg.norm(whole)) * float(np.linalg.norm(M))
        # I + H as computed is at least 1 - wrong, so inverses are at most 1/(1 - wrong).
        return M, _SAFE * (wrong + left) / (1 - wrong) ** 2

    def bounds(self, low: Array, high: Array) -> tuple[Array, Array, Array] | None:
        """Bounds on the root of the sum of squared errors, and on what a cold run is off by.

        All are alphas x targets; None where a leverage may be 1.
        """
        sizes, w, targets = self.sizes, self.problem.weights, self.problem.targets
        cold = ColdErrors.of(sizes, self.alphas)
        cold_h = cold.leverages(high)
        if not (high + cold_h < 1 - 1e-6).all():
            return None
        free = len(self.theta) > len(self.scale)
        centre = (w * targets).sum(axis=0) / w.sum() if free else np.zeros(targets.shape[1])
        up = 1 + gamma(sizes.n + 64)
        plain = np.sqrt((w * targets**2).sum(axis=0)) * up
        centred = np.sqrt((w * (targets - centre) ** 2).sum(axis=0)) * up
        centred = centred + gamma(sizes.n + 8) * plain
        u = np.linalg.norm(self.residuals, axis=0)  # alphas x targets
        alphas = self.alphas[:, None]
        beyond = self._beyond(self.theta_left, self.theta, u, alphas, alphas, plain)
        x, b = self._parts(self.theta)
        scores = sizes.length * x + math.sqrt(sizes.weight) * b + plain
        off = beyond + _SAFE * (gamma(sizes.p + 8) * scores + sizes.row_error * x)
        theta = x + off / np.sqrt(alphas)
        most = 1 / (1 - high)
        widest = most.max(axis=0)[:, None]
        e = np.abs(self.residuals)
        lower = np.linalg.norm(e / (1 - low)[:, :, None], axis=0) / up - widest * off
        upper = np.linalg.norm(e * most[:, :, None], axis=0) * up + widest * off
        # A run from scratch: its residuals, its leverages, and its own sums.
        colder = 1 / (1 - high - cold_h)
        factor = most * cold_h * colder
        wrong = colder.max(axis=0)[:, None] * cold.residuals(plain, centred, theta)
        wrong = wrong + np.linalg.norm(e * factor[:, :, None], axis=0) * up
        wrong = wrong + factor.max(axis=0)[:, None] * off
        wrong = _SAFE * (wrong + gamma(sizes.n + 64) * upper)
        return lower, upper, wrong


def _proved(
    problem: HeadProblem, alphas: Array, lower: Array, upper: Array, wrong: Array
) -> Any | None:
    """The alpha of the least error, or one for each target; None if any is not proved."""
    if problem.per_target:
        chosen = [_least(alphas, *c) for c in zip(lower.T, upper.T, wrong.T, strict=True)]
        return None if None in chosen else np.array(chosen)
    totals = (np.linalg.norm(part, axis=1) for part in (np.maximum(lower, 0.0), upper, wrong))
    return _least(alphas, *totals)


def _least(alphas: Array, lower: Array, upper: Array, wrong: Array) -> float | None:
    """The alpha whose computed error from scratch is proved to be the least."""
    best = int(np.argmin(np.where(np.isnan(upper + wrong), np.inf, upper + wrong)))
    others = alphas != alphas[best]
    clear = lower[others] - wrong[others] > (upper + wrong)[best]
    return float(alphas[best]) if clear.all() and np.isfinite(upper + wrong)[best] else None


def _solutions(
    gram: Array, plain: Array, other: Array, cross: Array, gone: Array
) -> tuple[Array, Array] | None:
    """Approximate solutions for every alpha: of `cross`, and of `gone` with other penalties.

    Penalties are P x alphas. Those of `gone` are near, so its solution is refined from the first
    factor. None where a matrix has no factor: then its error is as large as the penalty.
    """
    P, m = plain.shape
    theta, Y = np.empty((P, m, cross.shape[1])), np.empty((P, m, gone.shape[1]))
    for j in range(m):
        K = gram.copy()
        K[np.arange(P), np.arange(P)] += plain[:, j]
        try:
            factor = np.linalg.cholesky(K).T, False  # as scipy reads it without a copy
        except LinAlgError:
            return None
        theta[:, j] = cho_solve(factor, cross, check_finite=False)
        Y[:, j] = cho_solve(factor, gone, check_finite=False)
        for _ in range(_REFINEMENTS):
            left = gone - gram @ Y[:, j] - other[:, j : j + 1] * Y[:, j]
            step = cho_solve(factor, left, check_finite=False)
            Y[:, j] += step
            if np.linalg.norm(step) <= _ENOUGH * np.linalg.norm(Y[:, j]):
                break
    return theta, Y


def _sum_over(rows: Array, v: Array) -> Array:
    total = np.zeros((rows.shape[1], v.shape[1]))
    for i in range(0, len(rows), _ROWS):
        total += rows[i : i + _ROWS].T @ v[i : i + _ROWS]
    return total
