"""A refit: the minimiser on the rows that are left, to a proved radius, with noise that hides it.

`pilu.Forgetful` does the same for whole pipelines; here the head gets the task's own rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task
from pilu.chains.predictions import Predictions
from pilu.exceptions import WrongInput
from pilu.losses.loss import Huber, Logistic, Softmax, Squared
from pilu.refit.held_rows import Table
from pilu.refit.huber import HuberRidge
from pilu.refit.program import Prepared, head_of, prepare, release, standard_parameters
from pilu.refit.settings import Options
from pilu.refit.solve import solve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Refit(Method):
    """Fit again without the rows, from the released parameters.

    Parameters
    ----------
    score_noise : float, default=1e-3
        Noise of a typical score, as in `pilu.Forgetful`.
    """

    score_noise: float = 1e-3
    name = "refit"

    def fit(self, task: Task) -> Learned:
        """The minimiser on all rows, with noise."""
        task.check_regularised(self.name)
        head, targets = _head(task), _targets(task)
        table = Table.of(task.X, targets, key=bytes(32))
        options = Options(task.epsilon, task.delta, self.score_noise)
        first = release(prepare(head, table, options), None, task.gaussian(0))

        def respond(rows: Rows) -> Answer:
            left = table.take(np.delete(np.arange(task.n_rows), rows))
            prepared = prepare(head, left, options)
            done = release(
                prepared, standard_parameters(prepared, head_of(first.estimator)), task.gaussian(1)
            )
            return Answer(
                _theta(done.estimator),
                task.epsilon,
                task.delta,
                certified=True,
                guarantee="against the same fit on the rows that are left",
                rows_touched=prepared.objective.n_passes * len(left),
                noise=done.noise,
                predictions=_law(prepared) if task.closed_forms is not None else None,
            )

        return Learned(task, _theta(first.estimator), respond)


def _law(prepared: Prepared) -> Callable[[Array], Predictions]:
    """The law of the predictions: the minimiser's, and the noise of standard coordinates."""

    def predictions(points: Array) -> Predictions:
        theta = solve(prepared.objective, None, prepared.radius)
        coef, _ = prepared.coordinates.out(theta)
        standard = points / prepared.coordinates.scale
        return Predictions(points @ coef, prepared.noise**2 * (standard**2).sum(axis=1))

    return predictions


def _head(task: Task) -> Any:
    """The scikit-learn head with the task's loss; X has the intercept's column already."""
    kind, alpha = type(task.loss), task.alpha
    if kind is Squared:
        return Ridge(alpha, fit_intercept=False)
    if kind in (Logistic, Softmax):
        return LogisticRegression(C=1 / alpha, fit_intercept=False)
    if isinstance(task.loss, Huber) and task.shape[1] == 1:
        return HuberRidge(alpha, threshold=task.loss.threshold, fit_intercept=False)
    raise WrongInput(
        f"a refit needs a head of scikit-learn or HuberRidge, got the {task.loss.name} loss with "
        f"{task.shape[1]} output(s). Leave the method out."
    )


def _targets(task: Task) -> NDArray[Any]:
    if type(task.loss) is Softmax:
        return np.asarray(task.Y.argmax(axis=1))
    return task.Y[:, 0] if task.shape[1] == 1 else task.Y


def _theta(head: Any) -> Array:
    return np.atleast_2d(np.asarray(head.coef_, dtype=np.float64)).T
