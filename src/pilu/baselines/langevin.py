"""pilu itself as one of the methods, and its yardstick: learning again without the rows.

Langevin steps with noise for the requested rows; or Algorithm A on the rows that are left, step by
step or by one draw from its law.
"""

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.accountant import Accountant
from pilu.certify.issue import resolve_accountant
from pilu.certify.verify import ACCOUNTANTS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Langevin(Method):
    """Per-instance Langevin unlearning, by the estimators' own `unlearn`.

    Parameters
    ----------
    accountant : str or accountant object, default="exact"
        "exact" is for ridge and refuses other losses.
    """

    accountant: str | Accountant = "exact"

    @property
    def name(self) -> str:
        """pilu, with its accountant and the accountant's options."""
        given = resolve_accountant(self.accountant).describe()
        known = ACCOUNTANTS.get(given["name"])
        usual = {"name": given["name"]} if known is None else known.describe()
        options = (f"{key} = {value}" for key, value in given.items() if value != usual.get(key))
        return titled("pilu", given["name"], *options)

    def fit(self, task: Task) -> Learned:
        """Algorithm A, and what all requests share: for other losses the auxiliary runs."""
        model = task.langevin(task.X, task.Y)
        accountant = resolve_accountant(self.accountant)
        accountant.prepare(model.fitted_.law, np.arange(task.n_rows))

        def respond(rows: Rows) -> Answer:
            forgetful = copy.copy(model)  # forgetting replaces the copy's state only
            certificate = forgetful.unlearn(
                rows.tolist(),
                epsilon=task.epsilon,
                delta=task.delta,
                n_unlearn_steps=task.n_unlearn_steps,
                accountant=self.accountant,
            )
            K, noise = task.n_unlearn_steps, certificate.noise
            return Answer(
                forgetful.fitted_.theta,
                certificate.epsilon,
                certificate.delta,
                certified=True,
                guarantee="against a run without the rows, followed by the same steps",
                rows_touched=_rows_read(task, rows, K),
                noise=noise,
                predictions=task.predictions(rows, lambda forecast: forecast.after(K).at(noise)),
            )

        return Learned(task, model.fitted_.theta, respond)


@dataclass(frozen=True)
class Retraining(Method):
    """Algorithm A on the rows that are left, step by step."""

    name = "retraining"

    def fit(self, task: Task) -> Learned:
        """Algorithm A, step by step."""

        def learn(X: Array, Y: Array) -> Array:
            return task.langevin(X, Y, literally=True).fitted_.theta

        def respond(rows: Rows) -> Answer:
            X, Y = task.without(rows)
            return _relearned(task, rows, learn(X, Y), rows_touched=task.n_steps * len(X))

        return Learned(task, learn(task.X, task.Y), respond)


@dataclass(frozen=True)
class Redraw(Method):
    """One draw from the law of Algorithm A on the rows that are left: retraining, in law.

    Ridge has that law in closed form; for other losses the draw is a run.
    """

    name = "redraw"

    def fit(self, task: Task) -> Learned:
        """One draw from the law of Algorithm A."""
        model = task.langevin(task.X, task.Y)

        def respond(rows: Rows) -> Answer:
            forgetful = copy.copy(model)
            forgetful.unlearn(rows.tolist(), method="redraw")
            touched = _rows_read(task, rows, task.n_steps)
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


def _rows_read(task: Task, rows: Rows, n_steps: int) -> int:
    """How many rows the estimator reads to forget `rows` in `n_steps` steps.

    Statistics save reading the rows that are left, unless there are fewer rows than columns.
    """
    left = task.n_rows - len(rows)
    if task.problem.reads_rows:
        return n_steps * left
    return len(rows) if task.n_rows >= task.shape[0] else left
