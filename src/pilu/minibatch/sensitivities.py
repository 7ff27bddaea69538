"""Sensitivity bounds along a chain on mini-batches: nonzero only at the rows' visits.

A row acts only at the N_i visits of its batch, so the union bound is over these: each bound may
fail with probability delta_s / N_i   [PILU, app. mini-batch]. For a group it is over all visits of
all its rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu.chains.sensitivities import (
    Sensitivities,
    contraction_between,
    gaussian_norm_bound,
    joint_norm_bounds,
)
from pilu.data.rows import Request

if TYPE_CHECKING:
    from pilu.minibatch.law import MinibatchLaw, VisitLaw

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MinibatchSensitivities(Sensitivities):
    """Sensitivity bounds of a chain on mini-batches."""

    law: "MinibatchLaw"

    def prepare(self, rows: NDArray[np.intp]) -> None:
        """Compute the residual variances of these rows together."""
        self.law.prepare_variances(rows)

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row on its own: (n x N)."""
        bounds = np.zeros((len(rows.X), self.law.schedule.n_steps))
        for visit in self.law.residual_laws(rows.rows):
            if len(visit.steps):
                at_visits = self._at_visits(rows, visit, slack / len(visit.steps))
                bounds[visit.members[:, None], visit.steps] = at_visits
        return bounds

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)."""
        N = self.law.schedule.n_steps
        bounds, n_visits = np.zeros(N), self.law.problem.n_visits(rows.rows, N)
        for visit in self.law.residual_laws(rows.rows):
            if len(visit.steps):
                at_visits = self._at_visits(rows, visit, slack / n_visits)
                bounds[visit.steps] += np.sum(at_visits, axis=0)
        return bounds

    def _at_visits(self, rows: Request, visit: "VisitLaw", tail: float) -> Array:
        law, rounding = self.law, self.rounding
        norms = np.sqrt(np.sum(np.square(rows.X[visit.members]), axis=1))[:, None]
        target_norms = np.sqrt(np.sum(np.square(rows.Y[visit.members]), axis=1))[:, None]
        u = np.sqrt(np.sum(np.square(visit.means), axis=1))
        u += norms * law.mean_errors[visit.steps]
        u += rounding * (norms * law.means.norms[visit.steps] + target_norms)
        root_v = np.sqrt(visit.variances) + norms * law.deviation_errors[visit.steps]
        bounds = gaussian_norm_bound(u, root_v, law.n_outputs, tail)
        return np.asarray(law.step_size * norms * bounds * (1 + rounding))

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The norm of the summed gradient of the group's rows in each step's batch: (N,)."""
        law, N = self.law, self.law.schedule.n_steps
        bounds, batches = np.zeros(N), law.problem.batch_of(rows.rows)
        visited = np.unique(batches)
        n_visits = sum(len(law.problem.visits(int(t), N)) for t in visited)
        for t in visited:
            members, steps = np.flatnonzero(batches == t), law.problem.visits(int(t), N)
            if not len(steps):
                continue
            X, Y = rows.X[members], rows.Y[members]
            means = np.stack([law.residual_means(rows.rows[members], k) for k in steps], axis=2)
            bounds[steps] = law.step_size * joint_norm_bounds(
                X,
                Y,
                means,
                law.residual_covariances(int(t), X),
                law.mean_errors[steps] + self.rounding * law.means.norms[steps],
                law.deviation_errors[steps],
                slack / n_visits,
                self.rounding,
            )
        return bounds

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c of every batch's step without the rows   [PILU, app. mini-batch]."""
        problem = self.law.problem
        by_alpha = strong_convexity == "alpha"
        m = problem.alpha if by_alpha else problem.smallest_without(rows.rows)
        return contraction_between(m, problem.largest, self.law.step_size)
