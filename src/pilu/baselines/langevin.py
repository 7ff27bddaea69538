"""pilu itself, through the same door: Langevin steps with noise for the requested rows."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.accountant import Accountant
from pilu.certify.registry import resolve_accountant, usual_options
from pilu.chains.predictions import Predictions
from pilu.ridge.forecast import Forecast

__all__ = ["Langevin", "forecast_after", "rows_read"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Langevin(Method):
    """Per-instance Langevin unlearning, as the estimators' `unlearn` does it.

    Parameters
    ----------
    accountant : str or accountant object, default="exact"
        "exact" is for ridge and refuses other losses.
    """

    accountant: str | Accountant = "exact"

    @property
    def name(self) -> str:
        """pilu, by its accountant and that one's options."""
        given = resolve_accountant(self.accountant).describe()
        usual = {"name": given["name"]} | usual_options(given["name"])
        options = (f"{key} = {value}" for key, value in given.items() if value != usual.get(key))
        return titled("pilu", given["name"], *options)

    def fit(self, task: Task) -> Learned:
        """Algorithm A; for other losses than ridge the auxiliary runs too, which requests share."""
        model = task.learned(task.langevin(), task.X, task.Y)
        if not task.is_ridge:
            accountant = resolve_accountant(self.accountant)
            accountant.prepare(model.fitted_.law, np.arange(task.n_rows))

        def respond(rows: Rows) -> Answer:
            # unlearning replaces the state, so the model keeps its own
            forgetful = copy.copy(model)
            certificate = forgetful.unlearn(
                rows.tolist(),
                epsilon=task.epsilon,
                delta=task.delta,
                n_unlearn_steps=task.n_unlearn_steps,
                accountant=self.accountant,
            )
            return Answer(
                forgetful._theta,
                certificate.epsilon,
                certificate.delta,
                certified=True,
                guarantee="against a run without the rows, followed by the same steps",
                rows_touched=rows_read(task, rows, task.n_unlearn_steps),
                noise=certificate.noise,
                predictions=forecast_after(task, rows, certificate.noise),
            )

        return Learned(task, model._theta, respond)


def forecast_after(task: Task, rows: Rows, noise: float) -> Callable[[Array], Predictions] | None:
    """The law of predictions after Langevin steps with some noise; known for ridge only."""
    if not task.is_ridge:
        return None
    K, request = task.n_unlearn_steps, task.request(rows)
    return lambda points: Forecast(task.law, points, K).without(*request).after(K).at(noise)


def rows_read(task: Task, rows: Rows, n_steps: int) -> int:
    """For ridge the request's rows alone, where statistics stand for all others (n >= p)."""
    n, p = int(task.X.shape[0]), int(task.X.shape[1])
    if not task.is_ridge:
        return n_steps * (n - len(rows))
    return len(rows) if n >= p else n - len(rows)
