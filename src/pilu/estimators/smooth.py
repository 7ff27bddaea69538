"""`LangevinLogistic`, `LangevinHuber`, and what a loss of one's own is given to."""

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from pilu._checks import LARGEST_SQUARE, check_integer, check_real
from pilu.chains.chain import Problem
from pilu.data.partitions import is_dask
from pilu.data.rows import RowSource
from pilu.data.targets import ClassTargets
from pilu.estimators.base import LangevinBase, check_batch_size
from pilu.estimators.outputs import LangevinClassification, LangevinRegression
from pilu.estimators.utility import Validation
from pilu.losses.law import AuxiliaryRuns
from pilu.losses.loss import Huber, Logistic, Loss, Softmax
from pilu.losses.problem import SmoothProblem

__all__ = ["LangevinHuber", "LangevinLogistic", "SmoothClassifier", "SmoothRegressor"]

Array = NDArray[np.float64]


class _Smooth(LangevinBase):
    """Learning with a smooth loss, whose sensitivities are bounded by concentration."""

    _usual_accountant = "theorem"

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

    def make_loss(self, n_outputs: int) -> Loss:
        """The loss of so many scores; what a class of one's own overrides."""
        raise NotImplementedError

    def _problem(self, source: RowSource, n_outputs: int) -> tuple[Problem, float]:
        n = source.n_rows
        batch_size = n if self.batch_size is None else int(self.batch_size)
        check_batch_size(batch_size, n)
        loss = self.make_loss(n_outputs)
        problem = SmoothProblem.fit(source, float(self.alpha), n_outputs, batch_size, loss)
        return problem, problem.largest

    def _auxiliary(self) -> AuxiliaryRuns:
        # Drawn once: whoever could draw again and again would pick the means that suit him.
        fresh = self._fresh()
        seed = (int(self.random_state or 0), 1) if fresh is None else (fresh,)
        return AuxiliaryRuns(int(self.n_auxiliary_runs), seed)

    def _auxiliary_after(self, runs: AuxiliaryRuns | None) -> AuxiliaryRuns | None:
        return None if runs is None else runs.renewed(self._fresh())

    def _fresh(self) -> int | None:
        return secrets.randbits(128) if self.random_state is None else None

    def _check_parameters(self) -> None:
        check_real(
            "alpha",
            self.alpha,
            above=0.0,
            most=LARGEST_SQUARE,
            remedy="Such a loss is flat far away: without a penalty no step brings two runs closer "
            "by a factor that is known, separable classes have no minimum at all, and nothing can "
            "be certified.",
        )
        super()._check_parameters()
        check_integer("n_auxiliary_runs", self.n_auxiliary_runs, least=1)

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        if is_dask(X) or is_dask(y):
            raise _refusal_of_dask()
        return super()._validated(X, y)

    def _attached_partitions(self, X: Any, y: Any) -> RowSource:
        raise _refusal_of_dask()

    def _checked_validation(self, pair: Any, name: str = "validation") -> Validation | None:
        if pair is not None:
            raise ValueError(
                f"{name} must be None for other losses than ridge: the score that a request leaves "
                "has no closed form. Score a copy of the model before and after."
            )
        return None


def _refusal_of_dask() -> ValueError:
    return ValueError(
        "X and y must be in memory, or a memory map, for other losses than ridge, got a dask "
        "collection: every step reads the rows again. Call .compute() on both."
    )


class SmoothClassifier(_Smooth, LangevinClassification):
    """Classes by a smooth loss of linear scores: one score for two classes, else one for each.

    A class of one's own overrides `make_loss` (docs/losses.md); `LangevinLogistic` says what the
    parameters mean.
    """

    def _encoder(self) -> ClassTargets:
        return ClassTargets(self.classes_, signed=True)

    def decision_function(self, X: Any) -> Array:
        """Scores: of the second of two classes, or of every class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score."""
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels


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
        "auto" is 1/L, L a proved bound of the curvature: alpha + (1/4 or, for more than two
        classes, 1/2) times the largest eigenvalue of ``X'X``. Must be below 2/L.
    batch_size : int or None, default=None
        As in `LangevinRidge`.
    fit_intercept : bool, default=True
        Append a constant column of ones.
    n_auxiliary_runs : int >= 1, default=32
        Runs of learning, with noise of their own, that the first quote or request takes to know
        how well each row is fitted on the way (``docs/concentration.md``). More of them make
        bounds a little tighter.
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
    >>> model = LangevinLogistic(n_steps=100).fit(normalize(X), y)
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
        """Their logarithms, of the smallest ones too."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return np.column_stack([log_expit(-scores), log_expit(scores)])


class SmoothRegressor(_Smooth, LangevinRegression):
    """Numeric targets by a smooth loss of linear predictions; `LangevinHuber` is one.

    A class of one's own overrides `make_loss` (docs/losses.md).
    """


class LangevinHuber(SmoothRegressor):
    """Huber regression learned by noisy gradient steps, so that rows can be forgotten later.

    The objective is ``sum_j h(x_j'theta - y_j) + alpha/2 |theta|^2``; h is r^2/2 up to a threshold
    and linear beyond it, so that no row pulls harder than threshold times |x|.

    Parameters
    ----------
    alpha : float > 0, default=1.0
        Regularisation, as in `LangevinRidge`.
    threshold : float > 0, default=1.35
        In the units of y. scikit-learn's ``HuberRegressor`` estimates a scale beside it; here y is
        scaled beforehand, by numbers that do not depend on the rows.
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
    >>> model = LangevinHuber(n_steps=100).fit(X, y / 100)
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("threshold", self.threshold, above=0.0)

    def make_loss(self, n_outputs: int) -> Loss:
        """Huber's."""
        return Huber(float(self.threshold))
