"""pilu's Langevin certificates, and its redraw.

Noise and epsilon are what pilu's estimators put into their certificates. The laws are computed
here, by eigenvectors of A and A', or on a grid for the logistic loss.
"""

import math
from dataclasses import dataclass

import numpy as np

from experiments.truth.adapters.lines import langevin_map
from experiments.truth.claim import Claim, NotCovered
from experiments.truth.grid import Phase, steps_on_line
from experiments.truth.laws import Draws, Gaussian
from experiments.truth.problems import Problem
from pilu import LangevinLogistic, LangevinRidge
from pilu.certify.certificate import Certificate
from pilu.exceptions import PiluError

CITE = "pilu, docs/guarantee.md"
_N_REDRAWS = 300


def ridge_model(problem: Problem, seed: int = 0, n_steps: int | None = -1) -> LangevinRidge:
    """The estimator of the problem, fitted."""
    if problem.loss != "squared":
        raise NotCovered("for ridge only")
    model = LangevinRidge(
        alpha=problem.alpha,
        n_steps=problem.n_steps if n_steps == -1 else n_steps,
        noise=problem.noise,
        step_size=problem.step_size,
        fit_intercept=False,
        random_state=seed,
    )
    return model.fit(problem.X, problem.y)


def certificate(problem: Problem, epsilon: float, **options: object) -> Certificate:
    """pilu's certificate for the row."""
    accountant = options.pop("accountant")
    model = ridge_model(problem, **options)
    try:
        return model.unlearn(
            problem.row,
            epsilon=epsilon,
            delta=problem.delta,
            n_unlearn_steps=problem.n_unlearn_steps,
            accountant=accountant,
        )
    except PiluError as refusal:
        raise NotCovered(str(refusal)) from refusal


def learned_and_unlearned(
    problem: Problem, noise: float, stationary: bool = False
) -> tuple[Gaussian, Gaussian]:
    """P and Q of Definition 1: learning with and without the row, then K steps without it.

    K steps without noise are a one-to-one map, the same for both: epsilon is that of learning.
    """
    eta, left = problem.step_size, problem.left

    def law(learner: Problem) -> Gaussian:
        if stationary:
            learned = learner.stationary(problem.noise, eta)
        else:
            learned = learner.after_steps(None, problem.n_steps, problem.noise, eta)
        if noise == 0:
            return learned
        return left.after_steps(learned, problem.n_unlearn_steps, noise, eta)

    return law(problem), law(left)


@dataclass(frozen=True)
class PiluExact:
    """The exact accountant."""

    name: str = "pilu, exact"
    cite: str = CITE

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Noise calibrated to epsilon; where none is needed, the epsilon that is reached."""
        found = certificate(problem, epsilon, accountant="exact")
        return Claim(
            found.epsilon, found.delta, *learned_and_unlearned(problem, found.noise), "both"
        )


@dataclass(frozen=True)
class PiluStationary:
    """The exact accountant, learning by one draw from the stationary law."""

    name: str = "pilu, exact, stationary"
    cite: str = CITE
    ignores: tuple[str, ...] = ("n_steps",)

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """As `PiluExact`."""
        found = certificate(problem, epsilon, accountant="exact", n_steps=None)
        laws = learned_and_unlearned(problem, found.noise, stationary=True)
        return Claim(found.epsilon, found.delta, *laws, "both")


@dataclass(frozen=True)
class PiluTheorem:
    """The paper's Theorem 1, in the direction of Definition 1."""

    name: str = "pilu, Theorem 1"
    cite: str = "PILU, Theorem 1; docs/guarantee.md"

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Noise calibrated to epsilon."""
        found = certificate(problem, epsilon, accountant="theorem")
        laws = learned_and_unlearned(problem, found.noise)
        return Claim(found.epsilon, found.delta, *laws, "forward")


@dataclass(frozen=True)
class PiluTheoremReverse:
    """The other direction, at the delta that the certificate states for it."""

    name: str = "pilu, Theorem 1, reverse"
    cite: str = "docs/guarantee.md"

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """The same noise as `PiluTheorem`."""
        found = certificate(problem, epsilon, accountant="theorem")
        delta = found.scope["reverse_delta"]
        if delta >= 1:
            raise NotCovered("the certificate says nothing about the reverse direction")
        laws = learned_and_unlearned(problem, found.noise)
        return Claim(found.epsilon, delta, *laws, "backward")


@dataclass(frozen=True)
class PiluSmooth:
    """Theorem 1 with concentration, for the logistic loss on a line."""

    name: str = "pilu, logistic"
    cite: str = "docs/concentration.md"

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Noise calibrated to epsilon."""
        if problem.loss != "logistic" or problem.n_parameters != 1:
            raise NotCovered("for the logistic loss on a line")
        eta, noise = problem.step_size, problem.noise
        model = LangevinLogistic(
            alpha=problem.alpha,
            n_steps=problem.n_steps,
            noise=noise,
            step_size=eta,
            fit_intercept=False,
            random_state=0,
        ).fit(problem.X, problem.y)
        found = model.unlearn(
            problem.row,
            epsilon=epsilon,
            delta=problem.delta,
            n_unlearn_steps=problem.n_unlearn_steps,
        )
        left, n_steps = problem.left, problem.n_steps
        last = Phase(
            langevin_map(left, eta), math.sqrt(2 * eta) * found.noise, problem.n_unlearn_steps
        )
        learning = (
            Phase(langevin_map(one, eta), math.sqrt(2 * eta) * noise, n_steps)
            for one in (problem, left)
        )
        # K steps without noise are one-to-one, as for ridge
        laws = steps_on_line(*([one, last] if found.noise > 0 else [one] for one in learning))
        return Claim(found.epsilon, found.delta, *laws, "forward")


@dataclass(frozen=True)
class PiluRedraw:
    """A redraw claims epsilon = 0 against plain retraining; here its own draws are judged."""

    name: str = "pilu, redraw"
    cite: str = "docs/guarantee.md"
    ignores: tuple[str, ...] = ("wish", "n_unlearn_steps")

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Redraws of models with different seeds."""
        drawn = []
        for seed in range(_N_REDRAWS):
            model = ridge_model(problem, seed)
            found = model.unlearn(problem.row, method="redraw")
            drawn.append(model.coef_)
        eta = problem.step_size
        retrained = problem.left.after_steps(None, problem.n_steps, problem.noise, eta)
        return Claim(found.epsilon, found.delta, Draws(np.array(drawn)), retrained)
