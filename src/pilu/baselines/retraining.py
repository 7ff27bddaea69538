"""Learning again without the rows: literally, and by one draw from its law. The yardstick."""

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, without
from pilu.baselines.langevin import rows_read
from pilu.laws.forecast import Forecast, Predictions

__all__ = ["Redraw", "Retraining"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Retraining(Method):
    """Algorithm A on what is left, step by step."""

    @property
    def name(self) -> str:
        """Retraining."""
        return "retraining"

    def fit(self, task: Task) -> Learned:
        """Algorithm A, step by step."""
        learner = task.langevin(solver="gradient")

        def respond(rows: Rows) -> Answer:
            X, Y = without(task, rows)
            theta = learner.fit(X, Y).coef_.T
            return _relearned(task, rows, theta, rows_touched=task.n_steps * len(X))

        return Learned(task, learner.fit(task.X, task.Y).coef_.T, respond)


@dataclass(frozen=True)
class Redraw(Method):
    """One draw from the law of Algorithm A on what is left: equal in law to retraining."""

    @property
    def name(self) -> str:
        """Redraw."""
        return "redraw"

    def fit(self, task: Task) -> Learned:
        """One draw from the law of Algorithm A."""
        model = task.langevin().fit(task.X, task.Y)

        def respond(rows: Rows) -> Answer:
            forgetful = copy.copy(model)
            forgetful.unlearn(rows.tolist(), method="redraw")
            return _relearned(task, rows, forgetful.coef_.T, rows_touched=rows_read(task, rows))

        return Learned(task, model.coef_.T, respond)


def _relearned(task: Task, rows: Rows, theta: Array, *, rows_touched: int) -> Answer:
    request = task.request(rows)

    def predictions(points: Array) -> Predictions:
        return Forecast(task.law, points, task.n_unlearn_steps).without(*request).redraw

    return Answer(
        theta,
        epsilon=0.0,
        delta=0.0,
        certified=True,
        guarantee="the law of learning without the rows itself",
        rows_touched=rows_touched,
        noise=task.noise,
        predictions=predictions,
    )
