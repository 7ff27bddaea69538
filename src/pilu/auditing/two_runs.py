"""What the two runs of Definition 1 share, whatever the loss."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_real, check_steps
from pilu.chains.chain import Chain
from pilu.chains.problem import Problem
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.requests import live_rows
from pilu.exceptions import WrongInput

__all__ = ["TwoRuns"]


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """A request to a model that has forgotten nothing yet, checked."""

    model: LangevinEstimator
    rows: Any
    noise: float
    n_unlearn_steps: int

    def __post_init__(self) -> None:
        check_real("noise", self.noise, above=0.0, remedy="Without it there is nothing to audit.")
        check_steps("n_unlearn_steps", self.n_unlearn_steps)
        check_is_fitted(self.model)
        if len(self._chain.schedule.segments) != 1 or not self._chain.problem.source.live.all():
            raise WrongInput(
                "model must not have forgotten any rows yet, got one that has. Fit it again."
            )
        _ = self._request

    @cached_property
    def _chain(self) -> Chain:
        return self.model.fitted_.chain  # as it is now: the model may forget rows later

    @cached_property
    def _request(self) -> Request:
        source = self._chain.problem.source
        return Request.read(source, live_rows(source.live, self.rows))

    @property
    def _forgetting(self) -> Segment:
        return Segment(self.n_unlearn_steps, self.noise)

    @cached_property
    def _retained(self) -> Problem:
        """The problem without the rows."""
        X, Y, rows = self._request
        problem = self._chain.problem.without(rows, X, Y)
        problem.consolidate()
        return problem
