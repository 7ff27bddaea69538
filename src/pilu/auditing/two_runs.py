"""The two runs of Definition 1, with the rows of a request and without them, carried out again.

For ridge both outputs are Gaussian with known laws, so their likelihood ratio can be computed. No
other distinguisher is better, and its errors are those that the exact accountant computes. For a
smooth loss many runs are carried out at a time.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer, check_real, check_steps
from pilu.accounting.gaussians import GaussianPair
from pilu.auditing.distinguishers import Known
from pilu.chains.chain import Chain, SeededGaussian, SimulatedGaussian, walk
from pilu.chains.problem import Problem
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.data.statistics import Statistics
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.requests import live_rows
from pilu.exceptions import WrongInput
from pilu.losses.problem import SmoothProblem
from pilu.ridge.spectral import Spectrum, decay, drift, spread

Array = NDArray[np.float64]

_UNLEARNED, _RETRAINED = 2, 3  # streams of a seed; stream 1 is for a model's auxiliary runs


@dataclass(frozen=True, eq=False)
class _TwoRuns(ABC):
    """A request to a model that has forgotten nothing yet, checked."""

    model: LangevinEstimator
    rows: Any
    noise: float
    n_unlearn_steps: int

    def __post_init__(self) -> None:
        check_real("noise", self.noise, above=0.0, remedy="Without it there is nothing to audit.")
        check_steps("n_unlearn_steps", self.n_unlearn_steps)
        check_is_fitted(self.model)
        if len(self._chain.schedule.segments) != 1 or not self._chain.problem.source.live.all():
            raise WrongInput(
                "model must not have forgotten any rows yet, got one that has. Fit it again."
            )
        _ = self._request

    def unlearned(self, seed: int) -> Array:
        """Parameters of one run that learned the rows and unlearned them."""
        return self._run(self._chain.problem, seed)

    def retrained(self, seed: int) -> Array:
        """Parameters of one run that never saw the rows, the unlearning steps included."""
        return self._run(self._retained, seed)

    @abstractmethod
    def _run(self, learning: Problem, seed: int) -> Array:
        """Parameters of one run that learns this problem and then forgets the rows."""

    @cached_property
    def _chain(self) -> Chain:
        return self.model.fitted_.chain  # as it is now: the model may forget rows later

    @cached_property
    def _request(self) -> Request:
        source = self._chain.problem.source
        return Request.read(source, live_rows(source.live, self.rows))

    @property
    def _forgetting(self) -> Segment:
        return Segment(self.n_unlearn_steps, self.noise)

    @cached_property
    def _retained(self) -> Problem:
        """The problem without the rows."""
        X, Y, rows = self._request
        problem = self._chain.problem.without(rows, X, Y)
        problem.consolidate()
        return problem


class RidgeRuns(_TwoRuns):
    """Repeated learning and unlearning, with the rows of a request and without them.

    Parameters
    ----------
    model : LangevinRidge or LangevinRidgeClassifier
        Fitted on a full batch, before any request.
    rows : int or sequence of int
        The request.
    noise : float > 0
        sigma_unlearn, of a quote or a certificate.
    n_unlearn_steps : int >= 1

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pilu import LangevinRidge
    >>> from pilu.auditing import audit
    >>> model = LangevinRidge(alpha=0.1).fit(*load_diabetes(return_X_y=True))
    >>> runs = RidgeRuns(model, 3, noise=model.quote([3]).noise[0], n_unlearn_steps=80)
    >>> result = audit(runs.unlearned, runs.retrained, delta=1e-3, seed=0, n_runs=200,
    ...                distinguisher=runs.likelihood_ratio)
    >>> result.epsilon_lower <= 1.0
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        chain = self._chain
        if chain.problem.minibatch_size is not None or not chain.law(corrected=True).is_gaussian:
            raise WrongInput(
                "model must be ridge with batch_size=None, got mini-batches or another loss. Use "
                "SmoothRuns for other losses."
            )

    def _run(self, learning: Problem, seed: int) -> Array:
        learned = self._chain.redrawn(learning, SeededGaussian(seed, 0))
        noise = SeededGaussian(seed, 1)
        return learned.forgetting(self._retained, self._forgetting, noise).theta.ravel()

    @property
    def likelihood_ratio(self) -> Known:
        """The best distinguisher that there is, for `audit`."""
        return Known(self.log_ratio, "likelihood ratio")

    def log_ratio(self, outputs: Array) -> Array:
        """log dP/dQ of runs (n x parameters): P unlearned, Q retrained."""
        (m, S), (m_left, S_left) = self._laws
        theta = np.asarray(outputs).reshape(len(outputs), *m.shape)
        return _log_density(theta, m, S) - _log_density(theta, m_left, S_left)

    @cached_property
    def pair(self) -> GaussianPair:
        """P and Q as two Gaussians, by dense matrices: `pair.delta` is the exact curve."""
        (m, S), (m_left, S_left) = self._laws
        root = np.linalg.cholesky(S_left)
        half = scipy.linalg.solve_triangular(root, S, lower=True)
        whitened = scipy.linalg.solve_triangular(root, half.T, lower=True)
        variances, basis = np.linalg.eigh((whitened + whitened.T) / 2)
        shift = basis.T @ scipy.linalg.solve_triangular(root, m - m_left, lower=True)
        return GaussianPair(variances - 1, np.sum(np.square(shift), axis=1), m.shape[1])

    @cached_property
    def _laws(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Means (p x d) and covariances (p x p) of the two outputs."""
        chain, retained = self._chain, _spectrum(self._retained)
        eta, learning = chain.step_size, chain.schedule.segments[0]
        start = chain.start, np.zeros((len(chain.start), len(chain.start)))

        def law(spectrum: Spectrum) -> tuple[Array, Array]:
            learned = _law_after(spectrum, eta, learning, *start)
            return _law_after(retained, eta, self._forgetting, *learned)

        return law(_spectrum(chain.problem)), law(retained)


def _spectrum(problem: Problem) -> Spectrum:
    """The complete eigenbasis of a problem, from its rows."""
    source = problem.source
    p, d = source.n_columns, problem.n_outputs
    statistics = Statistics.of_rows(source.blocks(), p, d, fit_intercept=False)
    return Spectrum.of_statistics(statistics.gram, statistics.cross, problem.alpha)


def _law_after(
    spectrum: Spectrum, step_size: float, segment: Segment, mean: Array, covariance: Array
) -> tuple[Array, Array]:
    """Mean and covariance after a segment of steps."""
    V, a, k, noise = spectrum.basis, spectrum.eigenvalues, segment.duration, segment.noise
    step = (V * decay(a, step_size, k)) @ V.T
    mean = step @ mean + V @ (drift(a[:, None], step_size, k) * spectrum.cross)
    added = noise**2 * (V * spread(a, step_size, k)) @ V.T
    return mean, step @ covariance @ step + added


def _log_density(theta: Array, mean: Array, covariance: Array) -> Array:
    # theta is n x p x d; columns are independent with one covariance.
    root = np.linalg.cholesky(covariance)
    n, p, d = theta.shape
    away = np.moveaxis(theta - mean, 1, 0).reshape(p, n * d)
    scaled = scipy.linalg.solve_triangular(root, away, lower=True).reshape(p, n, d)
    log_root = float(np.sum(np.log(np.diag(root))))
    norms = np.sum(np.square(scaled), axis=(0, 2))
    return np.asarray(-norms / 2 - d * log_root - p * d * math.log(2 * math.pi) / 2)


class SmoothRuns(_TwoRuns):
    """Repeated learning and unlearning, with the rows of a request and without them.

    Parameters
    ----------
    model : LangevinLogistic, LangevinHuber or another with a smooth loss
        Fitted, before any request.
    rows : int or sequence of int
        The request.
    noise : float > 0
        sigma_unlearn, of a quote or a certificate.
    n_unlearn_steps : int >= 1

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pilu import LangevinLogistic
    >>> from pilu.auditing import audit
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LangevinLogistic(n_steps=50).fit(X / 8, y == 2)
    >>> noise = model.quote([3], n_unlearn_steps=5).noise[0]
    >>> runs = SmoothRuns(model, 3, noise=noise, n_unlearn_steps=5)
    >>> result = audit(*runs.draw(200, seed=0), delta=1e-2, seed=0)
    >>> result.epsilon_lower <= 1.0
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._chain.law(corrected=True).is_gaussian:
            raise WrongInput(
                f"model must have a smooth loss, got {type(self.model).__name__}. Use RidgeRuns "
                "for ridge."
            )

    def draw(self, n_runs: int, seed: int) -> tuple[Array, Array]:
        """Many runs of both kinds, n_runs x parameters each; faster than one by one."""
        unlearned = self._runs(self._chain.problem, n_runs, seed)
        return unlearned, self._runs(self._retained, n_runs, seed)

    @property
    def score_of_the_rows(self) -> Known:
        """How well the first of the rows is fitted: the most obvious attack."""
        x, y = self._request.X[0], self._request.Y[0]
        loss, shape = _objective(self._chain.problem).loss, self._chain.theta.shape

        def fit(outputs: Array) -> Array:
            scores = np.einsum("rpc,p->rc", np.asarray(outputs).reshape(-1, *shape), x)
            return -loss.value(scores, y)

        return Known(fit, "loss of the row")

    def _run(self, learning: Problem, seed: int) -> Array:
        return self._runs(learning, 1, seed).ravel()

    def _runs(self, learning: Problem, n_runs: int, seed: int) -> Array:
        check_integer("n_runs", n_runs, least=1)
        stream = _RETRAINED if learning is self._retained else _UNLEARNED
        chain, gaussian = self._chain, SimulatedGaussian((seed, stream))
        theta, done = np.tile(chain.start, (1, n_runs)), 0
        walks = (learning, chain.schedule.segments[0]), (self._retained, self._forgetting)
        for problem, segment in walks:
            objective = _objective(problem)
            objective.check_rows(range(done, done + segment.steps))
            gradient = partial(objective.gradient, n_runs=n_runs)
            theta = walk(theta, gradient, chain.step_size, segment, gaussian, done)
            done += segment.steps
        p, C = chain.start.shape
        return np.asarray(theta.reshape(p, n_runs, C).transpose(1, 0, 2).reshape(n_runs, p * C))


def _objective(problem: Problem) -> SmoothProblem:
    # A law that is not Gaussian is that of a smooth loss, whose steps can be taken side by side.
    return cast(SmoothProblem, problem)
