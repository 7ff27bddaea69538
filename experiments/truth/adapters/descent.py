"""Descent-to-Delete: gradient steps without noise, then noise on what is published.

    S. Neel, A. Roth and S. Sharifi-Malvajerdi, Descent-to-Delete: gradient-based methods for
    machine unlearning, ALT 2021.

f is the mean of n losses, each m-strongly convex, M-smooth and L-Lipschitz on a ball. Steps are of
size 2/(M + m) and shrink distances by gamma = (M - m)/(M + m). Learning takes T steps, forgetting I
more on the rows that are left. Both publish theta + sigma N(0, 1). While theta itself stays secret,

    sigma = 4 sqrt(2) L gamma^I / (m n (1 - gamma^I)
            (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))).

Where forgetting starts from what was published,

    sigma = 8 L gamma^I / (m n (1 - gamma^I)
            (sqrt(2 log(2/delta) + 3 eps) - sqrt(2 log(2/delta) + 2 eps))),
    gamma^-I >= sqrt(2 p) / ((1 - gamma) (sqrt(2 log(2/delta) + eps) - sqrt(2 log(2/delta)))).

Both as the public code of Chien et al. 2024 evaluates them for its comparison. Learning has to be
long enough to be as near its minimiser as an update: gamma^(T - I) D <= 2 L / (m n), with D the
ball's diameter (two minimisers of neighbouring data are at most 2 L / (m n) apart).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from experiments.truth.claim import Claim, NotCovered
from experiments.truth.laws import Array, Gaussian
from experiments.truth.problems import Problem

CITE = "Neel et al. 2021"
RADIUS = 2.0
_FAR = 6.0  # a normal vector is longer than sqrt(p) + this by chance of 2e-8 at most


@dataclass(frozen=True)
class Constants:
    """Of one loss with its share alpha/n of the penalty, on the ball of radius `RADIUS`."""

    convexity: float  # m
    smoothness: float  # M
    lipschitz: float  # L
    n_rows: int

    @classmethod
    def of(cls, problem: Problem) -> "Constants":
        """From the rows."""
        lengths, m = np.linalg.norm(problem.X, axis=1), problem.alpha / problem.n_rows
        slopes = np.maximum(
            *(np.abs(problem.slopes(end * lengths * RADIUS)) for end in (-1.0, 1.0))
        )
        return cls(
            m,
            problem.curvature * float(lengths.max()) ** 2 + m,
            float(np.max(lengths * slopes)) + m * RADIUS,
            problem.n_rows,
        )

    @property
    def gamma(self) -> float:
        """The contraction of a step."""
        return (self.smoothness - self.convexity) / (self.smoothness + self.convexity)

    @property
    def step_size(self) -> float:
        """2 / (M + m)"""
        return 2 / (self.smoothness + self.convexity)

    def distance(self, n_updates: int) -> float:
        """L gamma^I / (m n (1 - gamma^I))"""
        left = self.gamma**n_updates
        return self.lipschitz * left / (self.convexity * self.n_rows * (1 - left))

    def secret_noise(self, epsilon: float, delta: float, n_updates: int) -> float:
        """sigma where theta stays secret."""
        log = math.log(1 / delta)
        gap = math.sqrt(log + epsilon) - math.sqrt(log)
        return 4 * math.sqrt(2) * self.distance(n_updates) / gap

    def published_noise(self, epsilon: float, delta: float, n_updates: int) -> float:
        """sigma where forgetting starts from what was published."""
        log = 2 * math.log(2 / delta)
        return (
            8
            * self.distance(n_updates)
            / (math.sqrt(log + 3 * epsilon) - math.sqrt(log + 2 * epsilon))
        )

    def least_updates(self, epsilon: float, delta: float, p: int) -> int:
        """The least I for `published_noise`."""
        log = 2 * math.log(2 / delta)
        gap = math.sqrt(log + epsilon) - math.sqrt(log)
        return math.ceil(
            math.log(math.sqrt(2 * p) / ((1 - self.gamma) * gap)) / math.log(1 / self.gamma)
        )

    def least_steps(self, n_updates: int) -> int:
        """The least T >= I with gamma^(T - I) D <= 2 L / (m n)."""
        target = 2 * self.lipschitz / (self.convexity * self.n_rows)
        more = math.log(2 * RADIUS / target) / math.log(1 / self.gamma)
        return n_updates + max(math.ceil(more), 0)


def mean_of(problem: Problem, penalty: float) -> Problem:
    """The sum of f's losses with `penalty` for every row that is there."""
    return replace(problem, alpha=penalty * problem.n_rows)


def steps(problem: Problem, penalty: float, start: Array, n_steps: int, step_size: float) -> Array:
    """Projected steps on the mean of the losses."""
    total, theta = mean_of(problem, penalty), start
    for _ in range(n_steps):
        theta = theta - step_size * total.gradient(theta) / problem.n_rows
        theta = theta * min(1.0, RADIUS / max(float(np.linalg.norm(theta)), 1e-300))
    return theta


def ends(problem: Problem, found: Constants, T: int, updates: int) -> tuple[Array, Array, Array]:
    """theta after learning, after forgetting, and of retraining."""
    m, eta, nought = found.convexity, found.step_size, np.zeros(problem.n_parameters)
    learned = steps(problem, m, nought, T, eta)
    forgotten = steps(problem.left, m, learned, updates, eta)
    return learned, forgotten, steps(problem.left, m, nought, T, eta)


def with_secret_state(problem: Problem, epsilon: float, T: int) -> Claim:
    """sigma for epsilon; updates is the problem's K."""
    found, updates = Constants.of(problem), problem.n_unlearn_steps
    sigma = found.secret_noise(epsilon, problem.delta, updates)
    _, forgotten, retrained = ends(problem, found, T, updates)
    laws = (Gaussian.isotropic(end, sigma) for end in (forgotten, retrained))
    unmet = ("learning is too short",) if found.least_steps(updates) > T else ()
    return Claim(epsilon, problem.delta, *laws, unmet=unmet)


@dataclass(frozen=True)
class DescentToDelete:
    """Theta stays secret, forgetting starts from it, and learning is as long as it has to be."""

    name: str = "Descent-to-Delete, secret state"
    cite: str = CITE
    ignores: tuple[str, ...] = ("n_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """T is the least that is allowed: more steps bring the two laws together."""
        least = Constants.of(problem).least_steps(problem.n_unlearn_steps)
        return with_secret_state(problem, epsilon, least)


@dataclass(frozen=True)
class StoppedEarly:
    """The same after T of the problem, however short."""

    name: str = "Descent-to-Delete, secret state, T steps"
    cite: str = CITE

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The noise is that of long learning."""
        return with_secret_state(problem, epsilon, problem.n_steps)


def from_published(
    problem: Problem, found: Constants, sigma: float, T: int, updates: int
) -> tuple[Gaussian, Gaussian]:
    """Forgetting starts from theta_T + sigma N(0, I); ridge, its steps without the projection."""
    if problem.loss != "squared":
        raise NotCovered("the laws are known for ridge")
    learned, _, retrained = ends(problem, found, T, updates)
    if max(np.linalg.norm(one.minimiser()) for one in (problem, problem.left)) > RADIUS / 2:
        raise NotCovered("near the end of the ball laws are not normal")
    total = mean_of(problem.left, found.convexity)
    eta = found.step_size / total.n_rows
    published = Gaussian.isotropic(learned, sigma)
    forgotten = total.after_steps(published, updates, 0.0, eta)
    noise = sigma**2 * np.eye(problem.n_parameters)
    unlearned = Gaussian(forgotten.mean, forgotten.covariance + noise)
    return unlearned, Gaussian.isotropic(retrained, sigma)


@dataclass(frozen=True)
class PublishedState:
    """Forgetting starts from what was published, with the noise for that."""

    name: str = "Descent-to-Delete, published state"
    cite: str = CITE
    ignores: tuple[str, ...] = ("n_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """I is the larger of K and the least that the paper allows."""
        found = Constants.of(problem)
        least = found.least_updates(epsilon, problem.delta, problem.n_parameters)
        updates = max(problem.n_unlearn_steps, least)
        sigma = found.published_noise(epsilon, problem.delta, updates)
        laws = from_published(problem, found, sigma, found.least_steps(updates), updates)
        reach = np.linalg.norm(laws[1].mean) + sigma * (math.sqrt(problem.n_parameters) + _FAR)
        unmet = ("steps are not projected",) if reach > RADIUS else ()
        return Claim(epsilon, problem.delta, *laws, unmet=unmet)
