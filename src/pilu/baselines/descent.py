"""Descent-to-Delete: gradient steps on what is left, then noise on the output [Neel et al. 2021].

Learning takes T projected steps from zero and keeps the result secret; a request takes K more on
the rows that are left. A step brings any two points together by the factor c = 1 - eta m, for
eta <= 1/L (else by the larger of it and eta L - 1; then (1 - c^T) / m below is eta times the sum of
c^k). With G at most the rows' summed gradient on the ball, T steps with and without the rows
end up at most (1 - c^T) G / m apart, K more without them leave c^K of it, and at most c^T radius
lies between T and T + K steps without the rows. Gaussian noise hides

    c^K (1 - c^T) G / m + c^T radius

for any rows alike. A loss whose gradients are bounded needs no ball: how far K steps from zero can
reach takes the place of the radius (`ball.reach`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.gdp import mu_from_epsilon
from pilu.baselines.ball import (
    check_radius,
    given,
    largest_gradients,
    projected_walk,
    radius_of,
    reach,
    steps_together,
    visible_noise,
)
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.chains.contraction import contraction_between
from pilu.chains.predictions import Predictions

__all__ = ["DescentToDelete", "distance_bound"]

Array = NDArray[np.float64]

_UP = 1 + 1e-9


@dataclass(frozen=True)
class DescentToDelete(Method):
    """Output perturbation that is enough for any rows.

    The noise is that of the Gaussian mechanism, exactly (Neel et al. convert by a bound), and the
    steps are those of the other methods. Neel et al. take 2/(L + m), which contracts twice as fast
    for small m and swings back and forth along the largest eigenvalue; pass `step_size` for it.

    Parameters
    ----------
    radius : float > 0 or "auto", default="auto"
        Of the ball that steps project to. "auto" is none for a loss with bounded gradients; for
        ridge it is twice the norm of the minimiser, which is read off the data, and nothing
        accounts for that.
    """

    radius: float | str = "auto"

    def __post_init__(self) -> None:
        check_radius(self.radius)

    @property
    def name(self) -> str:
        """Descent-to-Delete, by a radius that was given."""
        radius = "" if isinstance(self.radius, str) else f"radius {self.radius:g}"
        return titled("Descent-to-Delete", radius)

    def fit(self, task: Task) -> Learned:
        """T projected steps without noise."""
        task.check_regularised(self.name)
        radius, objective, step = radius_of(self.radius, task), task.objective, task.step_size
        inside = projected_walk(objective.zero(), objective, step, task.n_steps, radius)
        mu = float(mu_from_epsilon(task.epsilon, task.delta))

        def respond(rows: Rows) -> Answer:
            K, retained = task.n_unlearn_steps, objective.without(rows)
            left = objective.theta(projected_walk(inside, retained, step, K, radius))
            noise = distance_bound(task, radius, len(rows)) / mu * _UP
            noise = visible_noise(task, noise, 1.0, radius)

            def predictions(points: Array) -> Predictions:
                return Predictions(points @ left, noise**2 * np.sum(np.square(points), axis=1))

            return Answer(
                left + noise * task.gaussian(1).normal(left.shape),
                task.epsilon,
                task.delta,
                certified=True,
                guarantee=f"against retraining, in both directions, {given(self.radius, radius)}",
                rows_touched=objective.rows_read(rows, K),
                noise=noise,
                predictions=predictions,
                details=lambda: {"radius": radius},
            )

        return Learned(task, objective.theta(inside), respond)


def distance_bound(task: Task, radius: float, n_rows: int) -> float:
    """Most that K steps after T with any `n_rows` rows can end up from T steps without them."""
    T, K = task.n_steps, task.n_unlearn_steps
    c = contraction_between(task.alpha, task.largest, task.step_size)
    apart = steps_together(task, T) * largest_gradients(task, radius, n_rows)
    return (c**K * apart + c**T * reach(task, radius, K)) * _UP
