"""pilu itself as one of the methods: Langevin steps with noise for the requested rows."""

import copy
from dataclasses import dataclass

import numpy as np

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.accountant import Accountant
from pilu.certify.issue import resolve_accountant
from pilu.certify.verify import ACCOUNTANTS

__all__ = ["Langevin", "rows_read"]


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
        model = task.learned(task.langevin(), task.X, task.Y)
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
                rows_touched=rows_read(task, rows, K),
                noise=noise,
                predictions=task.predictions(rows, lambda forecast: forecast.after(K).at(noise)),
            )

        return Learned(task, model.fitted_.theta, respond)


def rows_read(task: Task, rows: Rows, n_steps: int) -> int:
    """How many rows the estimator reads to forget `rows` in `n_steps` steps.

    Statistics save reading the rows that are left, unless there are fewer rows than columns.
    """
    left = task.n_rows - len(rows)
    if task.problem.reads_rows:
        return n_steps * left
    return len(rows) if task.n_rows >= task.shape[0] else left
