"""What accountants and forecasts need to know of a chain, whatever it learns.

Each kind of problem supplies a law (`Problem.law`). It describes the iterates before any draw:
nothing in it depends on realised parameters.
"""

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import Comparison
from pilu.chains.predictions import Predictions, Prospect
from pilu.chains.schedule import Schedule
from pilu.chains.sensitivities import Sensitivities
from pilu.data.rows import Request

__all__ = ["Forecast", "Law", "RequestForecast"]

Array = NDArray[np.float64]


class RequestForecast(Protocol):
    """Predictions at fixed points once the rows of a request are forgotten."""

    def after(self, n_steps: int) -> Prospect:
        """After K steps without the rows, as a function of their noise."""
        ...

    @property
    def redraw(self) -> Predictions:
        """After a redraw without the rows."""
        ...


class Forecast(Protocol):
    """Predictions at fixed points."""

    @property
    def before(self) -> Predictions:
        """As the chain is now."""
        ...

    def without(self, X: Array, Y: Array, rows: NDArray[np.intp]) -> RequestForecast:
        """For a request to forget rows X with targets Y."""
        ...


class Law(Protocol):
    """The law of every iterate of a chain on one problem, from a fixed start (p x d)."""

    # Whether the iterates are Gaussian with a law that can be computed. If not, only sensitivity
    # bounds are available: no comparison of two runs, and no forecast.
    is_gaussian: ClassVar[bool]
    # Threads that BLAS should use for one request; None for all of them.
    blas_threads: ClassVar[int | None]

    @property
    def step_size(self) -> float:
        """Eta."""
        ...

    @property
    def schedule(self) -> Schedule:
        """All steps so far."""
        ...

    @property
    def alpha(self) -> float:
        """The regularisation."""
        ...

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""
        ...

    @property
    def sensitivities(self) -> Sensitivities:
        """Bounds on gradients along the chain: what the theorem needs."""
        ...

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction, or less."""
        ...

    def largest_size(self, n_more_steps: int) -> float:
        """Bound on |theta|, with a deviation, of this run and of any without some of its rows."""
        ...

    def prepare_after_learning(self) -> None:
        """Do the work that belongs to fitting rather than to the first request."""
        ...

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them: what the exact accountant needs.

        `likely_size` is the size of the projection that a similar request needed.
        """
        ...

    def coordinates(self, X: Array) -> Array:
        """Rows as a portable law takes them."""
        ...

    def portable(self) -> "Law | None":
        """A light copy for other processes, for rows in `coordinates`; None if there is none."""
        ...

    def forecast(self, points: Array, n_unlearn_steps: int) -> Forecast:
        """Predictions at some points, for requests of at most K steps."""
        ...
