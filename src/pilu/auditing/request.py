"""The request that an audit repeats, with its rows and without them [PILU, Definition 1]."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer, check_real
from pilu.chains.chain import Chain
from pilu.chains.problem import Problem
from pilu.chains.request import Request
from pilu.chains.schedule import Segment
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.requests import live_rows
from pilu.exceptions import WrongInput

__all__ = ["AuditedRequest"]


@dataclass(frozen=True, eq=False)
class AuditedRequest:
    """A request to a chain that has forgotten nothing yet, and the steps that forget its rows."""

    chain: Chain
    request: Request
    forgetting: Segment

    @classmethod
    def of(
        cls, model: LangevinEstimator, rows: Any, noise: float, n_unlearn_steps: int
    ) -> "AuditedRequest":
        """The request to a fitted model, which may change later."""
        check_real("noise", noise, above=0.0, remedy="Without it there is nothing to audit.")
        check_integer("n_unlearn_steps", n_unlearn_steps, least=1)
        check_is_fitted(model)
        chain = model.fitted_.chain
        source = chain.problem.source
        if len(chain.schedule.segments) != 1 or not source.live.all():
            raise WrongInput(
                "model must not have forgotten any rows yet, got one that has. Fit it again."
            )
        request = Request.read(source, live_rows(source.live, rows))
        return cls(chain, request, Segment(n_unlearn_steps, noise))

    @cached_property
    def retained(self) -> Problem:
        """The problem without the rows."""
        rows = self.request
        problem = self.chain.problem.without(rows.rows, rows.X, rows.Y)
        problem.consolidate()
        return problem
