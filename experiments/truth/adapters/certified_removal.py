"""Certified removal: a Newton step on an objective that was perturbed at learning.

    C. Guo, T. Goldstein, A. Hannun and L. van der Maaten, Certified data removal from machine
    learning models, ICML 2020.

Learning minimises sum_j l_j + lambda n/2 |theta|^2 + <b, theta>, b ~ N(0, sigma^2 I). Removal is

    theta^- = theta + H'^{-1} (lambda theta + grad l_i(theta)),

with H' the Hessian of the rows that are left, their (n - 1) lambda included. If the gradient that
remains at theta^- is no longer than eps' whatever b is, the paper's Theorem 3 claims

    epsilon = sqrt(2 log(1.5/delta)) eps' / sigma.

Its bounds on what remains, for rows no longer than 1, |l'| <= C and |l'''| <= gamma:

    Theorem 1:    4 gamma C^2 / (lambda^2 (n - 1))
    Corollary 1:  gamma |X'|_2 |H'^{-1} Delta| |X' H'^{-1} Delta|.

The public repository (facebookresearch/certified-removal) fixes sigma and adds up the second bound,
with gamma = 1/4, at the parameters that were learned. Past the budget epsilon sigma / c that
Theorem 3 leaves, one has to learn anew.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from experiments.truth.adapters.lines import minimisers_at, perturbed_minimiser
from experiments.truth.claim import Claim, NotCovered
from experiments.truth.grid import interval_masses, of_normal
from experiments.truth.laws import Array, Bins, Gaussian
from experiments.truth.problems import Problem

CITE = "Guo et al. 2020"
GAMMA, SLOPE = 0.25, 1.0  # of the logistic loss, as the paper has them
_N_DRAWS = 101
_POINTS = 8001
_LEAST_SIGMA, _LARGEST_SIGMA = 1e-4, 1e6


def conversion(delta: float) -> float:
    """c = sqrt(2 log(1.5 / delta))   [Guo et al., Theorem 3]"""
    return math.sqrt(2 * math.log(1.5 / delta))


def newton_reference(problem: Problem) -> Problem:
    """The rows that are left with their share (n - 1)/n of the penalty."""
    share = (problem.n_rows - 1) / problem.n_rows
    return replace(problem.left, alpha=problem.alpha * share)


def after_newton(
    problem: Problem, sigma: float, n_steps: int | None, sign: float = 1.0
) -> tuple[Gaussian, Gaussian]:
    """For ridge: the laws of theta^- after T steps from zero, and of the retained minimiser."""
    if problem.loss != "squared":
        raise NotCovered("for ridge")
    p, nought = problem.n_parameters, np.zeros(problem.n_parameters)
    A = problem.hessian(nought)
    a, U = np.linalg.eigh(A)
    learned = np.ones(p) if n_steps is None else 1 - (1 - problem.step_size * a) ** n_steps
    S = (U * (learned / a)) @ U.T
    law = Gaussian(S @ problem.cross, sigma**2 * S @ S)
    reference = newton_reference(problem)
    H = reference.hessian(nought)
    # Delta = (A - H') theta - (B - B'): the row's gradient with its share of the penalty
    inverse = np.linalg.inv(H)
    unlearned = law.then(
        np.eye(p) + sign * inverse @ (A - H),
        -sign * inverse @ (problem.cross - reference.cross),
        np.zeros((p, p)),
    )
    return unlearned, Gaussian(inverse @ reference.cross, sigma**2 * inverse @ inverse)


def least_perturbation(claimed: Callable[[float], float], epsilon: float) -> float:
    """The least sigma at which a claim is epsilon.

    Claims fall with sigma at first. Some rise again, as a large sigma leads parameters far away.
    """
    low = high = _LEAST_SIGMA
    if claimed(low) <= epsilon:
        raise NotCovered("learning has converged: nothing remains")
    while claimed(high) > epsilon:
        low, high = high, 1.2 * high
        if high > _LARGEST_SIGMA:
            raise NotCovered("no perturbation reaches this epsilon")
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if claimed(middle) > epsilon else (low, middle)
    return high


@dataclass(frozen=True)
class ExactMinimiser:
    """Ridge at its minimiser: the step is exact, nothing remains, and epsilon is 0."""

    name: str = "certified removal, ridge minimiser"
    cite: str = CITE
    ignores: tuple[str, ...] = ("wish", "n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """gamma = 0 for squares."""
        return Claim(0.0, problem.delta, *after_newton(problem, 1.0, None))


@dataclass(frozen=True)
class FixedResidual:
    """A residual of length eps' that does not depend on b: all that Theorem 3 asks for.

    The theorem as stated has no limit on epsilon, so every epsilon is inside of its assumptions.
    The bound for Gaussian noise that it rests on is proved for epsilon below 1.
    """

    name: str = "certified removal, fixed residual"
    cite: str = f"{CITE}, Theorem 3"
    ignores: tuple[str, ...] = ("data", "n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma = 1 and eps' = epsilon / c, along the first axis."""
        reference = newton_reference(problem)
        if problem.loss != "squared":
            raise NotCovered("the laws are known for ridge")
        inverse = np.linalg.inv(reference.hessian(np.zeros(problem.n_parameters)))
        residual = np.zeros(problem.n_parameters)
        residual[0] = epsilon / conversion(problem.delta)
        Q = Gaussian(inverse @ reference.cross, inverse @ inverse)
        return Claim(epsilon, problem.delta, Gaussian(Q.mean + inverse @ residual, Q.covariance), Q)


def after_steps_claim(problem: Problem, epsilon: float, growth: float) -> Claim:
    """The claim for eps' = growth M^T (|B| + sigma (sqrt p + sqrt(2 log(2/delta)))).

    M^T stands for its largest eigenvalue. Half of delta is for a longer b. sigma is chosen for
    epsilon, if a large enough one gives it.
    """
    if problem.loss != "squared":
        raise NotCovered("the laws are known for ridge")
    delta, p = problem.delta / 2, problem.n_parameters
    left = (1 - problem.step_size * problem.alpha) ** problem.n_steps * growth
    c = conversion(delta) * left
    from_b = math.sqrt(p) + math.sqrt(2 * math.log(1 / delta))
    if epsilon <= c * from_b:
        raise NotCovered("no perturbation reaches this epsilon")
    sigma = c * float(np.linalg.norm(problem.cross)) / (epsilon - c * from_b)
    if sigma < _LEAST_SIGMA:
        raise NotCovered("learning has converged: nothing remains")
    laws = after_newton(problem, sigma, problem.n_steps)
    return Claim(epsilon, problem.delta, *laws, unmet=("learning has not converged",))


@dataclass(frozen=True)
class ResidualBound:
    """T steps and the PILU paper's bound on the residual, which has the factor L / m."""

    name: str = "certified removal after T steps, bound"
    cite: str = f"{CITE}; PILU, app. Newton step"
    ignores: tuple[str, ...] = ("n_unlearn_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma is chosen for epsilon."""
        return after_steps_claim(problem, epsilon, problem.largest / problem.alpha)


@dataclass(frozen=True)
class ExactStepsBound:
    """The same without the factor, which is not needed: |r| = |M^T (B - b)|."""

    name: str = "certified removal after T steps, sharp bound"
    cite: str = f"{CITE}; docs/baselines.md"
    ignores: tuple[str, ...] = ("n_unlearn_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma is chosen for epsilon."""
        return after_steps_claim(problem, epsilon, 1.0)


@dataclass(frozen=True)
class MeasuredResidual:
    """T steps and the residual that is measured, as the PILU paper uses the rule."""

    name: str = "certified removal after T steps, measured"
    cite: str = f"{CITE}, as used in PILU, app. Newton step"
    ignores: tuple[str, ...] = ("n_unlearn_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The least sigma for which the median of 101 draws of b claims epsilon."""
        if problem.loss != "squared":
            raise NotCovered("the laws are known for ridge")
        a, U = np.linalg.eigh(problem.hessian(np.zeros(problem.n_parameters)))
        q = (1 - problem.step_size * a) ** problem.n_steps
        rng = np.random.default_rng(0)
        z, c = rng.standard_normal((_N_DRAWS, problem.n_parameters)), conversion(problem.delta)

        def claimed(sigma: float) -> float:
            residuals = np.linalg.norm(q * ((problem.cross - sigma * z) @ U), axis=1)
            return c * float(np.median(residuals)) / sigma

        sigma = least_perturbation(claimed, epsilon)
        laws = after_newton(problem, sigma, problem.n_steps)
        return Claim(
            claimed(sigma),
            problem.delta,
            *laws,
            unmet=("learning has not converged", "the bound depends on b"),
        )


def newton_on_line(problem: Problem, sigma: float, sign: float = 1.0) -> tuple[Bins, Bins]:
    """The laws of theta^- and of the retained minimiser, for one parameter."""
    reference, theta = newton_reference(problem), learned_on_line(problem, sigma)
    learned = perturbed_minimiser(problem, sigma)
    edges = theta + sign * newton_step(problem, theta)
    if (np.diff(edges) <= 0).any():
        raise NotCovered("the step is not monotone here, so its law is not a function's inverse")
    return of_normal(
        lambda t: learned(np.interp(t, edges, theta)), perturbed_minimiser(reference, sigma), edges
    )


def learned_on_line(problem: Problem, sigma: float) -> Array:
    """Points between which the learned parameter lies, but for nine deviations of b."""
    ends = minimisers_at(problem, np.array([-9.0, 9.0]), sigma)
    return np.linspace(*ends, _POINTS)


def newton_step(problem: Problem, theta: Array) -> Array:
    """H'^{-1} Delta at many values of the one parameter."""
    reference = newton_reference(problem)
    x, weights = reference.X[:, 0], reference.curvatures(reference.X @ theta[None, :])
    hessian = x**2 @ weights + reference.alpha
    return (problem.gradient(theta[None, :])[0] - reference.gradient(theta[None, :])[0]) / hessian


def check_line(problem: Problem) -> None:
    """The two bounds are the logistic loss's, and laws are known on a line."""
    if problem.loss != "logistic" or problem.n_parameters != 1:
        raise NotCovered("for the logistic loss on a line")


def worst_case_bound(problem: Problem) -> float:
    """4 gamma C^2 / (lambda^2 (n - 1))   [Guo et al., Theorem 1]"""
    penalty = problem.alpha / problem.n_rows
    return 4 * GAMMA * SLOPE**2 / (penalty**2 * (problem.n_rows - 1))


def data_dependent_bound(problem: Problem, theta: Array) -> Array:
    """gamma |X'|_2 |H'^{-1} Delta| |X' H'^{-1} Delta| at many values   [Guo et al., Corollary 1]"""
    length = float(np.linalg.norm(problem.left.X))
    return GAMMA * length**2 * newton_step(problem, theta) ** 2


@dataclass(frozen=True)
class WorstCaseBound:
    """Logistic regression at its minimiser, with the bound of Theorem 1.

    Its proof has |theta| <= C / lambda, which b can exceed. The paper applies it nevertheless.
    """

    name: str = "certified removal, worst-case bound"
    cite: str = f"{CITE}, Theorems 1 and 3"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma is chosen for epsilon."""
        check_line(problem)
        sigma = conversion(problem.delta) * worst_case_bound(problem) / epsilon
        laws = newton_on_line(problem, sigma)
        return Claim(epsilon, problem.delta, *laws)


@dataclass(frozen=True)
class Budget:
    """Logistic regression at its minimiser, with Corollary 1 at what was learned.

    Where that bound is within the budget epsilon sigma / c, the Newton step is released, else the
    minimiser on the rows that are left, with the perturbation of learning or a new one.
    """

    name: str = "certified removal, data-dependent budget"
    cite: str = f"{CITE}, Corollary 1 and Theorem 3; the repository's rule"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")
    anew: bool = False

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma is such that half of the draws of b are within the budget."""
        check_line(problem)
        sigma = sigma_of_median(problem, epsilon, lambda t: data_dependent_bound(problem, t))
        budget = epsilon * sigma / conversion(problem.delta)
        laws = newton_within_budget(problem, sigma, budget, anew=self.anew)
        unmet = ("what is released depends on b, by the budget",)
        return Claim(epsilon, problem.delta, *laws, unmet=unmet)


def newton_within_budget(
    problem: Problem, sigma: float, budget: float, *, anew: bool
) -> tuple[Bins, Bins]:
    """The laws of what is released under a budget, and of the retained minimiser.

    Learned parameters between two points are within the budget if those in the middle are.
    """
    theta, reference = learned_on_line(problem, sigma), newton_reference(problem)
    learned, exact = perturbed_minimiser(problem, sigma), perturbed_minimiser(reference, sigma)

    def masses(theta: Array) -> tuple[Array, Array]:
        shares = ndtr(learned(theta))
        shares[[0, -1]] = 0.0, 1.0
        middles = (theta[1:] + theta[:-1]) / 2
        kept = np.where(data_dependent_bound(problem, middles) <= budget, np.diff(shares), 0.0)
        released = np.append(0.0, np.cumsum(kept))  # by a Newton step, up to every point
        edges = theta + newton_step(problem, theta)
        retrained = interval_masses(exact(edges))
        if anew:
            return np.append(np.append(0.0, kept), 0.0) + (1 - released[-1]) * retrained, retrained
        below = ndtr(exact(edges))  # the rest has the minimiser of the same b
        rest = below - np.interp(below, shares, released)
        law = np.diff(np.concatenate([[0.0], released + rest, [1.0]]))
        return np.maximum(law, 0.0), retrained

    newton_on_line(problem, sigma)  # refuses steps that are not monotone
    fine, coarse = masses(theta), masses(theta[::2])
    return Bins(fine[0], coarse[0]), Bins(fine[1], coarse[1])


@dataclass(frozen=True)
class StoppedSolver:
    """Not the paper's Newton step: a solver from zero that stops where the gradient is eps' long.

    The bound is a constant, but what remains is the solver's, and depends on b. Where the gradient
    at zero is short enough the solver stays there. On a line it moves to the first point at which
    the gradient is eps' long.
    """

    name: str = "Theorem 3's claim for a solver of ours"
    cite: str = f"the claim: {CITE}; the solver: this suite"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """sigma = 3, so that b matters, and eps' = epsilon sigma / c."""
        check_line(problem)
        sigma, reference = 3.0, newton_reference(problem)
        tolerance = epsilon * sigma / conversion(problem.delta)
        exact = perturbed_minimiser(reference, sigma)
        edges = np.sort(
            np.append(minimisers_at(reference, np.linspace(-9, 9, _POINTS - 1), sigma), 0.0)
        )

        def stopped(t: Array) -> Array:  # where t < 0, a gradient of eps' remains; above, of -eps'
            return exact(t) + np.where(t < 0, -1.0, 1.0) * tolerance / sigma

        laws = of_normal(stopped, exact, edges)
        return Claim(epsilon, problem.delta, *laws, unmet=("not a Newton step",))


def sigma_of_median(problem: Problem, epsilon: float, bound: Callable[[Array], Array]) -> float:
    """The perturbation at which c bound / sigma = epsilon for the median draw."""
    z = norm.ppf((np.arange(_N_DRAWS) + 0.5) / _N_DRAWS)
    c = conversion(problem.delta)
    return least_perturbation(
        lambda sigma: c * float(np.median(bound(minimisers_at(problem, z, sigma)))) / sigma, epsilon
    )
