"""What every method takes and gives, so that a comparison is a loop.

A method is a frozen record of its options. `fit(task)` learns and returns a `Learned`: parameters,
and a function that answers one request with an `Answer`. Requests are answered one by one from the
same learned state; none changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import column_or_1d

from pilu._checks import complaint
from pilu.certify.accountant import Request
from pilu.dynamics.entropy import GaussianSource
from pilu.dynamics.schedule import Schedule, Segment
from pilu.estimators.requests import live_rows
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.laws.forecast import Predictions
from pilu.laws.iterates import IterateLaw
from pilu.ridge.spectrum import Spectrum

__all__ = [
    "Answer",
    "Learned",
    "Method",
    "Model",
    "Rows",
    "Task",
    "point_mass",
    "row_norms",
    "titled",
    "without",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Model = LangevinRidge | LangevinRidgeClassifier


@dataclass(frozen=True, eq=False)
class Task:
    """The data, the objective and the target that all methods share.

    f(theta) = sum_j |x_j'theta - y_j|^2 / 2 + alpha |theta|^2 / 2, learned in `n_steps` steps from
    zero; `noise` is the Langevin methods' learning noise. X is n x p with the intercept's ones,
    Y is n x d, one-hot for classes; `model` is the estimator that was fitted to them. With an
    integer `random_state` nothing is private: claims speak of the same procedure with fresh noise.
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
        if not isinstance(model, LangevinRidge | LangevinRidgeClassifier):
            raise complaint("model", "a LangevinRidge or a LangevinRidgeClassifier", model)
        if model.batch_size is not None:
            raise complaint(
                "batch_size",
                "None in a comparison",
                model.batch_size,
                "The other methods step on all rows.",
            )
        fitted = clone(model).fit(X, y)
        target = fitted._target(epsilon, delta, n_unlearn_steps)
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(y)
        if is_classifier(fitted):
            Y = column_or_1d(Y)[:, None] == fitted.classes_
        return cls(
            model=fitted,
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

    @cached_property
    def gram(self) -> Array:
        """X'X."""
        return np.asarray(self.X.T @ self.X)

    @cached_property
    def cross(self) -> Array:
        """B = X'Y."""
        return np.asarray(self.X.T @ self.Y)

    @cached_property
    def spectrum(self) -> Spectrum:
        """A = X'X + alpha I in its eigenbasis, complete also where p > n."""
        return Spectrum.of_statistics(self.gram, self.cross, self.alpha)

    @property
    def eigenvalue_rounding(self) -> float:
        """What an eigenvalue may be off by, in units of the largest."""
        return float(8 * np.finfo(np.float64).eps * self.X.shape[1])

    @cached_property
    def law(self) -> IterateLaw:
        """The law of Algorithm A on all rows."""
        schedule = Schedule((Segment(self.n_steps, self.noise),))
        start = np.zeros((self.X.shape[1], self.Y.shape[1]))
        return IterateLaw(self.spectrum, self.step_size, schedule, start)

    def rows(self, rows: Any) -> Rows:
        """The rows of one request, checked: a row number, or a sequence of them."""
        found = live_rows(np.ones(self.n_rows, dtype=bool), rows)
        emptied = is_classifier(self.model) & (self.Y[found].sum(axis=0) == self.Y.sum(axis=0))
        if emptied.any():
            name = self.model.classes_[emptied][0]
            raise ValueError(
                f"rows must leave at least one row of every class, got all rows of class {name!r}. "
                "Its name would stay in the model, where no claim covers it: leave the class out."
            )
        return found

    def check_regularised(self, name: str) -> None:
        """Refuse alpha = 0, for methods whose proof needs strong convexity."""
        if self.alpha == 0.0:
            raise ValueError(
                f"alpha must be > 0 for {name}, got alpha=0.0: without strong convexity its bound "
                "is infinite. Fit with a positive alpha."
            )

    def check_short_steps(self, name: str) -> None:
        """Refuse steps beyond 1/L, for methods whose proof ends there."""
        if self.step_size * self.spectrum.largest > 1 + self.eigenvalue_rounding / 2:
            raise complaint(
                "step_size",
                f"at most 1/L = {1 / self.spectrum.largest:.6g} for {name}",
                self.step_size,
                "step_size='auto' takes 1/L.",
            )

    def request(self, rows: Rows) -> Request:
        """Some rows, as accountants take them."""
        return Request(self.X[rows], self.Y[rows], rows)

    def gaussian(self, stream: int) -> GaussianSource:
        """Noise; 0 is the learning's stream, the others are the requests'."""
        return self.model._gaussian(stream)

    def langevin(self, **changes: Any) -> LangevinRidge:
        """An unfitted estimator for this task; the intercept is in X already."""
        settings = {
            "alpha": self.alpha,
            "n_steps": self.n_steps,
            "noise": self.noise,
            "step_size": self.step_size,
            "random_state": self.random_state,
        }
        return LangevinRidge(fit_intercept=False, **(settings | changes))


@dataclass(frozen=True, eq=False)
class Answer:
    """A method's answer to one request.

    Attributes
    ----------
    theta : array (p x d)
        What would be released.
    epsilon, delta : float
        What the method claims for it; epsilon is inf where it claims nothing.
    certified : bool
        Whether the claim is proved, given the constants that `guarantee` names. Step size,
        thresholds and radii count as constants also where they were read off the data, as
        everywhere in pilu.
    guarantee : str
        The claim in words, or why there is none.
    rows_touched : int
        Training rows read to answer, each as often as it was read.
    noise : float
        Deviation of the method's noise, in its own units; 0 for none.
    predictions : function or None
        From points (m x p) to the Gaussian law of their predictions, where it has a closed form.
    details : function
        Gives further numbers by name; apart, so that no clock of the answer sees them.
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
            raise ArithmeticError(
                "the noise or the parameters have left the range of doubles. Ask for a larger "
                "epsilon or delta, or choose other units."
            )
        if self.certified and not np.isfinite(self.epsilon):
            raise ArithmeticError("an infinite epsilon certifies nothing; please report this.")


@dataclass(frozen=True, eq=False)
class Learned:
    """What a method has learned (p x d), and how it responds to the request for some rows."""

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
        """What tables and plots call it."""
        ...

    def fit(self, task: Task) -> Learned:
        """Learn from all rows."""
        ...


def without(task: Task, rows: Rows) -> tuple[Array, Array]:
    """X and Y without some rows."""
    return np.delete(task.X, rows, axis=0), np.delete(task.Y, rows, axis=0)


def titled(name: str, *options: str) -> str:
    """A method's name with what sets it apart."""
    given = ", ".join(option for option in options if option)
    return f"{name} ({given})" if given else name


def row_norms(values: Array) -> Array:
    """Norms of the rows, also where squares would underflow."""
    scale = np.max(np.abs(values), axis=1, initial=0.0)
    unit = values / np.where(scale > 0, scale, 1.0)[:, None]
    return np.asarray(scale * np.linalg.norm(unit, axis=1))


def point_mass(theta: Array) -> Callable[[Array], Predictions]:
    """Predictions of parameters without randomness."""
    return lambda points: Predictions(points @ theta, np.zeros(len(points)))
