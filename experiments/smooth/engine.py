"""A study's model, fitted once: noise of every row, one noise for all of them, and many runs.

Runs are those of Algorithm 1, step by step; several stand side by side as columns of theta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.special import logsumexp

from experiments.smooth.config import EPSILON, STUDIES, Study
from experiments.smooth.data import Data, load
from pilu import LangevinLogistic
from pilu.accounting.gdp import mu_from_epsilon
from pilu.accounting.shifted import blocks_from_sensitivities, later_variance
from pilu.losses.problem import SmoothProblem


@dataclass(frozen=True, eq=False)
class Engine:
    """One study's problem and everything that its tables ask of it."""

    study: Study
    data: Data

    @cached_property
    def model(self) -> LangevinLogistic:
        study = self.study
        return LangevinLogistic(
            alpha=study.alpha,
            n_steps=study.n_steps,
            noise=study.noise,
            fit_intercept=False,  # rows have norm one, and a one more would change it
            n_auxiliary_runs=study.n_auxiliary_runs,
            random_state=study.seed,
        ).fit(self.data.X, self.data.y)

    @property
    def delta(self) -> float:
        return 1 / len(self.data.X)

    @property
    def problem(self) -> SmoothProblem:
        return self.model.fitted_.chain.problem

    @property
    def n_outputs(self) -> int:
        return self.problem.n_outputs

    @cached_property
    def noises(self) -> np.ndarray:
        """sigma_unlearn of every row at epsilon = 1."""
        K = self.study.n_unlearn_steps
        return self.model.quote(epsilon=EPSILON, n_unlearn_steps=K, n_jobs=1).noise

    def noise_of(self, row: int, epsilon: float) -> float:
        K = self.study.n_unlearn_steps
        return float(self.model.quote([row], epsilon=epsilon, n_unlearn_steps=K).noise[0])

    def uniform_noise(self, epsilon: float, share_of_delta: float = 1.0) -> float:
        """One noise for any row, by the theorem with what holds for all data.

        |grad l| <= |x| G, G = 1 for the logistic loss and sqrt(2) for softmax, so that
        s_k = eta max|x| G at every step. Nothing here can fail: no part of delta is set aside.
        """
        law, study = self.model.fitted_.law, self.study
        eta, c = law.step_size, law.contraction
        largest = np.linalg.norm(self.data.X, axis=1).max()
        bound = eta * largest * (1.0 if self.n_outputs == 1 else math.sqrt(2))
        mu = float(mu_from_epsilon(epsilon, share_of_delta * self.delta))
        blocks = blocks_from_sensitivities(
            np.full(study.n_steps, bound), law.schedule.variances(eta), c
        )
        unit = 2 * eta * later_variance(study.n_unlearn_steps, c)
        return math.sqrt(blocks.extra_for(mu) / unit)

    def margins(self) -> np.ndarray:
        """z_y - logsumexp of the other scores, after one learning run; y z for two classes."""
        return margins(self.scores, self.places)

    @cached_property
    def scores(self) -> np.ndarray:
        """One score a class, for the rows to learn."""
        scores = self.model.decision_function(self.data.X)
        return np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores

    @property
    def places(self) -> np.ndarray:
        """The column of each row's label."""
        return np.searchsorted(self.model.classes_, self.data.y)

    def chosen(self) -> list[int]:
        """Rows at the study's quantiles of the noise, the cheapest first."""
        order = np.argsort(self.noises, kind="stable")
        places = np.round(np.array(self.study.quantiles) * (len(order) - 1)).astype(int)
        return [int(row) for row in order[places]]

    @cached_property
    def learned(self) -> np.ndarray:
        """Learning runs side by side: p x (repeats C)."""
        study, C = self.study, self.n_outputs
        start = np.zeros((self.data.X.shape[1], study.n_repeats * C))
        rng = np.random.default_rng([study.seed, 1])
        return self.walked(self.problem, start, study.n_steps, study.noise, rng)

    def run(self, row: int, noises: Sequence[float], stream: int) -> np.ndarray:
        """Accuracies of runs that learned all rows and unlearn one: noises x repeats."""
        X, y = self.data.X[[row]], self.model.read_rows(self.data.X, self.data.y)[1][[row]]
        left = self.problem.without(np.array([row]), X, y)
        start = np.tile(self.learned, (1, len(noises)))
        each = np.repeat(noises, self.learned.shape[1])
        rng = np.random.default_rng([self.study.seed, 2, stream, row])
        theta = self.walked(left, start, self.study.n_unlearn_steps, each, rng)
        return self.accuracies(theta).reshape(len(noises), self.study.n_repeats)

    def accuracies(self, theta: np.ndarray) -> np.ndarray:
        """On the rows to test, of every run."""
        scores = (self.data.X_test @ theta).reshape(len(self.data.X_test), -1, self.n_outputs)
        best = scores[..., 0] > 0 if self.n_outputs == 1 else scores.argmax(axis=2)
        right = self.model.classes_[best.astype(int)] == self.data.y_test[:, None]
        return right.mean(axis=0)

    def walked(
        self,
        problem: SmoothProblem,
        theta: np.ndarray,
        n_steps: int,
        noise: float | np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Langevin steps of runs side by side; a noise may be given for each column."""
        eta, n_runs = self.model.step_size_, theta.shape[1] // self.n_outputs
        for k in range(n_steps):
            theta = theta - eta * problem.gradient(theta, k, n_runs)
            theta += math.sqrt(2 * eta) * noise * rng.standard_normal(theta.shape)
        return theta

    def relabelled(self, y: np.ndarray) -> "Engine":
        """The same study with other labels to learn."""
        return replace(self, data=self.data._replace(y=y))


def margins(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
    own = np.take_along_axis(scores, places[:, None], axis=1)[:, 0]
    others = scores.copy()
    np.put_along_axis(others, places[:, None], -np.inf, axis=1)
    return own - logsumexp(others, axis=1)


@cache
def engine(name: str, size: str) -> Engine:
    return Engine(STUDIES[size][name], load(name, size))
