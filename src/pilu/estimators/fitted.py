"""What a fitted estimator holds, and what can be read off it."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pilu.accounting.composition import Spent
from pilu.certify.accountant import Accountant, Law
from pilu.chains.chain import Chain, Problem
from pilu.chains.rounding import UNIT
from pilu.data.rows import RowSource
from pilu.estimators.requests import RowBook
from pilu.losses.law import AuxiliaryRuns, SmoothLaw
from pilu.losses.problem import SmoothProblem
from pilu.minibatch.law import MinibatchLaw
from pilu.minibatch.problem import MinibatchProblem
from pilu.ridge.law import RidgeLaw
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectrum import Spectrum

__all__ = ["Fitted", "FittedMixin"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that fitting and forgetting produce; replaced as a whole, so no call leaves a half."""

    chain: Chain
    book: RowBook
    spent: Spent = field(default_factory=Spent)
    certificates: tuple[str, ...] = ()  # hashes of those issued since the last redraw
    n_requests: int = 0
    auxiliary: AuxiliaryRuns | None = None  # for losses whose means are not known
    latest: str | None = None  # hash of the last certificate, a redraw's too

    @property
    def source(self) -> RowSource:
        """The rows."""
        return self.chain.problem.source

    @property
    def law(self) -> Law:
        """The law of the run without any forgotten row; for a full batch, in an eigenbasis."""
        problem = self.chain.problem
        if isinstance(problem, MinibatchProblem):
            return self._cyclic_law
        if isinstance(problem, SmoothProblem):
            return self._concentrated_law
        return self._law_in(problem.spectrum)

    def law_for(self, accountant: Accountant) -> Law:
        """The same, in the cheapest form that the accountant takes."""
        problem = self.chain.problem
        if isinstance(problem, RidgeProblem) and getattr(accountant, "takes_corrections", False):
            return self._law_in(problem.corrected_spectrum)
        return self.law

    def _law_in(self, spectrum: Spectrum) -> RidgeLaw:
        chain = self.chain
        error = max(chain.problem.statistics_error, UNIT)
        return RidgeLaw(spectrum, chain.step_size, chain.schedule, chain.start, error)

    @cached_property
    def _cyclic_law(self) -> MinibatchLaw:
        chain, problem = self.chain, self.chain.problem
        assert isinstance(problem, MinibatchProblem)
        return MinibatchLaw(problem, chain.step_size, chain.schedule, chain.start)

    @cached_property
    def _concentrated_law(self) -> SmoothLaw:
        chain, problem, runs = self.chain, self.chain.problem, self.auxiliary
        assert isinstance(problem, SmoothProblem)
        assert runs is not None
        return SmoothLaw(problem, chain.step_size, chain.schedule, chain.start, runs)

    def reading(self, problem: Problem) -> "Fitted":
        """The same with its rows attached."""
        return replace(self, chain=replace(self.chain, problem=problem))

    def __getstate__(self) -> dict[str, Any]:
        # What the law has computed of the rows stays here.
        laws = ("_cyclic_law", "_concentrated_law")
        return {name: value for name, value in self.__dict__.items() if name not in laws}


class FittedMixin:
    """Needs `_attachable` from the estimator, and `_fitted` once it is fitted."""

    fitted_: Fitted

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    @property
    def _theta(self) -> Array:
        # AttributeError, not NotFittedError: hasattr(model, "coef_") must answer False.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self.fitted_.chain.theta

    @property
    def step_size_(self) -> float:
        """The step size in use, 1/L of the fit by default."""
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
