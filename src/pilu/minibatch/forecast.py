"""Predictions of a chain on mini-batches at given points: now, after forgetting, after a redraw.

A point v predicts v'theta ~ N(v'm, (v'Sigma v) I_d). Means go forwards through the batches, points
backwards (`minibatch.law`): through K steps without the rows, then through the steps of learning.
Nothing is p x p. Every request takes these passes again.
"""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu.chains.predictions import Predictions, Prospect
from pilu.chains.schedule import Schedule
from pilu.minibatch.flows import mean_after, variances_back

if TYPE_CHECKING:
    from pilu.minibatch.law import MinibatchLaw
    from pilu.minibatch.problem import MinibatchProblem

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class MinibatchForecast:
    """Predictions of a chain at fixed points (n x p, with the intercept's ones)."""

    def __init__(self, law: "MinibatchLaw", points: Array) -> None:
        self.law, self.points = law, points

    @cached_property
    def before(self) -> Predictions:
        """Predictions of the chain as it is now."""
        return _predictions(self.law, self.points)

    def without(self, X: Array, Y: Array, rows: Rows) -> "MinibatchRequestForecast":
        """The forecast for a request: rows X (R x p) with targets Y (R x d), perhaps none."""
        retained = self.law.problem.without(rows, X, Y)
        return MinibatchRequestForecast(self.law, self.points, retained)


class MinibatchRequestForecast:
    """Predictions once some rows are forgotten."""

    def __init__(self, law: "MinibatchLaw", points: Array, retained: "MinibatchProblem") -> None:
        self._law, self._points, self._retained = law, points, retained

    def after(self, n_steps: int) -> Prospect:
        """K steps on the remaining rows."""
        law, N = self._law, self._law.schedule.n_steps
        eta = law.step_size
        mean = mean_after(self._retained, eta, law.means.final, range(N, N + n_steps))
        units = np.full(n_steps, 2 * eta)
        later, walkers = variances_back(self._retained, eta, self._points, N + n_steps, units)
        earlier, _ = variances_back(law.problem, eta, walkers, N, law.variances)
        return Prospect(self._points @ mean, earlier, later)

    @cached_property
    def redraw(self) -> Predictions:
        """Learning again, without the rows."""
        law = self._law
        learning = Schedule(law.schedule.segments[:1])
        redrawn = replace(law, problem=self._retained, schedule=learning)
        return _predictions(redrawn, self._points)


def _predictions(law: "MinibatchLaw", points: Array) -> Predictions:
    variances, _ = variances_back(
        law.problem, law.step_size, points, law.schedule.n_steps, law.variances
    )
    return Predictions(points @ law.means.final, variances)
