"""The law of a full-batch ridge chain, as accountants and forecasts use it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import Comparison
from pilu.data.rows import Request
from pilu.ridge.difference import compare_ridge
from pilu.ridge.forecast import RidgeForecast
from pilu.ridge.iterates import RidgeIterates
from pilu.ridge.sensitivities import RidgeSensitivities

__all__ = ["RidgeLaw"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeLaw(RidgeIterates):
    """Implements `chains.law.Law` in an eigenbasis."""

    is_gaussian: ClassVar[bool] = True
    blas_threads: ClassVar[int | None] = (
        1  # matrices have a few dozen rows: a second thread is slower
    )

    @property
    def sensitivities(self) -> RidgeSensitivities:
        """Bounds on gradients at every step."""
        return RidgeSensitivities(self)

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction."""
        return float(np.min(self.final_variances(self.spectrum.eigenvalues)))

    def prepare_after_learning(self) -> None:
        """Do nothing: profiles are computed on first use."""

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them."""
        return compare_ridge(self, self.coordinates(request.X), request.Y, at_least=likely_size)

    def portable(self) -> "RidgeLaw":
        """A copy without its basis, for rows in coordinates."""
        return self.without_basis()

    def forecast(self, points: Array, n_unlearn_steps: int) -> RidgeForecast:
        """Predictions at some points."""
        return RidgeForecast(self, points, n_unlearn_steps)
