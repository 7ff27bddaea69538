"""A study's ridge problem, fitted once: laws, noises, expected scores and many runs at a time.

A run of Algorithm 1 is drawn in the eigenbasis, equal in law to taking its steps; R runs are R
times as many columns of theta. Each run has its own learning and its own unlearning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.linear.config import STUDIES, RowSet, Study
from experiments.linear.data import Data, load
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.certify.issue import resolve_accountant, set_target
from pilu.chains.chain import SeededGaussian
from pilu.chains.predictions import Prospect
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import Request
from pilu.estimators.utility import Validation, read_validation
from pilu.ridge.law import RidgeLaw
from pilu.ridge.spectral import Spectrum, draw_after

ACCOUNTANTS = ("theorem", "exact")


@dataclass(frozen=True, eq=False)
class Engine:
    """One study's problem and everything that its figures ask of it."""

    study: Study
    data: Data

    @cached_property
    def model(self) -> LangevinRidge | LangevinRidgeClassifier:
        kind = LangevinRidgeClassifier if self.data.is_classification else LangevinRidge
        study = self.study
        return kind(
            alpha=study.alpha,
            n_steps=study.n_steps,
            noise=study.noise,
            fit_intercept=False,  # the ones are in X
            random_state=study.seed,
        ).fit(self.data.X, self.data.y)

    @property
    def step_size(self) -> float:
        return self.model.step_size_

    @property
    def n_outputs(self) -> int:
        return self.model.fitted_.theta.shape[1]

    @property
    def delta(self) -> float:
        return 1 / len(self.data.X)

    @property
    def spectrum(self) -> Spectrum:
        return self.model.fitted_.chain.problem.spectrum

    @cached_property
    def held_out(self) -> Validation:
        return read_validation(self.model, (self.data.X_test, self.data.y_test))

    @cached_property
    def targets(self) -> np.ndarray:
        """Y, n x d."""
        return self.model.read_rows(self.data.X, self.data.y)[1]

    def law(self, n_steps: int | None = None, noise: float | None = None) -> RidgeLaw:
        """The law of learning, by default with the study's T and sigma_learn."""
        segment = Segment(n_steps or self.study.n_steps, noise or self.study.noise)
        start = np.zeros((self.data.X.shape[1], self.n_outputs))
        error = self.model.fitted_.chain.problem.statistics_error
        return RidgeLaw(self.spectrum, self.step_size, Schedule((segment,)), start, error)

    def request(self, row: int) -> Request:
        return Request(self.data.X[[row]], self.targets[[row]], np.array([row]))

    @cached_property
    def gradient_norms(self) -> np.ndarray:
        """|grad l_i(theta_T)| of every row, at the parameters of one learning run."""
        residuals = self.data.X @ self.model.fitted_.theta - self.targets
        return np.linalg.norm(self.data.X, axis=1) * np.linalg.norm(residuals, axis=1)

    def rows(self, kind: str | None = None) -> list[int]:
        """The representative rows, the smallest gradient first."""
        return choose(self.gradient_norms, self.study.row_sets[kind or self.study.main_rows])

    def calibrated(
        self, law: RidgeLaw, row: int, accountant: str, epsilon: float, n_unlearn_steps: int
    ) -> float:
        """sigma_unlearn for one row."""
        target = set_target(law, epsilon, self.delta, n_unlearn_steps)
        return resolve_accountant(accountant).calibrate(law, self.request(row), target).noise

    def prospects(
        self, law: RidgeLaw, rows: Sequence[int], steps: Sequence[int]
    ) -> dict[tuple[int, int], Prospect]:
        """For every row and K, the predictions as a function of the noise, in closed form."""
        forecast = law.forecast(self.held_out.X, max(steps))
        prospects = {}
        with threadpool_limits(1, user_api="blas"):
            for row in rows:
                of_row = forecast.without(*self.request(row))
                prospects |= {(row, K): of_row.after(K) for K in steps}
        return prospects

    def expected(self, prospect: Prospect, noise: float) -> float:
        """The expected score: RMSE, or accuracy."""
        return self.held_out.score(prospect.at(noise))

    def run(
        self, law: RidgeLaw, row: int, segment: Segment, n_runs: int, seed: Sequence[int]
    ) -> np.ndarray:
        """Scores of runs that learn all rows and unlearn one."""
        gaussian = SeededGaussian(int(np.random.SeedSequence(seed).generate_state(1)[0]), 0)
        start = np.zeros((self.data.X.shape[1], n_runs * self.n_outputs))
        theta = draw_after(
            start,
            repeated(self.spectrum, n_runs),
            law.step_size,
            law.schedule.segments[0],
            gaussian,
        )
        # By the problem: where p > n, a basis with a row taken out knows of no complement.
        problem = self.model.fitted_.chain.problem
        left = problem.without(np.array([row]), *self.request(row)[:2]).corrected_spectrum
        theta = draw_after(theta, repeated(left, n_runs), law.step_size, segment, gaussian)
        return self.scores(theta, n_runs)

    def scores(self, theta: np.ndarray, n_runs: int) -> np.ndarray:
        """The score of every run: theta is p x (R d), run after run."""
        points = self.held_out
        predicted = (points.X @ theta).reshape(len(points.X), n_runs, -1)
        if self.data.is_classification:
            # A label that the model has never seen has no column.
            labels = np.where(points.Y.any(axis=1), points.Y.argmax(axis=1), -1)
            right = predicted.argmax(axis=2) == labels[:, None]
            return right.mean(axis=0)
        return np.sqrt(np.mean(np.square(predicted - points.Y[:, None]), axis=(0, 2)))


def choose(norms: np.ndarray, wanted: RowSet) -> list[int]:
    """Rows at quantiles of the norm, among the share of rows with the smallest norms."""
    order = np.argsort(norms, kind="stable")[: max(round(wanted.share * len(norms)), 1)]
    places = np.round(np.array(wanted.quantiles) * (len(order) - 1)).astype(int)
    return [int(row) for row in order[places]]


def summary(scores: np.ndarray) -> dict[str, float]:
    """What is kept of some runs; the root of the mean square is what the closed form expects."""
    return {
        "mean": scores.mean(),
        "sd": scores.std(ddof=1),
        "root_mean_square": np.sqrt(np.mean(np.square(scores))),
    }


def repeated(spectrum: Spectrum, n_runs: int) -> Spectrum:
    """The same problem with its outputs n_runs times side by side."""
    return replace(spectrum, cross=np.tile(spectrum.cross, (1, n_runs)))


@cache
def engine(name: str, size: str) -> Engine:
    return Engine(STUDIES[size][name], load(name, size))
