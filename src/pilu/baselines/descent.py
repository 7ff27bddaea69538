"""Descent-to-Delete: gradient steps on the rows left, then noise on the output [Neel et al. 2021].

Learning takes T projected steps from zero and keeps the result secret. A request takes K more on
the rows that are left. A step brings any two points together by the factor c = 1 - eta m, for
eta <= 1/L. (Beyond that c is the larger of it and eta L - 1, and (1 - c^T) / m below is eta times
the sum of c^k.) Let G bound the summed gradient of the rows on the ball. T steps with and without
the rows then end at most (1 - c^T) G / m apart. K more steps without them leave c^K of it. T and
T + K steps without the rows are at most c^T radius apart. So Gaussian noise must hide

    c^K (1 - c^T) G / m + c^T radius,

the same for any rows. A loss whose gradients are bounded needs no ball: a bound on K steps from
zero takes the place of the radius (`ball.reach`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.gdp import mu_from_epsilon
from pilu.baselines.ball import (
    check_radius,
    describe_radius,
    largest_gradients,
    projected_walk,
    radius_of,
    radius_option,
    reach,
    steps_together,
    visible_noise,
)
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.chains.predictions import Predictions
from pilu.chains.schedule import Segment
from pilu.chains.sensitivities import contraction_between

__all__ = ["DescentToDelete", "distance_bound"]

Array = NDArray[np.float64]

_UP = 1 + 1e-9


@dataclass(frozen=True)
class DescentToDelete(Method):
    """Output perturbation that is enough for any rows.

    The noise is that of the Gaussian mechanism, exactly (Neel et al. convert by a bound), and the
    steps are those of the other methods. Neel et al. take 2/(L + m), which contracts twice as fast
    for small m and oscillates along the largest eigenvalue; pass `step_size` for it.

    Parameters
    ----------
    radius : float > 0 or "auto", default="auto"
        Of the ball that steps project to. "auto" is no ball for a loss with bounded gradients. For
        ridge it is twice the norm of the minimiser, which is read off the data; the claim does not
        account for that.
    """

    radius: float | str = "auto"

    def __post_init__(self) -> None:
        check_radius(self.radius)

    @property
    def name(self) -> str:
        """Descent-to-Delete, with a radius that was given."""
        return titled("Descent-to-Delete", radius_option(self.radius))

    def fit(self, task: Task) -> Learned:
        """T projected steps without noise."""
        task.check_regularised(self.name)
        radius, objective, step = radius_of(self.radius, task), task.objective, task.step_size
        learning, forgetting = Segment(task.n_steps, 0.0), Segment(task.n_unlearn_steps, 0.0)
        start, gaussian = objective.zero(), task.gaussian(0)
        inside = projected_walk(start, objective, step, learning, radius, gaussian)
        mu = float(mu_from_epsilon(task.epsilon, task.delta))

        def respond(rows: Rows) -> Answer:
            retained, gaussian = objective.without(rows), task.gaussian(1)
            moved = projected_walk(inside, retained, step, forgetting, radius, gaussian)
            left = objective.theta(moved)
            noise = distance_bound(task, radius, len(rows)) / mu * _UP
            noise = visible_noise(task, noise, 1.0, radius)

            def predictions(points: Array) -> Predictions:
                return Predictions(points @ left, noise**2 * np.sum(np.square(points), axis=1))

            given = describe_radius(self.radius, radius)
            return Answer(
                left + noise * gaussian.normal(left.shape),
                task.epsilon,
                task.delta,
                certified=True,
                guarantee=f"against retraining, in both directions, {given}",
                rows_touched=objective.rows_read(rows, forgetting.steps),
                noise=noise,
                predictions=predictions,
                details=lambda: {"radius": radius},
            )

        return Learned(task, objective.theta(inside), respond)


def distance_bound(task: Task, radius: float, n_rows: int) -> float:
    """A bound on the distance of T + K steps that forget `n_rows` rows from T without them."""
    T, K = task.n_steps, task.n_unlearn_steps
    c = contraction_between(task.alpha, task.largest, task.step_size)
    apart = steps_together(task, T) * largest_gradients(task, radius, n_rows)
    return (c**K * apart + c**T * reach(task, radius, K)) * _UP
