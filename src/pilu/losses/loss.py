"""What pilu asks of a loss, and the losses that it brings.

A loss l(z, y) is a convex function of the scores z = theta'x of one row, C of them, whose gradient
in z is `smoothness`-Lipschitz. A certificate needs to know how large |dl/dz| can be while the
scores wander; a loss says so by a `statistic` of the scores, a number that changes by at most
`lipschitz` times as much as they do, and by the largest |dl/dz| where it lies in an interval. The
three forms are derived in docs/concentration.md:

    a margin or a residual    statistic z y or z - y                      (Logistic, Huber, Squared)
    a margin of many scores   statistic z_y - logsumexp of the others     (Softmax)
    any smooth loss           statistic |dl/dz| itself                    (Loss, the default)

The first two are relative to the gradient, so that rows which are well fitted stay cheap.

Scores come as arrays whose last axis is C long, targets so that they can be broadcast against them.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from pilu._checks import check_real
from pilu.exceptions import WrongInput

__all__ = ["Huber", "Logistic", "Loss", "Softmax", "Squared"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Loss:
    """A loss of one's own: `name`, `smoothness`, `value` and `gradient` are enough.

    `statistic`, `lipschitz` and `largest_gradient` go together: by default they are the additive
    form, which holds for every smooth loss.
    """

    name: ClassVar[str]
    smoothness: ClassVar[float]  # of l in z: the largest eigenvalue of its Hessian, or more

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y): one axis less than the scores."""
        raise NotImplementedError

    def gradient(self, scores: Array, targets: Array) -> Array:
        """dl/dz, in the shape of the scores."""
        raise NotImplementedError

    @property
    def lipschitz(self) -> float:
        """By how much the statistic changes, at most, for each unit that the scores move."""
        return self.smoothness

    def statistic(self, scores: Array, targets: Array) -> Array:
        """What the gradient's norm is bounded by: one axis less than the scores."""
        return np.asarray(np.linalg.norm(self.gradient(scores, targets), axis=-1))

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """The largest |dl/dz| where the statistic lies between `low` and `high`, or more."""
        return np.maximum(high, 0.0)

    def check_targets(self, targets: Array) -> None:
        """Refuse targets (n x C) that the promises above do not hold for; by default, none."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        return {"name": self.name, **vars(self)}


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y z)) for y = 1 or -1: logistic regression with two classes."""

    name: ClassVar[str] = "logistic"
    smoothness: ClassVar[float] = 0.25
    lipschitz: ClassVar[float] = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y)."""
        return np.asarray(-log_expit(targets * scores)[..., 0])

    def gradient(self, scores: Array, targets: Array) -> Array:
        """dl/dz."""
        return np.asarray(-targets * expit(-targets * scores))

    def statistic(self, scores: Array, targets: Array) -> Array:
        """The margin y z."""
        return np.asarray((targets * scores)[..., 0])

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """1 / (1 + e^z) falls as the margin grows."""
        return np.asarray(expit(-low))

    def check_targets(self, targets: Array) -> None:
        """One column of 1 and -1."""
        if targets.shape[1] != 1 or not (np.abs(targets) == 1).all():
            raise WrongInput(
                "targets must be one column of 1 and -1 for the logistic loss, got others. More "
                "than two classes take the softmax loss."
            )


@dataclass(frozen=True)
class Softmax(Loss):
    """logsumexp(z) - z_y for one-hot y: multinomial logistic regression.

    With p = softmax(z) the margin z_y - logsumexp of the others is log(p_y / (1 - p_y)), and
    |p - y|^2 = (1 - p_y)^2 + sum of the others' p^2 <= 2 (1 - p_y)^2.
    """

    name: ClassVar[str] = "softmax"
    smoothness: ClassVar[float] = 0.5
    lipschitz: ClassVar[float] = math.sqrt(2) * (1 + 2**-50)

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y)."""
        return np.asarray(-log_expit(self.statistic(scores, targets)))

    def gradient(self, scores: Array, targets: Array) -> Array:
        """dl/dz."""
        likely = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        likely /= np.sum(likely, axis=-1, keepdims=True)
        likely -= targets
        return np.asarray(likely)

    def statistic(self, scores: Array, targets: Array) -> Array:
        """The margin z_y - logsumexp of the others."""
        own = np.broadcast_to(targets, scores.shape) > 0
        others = np.where(own, -np.inf, scores)
        most = np.max(others, axis=-1)
        others -= most[..., None]
        beyond = np.log(np.sum(np.exp(others, out=others), axis=-1))
        return np.asarray(np.sum(scores, axis=-1, where=own) - most - beyond)

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """sqrt(2) (1 - p_y), which falls as the margin grows."""
        return np.asarray(self.lipschitz * expit(-low))

    def check_targets(self, targets: Array) -> None:
        """A column for every class, one of them 1 in every row."""
        one_hot = ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=1) == 1).all()
        if targets.shape[1] < 2 or not one_hot:
            raise WrongInput(
                "targets must be one-hot, with a column for each of two classes or more, for the "
                "softmax loss, got others. One column takes the logistic loss."
            )


@dataclass(frozen=True)
class _Residual(Loss):
    """A loss of the residual z - y; of one score, it is the statistic, of several the norm is."""

    smoothness: ClassVar[float] = 1.0

    def statistic(self, scores: Array, targets: Array) -> Array:
        """The residual; the gradient's norm where there are several."""
        if scores.shape[-1] > 1:
            return super().statistic(scores, targets)
        return np.asarray((scores - targets)[..., 0])


@dataclass(frozen=True)
class Huber(_Residual):
    """r^2 / 2 up to a threshold and linear beyond it, for the residual r = z - y of each output."""

    threshold: float = 1.0

    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        check_real("threshold", self.threshold, above=0.0)

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y), summed over outputs."""
        size = np.abs(scores - targets)
        inside = np.minimum(size, self.threshold)
        return np.asarray(np.sum(inside * (size - inside / 2), axis=-1))

    def gradient(self, scores: Array, targets: Array) -> Array:
        """The residual, clipped at the threshold."""
        return np.clip(scores - targets, -self.threshold, self.threshold)

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """The larger end of the interval, and never more than the threshold allows."""
        size = np.maximum(np.abs(low), np.abs(high)) if n_scores == 1 else np.maximum(high, 0.0)
        return np.minimum(size, self.threshold * math.sqrt(n_scores))


@dataclass(frozen=True)
class Squared(_Residual):
    """r^2 / 2: ridge regression as one smooth loss among others."""

    name: ClassVar[str] = "squared"

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y), summed over outputs."""
        return np.asarray(np.sum(np.square(scores - targets), axis=-1) / 2)

    def gradient(self, scores: Array, targets: Array) -> Array:
        """The residual."""
        return np.asarray(scores - targets)

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """The larger end of the interval."""
        return np.maximum(np.abs(low), np.abs(high)) if n_scores == 1 else np.maximum(high, 0.0)
