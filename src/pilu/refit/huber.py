"""Ridge regression with Huber's loss, as a plain scikit-learn regressor."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pilu._checks import check_flag, check_real
from pilu.refit.coordinates import Coordinates
from pilu.refit.objective import Objective
from pilu.refit.score_losses import Huber
from pilu.refit.solve import solve

Array = NDArray[np.float64]


class HuberRidge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression that limits the pull of outliers.

    It minimises  sum_i w_i huber(x_i' coef + intercept - y_i) + alpha/2 |coef|^2,  where huber(r)
    is r^2/2 up to `threshold` and linear beyond. Unlike scikit-learn's HuberRegressor it does not
    estimate a scale, so its objective is the sum that `Forgetful` certifies. `LangevinHuber` has
    the same loss.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Penalty on the coefficients; the intercept is not penalised.
    threshold : float > 0, default=1.35
        Where the loss becomes linear, in units of y.
    fit_intercept : bool, default=True
    tol : float > 0, default=1e-8
        The parameters are proved to be within this distance of the minimiser, in units of y.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        threshold: float = 1.35,
        fit_intercept: bool = True,
        tol: float = 1e-8,
    ) -> None:
        self.alpha = alpha
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the minimiser."""
        alpha = check_real("alpha", self.alpha, least=0.0)
        threshold = check_real("threshold", self.threshold, above=0.0)
        fit_intercept = check_flag("fit_intercept", self.fit_intercept)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)[:, None]
        coordinates = Coordinates.of(X, weights, fit_intercept=fit_intercept)
        objective = Objective(
            Huber(threshold),
            coordinates.rows(X),
            np.asarray(y, dtype=np.float64)[:, None],
            weights,
            coordinates.penalty(np.array([alpha])),
            fit_intercept,
        )
        theta = solve(objective, None, check_real("tol", self.tol, above=0.0))
        coef, intercept = coordinates.out(theta)
        self.coef_, self.intercept_ = coef[:, 0], float(intercept[0])
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        predicted: Array = X @ self.coef_ + self.intercept_
        return predicted
