"""`LangevinLogistic`, `LangevinHuber`, and base classes for other smooth losses."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from pilu._checks import LARGEST_SQUARE, check_integer, check_real
from pilu.chains.problem import Problem
from pilu.data.rows import RowSource
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.learning import check_batch_size
from pilu.estimators.outputs import LangevinClassifier, LangevinRegressor
from pilu.losses.loss import Huber, Logistic, Loss, Softmax
from pilu.losses.problem import AuxiliaryRuns, SmoothProblem

__all__ = [
    "LangevinHuber",
    "LangevinLogistic",
    "SmoothClassifier",
    "SmoothEstimator",
    "SmoothRegressor",
]

Array = NDArray[np.float64]


class SmoothEstimator(LangevinEstimator):
    """Base class for smooth losses, whose sensitivities are bounded by concentration."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        n_steps: int = 500,
        noise: float = 0.01,
        step_size: float | str = "auto",
        batch_size: int | None = None,
        fit_intercept: bool = True,
        n_auxiliary_runs: int = 32,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.n_steps = n_steps
        self.noise = noise
        self.step_size = step_size
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.n_auxiliary_runs = n_auxiliary_runs
        self.random_state = random_state

    @abstractmethod
    def make_loss(self, n_outputs: int) -> Loss:
        """The loss for `n_outputs` scores; override it to use your own."""

    def make_problem(self, source: RowSource, n_outputs: int) -> Problem:
        """The problem of new rows."""
        n, loss = source.n_rows, self.make_loss(n_outputs)
        batch_size = n if self.batch_size is None else int(self.batch_size)
        check_batch_size(batch_size, n)
        runs = AuxiliaryRuns.drawn(int(self.n_auxiliary_runs), self.random_state)
        return SmoothProblem.fit(source, float(self.alpha), n_outputs, batch_size, loss, runs)

    def restore_problem(
        self, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], source: RowSource
    ) -> Problem:
        """The problem that a store saved."""
        d = int(arrays["theta"].shape[1])
        return SmoothProblem.restored(
            record, source, d, self.make_loss(d), int(self.n_auxiliary_runs)
        )

    def check_parameters(self) -> None:
        """Refuse parameters that are out of range."""
        check_real(
            "alpha",
            self.alpha,
            above=0.0,
            most=LARGEST_SQUARE,
            remedy="Without a penalty such a loss has no known strong convexity, so steps have no "
            "known contraction and nothing can be certified.",
        )
        super().check_parameters()
        check_integer("n_auxiliary_runs", self.n_auxiliary_runs, least=1)


class SmoothClassifier(SmoothEstimator, LangevinClassifier):
    """Classification with a smooth loss of linear scores.

    Two classes have one score; more classes have one score each. Subclass it and override
    `make_loss` to use your own loss (docs/losses.md). `LangevinLogistic` documents the parameters.
    """

    signed: ClassVar[bool] = True


class SmoothRegressor(SmoothEstimator, LangevinRegressor):
    """Regression with a smooth loss of linear predictions.

    Subclass it and override `make_loss` to use your own loss (docs/losses.md). `LangevinHuber`
    documents the parameters.
    """


class LangevinLogistic(SmoothClassifier):
    """Logistic regression learned by noisy gradient steps, so that rows can be forgotten later.

    The objective is ``sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2`` with the logistic loss for two
    classes and the multinomial one for more.

    Parameters
    ----------
    alpha : float > 0, default=1.0
        Regularisation, 1/C of scikit-learn's ``LogisticRegression``; the intercept is regularised
        too.
    n_steps : int >= 1, default=500
        Learning steps T.
    noise : float > 0, default=0.01
        Learning noise sigma_learn: each step adds ``sqrt(2 step_size) noise N(0, I)``.
    step_size : "auto" or float, default="auto"
        "auto" is 1/L, where L is a proved bound on the curvature: alpha plus 1/4 (for more than two
        classes, 1/2) times the largest eigenvalue of ``X'X``. Must be below 2/L.
    batch_size : int or None, default=None
        As in `LangevinRidge`.
    fit_intercept : bool, default=True
        Append a constant column of ones.
    n_auxiliary_runs : int >= 1, default=32
        Learning runs with independent noise that the first quote or request simulates. They
        estimate how well each row is fitted along the chain (``docs/concentration.md``). More runs
        make the bounds slightly tighter.
    random_state : int or None, default=None
        As in `LangevinRidge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import normalize
    >>> from pilu import LangevinLogistic
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LangevinLogistic().fit(normalize(X), y)
    >>> certificate = model.unlearn(42, epsilon=1.0)
    >>> certificate.epsilon <= 1.0
    True
    """

    def make_loss(self, n_outputs: int) -> Loss:
        """Logistic for one score, softmax for several."""
        return Logistic() if n_outputs == 1 else Softmax()

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.column_stack([expit(-scores), expit(scores)])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, without underflow."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return np.column_stack([log_expit(-scores), log_expit(scores)])


class LangevinHuber(SmoothRegressor):
    """Huber regression learned by noisy gradient steps, so that rows can be forgotten later.

    The objective is ``sum_j h(x_j'theta - y_j) + alpha/2 |theta|^2``. h is r^2/2 up to a threshold
    and linear beyond it, so a row's gradient is at most threshold times |x|.

    Parameters
    ----------
    alpha : float > 0, default=1.0
        Regularisation, as in `LangevinRidge`.
    threshold : float > 0, default=1.35
        In the units of y. scikit-learn's ``HuberRegressor`` also estimates a scale. Here, scale y
        beforehand by a number that does not depend on the rows.
    n_steps, noise, step_size, batch_size, fit_intercept, n_auxiliary_runs, random_state
        As in `LangevinLogistic`.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pilu import LangevinHuber
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LangevinHuber().fit(X, y / 100)
    >>> certificate = model.unlearn([7, 8, 9], epsilon=1.0)
    >>> certificate.rows
    (7, 8, 9)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        threshold: float = 1.35,
        n_steps: int = 500,
        noise: float = 0.01,
        step_size: float | str = "auto",
        batch_size: int | None = None,
        fit_intercept: bool = True,
        n_auxiliary_runs: int = 32,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            alpha,
            n_steps=n_steps,
            noise=noise,
            step_size=step_size,
            batch_size=batch_size,
            fit_intercept=fit_intercept,
            n_auxiliary_runs=n_auxiliary_runs,
            random_state=random_state,
        )
        self.threshold = threshold

    def check_parameters(self) -> None:
        """Refuse parameters that are out of range."""
        super().check_parameters()
        check_real("threshold", self.threshold, above=0.0)

    def make_loss(self, n_outputs: int) -> Loss:
        """The Huber loss."""
        return Huber(float(self.threshold))
