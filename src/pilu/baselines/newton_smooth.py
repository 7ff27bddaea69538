"""The Newton step for losses that are not squares [Guo et al. 2020; Sekhari et al. 2021].

With lambda = alpha / n and L' the retained objective, (n - R) lambda for its regulariser,

    theta^- = theta + H'(theta)^{-1} (R lambda theta + sum of the removed rows' gradients),
    grad L'(theta^-) = grad L(theta) + remainder,
    |remainder| <= lipschitz/2 |X'|_2 ( sum_j |x_j'(theta^- - theta)|^4 )^{1/2}.

The gradient that is left can be measured. L' is (n - R) lambda-strongly convex, so theta^- is at
most |grad L'(theta^-)| / ((n - R) lambda) from the retained minimiser. If learning is
deterministic, that is a number, and Gaussian noise hides it: this is certified. If learning was
perturbed by <b, theta>, as Guo et al. do, the residual is a function of b. The theorem that turns
it into an epsilon does not cover that (docs/baselines.md): this is not certified.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.accounting.gdp import mu_from_epsilon
from pilu.baselines.closed_forms import check_conditioning
from pilu.baselines.curvature import Curvature, curvature_of, hessian
from pilu.baselines.interface import Answer, Learned, Rows, Task, row_norms
from pilu.certify.accountant import VISIBLE_ULPS
from pilu.chains.chain import walk
from pilu.chains.schedule import Segment
from pilu.exceptions import BeyondPrecision
from pilu.losses.loss import Loss

__all__ = ["Removal", "learn_perturbed", "learn_plain", "perturbed_minimiser"]

Array = NDArray[np.float64]

_UP = 1 + 1e-9
_EPS = float(np.finfo(np.float64).eps)
_MOST_STEPS = 200
_MOST_PARAMETERS = 20_000  # 3 GB for the matrix of second derivatives


def learn_plain(task: Task, *, converged: bool) -> Learned:
    """Learning without noise; noise on the output hides the residual."""
    check_size(task)
    curvature, nothing = curvature_of(task.loss), np.zeros(task.shape)
    theta = _learned(task, curvature, nothing, converged=converged)
    mu = float(mu_from_epsilon(task.epsilon, task.delta))

    def respond(rows: Rows) -> Answer:
        removal = Removal(task, curvature, rows, theta)
        left, residual = removal.left, removal.residual(nothing)
        distance = residual / removal.strong_convexity * _UP
        noise = max(distance / mu * _UP, VISIBLE_ULPS * float(np.spacing(np.linalg.norm(left))))
        return Answer(
            left + noise * task.gaussian(1).normal(left.shape),
            task.epsilon,
            task.delta,
            certified=True,
            guarantee="against the minimiser without the rows with the same noise on it, in both "
            "directions",
            rows_touched=removal.rows_read,
            noise=noise,
            details=lambda: {
                "residual": residual,
                "residual_bound": removal.residual_bound(nothing),
                "distance": distance,
            },
        )

    return Learned(task, theta, respond)


def learn_perturbed(task: Task, sigma: float, *, converged: bool) -> Learned:
    """Guo et al.'s objective perturbation, with epsilon from the residual of the draw."""
    check_size(task)
    curvature = curvature_of(task.loss)
    b = sigma * task.gaussian(0).normal(task.shape)
    theta = _learned(task, curvature, b, converged=converged)
    factor = math.sqrt(2 * math.log(1.5 / task.delta)) / sigma

    def respond(rows: Rows) -> Answer:
        removal = Removal(task, curvature, rows, theta)
        residual = removal.residual(b)
        return Answer(
            removal.left,
            residual * factor,
            task.delta,
            certified=False,
            guarantee="none proved: from the residual of this one draw",
            rows_touched=removal.rows_read,
            noise=sigma,
            details=lambda: {
                "residual": residual,
                "residual_bound": removal.residual_bound(b),
            },
        )

    return Learned(task, theta, respond)


def check_size(task: Task) -> None:
    """Refuse matrices of second derivatives that are too large to solve with."""
    size = math.prod(task.shape)
    if size > _MOST_PARAMETERS:
        raise complaint(
            "X",
            f"at most {_MOST_PARAMETERS:,} parameters for a Newton step",
            f"{size:,}",
            "Leave the method out, or reduce the columns.",
        )


def _learned(task: Task, curvature: Curvature, b: Array, *, converged: bool) -> Array:
    if converged:
        return perturbed_minimiser(task.X, task.Y, task.loss, curvature, task.alpha, b)

    def gradient(theta: Array, step: int) -> Array:
        return task.objective.gradient(theta) + b

    noiseless = Segment(task.n_steps, 0.0)
    return walk(np.zeros_like(b), gradient, task.step_size, noiseless, task.gaussian(0))


def perturbed_minimiser(
    X: Array, Y: Array, loss: Loss, curvature: Curvature, alpha: float, b: Array
) -> Array:
    """The minimiser of sum_j l + alpha/2 |theta|^2 + <b, theta>, by damped Newton steps."""

    def value(theta: Array) -> float:
        fit = float(np.sum(loss.value(X @ theta, Y)))
        return fit + alpha / 2 * float(np.sum(np.square(theta))) + float(np.sum(b * theta))

    theta = np.zeros_like(b)
    for _ in range(_MOST_STEPS):
        gradient, rounding = _gradient(X, Y, loss, alpha, theta, b)
        if np.linalg.norm(gradient) <= rounding:
            return theta
        step = _solve(hessian(curvature, X, theta, alpha), gradient, alpha)
        fall, size, now = float(np.sum(gradient * step)), 1.0, value(theta)
        # The least fall that the rounding of the value does not hide; below it, steps are full.
        blurred = 64 * _EPS * (abs(now) + len(X))
        while fall > blurred and value(theta - size * step) > now - size * fall / 4:
            size /= 2
        moved = theta - size * step
        if fall <= blurred and not (
            np.linalg.norm(_gradient(X, Y, loss, alpha, moved, b)[0]) < np.linalg.norm(gradient)
        ):
            return theta  # rounding allows no better
        theta = moved
    raise BeyondPrecision(
        f"the minimiser was not found in {_MOST_STEPS} Newton steps. Pass a larger alpha, features "
        "of another scale, or NewtonStep(converged=False)."
    )


def _gradient(
    X: Array, Y: Array, loss: Loss, alpha: float, theta: Array, b: Array
) -> tuple[Array, float]:
    """The gradient of the perturbed objective, and a bound on the norm of its rounding error.

    Scores are off by p units of |x| |theta|, derivatives by smoothness times that and a few units
    of their own, sums over n rows by n units of the summands.
    """
    n, p = X.shape
    x, slopes = row_norms(X), loss.gradient(X @ theta, Y)
    size = float(np.linalg.norm(theta))
    each = row_norms(slopes) + 1.0
    scores = loss.smoothness * float(np.sum(x * x)) * size * (p + 2)
    terms = float(np.sum(x * each)) * (n + 16) + alpha * size * 4 + float(np.linalg.norm(b)) * 4
    return X.T @ slopes + alpha * theta + b, 2 * _EPS * (scores + terms)


def _solve(H: Array, right: Array, alpha: float) -> Array:
    try:
        factor = scipy.linalg.cho_factor(H, overwrite_a=True)
    except np.linalg.LinAlgError:
        check_conditioning(math.inf, len(H), alpha)
    solved = scipy.linalg.cho_solve(factor, right.ravel())
    return np.asarray(solved.reshape(right.shape))


@dataclass(frozen=True, eq=False)
class Removal:
    """One Newton step from theta on the rows that are left."""

    task: Task
    curvature: Curvature
    rows: Rows
    theta: Array

    @cached_property
    def _kept(self) -> tuple[Array, Array]:
        return self.task.without(self.rows)

    @property
    def _share(self) -> float:
        """The removed rows' part of the regulariser."""
        return len(self.rows) * self.task.alpha / self.task.n_rows

    @property
    def strong_convexity(self) -> float:
        """(n - R) lambda, of the retained objective."""
        return self.task.alpha - self._share

    @property
    def rows_read(self) -> int:
        """All rows for the step, and the retained ones again for the residual."""
        return 2 * self.task.n_rows - len(self.rows)

    @cached_property
    def left(self) -> Array:
        """theta^-."""
        X, Y, loss = self.task.X[self.rows], self.task.Y[self.rows], self.task.loss
        pull = self._share * self.theta + X.T @ loss.gradient(X @ self.theta, Y)
        H = hessian(self.curvature, self._kept[0], self.theta, self.strong_convexity)
        return self.theta + _solve(H, pull, self.task.alpha)

    def residual(self, b: Array) -> float:
        """|grad L'_b(theta^-)|, rounded up."""
        loss, alpha = self.task.loss, self.strong_convexity
        gradient, rounding = _gradient(*self._kept, loss, alpha, self.left, b)
        return float(np.linalg.norm(gradient)) + rounding

    def residual_bound(self, b: Array) -> float:
        """The gradient of learning plus the remainder's bound, from theta and the step alone."""
        task, X = self.task, self._kept[0]
        learning, rounding = _gradient(task.X, task.Y, task.loss, task.alpha, self.theta, b)
        rounding += _gradient(*self._kept, task.loss, self.strong_convexity, self.left, b)[1]
        moved = row_norms(X @ (self.left - self.theta))
        longest = math.sqrt(max(float(np.linalg.eigvalsh(X.T @ X)[-1]), 0.0))
        remainder = self.curvature.lipschitz / 2 * longest * float(np.linalg.norm(moved**2))
        return float(np.linalg.norm(learning)) + remainder * _UP + rounding
