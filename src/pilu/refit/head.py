"""What a head minimises, and what every kind of scikit-learn head must say."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.refit.score_losses import ScoreLoss

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadProblem:
    """What a head minimises on given targets."""

    loss: ScoreLoss
    targets: Array  # n x K
    weights: Array  # n x 1 or n x K
    alpha: Array  # (1,) or (K,)
    unit: float = 1.0  # of a score: its noise is stated in this unit
    classes: NDArray[Any] | None = None
    penalised_scaling: float | None = None  # liblinear's constant column, if it is used
    released: dict[str, Any] = field(default_factory=dict)  # more attributes of the fitted head
    candidates: Array | None = None  # alphas to choose from by leave-one-out
    per_target: bool = False  # whether each target chooses its own

    def take(self, rows: NDArray[np.bool_]) -> "HeadProblem":
        """The problem of some rows."""
        return replace(self, targets=self.targets[rows], weights=self.weights[rows])

    def choosing(self, alpha: Any) -> "HeadProblem":
        """The problem with one of the candidates, or one for each target."""
        alpha = alpha if np.ndim(alpha) else float(alpha)
        released = {**self.released, "alpha_": alpha}
        return replace(self, alpha=np.atleast_1d(alpha), candidates=None, released=released)


class Head(ABC):
    """One kind of scikit-learn head."""

    @abstractmethod
    def refusals(self, head: Any) -> list[str]:
        """Why these parameters cannot be certified; empty if they can."""

    @abstractmethod
    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """The objective; `chosen` is the hyperparameter that a CV head selected, else None."""

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """Write parameters (p x K and K) into an unfitted head, in scikit-learn's shapes."""
        head.coef_ = np.ascontiguousarray(coef.T)
        head.intercept_ = intercept.copy()
        for name, value in problem.released.items():
            setattr(head, name, value)
        return head

    def read(self, head: Any) -> tuple[Array, Array]:
        """The parameters of a fitted head, p x K and K."""
        coef = np.atleast_2d(np.asarray(head.coef_, dtype=np.float64)).T
        intercept = np.atleast_1d(np.asarray(head.intercept_, dtype=np.float64))
        return coef, np.broadcast_to(intercept, coef.shape[1:]).copy()
