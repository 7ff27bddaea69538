"""Learning again without the rows: literally, and by one draw from its law. The yardstick."""

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, without
from pilu.baselines.langevin import rows_read
from pilu.chains.predictions import Predictions
from pilu.ridge.forecast import Forecast

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
        literally = {"solver": "gradient"} if task.is_ridge else {}  # others take steps anyway
        learner = task.langevin(**literally)

        def respond(rows: Rows) -> Answer:
            X, Y = without(task, rows)
            theta = task.learned(learner, X, Y)._theta
            return _relearned(task, rows, theta, rows_touched=task.n_steps * len(X))

        return Learned(task, task.learned(learner, task.X, task.Y)._theta, respond)


@dataclass(frozen=True)
class Redraw(Method):
    """One draw from the law of Algorithm A on what is left: equal in law to retraining.

    In closed form for ridge; for other losses the draw is a run.
    """

    @property
    def name(self) -> str:
        """Redraw."""
        return "redraw"

    def fit(self, task: Task) -> Learned:
        """One draw from the law of Algorithm A."""
        model = task.learned(task.langevin(), task.X, task.Y)

        def respond(rows: Rows) -> Answer:
            forgetful = copy.copy(model)
            forgetful.unlearn(rows.tolist(), method="redraw")
            touched = rows_read(task, rows, task.n_steps)
            return _relearned(task, rows, forgetful._theta, rows_touched=touched)

        return Learned(task, model._theta, respond)


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
        predictions=predictions if task.is_ridge else None,
    )
