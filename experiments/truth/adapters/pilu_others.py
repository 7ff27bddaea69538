"""pilu's refit, and the two competitors that pilu certifies by bounds of its own."""

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from experiments.truth.adapters.certified_removal import (
    after_newton,
    least_perturbation,
    newton_reference,
)
from experiments.truth.claim import Claim, NotCovered
from experiments.truth.laws import Gaussian
from experiments.truth.problems import Problem
from pilu import LangevinLogistic, LangevinRidge
from pilu.baselines import DescentToDelete, NewtonStep, Task
from pilu.baselines.newton import certified_epsilon
from pilu.refit.held_rows import Table
from pilu.refit.program import Prepared, prepare
from pilu.refit.settings import Options
from pilu.refit.solve import solve


def task_of(problem: Problem, epsilon: float) -> Task:
    """The problem as pilu's baselines take it."""
    kind = LangevinRidge if problem.loss == "squared" else LangevinLogistic
    model = kind(
        alpha=problem.alpha,
        n_steps=problem.n_steps,
        noise=problem.noise,
        step_size=problem.step_size,
        fit_intercept=False,
        random_state=0,
    )
    return Task.of(
        model,
        problem.X,
        problem.y,
        epsilon=epsilon,
        delta=problem.delta,
        n_unlearn_steps=problem.n_unlearn_steps,
    )


def refit_of(problem: Problem, epsilon: float) -> Prepared:
    """The refit on the rows that are left, up to the head's solver."""
    left = problem.left
    head = (
        Ridge(problem.alpha, fit_intercept=False)
        if problem.loss == "squared"
        else LogisticRegression(C=1 / problem.alpha, fit_intercept=False)
    )
    options = Options(epsilon, problem.delta, score_noise=1e-3)
    return prepare(head, Table.of(left.X, left.y, key=bytes(32)), options)


@dataclass(frozen=True)
class PiluRefit:
    """A refit from three histories, the one that ends furthest from a cold run."""

    name: str = "pilu, refit"
    cite: str = "docs/refit.md"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Starts: the minimiser with the row, and points that are 1 and 1,000 away from it."""
        ready = refit_of(problem, epsilon)
        cold = solve(ready.objective, None, ready.radius)
        rng = np.random.default_rng(0)
        before = problem.minimiser().reshape(cold.shape)
        starts = [before + away * rng.standard_normal(cold.shape) for away in (0.0, 1.0, 1e3)]
        ends = [solve(ready.objective, start, ready.radius) for start in starts]
        furthest = max(ends, key=lambda end: np.linalg.norm(end - cold))
        laws = (Gaussian.isotropic(end.ravel(), ready.noise) for end in (furthest, cold))
        return Claim(epsilon, problem.delta, *laws, "both")


@dataclass(frozen=True)
class PiluRefitWorst:
    """A refit whose two solvers end as far apart as its proof allows, 2 b."""

    name: str = "pilu, refit, solvers 2b apart"
    cite: str = "docs/refit.md"
    ignores: tuple[str, ...] = ("data", "n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Only the radius and the noise are pilu's."""
        ready = refit_of(problem, epsilon)
        end = np.zeros(problem.n_parameters)
        other = end.copy()
        other[0] = 2 * ready.radius
        laws = (Gaussian.isotropic(place, ready.noise) for place in (other, end))
        return Claim(epsilon, problem.delta, *laws, "both")


@dataclass(frozen=True)
class PiluNewton:
    """A Newton step from the minimiser, the residual hidden by noise on the output."""

    name: str = "pilu, Newton step, output noise"
    cite: str = "docs/baselines.md"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The retained objective has (n - 1)/n of the penalty."""
        if problem.loss == "squared":
            raise NotCovered("exact for ridge")
        answer = NewtonStep().fit(task_of(problem, epsilon)).answer(problem.row)
        reference = newton_reference(problem)
        theta = problem.minimiser()
        step = problem.gradient(theta) - reference.gradient(theta)
        end = theta + np.linalg.solve(reference.hessian(theta), step)
        places = (end, reference.minimiser())
        laws = (Gaussian.isotropic(place, answer.noise) for place in places)
        return Claim(answer.epsilon, answer.delta, *laws, "both")


@dataclass(frozen=True)
class PiluNewtonBound:
    """T steps on a perturbed ridge objective, then a Newton step; pilu's bound on the log-ratio."""

    name: str = "pilu, Newton step after T steps"
    cite: str = "docs/baselines.md"
    ignores: tuple[str, ...] = ("n_unlearn_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The least perturbation for which pilu certifies epsilon."""
        if problem.loss != "squared":
            raise NotCovered("for ridge only")
        task = task_of(problem, epsilon)
        sigma = least_perturbation(lambda sigma: certified_epsilon(task, sigma), epsilon)
        laws = after_newton(problem, sigma, problem.n_steps)
        return Claim(certified_epsilon(task, sigma), problem.delta, *laws, "forward")


@dataclass(frozen=True)
class PiluDescent:
    """Descent-to-Delete with pilu's bound on the distance and the exact Gaussian conversion."""

    name: str = "pilu, Descent-to-Delete"
    cite: str = "docs/baselines.md"

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """On a ball of radius 5, given beforehand."""
        radius = 5.0
        learned = DescentToDelete(radius).fit(task_of(problem, epsilon))
        answer = learned.answer(problem.row)
        left, eta = problem.left, problem.step_size
        after = descended(problem, None, problem.n_steps, eta, radius)
        after = descended(left, after, problem.n_unlearn_steps, eta, radius)
        places = (after, descended(left, None, problem.n_steps, eta, radius))
        laws = (Gaussian.isotropic(place, answer.noise) for place in places)
        return Claim(answer.epsilon, answer.delta, *laws, "both")


def descended(
    problem: Problem, start: np.ndarray | None, n_steps: int, step_size: float, radius: float
) -> np.ndarray:
    """Projected gradient steps without noise, from a point or from zero."""
    theta = np.zeros(problem.n_parameters) if start is None else start
    for _ in range(n_steps):
        theta = theta - step_size * problem.gradient(theta)
        theta = theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
    return theta
