"""What a chain, an accountant, an estimator and a store need: one interface for every kind.

A kind of problem is a loss and a way to take steps on it: all rows at once, or mini-batches. It
supplies its steps, its law, its record for a store and its share of a certificate. Nothing outside
of its own room asks which kind it is. A law describes the iterates before any draw: nothing in it
depends on realised parameters.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import Comparison
from pilu.chains.predictions import Predictions, Prospect
from pilu.chains.schedule import Schedule, Segment
from pilu.chains.sensitivities import Sensitivities
from pilu.chains.shortfall import Shortfall
from pilu.data.rows import Request, RowSource
from pilu.data.statistics import ReadShare, Statistics

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class GaussianSource(Protocol):
    """Anything that draws independent standard normals."""

    private: bool

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals."""


class RequestForecast(Protocol):
    """Predictions at fixed points once the rows of a request are forgotten."""

    def after(self, n_steps: int) -> Prospect:
        """After K steps without the rows, as a function of their noise."""

    @property
    def redraw(self) -> Predictions:
        """After a redraw without the rows."""


class Forecast(Protocol):
    """Predictions at fixed points."""

    @property
    def before(self) -> Predictions:
        """As the chain is now."""

    def without(self, X: Array, Y: Array, rows: Rows) -> RequestForecast:
        """For a request to forget rows X with targets Y."""


class Law(Protocol):
    """The law of every iterate of a chain on one problem, from a fixed start (p x d).

    What most kinds have in common is written here, once.
    """

    # Whether the iterates are Gaussian with a law that can be computed. If not, only sensitivity
    # bounds are available: no comparison of two runs, and no forecast.
    is_gaussian: ClassVar[bool]

    step_size: float  # eta
    schedule: Schedule  # all steps so far

    @property
    def alpha(self) -> float:
        """The regularisation."""

    @property
    def n_outputs(self) -> int:
        """Columns of theta, d."""

    @property
    def sensitivities(self) -> Sensitivities:
        """Bounds on gradients along the chain: what the theorem needs."""

    @property
    def least_final_variance(self) -> float:
        """Variance of the last iterate in its least noisy direction, or less."""

    def largest_size(self, n_more_steps: int) -> float:
        """Bound on |theta|, with a deviation, of this run and of any without some of its rows."""

    def threads(self) -> AbstractContextManager[object]:
        """A context with as many BLAS threads as suit one request; by default all of them."""
        return nullcontext()

    def prepare_after_learning(self) -> None:
        """Do the work that belongs to fitting rather than to the first request, if there is any."""
        return None

    def comparison(self, request: Request, likely_size: int = 0) -> Comparison:
        """The run with the rows against the run without them: what the exact accountant needs.

        `likely_size` is the size of the projection that a similar request needed.
        """

    def coordinates(self, X: Array) -> Array:
        """Rows as a portable law takes them."""
        return X

    def portable(self) -> "Law | None":
        """A light copy for other processes, for rows in `coordinates`; None if there is none."""
        return None

    def forecast(self, points: Array, n_unlearn_steps: int) -> Forecast:
        """Predictions at some points, for requests of at most K steps."""


class Run(NamedTuple):
    """How a problem is walked on: all that its law depends on besides the rows."""

    step_size: float
    schedule: Schedule
    start: Array  # p x d


class Problem(Protocol):
    """Immutable to its users; forgetting rows returns a new problem.

    What most kinds have in common is written here, once.
    """

    # Whether a law is expensive to prepare and worth keeping for all requests of a state.
    keeps_law: ClassVar[bool]
    # Whether steps read the rows themselves, not statistics of them.
    reads_rows: ClassVar[bool]

    source: RowSource
    alpha: float  # the regularisation
    n_outputs: int  # columns of theta, d
    largest: float  # L: a bound on the curvature that any step meets, alpha included

    @property
    def minibatch_size(self) -> int | None:
        """Rows in a mini-batch; None where every step takes all rows."""

    @property
    def statistics_error(self) -> float:
        """Relative rounding error of the statistics, all subtractions included."""
        return 0.0

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of Langevin steps that begins at step `first_step`."""

    def law(self, run: Run, *, corrected: bool = False) -> Law:
        """The law of a run; `corrected` allows the cheap form that not all accountants take."""

    def shortfall(self, run: Run, theta: Array) -> Shortfall | None:
        """How far learning has stayed from the minimiser; None if that is not noticeable."""
        ...

    def without(self, rows: Rows, x: Array, y: Array) -> Self:
        """The problem without `rows`, whose values are x and y."""

    def reading(self, source: RowSource) -> Self:
        """The same problem with its rows attached or detached."""

    def for_steps(self, step_size: float) -> Self:
        """The same problem with constants as coarse as steps of this size allow."""
        return self

    def drawing_privately(self) -> Self:
        """The same problem, for a chain whose noise is private from now on."""

    def consolidate(self) -> None:
        """Drop what is still held of forgotten rows, if anything is."""
        return None

    @property
    def statistics(self) -> Statistics | None:
        """Sums over the rows that are left; None where steps read the rows."""
        return None

    def is_consistent(self, tolerance: float) -> bool | None:
        """Whether what was computed from the statistics fits them; None if there is nothing."""
        return None

    def recollected(self, read: ReadShare | None = None) -> Self:
        """The same problem with its statistics summed again, from the rows that `read` yields."""
        return self

    def batch_facts(self, rows: Rows, n_steps: int, n_unlearn_steps: int) -> dict[str, bool]:
        """What a certificate says of the rows' mini-batches after `n_steps` steps in all."""

    def timing_sample(self, n_steps: int) -> tuple[int, float]:
        """How many of `n_steps` to time for a redraw, and the seconds that it takes besides."""

    def redraw_work(self, learning: Segment) -> float:
        """About how many multiplications a redraw takes: a function of sizes at fit only."""
        ...

    def describe_loss(self) -> dict[str, Any]:
        """Name and options of the loss, as they are in a store's log."""
        return {"name": "squared"}

    def record(self) -> dict[str, Any]:
        """What a store keeps of the problem as plain numbers."""

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """What it keeps as arrays, the most expensive ones to compute last."""
        return iter(())
