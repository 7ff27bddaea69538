"""Sensitivity bounds along a chain on mini-batches: nonzero only at the rows' visits.

A row acts only at the N_i visits of its batch, so the union bound is over these: each bound may
fail with probability delta_s / N_i   [PILU, app. mini-batch]. For a group it is over all visits of
all its rows.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu.chains.batches import VisitSensitivities
from pilu.chains.sensitivities import (
    ROUNDING,
    contraction_between,
    joint_norm_bounds,
    row_norm_bounds,
)
from pilu.data.rows import Request

if TYPE_CHECKING:
    from pilu.minibatch.law import MinibatchLaw

Array = NDArray[np.float64]


class MinibatchSensitivities(VisitSensitivities):
    """Sensitivity bounds of a chain on mini-batches."""

    def __init__(self, law: "MinibatchLaw") -> None:
        self.law, self.problem, self.n_steps = law, law.problem, law.schedule.n_steps

    def prepare(self, rows: NDArray[np.intp]) -> None:
        """Compute the residual variances of these rows together."""
        self.law.prepare_variances(rows)

    def at_visits(
        self, rows: Request, steps: NDArray[np.intp], slack: float, n_visits: int
    ) -> Array:
        """Bounds for rows of one batch at its visits: (R x V)."""
        law, (means, v) = self.law, self.law.residual_laws(rows.rows, len(steps))
        u, errors = np.sqrt(np.sum(np.square(means), axis=1)), self._errors(steps)
        return row_norm_bounds(rows.X, rows.Y, u, v, *errors, law.step_size, slack / n_visits)

    def _errors(self, steps: NDArray[np.intp]) -> tuple[Array, Array]:
        """Of means, and of deviations along a vector of norm 1."""
        means = self.law.mean_errors[steps] + ROUNDING * self.law.means.norms[steps]
        return means, self.law.deviation_errors[steps]

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The norm of the summed gradient of the group's rows in each step's batch: (N,)."""
        law, bounds = self.law, np.zeros(self.n_steps)
        batches = list(self.problem.by_batch(rows.rows, self.n_steps))
        n_visits = sum(len(steps) for _, steps in batches)
        for members, steps in batches:
            X, Y, positions = rows.part(members)
            means = np.stack([law.residual_means(positions, k) for k in steps], axis=2)
            covariances, tail = law.residual_covariances(int(steps[0]), X), slack / n_visits
            bounds[steps] = law.step_size * joint_norm_bounds(
                X, Y, means, covariances, *self._errors(steps), tail, ROUNDING
            )
        return bounds

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c of every batch's step without the rows   [PILU, app. mini-batch]."""
        problem = self.law.problem
        by_alpha = strong_convexity == "alpha"
        m = problem.alpha if by_alpha else problem.smallest_without(rows.rows)
        return contraction_between(m, problem.largest, self.law.step_size)
