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

Second derivatives of losses in their scores, and their Lipschitz constants:

    logistic  w = s (1 - s), s = 1 / (1 + e^-z);  |l'''| = s (1 - s) |1 - 2s| <= 1 / (6 sqrt(3))
    softmax   W = diag(p) - p p';  |W(z) - W(z')| <= sqrt(2)^3 / (6 sqrt(3)) |z - z'|

The third derivative of logsumexp in direction u is the third central moment of a variable that is
u_c with probability p_c. On an interval of length d such a moment is at most d^3 / (6 sqrt(3)), and
the entries of a unit vector lie within sqrt(2) (docs/baselines.md, "Smooth losses").
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit, softmax

from pilu._checks import complaint
from pilu.accounting.gdp import mu_from_epsilon
from pilu.baselines.interface import Answer, Learned, Rows, Task, row_norms
from pilu.baselines.objective import RowObjective, check_conditioning
from pilu.certify.accountant import VISIBLE_ULPS
from pilu.chains.schedule import Segment
from pilu.exceptions import BeyondPrecision
from pilu.losses.loss import Logistic, Loss, Softmax

Array = NDArray[np.float64]

MEASURED = "none proved: from the residual of this one draw"

_UP = 1 + 1e-9
_EPS = float(np.finfo(np.float64).eps)
_MOST_STEPS = 200
_MOST_PARAMETERS = 20_000  # 3 GB for the matrix of second derivatives
_BLOCK = 2**22  # numbers of a block of weighted rows


def learn_smooth(task: Task, sigma: float, *, converged: bool) -> Learned:
    """Learning with a perturbation of deviation sigma, or without one if sigma is 0.

    Without one, noise on the output hides the residual. With one, as Guo et al. do, epsilon is
    from the residual of the draw.
    """
    _check_size(task)
    curvature = curvature_of(task.loss)
    b, theta = sigma * task.gaussian(0).normal(task.shape), np.zeros(task.shape)
    objective = RowObjective(task.X, task.Y, task.loss, task.alpha, b)
    if converged:
        theta = _minimised(theta, objective, curvature)
    else:
        noiseless = Segment(task.n_steps, 0.0)
        theta = objective.walked(theta, task.step_size, noiseless, task.gaussian(0))
    mu = float(mu_from_epsilon(task.epsilon, task.delta))

    def respond(rows: Rows) -> Answer:
        removal = Removal(objective, curvature, rows, theta)
        left, residual = removal.left, removal.residual
        if sigma > 0:
            return Answer(
                left,
                measured_epsilon(residual, sigma, task.delta),
                task.delta,
                certified=False,
                guarantee=MEASURED,
                rows_touched=removal.rows_read,
                noise=sigma,
                details=removal.details,
            )
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
            details=lambda: removal.details() | {"distance": distance},
        )

    return Learned(task, theta, respond)


def measured_epsilon(residual: float, sigma: float, delta: float) -> float:
    """Guo et al.'s epsilon for a residual, which is no proof if the residual depends on b."""
    return residual * (math.sqrt(2 * math.log(1.5 / delta)) / sigma)


def _check_size(task: Task) -> None:
    """Refuse matrices of second derivatives that are too large to solve with."""
    size = math.prod(task.shape)
    if size > _MOST_PARAMETERS:
        raise complaint(
            "X",
            f"at most {_MOST_PARAMETERS:,} parameters for a Newton step",
            f"{size:,}",
            "Leave the method out, or reduce the columns.",
        )


def _minimised(theta: Array, objective: RowObjective, curvature: "Curvature") -> Array:
    """The minimiser of sum_j l + alpha/2 |theta|^2 + <b, theta>, by damped Newton steps."""
    X, alpha, b = objective.X, objective.alpha, objective.b

    def value(theta: Array) -> float:
        fit = float(np.sum(objective.loss.value(X @ theta, objective.Y)))
        return fit + alpha / 2 * float(np.sum(np.square(theta))) + float(np.sum(b * theta))

    for _ in range(_MOST_STEPS):
        gradient, rounding = _gradient(objective, theta)
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
            np.linalg.norm(objective.gradient(moved)) < np.linalg.norm(gradient)
        ):
            return theta  # rounding allows no better
        theta = moved
    raise BeyondPrecision(
        f"the minimiser was not found in {_MOST_STEPS} Newton steps. Pass a larger alpha, features "
        "of another scale, or NewtonStep(converged=False)."
    )


def _gradient(objective: RowObjective, theta: Array) -> tuple[Array, float]:
    """The gradient of the perturbed objective, and a bound on the norm of its rounding error.

    Scores are off by p units of |x| |theta|, derivatives by smoothness times that and a few units
    of their own, sums over n rows by n units of the summands.
    """
    X, loss, alpha, b = objective.X, objective.loss, objective.alpha, objective.b
    n, p = X.shape
    x, slopes = row_norms(X), loss.gradient(X @ theta, objective.Y)
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

    objective: RowObjective
    curvature: "Curvature"
    rows: Rows
    theta: Array

    @property
    def _share(self) -> float:
        """The removed rows' part of the regulariser."""
        return len(self.rows) * self.objective.alpha / len(self.objective.X)

    @property
    def strong_convexity(self) -> float:
        """(n - R) lambda, of the retained objective."""
        return self.objective.alpha - self._share

    @cached_property
    def _retained(self) -> RowObjective:
        return replace(self.objective.without(self.rows), alpha=self.strong_convexity)

    @property
    def rows_read(self) -> int:
        """All rows for the step, and the retained ones again for the residual."""
        return 2 * len(self.objective.X) - len(self.rows)

    @cached_property
    def left(self) -> Array:
        """theta^-."""
        X, Y = self.objective.X[self.rows], self.objective.Y[self.rows]
        slopes = self.objective.loss.gradient(X @ self.theta, Y)
        pull = self._share * self.theta + X.T @ slopes
        H = hessian(self.curvature, self._retained.X, self.theta, self.strong_convexity)
        return self.theta + _solve(H, pull, self.objective.alpha)

    @cached_property
    def residual(self) -> float:
        """|grad L'_b(theta^-)|, rounded up."""
        gradient, rounding = _gradient(self._retained, self.left)
        return float(np.linalg.norm(gradient)) + rounding

    @property
    def residual_bound(self) -> float:
        """The gradient of learning plus the remainder's bound, from theta and the step alone."""
        X = self._retained.X
        learning, rounding = _gradient(self.objective, self.theta)
        rounding += _gradient(self._retained, self.left)[1]
        moved = row_norms(X @ (self.left - self.theta))
        longest = math.sqrt(max(float(np.linalg.eigvalsh(X.T @ X)[-1]), 0.0))
        remainder = self.curvature.lipschitz / 2 * longest * float(np.linalg.norm(moved**2))
        return float(np.linalg.norm(learning)) + remainder * _UP + rounding

    def details(self) -> dict[str, float]:
        """The residual and its bound."""
        return {"residual": self.residual, "residual_bound": self.residual_bound}


class Curvature(NamedTuple):
    """d2l/dz2 of rows (n x C x C) from their scores, and its Lipschitz constant in them."""

    weights: Callable[[Array], Array]
    lipschitz: float


def _logistic(scores: Array) -> Array:
    return np.asarray((expit(scores) * expit(-scores))[:, :, None])


def _softmax(scores: Array) -> Array:
    p = softmax(scores, axis=1)
    weights = -p[:, :, None] * p[:, None, :]
    every = np.arange(p.shape[1])
    weights[:, every, every] = p * (1 - p)
    return np.asarray(weights)


_ULPS = 1 + 2.0**-50  # for the rounding of the constants
_OF_BERNOULLI = 1 / (6 * math.sqrt(3)) * _ULPS  # the largest third central moment
_KNOWN = {
    Logistic: Curvature(_logistic, _OF_BERNOULLI),
    Softmax: Curvature(_softmax, 2 * math.sqrt(2) * _OF_BERNOULLI * _ULPS),
}


def curvature_of(loss: Loss) -> Curvature:
    """The second derivative of a loss, if it is Lipschitz with a known constant."""
    if type(loss) not in _KNOWN:
        raise complaint(
            "loss",
            "logistic or softmax for a Newton step",
            loss.name,
            "Its residual is bounded by the Lipschitz constant of the second derivative, and this "
            "loss has none (Huber's jumps at the threshold) or none that is known. Leave the "
            "method out.",
        )
    return _KNOWN[type(loss)]


def hessian(curvature: Curvature, X: Array, theta: Array, alpha: float) -> Array:
    """Second derivatives of sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2 in theta: pC x pC."""
    p, C = theta.shape
    H = np.zeros((p, C, p, C))
    size = max(1, _BLOCK // max(p, C * C))
    for first in range(0, len(X), size):
        x = X[first : first + size]
        W = curvature.weights(x @ theta)
        for c in range(C):
            for e in range(c + 1):
                H[:, c, :, e] += x.T @ (W[:, c, e, None] * x)
    for c in range(C):
        for e in range(c):
            H[:, e, :, c] = H[:, c, :, e]  # each of these blocks is symmetric
    whole = H.reshape(p * C, p * C)
    np.fill_diagonal(whole, whole.diagonal() + alpha)
    return whole
