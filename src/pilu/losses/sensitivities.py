"""Sensitivity bounds for smooth losses, by Gaussian concentration   [docs/concentration.md].

    s_{i,k} = eta |x_i| sup { |dl/dz| : |statistic - mean_{i,k}| <= lipschitz |x_i| tau_k q },
    q = q_tails + q_means / sqrt(R)

Half of delta_s covers the tails of the chain itself, over the visits of the requested rows. The
other half covers the means of all rows at all steps together. So a request may depend on what the
auxiliary runs have shown about any row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.chains.sensitivities import ROUNDING
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision
from pilu.losses.iterates import SmoothIterates

__all__ = ["SmoothSensitivities"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_FOR_THE_MEANS = 0.5  # of delta_s
_ROUNDING_OF_A_STEP = 4e-15


@dataclass(frozen=True)
class SmoothSensitivities:
    """Sensitivity bounds of a chain with a smooth loss, on a full batch or on mini-batches."""

    law: SmoothIterates

    @property
    def rounding(self) -> float:
        """Relative allowance for the floating-point error of simulated means."""
        return ROUNDING + _ROUNDING_OF_A_STEP * self.law.schedule.n_steps

    def terms(self, slack: float) -> dict[str, Any]:
        """How delta_s is split, for the certificate."""
        law, means = self.law, _FOR_THE_MEANS * slack
        return {
            "loss": law.problem.loss.describe(),
            "auxiliary_runs": law.auxiliary.n_runs,
            "delta_tails": slack - means,
            "delta_means": means,
        }

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row on its own: (n x N)."""
        bounds = np.zeros((len(rows.X), self.law.schedule.n_steps))
        for members, steps in self._by_batch(rows):
            at_visits = self._at_visits(rows, members, steps, self._deviation(slack, len(steps)))
            bounds[members[:, None], steps] = at_visits
        return bounds

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)."""
        bounds, n_visits = np.zeros(self.law.schedule.n_steps), self.law.n_visits(rows.rows)
        for members, steps in self._by_batch(rows):
            at_visits = self._at_visits(rows, members, steps, self._deviation(slack, n_visits))
            bounds[steps] += np.sum(at_visits, axis=0)
        return bounds * (1 + self.rounding)

    def _by_batch(self, rows: Request) -> Iterator[tuple[Rows, Rows]]:
        """The rows of each batch, as indices into the request, and the steps that visit them."""
        problem, batches = self.law.problem, self.law.problem.batch_of(rows.rows)
        for t in np.unique(batches):
            steps = problem.visits(int(t), self.law.schedule.n_steps)
            if len(steps):
                yield np.flatnonzero(batches == t), steps

    def _at_visits(self, rows: Request, members: Rows, steps: Rows, deviation: float) -> Array:
        law, loss, rounding = self.law, self.law.problem.loss, self.rounding
        norms = np.linalg.norm(rows.X[members], axis=1)[:, None] * (1 + ROUNDING)
        means = law.mean_statistics(rows.rows[members], len(steps))
        away = law.spreads[steps] * deviation + rounding * law.largest_norm
        away = loss.lipschitz * norms * away + rounding * np.abs(means)
        largest = loss.largest_gradient(means - away, means + away, law.n_outputs)
        if (wrong := ~(np.isfinite(largest) & (largest >= 0))).any():
            raise BeyondPrecision(
                f"largest_gradient of the {loss.name} loss must be finite and >= 0, got "
                f"{largest[wrong][0]}. Correct the loss (docs/losses.md)."
            )
        return np.asarray(law.step_size * norms * largest * (1 + rounding))

    def check_options(self, *, group: str, strong_convexity: str) -> None:
        """Refuse options that only ridge supports."""
        for option, given, only, reason in (
            ("group", group, "sum", "The means are known for single rows only."),
            ("strong_convexity", strong_convexity, "alpha", "Curvature varies along the chain."),
        ):
            if given != only:
                raise complaint(option, f"{only!r} for other losses than ridge", given, reason)

    def prepare(self, rows: Rows) -> None:
        """Simulate the auxiliary runs, which all rows share."""
        self.law.prepare()

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The sum, which is also a bound; `check_options` refuses the joint option."""
        return self.of_group_sum(rows, slack)

    def _deviation(self, slack: float, n_visits: int) -> float:
        """q, in units of the statistic's Lipschitz constant in the noise."""
        law = self.law
        for_means = _FOR_THE_MEANS * slack
        q_tails = _two_sided(n_visits, slack - for_means)
        q_means = _two_sided(law.n_visits_of_all, for_means)
        return q_tails + q_means / math.sqrt(law.auxiliary.n_runs)

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c of every step without the rows; alpha is the only known strong convexity."""
        return self.law.contraction


def _two_sided(count: int, failing: float) -> float:
    """The least q with 2 count exp(-q^2 / 2) <= failing, rounded up."""
    return math.sqrt(2 * (math.log(2 * count) - math.log(failing))) * (1 + ROUNDING)
