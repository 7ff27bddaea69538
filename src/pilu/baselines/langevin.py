"""pilu itself, through the same door: Langevin steps with noise for the requested rows."""

import copy
from dataclasses import dataclass

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.accountant import Accountant
from pilu.certify.registry import resolve_accountant, usual_options
from pilu.laws.forecast import Forecast

__all__ = ["Langevin"]


@dataclass(frozen=True)
class Langevin(Method):
    """Per-instance Langevin unlearning, as `LangevinRidge.unlearn` does it.

    Parameters
    ----------
    accountant : str or accountant object, default="exact"
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
        """Algorithm A."""
        model = task.langevin().fit(task.X, task.Y)

        def respond(rows: Rows) -> Answer:
            forgetful = copy.copy(
                model
            )  # unlearning replaces the state, so the model keeps its own
            certificate = forgetful.unlearn(
                rows.tolist(),
                epsilon=task.epsilon,
                delta=task.delta,
                n_unlearn_steps=task.n_unlearn_steps,
                accountant=self.accountant,
            )
            K, noise, request = task.n_unlearn_steps, certificate.noise, task.request(rows)
            return Answer(
                forgetful.coef_.T,
                certificate.epsilon,
                certificate.delta,
                certified=True,
                guarantee="against a run without the rows, followed by the same steps",
                rows_touched=rows_read(task, rows),
                noise=noise,
                predictions=lambda points: (
                    Forecast(task.law, points, K).without(*request).after(K).at(noise)
                ),
            )

        return Learned(task, model.coef_.T, respond)


def rows_read(task: Task, rows: Rows) -> int:
    """The request's rows alone, where statistics stand for all others (n >= p)."""
    n, p = task.X.shape
    return len(rows) if n >= p else n - len(rows)
