"""Second derivatives of losses in their scores, and their Lipschitz constants, for Newton steps.

    logistic  w = s (1 - s), s = 1 / (1 + e^-z);  |l'''| = s (1 - s) |1 - 2s| <= 1 / (6 sqrt(3))
    softmax   W = diag(p) - p p';  |W(z) - W(z')| <= sqrt(2)^3 / (6 sqrt(3)) |z - z'|

The third derivative of logsumexp in direction u is the third central moment of a variable that is
u_c with probability p_c. On an interval of length d such a moment is at most d^3 / (6 sqrt(3)), and
the entries of a unit vector lie within sqrt(2) (docs/baselines.md, "Smooth losses").
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from pilu._checks import complaint
from pilu.losses.loss import Logistic, Loss, Softmax

__all__ = ["Curvature", "curvature_of", "hessian"]

Array = NDArray[np.float64]

_UP = 1 + 2.0**-50
_BLOCK = 2**22  # numbers of a block of weighted rows


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


_OF_BERNOULLI = 1 / (6 * math.sqrt(3)) * _UP  # the largest third central moment
_KNOWN = {
    Logistic: Curvature(_logistic, _OF_BERNOULLI),
    Softmax: Curvature(_softmax, 2 * math.sqrt(2) * _OF_BERNOULLI * _UP),
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
