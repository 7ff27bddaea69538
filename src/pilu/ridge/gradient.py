"""The gradient of ridge regression, computed from the rows as in Algorithm 1."""

import numpy as np
from numpy.typing import NDArray

from pilu.data.rows import RowSource

__all__ = ["gradient_on_rows"]

Array = NDArray[np.float64]


def gradient_on_rows(theta: Array, source: RowSource, alpha: float) -> Array:
    """grad f(theta) = X'(X theta - Y) + alpha theta; rows are not checked against their digests."""
    gradient = alpha * theta
    for x, y in source.features(check=False):
        p = x.shape[1]
        residuals = x @ theta[:p] + (theta[p:].sum(axis=0) - y)  # x has no column of ones
        gradient[:p] += x.T @ residuals
        gradient[p:] += residuals.sum(axis=0)
    return gradient
