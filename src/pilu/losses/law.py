"""The law of a chain with a smooth loss: spread, simulated means, sensitivity bounds.

With eta < 2/L a step contracts distances by c = max(|1 - eta m|, |1 - eta L|). So theta_k is a
Lipschitz function of the earlier noise, with constant

    tau_k,   tau_0 = 0,   tau_{k+1}^2 = c^2 tau_k^2 + 2 eta sigma_k^2.

A statistic of row i is lipschitz |x_i|-Lipschitz in theta. By Gaussian concentration it exceeds its
mean by lipschitz |x_i| tau_k q with probability at most exp(-q^2 / 2). The same holds for the mean
over R independent runs, with tau_k / sqrt(R)   [docs/concentration.md]. Means are estimated by R
auxiliary runs, whose noise is independent of the chain's.

Sensitivity bounds follow from both:

    s_{i,k} = eta |x_i| sup { |dl/dz| : |statistic - mean_{i,k}| <= lipschitz |x_i| tau_k q },
    q = q_tails + q_means / sqrt(R)

Half of delta_s covers the tails of the chain itself, over the visits of the requested rows. The
other half covers the means of all rows at all steps together. So a request may depend on what the
auxiliary runs have shown about any row.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_memory, complaint
from pilu._progress import progress_bar
from pilu.chains.batches import VisitSensitivities
from pilu.chains.chain import SimulatedGaussian, langevin_steps
from pilu.chains.problem import Law
from pilu.chains.schedule import Schedule
from pilu.chains.sensitivities import ROUNDING, contraction_between
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision, WrongInput

if TYPE_CHECKING:
    from pilu.losses.problem import SmoothProblem

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_FOR_THE_MEANS = 0.5  # of delta_s
_ROUNDING_OF_A_STEP = 4e-15


class Simulated(NamedTuple):
    """What the auxiliary runs show."""

    means: Array  # of the statistic over the runs, at each row's visits: n x cycles
    largest_norm: float  # bounds |theta_k| in every run


@dataclass(frozen=True, eq=False)
class SmoothLaw(Law):
    """The chain of a smooth problem, from a fixed start (p x C).

    Iterates are not Gaussian: bounds are by concentration.
    """

    problem: "SmoothProblem"
    step_size: float
    schedule: Schedule
    start: Array

    is_gaussian: ClassVar[bool] = False

    @property
    def n_outputs(self) -> int:
        """Columns of theta, C."""
        return int(self.start.shape[1])

    @property
    def alpha(self) -> float:
        """The regularisation."""
        return self.problem.alpha

    @property
    def contraction(self) -> float:
        """c of every step, whichever rows remain; rounded up."""
        return contraction_between(self.alpha, self.problem.largest, self.step_size)

    @cached_property
    def spreads(self) -> Array:
        """tau_k for every step, rounded up."""
        c2, squares = self.contraction**2, np.zeros(self.schedule.n_steps)
        for k, variance in enumerate(self.schedule.variances(self.step_size)[:-1]):
            squares[k + 1] = (c2 * squares[k] + variance) * (1 + 2.0**-50)
        return np.asarray(np.sqrt(squares) * (1 + 2.0**-50))

    @property
    def least_final_variance(self) -> float:
        """Least variance of theta_N in any direction, estimated with the strongest contraction."""
        kept, least = max(1.0 - self.step_size * self.problem.largest, 0.0) ** 2, 0.0
        for variance in self.schedule.variances(self.step_size):
            least = kept * least + variance
        return float(least)

    def largest_size(self, n_more_steps: int) -> float:
        """Bounds |theta| up to a deviation, in this run and in every run without some of its rows.

        Without noise |theta_{k+1} - theta_0| <= c |theta_k - theta_0| + eta |grad f_t(theta_0)|.
        A batch's gradient is at most the sum of its rows' gradient norms.
        """
        problem, start = self.problem, float(np.linalg.norm(self.start))
        cycles = -(-(self.schedule.n_steps + n_more_steps) // problem.n_batches)
        gradients = self._gradients_at_the_start + self.alpha * start
        away = cycles * float(np.sum(gradients))
        if self.contraction < 1.0:
            away = min(away, float(np.max(gradients)) / (1.0 - self.contraction))
        noise = math.sqrt(float(np.sum(self.schedule.variances(self.step_size))))
        return start + self.step_size * away + noise

    @cached_property
    def _gradients_at_the_start(self) -> Array:
        problem, batches = self.problem, range(self.problem.n_batches)
        problem.check_rows(batches)  # the result is kept, so it must not rest on other rows
        return np.array([problem.summed_gradient_norms(self.start, t) for t in batches])

    @cached_property
    def n_visits_of_all(self) -> int:
        """Visits of the batches of all remaining rows, summed over the rows."""
        remaining = np.flatnonzero(self.problem.source.live)
        return self.problem.n_visits(remaining, self.schedule.n_steps)

    def mean_statistics(self, rows: Rows, n_visits: int) -> Array:
        """Means over the auxiliary runs at the rows' first visits: (R x n_visits)."""
        return np.asarray(self.simulated.means[rows, :n_visits])

    @cached_property
    def simulated(self) -> Simulated:
        """The auxiliary runs, which all requests share."""
        problem, (R, seed, _) = self.problem, self.problem.runs
        N, M = self.schedule.n_steps, problem.n_batches
        n, visits = problem.source.n_rows, -(-N // M)
        check_memory(
            8 * n * visits,
            f"means of {n:,} rows at {visits:,} visits each",
            "Use a smaller batch_size or fewer steps, so that rows are visited less often.",
        )
        means = np.zeros((n, visits))

        def see(step: int, rows: Rows, scores: Array, targets: Array) -> None:
            means[rows, step // M] = np.mean(problem.loss.statistic(scores, targets), axis=1)

        problem.check_rows(range(N))
        theta, gaussian = np.tile(self.start, (1, R)), SimulatedGaussian(seed)
        gradient = partial(problem.gradient, n_runs=R, see=see)
        largest, done = float(np.linalg.norm(theta)), 0
        with progress_bar(N, what=f"{R} auxiliary runs", unit="step") as bar:
            for segment in self.schedule.segments:
                steps = langevin_steps(theta, gradient, self.step_size, segment, gaussian, done)
                for moved in steps:
                    theta, largest = moved, max(largest, float(np.linalg.norm(moved)))
                    bar.update()
                done += segment.steps
        return Simulated(means, largest)

    @property
    def sensitivities(self) -> "SmoothSensitivities":
        """Bounds on the rows' gradients at their visits."""
        return SmoothSensitivities(self)

    def comparison(self, request: Request, likely_size: int = 0) -> NoReturn:
        """Refused: the two runs of Definition 1 have no known law."""
        raise complaint(
            "accountant",
            f"'theorem' for the {self.problem.loss.name} loss",
            "exact",
            "Only ridge has Gaussian iterates.",
        )

    def forecast(self, points: Array, n_unlearn_steps: int) -> NoReturn:
        """Refused: the score after a request has no closed form."""
        raise WrongInput(f"the {self.problem.loss.name} loss has no forecast in closed form.")


class SmoothSensitivities(VisitSensitivities):
    """Sensitivity bounds of a chain with a smooth loss, on a full batch or on mini-batches."""

    def __init__(self, law: SmoothLaw) -> None:
        self.law, self.problem, self.n_steps = law, law.problem, law.schedule.n_steps

    @property
    def rounding(self) -> float:
        """Relative allowance for the floating-point error of simulated means."""
        return ROUNDING + _ROUNDING_OF_A_STEP * self.law.schedule.n_steps

    def terms(self, slack: float) -> dict[str, Any]:
        """How delta_s is split, for the certificate."""
        law, means = self.law, _FOR_THE_MEANS * slack
        return {
            "loss": law.problem.loss.describe(),
            "auxiliary_runs": law.problem.runs.n_runs,
            "delta_tails": slack - means,
            "delta_means": means,
        }

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)."""
        return super().of_group_sum(rows, slack) * (1 + self.rounding)

    def at_visits(self, rows: Request, steps: Rows, slack: float, n_visits: int) -> Array:
        """Bounds for rows of one batch at its visits: (R x V)."""
        law, loss, rounding = self.law, self.law.problem.loss, self.rounding
        norms = np.linalg.norm(rows.X, axis=1)[:, None] * (1 + ROUNDING)
        means = law.mean_statistics(rows.rows, len(steps))
        away = (
            law.spreads[steps] * self._deviation(slack, n_visits)
            + rounding * law.simulated.largest_norm
        )
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
        _ = self.law.simulated

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The sum, which is also a bound; `check_options` refuses the joint option."""
        return self.of_group_sum(rows, slack)

    def _deviation(self, slack: float, n_visits: int) -> float:
        """q, in units of the statistic's Lipschitz constant in the noise."""
        law = self.law
        for_means = _FOR_THE_MEANS * slack
        q_tails = _two_sided(n_visits, slack - for_means)
        q_means = _two_sided(law.n_visits_of_all, for_means)
        return q_tails + q_means / math.sqrt(law.problem.runs.n_runs)

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c of every step without the rows; alpha is the only known strong convexity."""
        return self.law.contraction


def _two_sided(count: int, failing: float) -> float:
    """The least q with 2 count exp(-q^2 / 2) <= failing, rounded up."""
    return math.sqrt(2 * (math.log(2 * count) - math.log(failing))) * (1 + ROUNDING)
