"""The data, the loss and the target that all methods share."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import column_or_1d

from pilu._checks import complaint
from pilu.baselines.objective import Objective, QuadraticObjective, RowObjective
from pilu.baselines.ridge_parts import RidgeParts
from pilu.certify.accountant import Law
from pilu.chains.entropy import GaussianSource
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import Request
from pilu.data.targets import ClassTargets
from pilu.estimators.requests import live_rows
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.estimators.smooth import SmoothClassifier, SmoothRegressor
from pilu.exceptions import WrongInput
from pilu.losses.law import SmoothLaw
from pilu.losses.loss import Loss, Squared
from pilu.losses.problem import SmoothProblem

__all__ = ["Model", "Rows", "Task"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Model = LangevinRidge | LangevinRidgeClassifier | SmoothClassifier | SmoothRegressor


@dataclass(frozen=True, eq=False)
class Task(RidgeParts):
    """What is learned, from what, and what is asked of a request.

    f(theta) = sum_j l(theta'x_j, y_j) + alpha |theta|^2 / 2, learned in `n_steps` steps from zero;
    `noise` is the Langevin methods' learning noise. X is n x p with the intercept's ones, Y is n x
    d: targets, one-hot classes, or 1 and -1 for a loss of one margin; `model` is the estimator that
    was fitted to them. With an integer `random_state` nothing is private: claims speak of the same
    procedure with fresh noise.
    """

    model: Model
    X: Array
    Y: Array
    alpha: float
    n_steps: int
    noise: float
    step_size: float
    epsilon: float
    delta: float
    n_unlearn_steps: int
    random_state: int | None
    loss: Loss = field(default_factory=Squared)

    @classmethod
    def of(
        cls,
        model: Model,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
    ) -> "Task":
        """The task that an unfitted estimator describes; its `fit` checks the data."""
        if not isinstance(model, Model):
            raise complaint(
                "model",
                "a LangevinRidge or a LangevinRidgeClassifier, a LangevinLogistic, a LangevinHuber "
                "or an estimator with a smooth loss of one's own",
                model,
            )
        if model.batch_size is not None:
            raise complaint(
                "batch_size",
                "None in a comparison",
                model.batch_size,
                "The other methods step on all rows.",
            )
        fitted = clone(model).fit(X, y)
        target = fitted._target(epsilon, delta, n_unlearn_steps)
        problem = fitted.fitted_.chain.problem
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(y)
        if is_classifier(fitted):
            Y = fitted._coded(column_or_1d(Y))
        return cls(
            model=fitted,
            loss=problem.loss if isinstance(problem, SmoothProblem) else Squared(),
            X=np.hstack([X, np.ones((len(X), 1))]) if model.fit_intercept else X,
            Y=np.asarray(Y, dtype=np.float64).reshape(len(X), -1),
            alpha=float(model.alpha),
            n_steps=int(model.n_steps),
            noise=float(model.noise),
            step_size=fitted.step_size_,
            epsilon=target.epsilon,
            delta=target.delta,
            n_unlearn_steps=target.n_unlearn_steps,
            random_state=model.random_state,
        )

    @property
    def n_rows(self) -> int:
        """Rows at hand, n."""
        return len(self.X)

    @property
    def is_ridge(self) -> bool:
        """Whether closed forms are at hand."""
        return isinstance(self.model, LangevinRidge | LangevinRidgeClassifier)

    @cached_property
    def objective(self) -> Objective:
        """f of all rows."""
        if self.is_ridge:
            return QuadraticObjective(self.spectrum, self.X, self.Y)
        return RowObjective(self.X, self.Y, self.loss, self.alpha)

    @property
    def largest(self) -> float:
        """L, the largest curvature that a step can meet, or more."""
        if self.is_ridge:
            return self.spectrum.largest
        problem = self.model.fitted_.chain.problem
        assert isinstance(problem, SmoothProblem)
        return problem.largest

    @cached_property
    def gradient_bound(self) -> float:
        """The largest |dl/dz| at any scores, inf where a loss knows none."""
        ends = np.array(-np.inf), np.array(np.inf)
        with np.errstate(invalid="ignore"):
            bound = float(self.loss.largest_gradient(*ends, self.Y.shape[1]))
        return math.inf if math.isnan(bound) else bound

    @property
    def eigenvalue_rounding(self) -> float:
        """What an eigenvalue may be off by, in units of the largest."""
        return float(8 * np.finfo(np.float64).eps * self.X.shape[1])

    @cached_property
    def chain_law(self) -> Law:
        """What is known of Algorithm A on all rows, as accountants take it."""
        if self.is_ridge:
            return self.law
        problem = self.model.fitted_.chain.problem
        assert isinstance(problem, SmoothProblem)
        # Not the fitted model's own: what one method simulates must not shorten another's time.
        runs = self.model.fitted_.auxiliary
        assert runs is not None
        schedule = Schedule((Segment(self.n_steps, self.noise),))
        start = np.zeros((self.X.shape[1], self.Y.shape[1]))
        return SmoothLaw(problem, self.step_size, schedule, start, runs)

    def rows(self, rows: Any) -> Rows:
        """The rows of one request, checked: a row number, or a sequence of them."""
        found = live_rows(np.ones(self.n_rows, dtype=bool), rows)
        if not is_classifier(self.model):
            return found
        members = self.model._members(self.Y)
        requested = members[found].sum(axis=0)
        left = members.sum(axis=0) - requested
        ClassTargets(self.model.classes_).check_left(left, requested, "leave the class out")
        return found

    def check_ridge(self, name: str) -> None:
        """Refuse other losses than the square."""
        if not self.is_ridge:
            raise WrongInput(
                f"model must be a LangevinRidge or a LangevinRidgeClassifier for {name}, got the "
                f"{self.loss.name} loss: its formula is exact for squares only. Leave the method "
                "out, or compare ridge models."
            )

    def check_regularised(self, name: str) -> None:
        """Refuse alpha = 0, for methods whose proof needs strong convexity."""
        if self.alpha == 0.0:
            raise WrongInput(
                f"alpha must be > 0 for {name}, got alpha=0.0: without strong convexity its bound "
                "is infinite. Fit with a positive alpha."
            )

    def check_short_steps(self, name: str) -> None:
        """Refuse steps beyond 1/L, for methods whose proof ends there."""
        if self.step_size * self.largest > 1 + self.eigenvalue_rounding / 2:
            raise complaint(
                "step_size",
                f"at most 1/L = {1 / self.largest:.6g} for {name}",
                self.step_size,
                "step_size='auto' takes 1/L.",
            )

    def request(self, rows: Rows) -> Request:
        """Some rows, as accountants take them."""
        return Request(self.X[rows], self.Y[rows], rows)

    def gaussian(self, stream: int) -> GaussianSource:
        """Noise; 0 is the learning's stream, the others are the requests'."""
        return self.model._gaussian(stream)

    def langevin(self, **changes: Any) -> Any:
        """An unfitted estimator for this task; the intercept is in X already."""
        settings: dict[str, Any] = {
            "alpha": self.alpha,
            "n_steps": self.n_steps,
            "noise": self.noise,
            "step_size": self.step_size,
            "random_state": self.random_state,
            "fit_intercept": False,
        }
        unfitted = LangevinRidge() if self.is_ridge else clone(self.model)
        return unfitted.set_params(**(settings | changes))

    def learned(self, estimator: Any, X: Array, Y: Array) -> Any:
        """An estimator of `langevin`, fitted to some of the task's rows."""
        if not self.is_ridge and is_classifier(self.model):
            Y = self.model.classes_[np.argmax(self.model._members(Y), axis=1)]
        return estimator.fit(X, Y)
