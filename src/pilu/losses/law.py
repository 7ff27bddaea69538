"""The law of a chain with a smooth loss, as accountants use it."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.data.rows import Request
from pilu.exceptions import WrongInput
from pilu.losses.iterates import SmoothIterates
from pilu.losses.sensitivities import SmoothSensitivities

__all__ = ["SmoothLaw"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothLaw(SmoothIterates):
    """Implements `chains.problem.Law` with bounds by concentration: iterates are not Gaussian."""

    is_gaussian: ClassVar[bool] = False
    blas_threads: ClassVar[int | None] = None

    @property
    def sensitivities(self) -> SmoothSensitivities:
        """Bounds on the rows' gradients at their visits."""
        return SmoothSensitivities(self)

    def prepare_after_learning(self) -> None:
        """Do nothing: the auxiliary runs are simulated on first use."""

    def comparison(self, request: Request, likely_size: int = 0) -> NoReturn:
        """Refused: the two runs of Definition 1 have no known law."""
        raise complaint(
            "accountant",
            f"'theorem' for the {self.problem.loss.name} loss",
            "exact",
            "Only ridge has Gaussian iterates.",
        )

    def coordinates(self, X: Array) -> Array:
        """The rows, unchanged."""
        return X

    def portable(self) -> None:
        """None: requests share the auxiliary runs."""
        return None

    def forecast(self, points: Array, n_unlearn_steps: int) -> NoReturn:
        """Refused: the score after a request has no closed form."""
        raise WrongInput(f"the {self.problem.loss.name} loss has no forecast in closed form.")
