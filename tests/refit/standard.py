"""Released parameters in standard coordinates, and noise that can be switched off.

Written from docs/refit.md; of pilu only the public names and `gaussian_source`'s place are used.
"""

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

import pilu.estimators.forgetful as forgetful

Array = np.ndarray[Any, Any]


class Noise:
    """Standard normals that a test can silence and look at."""

    private = False

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.silent = False
        self.last: Array | None = None

    def normal(self, shape: tuple[int, ...]) -> Array:
        drawn = np.zeros(shape) if self.silent else self.rng.standard_normal(shape)
        self.last = drawn.copy()
        return drawn

    def instead_of_pilus(self, monkeypatch: Any) -> "Noise":
        monkeypatch.setattr(forgetful, "gaussian_source", lambda *_: self)
        return self


def power_of_two_above(extent: float) -> float:
    if extent == 0:
        extent = 1.0
    scale = 1.0
    while scale <= extent:
        scale *= 2
    while scale / 2 > extent:
        scale /= 2
    return scale


class Standard:
    """The affine map of a released estimator, on the rows that it was fitted on."""

    def __init__(self, released: Any, X: Any, weights: Array | None = None) -> None:
        self.head = released[-1] if isinstance(released, Pipeline) else released
        Z = X
        if isinstance(released, Pipeline) and len(released) > 1:
            Z = released[:-1].transform(X)
        Z = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=float)
        w = np.ones(len(Z)) if weights is None else weights
        Z, w = Z[w > 0], w[w > 0]
        self.penalised = isinstance(self.head, LinearSVC) or (
            isinstance(self.head, LogisticRegression) and self.head.solver == "liblinear"
        )
        centred = self.head.fit_intercept and not self.penalised
        self.shift = np.average(Z, axis=0, weights=w) if centred else np.zeros(Z.shape[1])
        self.scale = np.array([power_of_two_above(v) for v in np.abs(Z - self.shift).max(axis=0)])
        self.last = 1.0
        if self.penalised:
            column = float(self.head.intercept_scaling)
            self.last = power_of_two_above(column) / column

    def theta(self, head: Any = None) -> Array:
        """Standard parameters, P x K, of a fitted head."""
        head = self.head if head is None else head
        coef = np.atleast_2d(np.asarray(head.coef_, dtype=float)).T
        theta = coef * self.scale[:, None]
        if not head.fit_intercept:
            return theta
        intercept = np.broadcast_to(head.intercept_, coef.shape[1:]) + self.shift @ coef
        return np.vstack([theta, intercept * self.last])

    def write(self, head: Any, theta: Array) -> None:
        """Overwrite the parameters of a fitted head by standard ones, as an adversary would."""
        coef = theta[: len(self.scale)] / self.scale[:, None]
        head.coef_ = coef.T.reshape(np.shape(head.coef_)).copy()
        if head.fit_intercept:
            intercept = theta[-1] / self.last - self.shift @ coef
            head.intercept_ = intercept.reshape(np.shape(head.intercept_)).copy()
