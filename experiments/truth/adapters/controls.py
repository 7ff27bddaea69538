"""Wrong on purpose: a suite that does not refute these has no teeth."""

from dataclasses import dataclass

from experiments.truth.adapters.certified_removal import (
    after_newton,
    check_line,
    data_dependent_bound,
    newton_on_line,
    sigma_of_median,
)
from experiments.truth.claim import Claim, NotCovered
from experiments.truth.problems import Problem


@dataclass(frozen=True)
class WrongSign:
    """theta - H'^{-1} Delta for ridge, with the claim of the right sign, epsilon = 0."""

    name: str = "wrong sign, ridge minimiser"
    cite: str = "a mistake"
    ignores: tuple[str, ...] = ("wish", "n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The perturbation is 1, as for the right sign."""
        return Claim(0.0, problem.delta, *after_newton(problem, 1.0, None, sign=-1.0))


@dataclass(frozen=True)
class WrongSignOnLine:
    """The same for logistic regression, with the claim of its data-dependent bound."""

    name: str = "wrong sign, data-dependent bound"
    cite: str = "a mistake"
    ignores: tuple[str, ...] = ("n_steps", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The bound is the same for both signs."""
        check_line(problem)
        sigma = sigma_of_median(problem, epsilon, lambda t: data_dependent_bound(problem, t))
        return Claim(epsilon, problem.delta, *newton_on_line(problem, sigma, sign=-1.0))


@dataclass(frozen=True)
class DoesNothing:
    """Releases what was learned and claims epsilon."""

    name: str = "does nothing"
    cite: str = "a mistake"
    ignores: tuple[str, ...] = ("n_unlearn_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Against plain retraining."""
        if problem.loss != "squared":
            raise NotCovered("the laws are known for ridge")
        laws = (
            one.after_steps(None, problem.n_steps, problem.noise, problem.step_size)
            for one in (problem, problem.left)
        )
        return Claim(epsilon, problem.delta, *laws)
