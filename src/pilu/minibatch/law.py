"""The law of a chain on mini-batches, as accountants and forecasts use it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import Comparison
from pilu.data.rows import Request
from pilu.minibatch.difference import compare_minibatches
from pilu.minibatch.forecast import MinibatchForecast
from pilu.minibatch.iterates import MinibatchIterates
from pilu.minibatch.sensitivities import MinibatchSensitivities

__all__ = ["MinibatchLaw"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MinibatchLaw(MinibatchIterates):
    """Implements `chains.problem.Law`. Maps of different batches do not commute: all is dense."""

    is_gaussian: ClassVar[bool] = True
    blas_threads: ClassVar[int | None] = None

    @property
    def sensitivities(self) -> MinibatchSensitivities:
        """Bounds on the rows' gradients at their visits."""
        return MinibatchSensitivities(self)

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction."""
        return float(np.linalg.eigvalsh(self.final_covariance[0])[0])

    def prepare_after_learning(self) -> None:
        """Compute the means at all steps, which all requests share."""
        self.prepare()

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them."""
        return compare_minibatches(self, request.rows, request.X, request.Y)

    def coordinates(self, X: Array) -> Array:
        """The rows, unchanged."""
        return X

    def portable(self) -> None:
        """None: one request uses all cores."""
        return None

    def forecast(self, points: Array, n_unlearn_steps: int) -> MinibatchForecast:
        """Predictions at some points."""
        return MinibatchForecast(self, points)
