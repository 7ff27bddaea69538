"""The interface of a loss, and the built-in losses.

A loss l(z, y) is a convex function of the C scores z = theta'x of one row. Its gradient in z is
`smoothness`-Lipschitz. A certificate needs a bound on |dl/dz| along the chain. A loss supplies it
through a `statistic` of the scores, which is `lipschitz`-Lipschitz, and through the largest |dl/dz|
given an interval that contains the statistic. The three forms are derived in docs/concentration.md:

    a margin or a residual    statistic z y or z - y                      (Logistic, Huber, Squared)
    a margin of many scores   statistic z_y - logsumexp of the others     (Softmax)
    any smooth loss           statistic |dl/dz| itself                    (Loss, the default)

With the first two, a row that is fitted well needs little noise.

Scores are arrays whose last axis has length C. Targets broadcast against them.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from pilu._checks import check_real
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Loss:
    """Base class of a loss: define `name`, `smoothness`, `value` and `gradient`.

    `statistic`, `lipschitz` and `largest_gradient` belong together. Their defaults are valid for
    every smooth loss.
    """

    name: ClassVar[str]
    smoothness: ClassVar[float]  # bounds the eigenvalues of the Hessian of l in z

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y): one axis less than the scores."""
        raise NotImplementedError

    def gradient(self, scores: Array, targets: Array) -> Array:
        """dl/dz, in the shape of the scores."""
        raise NotImplementedError

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the statistic in the scores."""
        return self.smoothness

    def statistic(self, scores: Array, targets: Array) -> Array:
        """The statistic that bounds the gradient's norm: one axis less than the scores."""
        return np.asarray(np.linalg.norm(self.gradient(scores, targets), axis=-1))

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """Bounds |dl/dz| where the statistic is between `low` and `high`."""
        return np.maximum(high, 0.0)

    def check_targets(self, targets: Array) -> None:
        """Refuse targets (n x C) for which these bounds do not hold; by default, accept all."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
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
        """1 / (1 + e^z) decreases in the margin."""
        return np.asarray(expit(-low))

    def check_targets(self, targets: Array) -> None:
        """One column of 1 and -1."""
        if targets.shape[1] != 1 or not (np.abs(targets) == 1).all():
            raise WrongInput(
                "targets must be one column of 1 and -1 for the logistic loss, got other values. "
                "Use the softmax loss for more than two classes."
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
        """sqrt(2) (1 - p_y) decreases in the margin."""
        return np.asarray(self.lipschitz * expit(-low))

    def check_targets(self, targets: Array) -> None:
        """One column per class, with a single 1 in every row."""
        one_hot = ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=1) == 1).all()
        if targets.shape[1] < 2 or not one_hot:
            raise WrongInput(
                "targets must be one-hot with at least two columns for the softmax loss, got other "
                "values. Use the logistic loss for one column."
            )


@dataclass(frozen=True)
class _Residual(Loss):
    """A loss of the residual z - y. The statistic is the residual or, for several, its norm."""

    smoothness: ClassVar[float] = 1.0

    def statistic(self, scores: Array, targets: Array) -> Array:
        """The residual of one score; the gradient's norm for several."""
        if scores.shape[-1] > 1:
            return super().statistic(scores, targets)
        return np.asarray((scores - targets)[..., 0])

    def largest_gradient(self, low: Array, high: Array, n_scores: int) -> Array:
        """The larger end of the interval."""
        return np.maximum(np.abs(low), np.abs(high)) if n_scores == 1 else np.maximum(high, 0.0)


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
        """The larger end of the interval, capped by the threshold."""
        size = super().largest_gradient(low, high, n_scores)
        return np.minimum(size, self.threshold * math.sqrt(n_scores))


@dataclass(frozen=True)
class Squared(_Residual):
    """r^2 / 2: ridge regression as a smooth loss."""

    name: ClassVar[str] = "squared"

    def value(self, scores: Array, targets: Array) -> Array:
        """l(z, y), summed over outputs."""
        return np.asarray(np.sum(np.square(scores - targets), axis=-1) / 2)

    def gradient(self, scores: Array, targets: Array) -> Array:
        """The residual."""
        return np.asarray(scores - targets)
