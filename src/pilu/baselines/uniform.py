"""Uniform Langevin unlearning: one noise level that is enough for any row [Chien et al. 2024].

Two ways to find it. "renyi" is theirs: gradients are bounded over a ball, to which every step
projects, and one noise serves learning and unlearning (`accounting/langevin_renyi.py`). "gdp" is
the paper's Theorem 1 for the worst row, with learning as it is: what pilu would charge if it could
not tell rows apart.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice
from pilu.accounting.langevin_renyi import NoisyChain
from pilu.baselines.ball import (
    check_radius,
    largest_gradients,
    projected_walk,
    radius_of,
    visible_noise,
)
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.certify.accountant import Target
from pilu.certify.floor import noise_floor
from pilu.certify.theorem import Theorem
from pilu.dynamics.schedule import Segment
from pilu.dynamics.spectral import draw_after
from pilu.laws.forecast import Forecast

__all__ = ["UniformLangevin", "worst_row_noise"]

Array = NDArray[np.float64]

_BLOCK = 2**22  # numbers of a block of rows and steps


@dataclass(frozen=True)
class UniformLangevin(Method):
    """Langevin steps with the noise of the worst row, whoever asks.

    Parameters
    ----------
    accounting : {"gdp", "renyi"}, default="gdp"
        "gdp": the largest of Theorem 1's noises over all rows. "renyi": Chien et al.'s analysis.
    radius : float > 0 or "auto", default="auto"
        Of the ball that "renyi" projects to. "auto" is twice the norm of the minimiser, which is
        read off the data, and nothing accounts for that.
    """

    accounting: str = "gdp"
    radius: float | str = "auto"

    def __post_init__(self) -> None:
        check_choice("accounting", self.accounting, ("gdp", "renyi"))
        check_radius(self.radius)

    @property
    def name(self) -> str:
        """Uniform Langevin, by its accounting and a radius that was given."""
        if self.accounting == "gdp":
            return "uniform Langevin"
        radius = "" if isinstance(self.radius, str) else f"radius {self.radius:g}"
        return titled("uniform Langevin", "Renyi", radius)

    def fit(self, task: Task) -> Learned:
        """Algorithm A, or its projected form with the noise that any row needs."""
        return self._fit_gdp(task) if self.accounting == "gdp" else self._fit_renyi(task)

    def _fit_gdp(self, task: Task) -> Learned:
        spectrum, eta, law = task.spectrum, task.step_size, task.law
        learning, K = law.schedule.segments[0], task.n_unlearn_steps
        theta = draw_after(law.start, spectrum, eta, learning, task.gaussian(0))
        noise_of_one = worst_row_noise(task, 1)

        def respond(rows: Rows) -> Answer:
            noise = noise_of_one if len(rows) == 1 else worst_row_noise(task, len(rows))
            request = task.request(rows)
            retained = spectrum.without(request.X, request.Y)
            return Answer(
                draw_after(theta, retained, eta, Segment(K, noise), task.gaussian(1)),
                task.epsilon,
                task.delta,
                certified=True,
                guarantee="against a run without the rows, followed by the same steps",
                rows_touched=len(rows),
                noise=noise,
                predictions=lambda points: (
                    Forecast(law, points, K).without(*request).after(K).at(noise)
                ),
            )

        return Learned(task, theta, respond)

    def _fit_renyi(self, task: Task) -> Learned:
        task.check_regularised(self.name)
        task.check_short_steps(self.name)
        radius, spectrum, T = radius_of(self.radius, task), task.spectrum, task.n_steps
        start, eta = np.zeros_like(spectrum.cross), task.step_size
        noise = self._chain(task, radius, 1).noise(task.epsilon, task.delta)
        noise = visible_noise(noise, math.sqrt(2 * eta), radius)
        inside = projected_walk(start, spectrum, eta, T, radius, noise, task.gaussian(0))

        def respond(rows: Rows) -> Answer:
            K, retained = task.n_unlearn_steps, spectrum.without(task.X[rows], task.Y[rows])
            left = projected_walk(inside, retained, eta, K, radius, noise, task.gaussian(1))
            epsilon = self._chain(task, radius, len(rows)).epsilon(noise, task.delta)
            return Answer(
                np.asarray(spectrum.basis @ left),
                epsilon,
                task.delta,
                certified=True,
                guarantee=f"against a run without the rows, given the radius {radius:.4g}"
                + (", which was read off the data" if self.radius == "auto" else ""),
                rows_touched=len(rows),
                noise=noise,
                details=lambda: {"radius": radius},
            )

        return Learned(task, np.asarray(spectrum.basis @ inside), respond)

    def _chain(self, task: Task, radius: float, n_rows: int) -> NoisyChain:
        return NoisyChain(
            largest_gradients(task, radius, n_rows),
            task.alpha,
            task.step_size,
            task.n_steps,
            task.n_unlearn_steps,
        )


def worst_row_noise(task: Task, n_rows: int) -> float:
    """The noise that certifies the target for any request of `n_rows` rows, by Theorem 1."""
    task.check_regularised("uniform Langevin")
    target = Target(task.epsilon, task.delta, task.n_unlearn_steps)
    size = max(1, _BLOCK // (16 * task.n_steps))
    blocks = (
        task.request(np.arange(start, min(start + size, task.n_rows)))
        for start in range(0, task.n_rows, size)
    )
    noise = Theorem().calibrate_any(task.law, blocks, target, n_rows)
    return max(noise, noise_floor(task.law)) if noise > 0 else noise
