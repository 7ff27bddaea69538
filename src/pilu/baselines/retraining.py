"""Learning again without the rows, step by step or by one draw from its law. The yardstick."""

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task
from pilu.baselines.langevin import rows_read

__all__ = ["Redraw", "Retraining"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Retraining(Method):
    """Algorithm A on the rows that are left, step by step."""

    @property
    def name(self) -> str:
        """Retraining."""
        return "retraining"

    def fit(self, task: Task) -> Learned:
        """Algorithm A, step by step."""

        def learn(X: Array, Y: Array) -> Array:
            return task.learned(task.langevin(literally=True), X, Y).fitted_.theta

        def respond(rows: Rows) -> Answer:
            X, Y = task.without(rows)
            return _relearned(task, rows, learn(X, Y), rows_touched=task.n_steps * len(X))

        return Learned(task, learn(task.X, task.Y), respond)


@dataclass(frozen=True)
class Redraw(Method):
    """One draw from the law of Algorithm A on the rows that are left: retraining, in law.

    Ridge has that law in closed form; for other losses the draw is a run.
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
            return _relearned(task, rows, forgetful.fitted_.theta, rows_touched=touched)

        return Learned(task, model.fitted_.theta, respond)


def _relearned(task: Task, rows: Rows, theta: Array, *, rows_touched: int) -> Answer:
    return Answer(
        theta,
        epsilon=0.0,
        delta=0.0,
        certified=True,
        guarantee="the law of learning without the rows itself",
        rows_touched=rows_touched,
        noise=task.noise,
        predictions=task.predictions(rows, lambda forecast: forecast.redraw),
    )
