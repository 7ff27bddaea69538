"""The alpha of ridge regression with the least leave-one-out error, as RidgeCV defines it.

With centred, weighted rows a_i = sqrt(w_i) (x_i - mean), targets alike, and A'A = V diag(v) V', the
error of row i when it is left out is

    e_i(alpha) = (b_i - a_i' theta)/(1 - h_i),    h_i = w_i/W + sum_k (a_i' V)_k^2/(v_k + alpha)

where w_i/W is the leverage of the intercept. RidgeCV takes the alpha with the least mean of e_i^2
over rows and targets, the first of several, or the least one for each target.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.class_weight import compute_sample_weight

from pilu.exceptions import WrongInput

__all__ = ["leave_one_out_alpha"]

Array = NDArray[np.float64]

_ROWS = 2048


def leave_one_out_alpha(head: Any, X: Any, y: NDArray[Any], weights: Array | None) -> Any:
    """The alpha that RidgeCV or RidgeClassifierCV selects with cv=None; a function of the rows."""
    alphas = np.atleast_1d(np.asarray(head.alphas, dtype=np.float64))
    if not (alphas > 0).all():
        raise WrongInput(f"alphas must be positive for leave-one-out, got alphas={head.alphas!r}.")
    if sp.issparse(X):
        return clone(head).fit(X, y, sample_weight=weights).alpha_
    w = np.ones(len(X)) if weights is None else weights
    if is_classifier(head):
        if head.class_weight:
            w = w * compute_sample_weight(head.class_weight, y)
        y = LabelBinarizer(neg_label=-1).fit_transform(y)
    Y = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    A, B, leverage = _weighted(X, Y, w, bool(head.fit_intercept))
    values, basis, projected = _eigen(A, B)
    squares = np.zeros((len(alphas), Y.shape[1]))
    for start in range(0, len(A), _ROWS):
        part = slice(start, start + _ROWS)
        T = A[part] @ basis
        for i, alpha in enumerate(alphas):
            shrunk = 1.0 / (values + alpha)
            h = leverage[part] + (T**2) @ shrunk
            errors = (B[part] - T @ (shrunk[:, None] * projected)) / (1.0 - h)[:, None]
            squares[i] += (errors**2).sum(axis=0)
    if getattr(head, "alpha_per_target", False) and Y.shape[1] > 1:
        return alphas[squares.argmin(axis=0)]
    return float(alphas[squares.sum(axis=1).argmin()])


def _weighted(X: Array, Y: Array, w: Array, intercept: bool) -> tuple[Array, Array, Array]:
    """Centred and weighted rows and targets, and the leverage of the intercept."""
    root, total = np.sqrt(w)[:, None], w.sum()
    if not intercept:
        return root * X, root * Y, np.zeros(len(X))
    return root * (X - w @ X / total), root * (Y - w @ Y / total), w / total


def _eigen(A: Array, B: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues of A'A, its eigenbasis, and A'B in it; through A A' where that is smaller."""
    n, p = A.shape
    if p <= n:
        values, basis = np.linalg.eigh(A.T @ A)
        values = np.maximum(values, 0.0)
        return values, basis, basis.T @ (A.T @ B)
    values, left = np.linalg.eigh(A @ A.T)
    keep = values > values[-1] * n * 1e-15
    basis = (A.T @ left[:, keep]) / np.sqrt(values[keep])
    return values[keep], basis, basis.T @ (A.T @ B)
