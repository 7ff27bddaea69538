"""Langevin unlearning: one noise for learning and unlearning, projected steps.

    E. Chien, H. Wang, Z. Chen and P. Li, Langevin unlearning: a new perspective of noisy gradient
    descent for machine unlearning, NeurIPS 2024.

Steps theta <- Proj(theta - eta grad f + sqrt(2 eta) sigma xi) on the mean f of n losses that are
m-strongly convex, L-smooth and M-Lipschitz on a ball, with eta = 1/L. Learning has converged. One
row is replaced, here by a row of zeros. After K steps on the new rows the Renyi difference of order
a from what learning converges to is at most

    4 a M^2 / (m sigma^2 n^2) e^(-m eta K / a),

which gives epsilon, with log(1/delta) / (a - 1) added, for the best a. These are the constants of
the paper's experiments, as its public code evaluates them (Graph-COM/Langevin_unlearning).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from experiments.truth.adapters.lines import langevin_map
from experiments.truth.claim import Claim, NotCovered
from experiments.truth.grid import Phase, steps_on_line
from experiments.truth.problems import Problem

CITE = "Chien et al. 2024"
RADIUS = 2.0


@dataclass(frozen=True)
class Constants:
    """Of the mean f on the ball of radius `RADIUS`."""

    convexity: float  # m
    lipschitz: float  # M
    step_size: float  # eta
    n_rows: int

    @classmethod
    def of(cls, problem: Problem) -> "Constants":
        """From the rows. Every row carries alpha/n of the penalty."""
        n, lengths = problem.n_rows, np.linalg.norm(problem.X, axis=1)
        slopes = np.maximum(
            *(np.abs(problem.slopes(end * lengths * RADIUS)) for end in (-1.0, 1.0))
        )
        return cls(
            problem.alpha / n,
            float(np.max(lengths * slopes)) + problem.alpha / n * RADIUS,
            n * problem.step_size,
            n,
        )

    def epsilon(self, sigma: float, n_unlearn_steps: int, delta: float) -> float:
        """min over a > 1 of the bound and its conversion."""
        first = 4 * self.lipschitz**2 / (self.convexity * sigma**2 * self.n_rows**2)
        rate = self.convexity * self.step_size * n_unlearn_steps

        def at(log_a: float) -> float:  # a = 1 + e^log_a
            a = 1 + math.exp(log_a)
            return a * first * math.exp(-rate / a) + math.log(1 / delta) / (a - 1)

        ends = np.linspace(-12, 20, 65)
        best = int(np.argmin([at(x) for x in ends]))
        bounds = ends[max(best - 1, 0)], ends[min(best + 1, 64)]
        return float(minimize_scalar(at, bounds=bounds, method="bounded").fun)

    def sigma(self, epsilon: float, n_unlearn_steps: int, delta: float) -> float:
        """The least noise that claims epsilon."""
        low, high = 1e-8, 1e8
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            too_much = self.epsilon(middle, n_unlearn_steps, delta) > epsilon
            low, high = (middle, high) if too_much else (low, middle)
        return high


def with_zeros(problem: Problem) -> Problem:
    """The row replaced by one of zeros, so that n and the penalty stay."""
    X, y = problem.X.copy(), problem.y.copy()
    X[problem.row], y[problem.row] = 0.0, 0.0
    return replace(problem, X=X, y=y)


def on_line(problem: Problem, epsilon: float, n_steps: int | None) -> Claim:
    """The claim and the laws of projected steps of one parameter."""
    if problem.n_parameters != 1:
        raise NotCovered("projected steps have a known law on a line only")
    found, K = Constants.of(problem), problem.n_unlearn_steps
    sigma = found.sigma(epsilon, K, problem.delta)
    eta, other = found.step_size, with_zeros(problem)
    if n_steps is None:  # where one starts matters no more than e^-40
        n_steps = math.ceil(40 / (found.convexity * eta))
    # A step of the mean with eta = n step_size is one of the sum with step_size.
    first, second = (
        Phase(langevin_map(one, problem.step_size), math.sqrt(2 * eta) * sigma, n_steps, RADIUS)
        for one in (problem, other)
    )
    laws = steps_on_line([first, replace(second, count=K)], [second])
    return Claim(epsilon, problem.delta, *laws)


@dataclass(frozen=True)
class LangevinUnlearning:
    """Learning that has converged, against retraining that has converged."""

    name: str = "Langevin unlearning"
    cite: str = CITE
    ignores: tuple[str, ...] = ("n_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma is the least that claims epsilon."""
        return on_line(problem, epsilon, None)


@dataclass(frozen=True)
class NotConverged:
    """Learning and retraining take T steps only."""

    name: str = "Langevin unlearning, T steps"
    cite: str = CITE

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The same claim as of converged learning."""
        claim = on_line(problem, epsilon, problem.n_steps)
        left = (1 - problem.alpha * problem.step_size) ** problem.n_steps
        unmet = ("learning has not converged",) if left > problem.delta else ()
        return replace(claim, unmet=unmet)


@dataclass(frozen=True)
class NotProjected:
    """Ridge without a projection, its gradients bounded on the ball only."""

    name: str = "Langevin unlearning, no projection"
    cite: str = CITE
    ignores: tuple[str, ...] = ("n_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Gaussian laws."""
        if problem.loss != "squared":
            raise NotCovered("the laws are known for ridge")
        found, K = Constants.of(problem), problem.n_unlearn_steps
        # sqrt(2 eta) sigma of the mean's step is sqrt(2 step_size) times this, in the sum's step
        noise = found.sigma(epsilon, K, problem.delta) * math.sqrt(problem.n_rows)
        learned = problem.stationary(noise, problem.step_size)
        other = with_zeros(problem)
        retrained = other.stationary(noise, problem.step_size)
        return Claim(
            epsilon,
            problem.delta,
            other.after_steps(learned, K, noise, problem.step_size),
            retrained,
            unmet=("gradients are not bounded without a projection",),
        )
