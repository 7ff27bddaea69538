"""What every method takes and returns, so that a comparison is a loop.

A `Task` is the data, the loss and the target. A method is a frozen record of its options.
`fit(task)` learns and returns a `Learned`: parameters, and a function that answers one request with
an `Answer`. Every request is answered from the same learned state, and none changes it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pilu._checks import complaint
from pilu.baselines.objective import ClosedForms, Objective, QuadraticObjective, RowObjective
from pilu.certify.accountant import Target
from pilu.certify.issue import set_target, set_terms
from pilu.chains.chain import gaussian_source
from pilu.chains.predictions import Predictions
from pilu.chains.problem import GaussianSource, Law, Problem, RequestForecast, Run
from pilu.chains.schedule import Schedule, Segment
from pilu.chains.sensitivities import contraction_between
from pilu.data.rows import Request
from pilu.data.targets import ClassTargets
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.requests import live_rows
from pilu.exceptions import BeyondPrecision, WrongInput
from pilu.losses.loss import Loss, Squared

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Task:
    """What is learned, from which rows, and the target of a request.

    f(theta) = sum_j l(theta'x_j, y_j) + alpha |theta|^2 / 2, learned in `n_steps` steps from zero.
    `noise` is the learning noise of the Langevin methods. X is n x p with the intercept's ones. Y
    is n x d: targets, one-hot classes, or 1 and -1 for a loss of one margin. `model` is the
    estimator that was fitted to them. With an integer `random_state` nothing is private: claims
    are then about the same procedure with fresh noise.
    """

    model: LangevinEstimator
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
        model: LangevinEstimator,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
    ) -> "Task":
        """The task that an unfitted estimator describes; its `fit` checks the data."""
        if not isinstance(model, LangevinEstimator):
            raise complaint(
                "model",
                "a LangevinRidge or a LangevinRidgeClassifier, a LangevinLogistic, a LangevinHuber "
                "or an estimator with your own smooth loss",
                model,
            )
        if model.batch_size is not None:
            raise complaint(
                "batch_size",
                "None in a comparison",
                model.batch_size,
                "The other methods step on all rows.",
            )
        if model.n_steps is None:
            raise complaint(
                "n_steps", "an integer in a comparison", None, "The other methods take steps."
            )
        fitted = clone(model).fit(X, y)
        state = fitted.fitted_
        target = set_terms(state.chain, "auto", epsilon, delta, n_unlearn_steps).target
        everything = Request.read(state.source, np.arange(state.source.n_rows))
        return cls(
            model=fitted,
            # A problem without a loss of its own is least squares.
            loss=getattr(state.chain.problem, "loss", Squared()),
            X=everything.X,
            Y=everything.Y,
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
        """Rows to learn from, n."""
        return len(self.X)

    @property
    def shape(self) -> tuple[int, int]:
        """Of theta: p x d."""
        return self.X.shape[1], self.Y.shape[1]

    @property
    def problem(self) -> Problem:
        """The problem that the model has learned."""
        return self.model.fitted_.chain.problem

    @cached_property
    def closed_forms(self) -> ClosedForms | None:
        """Formulas of ridge regression; None for losses that have none."""
        gaussian = self.model.fitted_.chain.law(corrected=True).is_gaussian
        return ClosedForms(self.X, self.Y, self.alpha) if gaussian else None

    def need_closed_forms(self, name: str) -> ClosedForms:
        """The same, for the method of this name, which refuses other losses than squares."""
        if self.closed_forms is None:
            raise WrongInput(
                f"model must be a LangevinRidge or a LangevinRidgeClassifier for {name}, got the "
                f"{self.loss.name} loss: its formula is exact for squares only. Leave the method "
                "out, or compare ridge models."
            )
        return self.closed_forms

    @cached_property
    def objective(self) -> Objective:
        """f of all rows."""
        if self.closed_forms is None:
            return RowObjective(self.X, self.Y, self.loss, self.alpha)
        return QuadraticObjective(self.closed_forms.spectrum, self.X, self.Y)

    @cached_property
    def law(self) -> Law:
        """The law of Algorithm A on all rows.

        Not the model's own: what one method has computed must not save time for another.
        """
        schedule = Schedule((Segment(self.n_steps, self.noise),))
        run = Run(self.step_size, schedule, np.zeros(self.shape))
        return (self.closed_forms or self.problem).law(run)

    @cached_property
    def target(self) -> Target:
        """The target as accountants take it, with the least noise that rounding does not hide."""
        return set_target(self.law, self.epsilon, self.delta, self.n_unlearn_steps)

    @property
    def largest(self) -> float:
        """L, a bound on the curvature that any step meets."""
        return self.problem.largest

    @property
    def contraction(self) -> float:
        """c, the factor by which a step brings any two points together."""
        return contraction_between(self.alpha, self.largest, self.step_size)

    @cached_property
    def gradient_bound(self) -> float:
        """The largest |dl/dz| at any scores; inf for a loss without such a bound."""
        ends = np.array(-np.inf), np.array(np.inf)
        with np.errstate(invalid="ignore"):
            bound = float(self.loss.largest_gradient(*ends, self.Y.shape[1]))
        return math.inf if math.isnan(bound) else bound

    @property
    def eigenvalue_rounding(self) -> float:
        """The rounding error of an eigenvalue, in units of the largest."""
        return float(8 * np.finfo(np.float64).eps * self.X.shape[1])

    def rows(self, rows: Any) -> Rows:
        """The rows of one request, checked: a row number, or a sequence of them."""
        requested = live_rows(np.ones(self.n_rows, dtype=bool), rows)
        targets = self.model.targets_
        if isinstance(targets, ClassTargets):
            members = targets.members(self.Y)
            gone = members[requested].sum(axis=0)
            targets.check_left(members.sum(axis=0) - gone, gone, "leave the class out")
        return requested

    def without(self, rows: Rows) -> tuple[Array, Array]:
        """X and Y without some rows."""
        return np.delete(self.X, rows, axis=0), np.delete(self.Y, rows, axis=0)

    def request(self, rows: Rows) -> Request:
        """Some rows, as accountants take them."""
        return Request(self.X[rows], self.Y[rows], rows)

    def predictions(
        self, rows: Rows, read: Callable[[RequestForecast], Predictions]
    ) -> Callable[[Array], Predictions] | None:
        """From points to the law of predictions there; None if it has no closed form.

        `read` picks it from the forecast of a request to forget `rows`.
        """
        if self.closed_forms is None:
            return None
        K, request = self.n_unlearn_steps, self.request(rows)
        return lambda points: read(self.law.forecast(points, K).without(*request))

    def check_regularised(self, name: str) -> None:
        """Refuse alpha = 0, for methods whose proof needs strong convexity."""
        if self.alpha == 0.0:
            raise WrongInput(
                f"alpha must be > 0 for {name}, got alpha=0.0: without strong convexity its bound "
                "is infinite. Fit with a positive alpha."
            )

    def check_short_steps(self, name: str) -> None:
        """Refuse steps beyond 1/L, which the proofs of some methods do not cover."""
        if self.step_size * self.largest > 1 + self.eigenvalue_rounding / 2:
            raise complaint(
                "step_size",
                f"at most 1/L = {1 / self.largest:.6g} for {name}",
                self.step_size,
                "step_size='auto' takes 1/L.",
            )

    def gaussian(self, stream: int) -> GaussianSource:
        """Noise: stream 0 is for learning, the others are for requests."""
        return gaussian_source(self.model.random_state, stream)

    def langevin(self, X: Array, Y: Array, *, literally: bool = False) -> LangevinEstimator:
        """The estimator, fitted to some of the task's rows; X already includes the intercept.

        It draws from the law of its steps if it can. `literally`, it takes every step.
        """
        estimator: LangevinEstimator = clone(self.model)
        settings: dict[str, Any] = {
            "alpha": self.alpha,
            "n_steps": self.n_steps,
            "noise": self.noise,
            "step_size": self.step_size,
            "random_state": self.random_state,
            "fit_intercept": False,
        }
        if "solver" in estimator.get_params():
            settings["solver"] = "gradient" if literally else "spectral"
        targets = self.model.targets_
        if isinstance(targets, ClassTargets):
            Y = targets.classes[np.argmax(targets.members(Y), axis=1)]
        estimator.set_params(**settings)
        return estimator.fit(X, Y)


@dataclass(frozen=True, eq=False)
class Answer:
    """A method's answer to one request.

    Attributes
    ----------
    theta : array (p x d)
        The parameters to release.
    epsilon, delta : float
        The method's claim for them; epsilon is inf if it claims nothing.
    certified : bool
        Whether the claim is proved, given the constants that `guarantee` names. Step sizes,
        thresholds and radii count as constants even if they were read off the data, as everywhere
        in pilu.
    guarantee : str
        The claim in words, or why there is none.
    rows_touched : int
        Training rows read to answer, each as often as it was read.
    noise : float
        Deviation of the method's noise, in its own units; 0 for none.
    predictions : function or None
        From points (m x p) to the Gaussian law of the predictions there, if it has a closed form.
    details : function
        Returns further numbers by name. It is called after the answer was timed.
    """

    theta: Array
    epsilon: float
    delta: float
    certified: bool
    guarantee: str
    rows_touched: int
    noise: float = 0.0
    predictions: Callable[[Array], Predictions] | None = None
    details: Callable[[], Mapping[str, float]] = dict

    def __post_init__(self) -> None:
        if not (np.isfinite(self.theta).all() and np.isfinite(self.noise)):
            raise BeyondPrecision(
                "the noise or the parameters have left the range of doubles. Choose a larger "
                "epsilon or delta, or other units."
            )
        if self.certified and not np.isfinite(self.epsilon):
            raise ArithmeticError("an infinite epsilon certifies nothing; please report this.")


@dataclass(frozen=True, eq=False)
class Learned:
    """What a method has learned (p x d), and how it responds to a request for some rows."""

    task: Task
    theta: Array
    respond: Callable[[Rows], Answer]

    def answer(self, rows: int | Sequence[int]) -> Answer:
        """The answer to one request: a row number, or a group of them."""
        return self.respond(self.task.rows(rows))


class Method(Protocol):
    """A way to forget. Implementations are frozen records of their options."""

    @property
    def name(self) -> str:
        """The name in tables and plots."""
        ...

    def fit(self, task: Task) -> Learned:
        """Learn from all rows."""
        ...


def titled(name: str, *options: str) -> str:
    """A method's name with the options that differ from the usual ones."""
    given = ", ".join(option for option in options if option)
    return f"{name} ({given})" if given else name


def row_norms(values: Array) -> Array:
    """Norms of the rows, even if their squares underflow."""
    scale = np.max(np.abs(values), axis=1, initial=0.0)
    unit = values / np.where(scale > 0, scale, 1.0)[:, None]
    return np.asarray(scale * np.linalg.norm(unit, axis=1))


def point_mass(theta: Array) -> Callable[[Array], Predictions]:
    """Predictions of parameters without randomness."""
    return lambda points: Predictions(points @ theta, np.zeros(len(points)))
