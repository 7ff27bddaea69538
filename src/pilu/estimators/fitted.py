"""The state of a fitted estimator, and what it shows of it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from pilu.accounting.curves import Spent
from pilu.certify.accountant import Law
from pilu.chains.chain import Chain
from pilu.chains.problem import Problem
from pilu.data.rows import RowSource
from pilu.estimators.requests import RowBook

__all__ = ["Fitted", "FittedAttributes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of fitting and forgetting, always replaced as a whole."""

    chain: Chain
    book: RowBook
    spent: Spent = field(default_factory=Spent)
    certificates: tuple[str, ...] = ()  # hashes of those issued since the last redraw
    n_requests: int = 0
    latest: str | None = None  # hash of the last certificate, including redraws
    class_counts: Array | None = None  # remaining rows of each class

    @property
    def source(self) -> RowSource:
        """The rows."""
        return self.chain.problem.source

    @property
    def theta(self) -> Array:
        """The parameters, p x d, the intercept's row last."""
        return self.chain.theta

    def scores(self, X: Array) -> Array:
        """X theta, the intercept included."""
        width = X.shape[1]
        scores: Array = X @ self.theta[:width]
        return scores + self.theta[width] if self.source.fit_intercept else scores

    @property
    def law(self) -> Law:
        """The law of the run without any forgotten row, without a low-rank correction."""
        return self.chain.law()

    def reading(self, problem: Problem) -> "Fitted":
        """The same state with another form of its problem, e.g. with rows attached."""
        return replace(self, chain=replace(self.chain, problem=problem))


class FittedAttributes:
    """Attributes of a fitted estimator, all read from its `fitted_`."""

    fitted_: Fitted

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    @property
    def step_size_(self) -> float:
        """The step size in use; by default 1/L of the fit."""
        check_is_fitted(self)
        return self.fitted_.chain.step_size

    @property
    def schedule_(self) -> tuple[tuple[int, float], ...]:
        """All (steps, noise) segments since learning or the last redraw."""
        check_is_fitted(self)
        return tuple((s.steps, s.noise) for s in self.fitted_.chain.schedule.segments)

    @property
    def remaining_(self) -> NDArray[np.intp]:
        """Fit-time positions of the rows that are not forgotten."""
        check_is_fitted(self)
        return np.flatnonzero(self.fitted_.source.live)

    @property
    def total_(self) -> tuple[float, float]:
        """Running total (epsilon, delta) over all requests since the last redraw."""
        check_is_fitted(self)
        return self.fitted_.spent.epsilon, self.fitted_.spent.delta

    @property
    def _theta(self) -> Array:
        # AttributeError, not NotFittedError: hasattr(model, "coef_") must answer False.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self.fitted_.theta

    @property
    def _intercepts(self) -> Array:
        theta, has_intercept = self._theta, self.fitted_.source.fit_intercept
        return theta[-1].copy() if has_intercept else np.zeros(theta.shape[1])

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False), dtype=np.float64)
        return self.fitted_.scores(X)
