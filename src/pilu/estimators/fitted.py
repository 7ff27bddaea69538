"""The state of a fitted estimator."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.composition import Spent
from pilu.certify.accountant import Law
from pilu.chains.chain import Chain
from pilu.chains.problem import Problem
from pilu.data.rows import RowSource
from pilu.estimators.requests import RowBook

__all__ = ["Fitted"]

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
