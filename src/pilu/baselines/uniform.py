"""Uniform Langevin unlearning: one noise level that is enough for any row [Chien et al. 2024].

Three ways to calibrate it. "gdp" is the paper's Theorem 1 for the hardest row, with learning as it
is: the price of not distinguishing rows. "lipschitz" is Proposition 1 with a sensitivity that holds
for any row up to the longest norm, eta |x| sup |dl/dz|: it holds with certainty, so all of delta is
for the noise. "renyi" is Chien et al.'s: gradients are bounded, by a projection to a ball after
every step if the loss does not bound them itself, and learning and unlearning have the same noise
(`accounting/renyi.py`).
"""

import math
from dataclasses import dataclass

import numpy as np

from pilu._checks import check_choice, check_real_or, complaint
from pilu.accounting.gdp import mu_from_epsilon
from pilu.accounting.renyi import NoisyChain
from pilu.accounting.shifted import (
    blocks_from_sensitivities,
    later_variance,
    representable_contraction,
)
from pilu.baselines.ball import Ball, radius_option
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.theorem import Theorem
from pilu.chains.schedule import Segment

_BLOCK = 2**22  # numbers of a block of rows and steps
_UP = 1 + 1e-11  # for the rounding up of the (QP)'s blocks


@dataclass(frozen=True)
class UniformLangevin(Method):
    """Langevin steps with the noise of the hardest row, for any request.

    Parameters
    ----------
    accounting : {"gdp", "renyi", "lipschitz"}, default="gdp"
        "gdp": the largest of Theorem 1's noises over all rows. "renyi": Chien et al.'s analysis.
        "lipschitz": the noise for a row of which only a bound on its norm is known, for losses with
        bounded gradients.
    radius : float > 0 or "auto", default="auto"
        Of the ball that "renyi" projects to. "auto" is no ball for a loss with bounded gradients.
        For ridge it is twice the norm of the minimiser, which is read off the data; the claim does
        not account for that.
    """

    accounting: str = "gdp"
    radius: float | str = "auto"

    def __post_init__(self) -> None:
        check_choice("accounting", self.accounting, ("gdp", "renyi", "lipschitz"))
        check_real_or("auto", "radius", self.radius)

    @property
    def name(self) -> str:
        """Uniform Langevin, with its accounting and a radius that was given."""
        options = {
            "gdp": [],
            "lipschitz": ["Lipschitz"],
            "renyi": ["Renyi", radius_option(self.radius)],
        }
        return titled("uniform Langevin", *options[self.accounting])

    def fit(self, task: Task) -> Learned:
        """Algorithm A, or its projected form with the noise that any row needs."""
        return self._fit_renyi(task) if self.accounting == "renyi" else self._fit_gdp(task)

    def _fit_gdp(self, task: Task) -> Learned:
        objective, eta, K = task.objective, task.step_size, task.n_unlearn_steps
        learning = Segment(task.n_steps, task.noise)
        theta = objective.walked(np.zeros(task.shape), eta, learning, task.gaussian(0))
        noise_of = worst_row_noise if self.accounting == "gdp" else any_row_noise
        against = "against a run without the rows, followed by the same steps"
        if self.accounting == "lipschitz":
            against += ", in both directions, given the norm of the longest row"
        noise_of_one = noise_of(task, 1)

        def respond(rows: Rows) -> Answer:
            noise = noise_of_one if len(rows) == 1 else noise_of(task, len(rows))
            retained = objective.without(rows)
            return Answer(
                retained.walked(theta, eta, Segment(K, noise), task.gaussian(1)),
                task.epsilon,
                task.delta,
                certified=True,
                guarantee=against,
                rows_touched=objective.rows_read(rows, K),
                noise=noise,
                predictions=task.predictions(rows, lambda forecast: forecast.after(K).at(noise)),
            )

        return Learned(task, theta, respond)

    def _fit_renyi(self, task: Task) -> Learned:
        task.check_regularised(self.name)
        task.check_short_steps(self.name)
        ball, objective = Ball(task, self.radius), task.objective
        T, K, eta = task.n_steps, task.n_unlearn_steps, task.step_size

        def chain(n_rows: int) -> NoisyChain:
            return NoisyChain(ball.largest_gradients(n_rows), task.alpha, eta, T, K)

        noise = ball.visible(chain(1).noise(task.epsilon, task.delta), math.sqrt(2 * eta))
        inside = ball.walk(np.zeros(task.shape), objective, Segment(T, noise), 0)

        def respond(rows: Rows) -> Answer:
            left = ball.walk(inside, objective.without(rows), Segment(K, noise), 1)
            return Answer(
                objective.theta(left),
                chain(len(rows)).epsilon(noise, task.delta),
                task.delta,
                certified=True,
                guarantee=f"against a run without the rows, {ball.describe()}",
                rows_touched=objective.rows_read(rows, K),
                noise=noise,
                details=lambda: {"radius": ball.radius},
            )

        return Learned(task, objective.theta(inside), respond)


def worst_row_noise(task: Task, n_rows: int) -> float:
    """The noise that certifies the target for any request of `n_rows` rows, by Theorem 1."""
    task.check_regularised("uniform Langevin")
    size = max(1, _BLOCK // (16 * task.n_steps))
    blocks = (
        task.request(np.arange(start, min(start + size, task.n_rows)))
        for start in range(0, task.n_rows, size)
    )
    return Theorem().calibrate_any(task.law, blocks, task.target, n_rows)


def any_row_noise(task: Task, n_rows: int) -> float:
    """The noise for any `n_rows` rows up to the longest norm, by their Lipschitz constants.

    s_k = eta R max |x| sup |dl/dz| at every learning step   [PILU, Prop. 1]
    """
    if math.isinf(task.gradient_bound):
        raise complaint(
            "accounting",
            f"'gdp' or 'renyi' for the {task.loss.name} loss",
            "lipschitz",
            "Its gradients have no bound that holds everywhere.",
        )
    eta, T, K = task.step_size, task.n_steps, task.n_unlearn_steps
    c = representable_contraction(K, task.contraction)
    s = np.full(T, eta * n_rows * Ball(task, math.inf).largest_gradients(1) * _UP)
    mu = float(mu_from_epsilon(task.epsilon, task.delta))
    variances = task.law.schedule.variances(eta)
    extra = blocks_from_sensitivities(s, variances, c).extra_for(mu / _UP)
    return task.target.raised(math.sqrt(extra / (2 * eta * later_variance(K, c))) * _UP)
