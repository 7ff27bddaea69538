"""Losses as functions of a row's scores: value, slope and curvature.

Scores and targets are n x K. All losses here are convex with a continuous slope. A proof needs to
know how the curvature can change near a point. For |t| <= reach,

    logistic, Tweedie        e^-reach l''(s)  <=  l''(s + t)  <=  e^reach l''(s)
    softmax                  the same for its Hessian, with reach a bound on max_c t_c - min_c t_c
    Huber, squared hinge     piecewise constant: a row near a kink may change sides

The first two follow from |l'''| <= l'' (generalised self-concordance); docs/refit.md proves them.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


class ScoreLoss(Protocol):
    """A convex loss of scores s and targets y, both n x K."""

    joint: bool  # whether the K scores of a row share one loss (softmax); else each has its own
    constant_curvature: bool

    def values(self, s: Array, y: Array) -> Array:
        """The loss: n x K, or n x 1 if joint. Constants that depend on y alone may be left out."""
        ...

    def slopes(self, s: Array, y: Array) -> Array:
        """Derivatives by the scores, n x K."""
        ...

    def largest_terms(self, s: Array, y: Array, slopes: Array) -> Array:
        """Size of the terms that slopes are sums of: their rounding errors are relative to it."""
        return np.abs(slopes)

    def curvatures(self, s: Array, y: Array) -> Array:
        """Second derivatives, n x K. If joint: the probabilities p of diag(p) - p p'."""
        ...

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Least and largest second derivative within `reach` (n x 1) of the scores."""
        ...

    def first_score(self, mean: float) -> float:
        """A good constant score for targets of this mean."""
        ...

    def usual_curvature(self, y: Array, w: Array) -> float:
        """A typical second derivative: the largest possible one, if there is a largest."""
        return 1.0


@dataclass(frozen=True)
class SquaredError(ScoreLoss):
    """(s - y)^2 / 2."""

    joint = False
    constant_curvature = True

    def values(self, s: Array, y: Array) -> Array:
        """The loss."""
        return 0.5 * (s - y) ** 2

    def slopes(self, s: Array, y: Array) -> Array:
        """Its derivative."""
        return s - y

    def curvatures(self, s: Array, y: Array) -> Array:
        """Ones."""
        return np.ones_like(s)

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Ones."""
        ones = np.ones_like(s)
        return ones, ones

    def first_score(self, mean: float) -> float:
        """The mean."""
        return mean


@dataclass(frozen=True)
class Logistic(ScoreLoss):
    """log(1 + e^{-ys}) for y = -1 or 1."""

    joint = False
    constant_curvature = False

    def values(self, s: Array, y: Array) -> Array:
        """The loss."""
        return np.logaddexp(0.0, -y * s)

    def slopes(self, s: Array, y: Array) -> Array:
        """Its derivative."""
        slopes: Array = -y * expit(-y * s)
        return slopes

    def curvatures(self, s: Array, y: Array) -> Array:
        """Its second derivative."""
        curvatures: Array = expit(s) * expit(-s)
        return curvatures

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Curvature times e^-reach and e^reach."""
        c = self.curvatures(s, y)
        return c * np.exp(-reach), c * np.exp(reach)

    def first_score(self, mean: float) -> float:
        """Zero."""
        return 0.0

    def usual_curvature(self, y: Array, w: Array) -> float:
        """A quarter, the largest."""
        return 0.25


@dataclass(frozen=True)
class Softmax(ScoreLoss):
    """log sum_c e^{s_c} - s_y for one-hot targets y."""

    joint = True
    constant_curvature = False

    def values(self, s: Array, y: Array) -> Array:
        """The loss, n x 1."""
        top = s.max(axis=1, keepdims=True)
        total = np.exp(s - top).sum(axis=1, keepdims=True)
        losses: Array = np.log(total) + top - (s * y).sum(axis=1, keepdims=True)
        return losses

    def slopes(self, s: Array, y: Array) -> Array:
        """p - y; the own class is minus the sum of the others, so that no digits cancel."""
        p = self.curvatures(s, y)
        others = np.where(y > 0, 0.0, p)
        return np.where(y > 0, -others.sum(axis=1, keepdims=True), others)

    def curvatures(self, s: Array, y: Array) -> Array:
        """The probabilities p; the Hessian of a row is diag(p) - p p'."""
        p = np.exp(s - s.max(axis=1, keepdims=True))
        probabilities: Array = p / p.sum(axis=1, keepdims=True)
        return probabilities

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Factors e^-reach and e^reach (n x 1) of the row's Hessian."""
        return np.exp(-reach), np.exp(reach)

    def first_score(self, mean: float) -> float:
        """Zero."""
        return 0.0

    def usual_curvature(self, y: Array, w: Array) -> float:
        """A half, the largest."""
        return 0.5


@dataclass(frozen=True)
class Huber(ScoreLoss):
    """r^2/2 for |r| <= threshold, and linear beyond, for the residual r = s - y."""

    threshold: float
    joint = False
    constant_curvature = False

    def values(self, s: Array, y: Array) -> Array:
        """The loss."""
        r = np.abs(s - y)
        return np.where(r <= self.threshold, 0.5 * r**2, self.threshold * (r - self.threshold / 2))

    def slopes(self, s: Array, y: Array) -> Array:
        """The clipped residual."""
        return np.clip(s - y, -self.threshold, self.threshold)

    def curvatures(self, s: Array, y: Array) -> Array:
        """One inside, zero outside."""
        return (np.abs(s - y) <= self.threshold).astype(np.float64)

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """One where the row surely is inside; zero where it surely is outside."""
        r = np.abs(s - y)
        slack = reach + 4e-16 * r
        inside, outside = r + slack < self.threshold, r - slack > self.threshold
        return inside.astype(np.float64), (~outside).astype(np.float64)

    def first_score(self, mean: float) -> float:
        """The mean."""
        return mean


@dataclass(frozen=True)
class SquaredHinge(ScoreLoss):
    """max(0, 1 - ys)^2 for y = -1 or 1."""

    joint = False
    constant_curvature = False

    def values(self, s: Array, y: Array) -> Array:
        """The loss."""
        return np.maximum(0.0, 1.0 - y * s) ** 2

    def slopes(self, s: Array, y: Array) -> Array:
        """Its derivative."""
        return -2.0 * y * np.maximum(0.0, 1.0 - y * s)

    def curvatures(self, s: Array, y: Array) -> Array:
        """Two on the near side of the margin, zero beyond it."""
        return np.where(y * s < 1.0, 2.0, 0.0)

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Two where the row surely is on the near side; zero where it surely is beyond it."""
        slack = reach + 4e-16 * (1.0 + np.abs(s))
        near, far = y * s < 1.0 - slack, y * s < 1.0 + slack
        return np.where(near, 2.0, 0.0), np.where(far, 2.0, 0.0)

    def first_score(self, mean: float) -> float:
        """Zero."""
        return 0.0

    def usual_curvature(self, y: Array, w: Array) -> float:
        """Two."""
        return 2.0


@dataclass(frozen=True)
class Tweedie(ScoreLoss):
    """Half the Tweedie deviance with a log link, for a power in [1, 2].

    With a = 2 - power and b = power - 1, up to constants: e^{as}/a + y e^{-bs}/b. Poisson has
    b = 0 and the term -y s; gamma has a = 0 and the term s.
    """

    power: float
    joint = False
    constant_curvature = False

    def values(self, s: Array, y: Array) -> Array:
        """The loss."""
        a, b = 2.0 - self.power, self.power - 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            grows = np.exp(a * s) / a if a > 0 else s
            falls = y * np.exp(-b * s) / b if b > 0 else -y * s
            return np.where(y > 0, grows + falls, grows)

    def slopes(self, s: Array, y: Array) -> Array:
        """Its derivative, e^{as} - y e^{-bs}."""
        a, b = 2.0 - self.power, self.power - 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(a * s) - np.where(y > 0, y * np.exp(-b * s), 0.0)

    def largest_terms(self, s: Array, y: Array, slopes: Array) -> Array:
        """Both exponentials."""
        a, b = 2.0 - self.power, self.power - 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(a * s) + np.where(y > 0, y * np.exp(-b * s), 0.0)

    def curvatures(self, s: Array, y: Array) -> Array:
        """Its second derivative."""
        a, b = 2.0 - self.power, self.power - 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            return a * np.exp(a * s) + np.where(y > 0, b * y * np.exp(-b * s), 0.0)

    def curvature_range(self, s: Array, y: Array, reach: Array) -> tuple[Array, Array]:
        """Curvature times e^-reach and e^reach."""
        c = self.curvatures(s, y)
        return c * np.exp(-reach), c * np.exp(reach)

    def first_score(self, mean: float) -> float:
        """The log of the mean."""
        return float(np.log(mean)) if mean > 0 else 0.0

    def usual_curvature(self, y: Array, w: Array) -> float:
        """That at the mean of the targets, a power of two."""
        mean = float((w * y).sum() / np.broadcast_to(w, y.shape).sum())
        return 2.0 ** round((2.0 - self.power) * np.log2(mean)) if mean > 0 else 1.0
