"""The two runs of Definition 1 for ridge regression, and the best test between them.

Both outputs are Gaussian with known laws, so their likelihood ratio can be computed. No other
distinguisher is better, and its errors are those that the exact accountant computes.
"""

import math
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu.accounting.gaussians import GaussianPair
from pilu.auditing.distinguishers import Known
from pilu.auditing.two_runs import TwoRuns
from pilu.chains.chain import SeededGaussian
from pilu.chains.problem import Problem
from pilu.chains.schedule import Segment
from pilu.data.statistics import Statistics
from pilu.exceptions import WrongInput
from pilu.ridge.spectral import Spectrum, decay, drift, spread

__all__ = ["RidgeRuns"]

Array = NDArray[np.float64]


class RidgeRuns(TwoRuns):
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

    def unlearned(self, seed: int) -> Array:
        """Parameters of one run that learned the rows and unlearned them."""
        return self._run(self._chain.problem, seed)

    def retrained(self, seed: int) -> Array:
        """Parameters of one run that never saw the rows, the unlearning steps included."""
        return self._run(self._retained, seed)

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
    V, a, (k, noise) = spectrum.basis, spectrum.eigenvalues, segment
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
