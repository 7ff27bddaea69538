"""The two runs of Definition 1 for ridge regression, and the best test between them.

Both outputs are Gaussian with known laws, so the likelihood ratio can be written down: no other
distinguisher tells them apart better, and its errors are what the exact accountant computes.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer, check_real
from pilu.accounting.gaussians import GaussianPair
from pilu.auditing.distinguishers import Known
from pilu.chains.chain import Chain
from pilu.chains.entropy import SeededGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.estimators.requests import live_rows
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.exceptions import WrongInput
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectral import decay, drift, spread
from pilu.ridge.spectrum import Spectrum

__all__ = ["RidgeRuns"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeRuns:
    """Learning and unlearning, again and again, with the rows of a request and without them.

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
    >>> found = audit(runs.unlearned, runs.retrained, delta=1e-3, seed=0, n_runs=200,
    ...               distinguisher=runs.likelihood_ratio)
    >>> found.epsilon_lower <= 1.0
    True
    """

    model: LangevinRidge | LangevinRidgeClassifier
    rows: Any
    noise: float
    n_unlearn_steps: int
    _chain: Chain = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_real("noise", self.noise, above=0.0, remedy="Without it there is nothing to audit.")
        check_integer("n_unlearn_steps", self.n_unlearn_steps, least=1)
        check_is_fitted(self.model)
        chain = self.model.fitted_.chain  # as it stands: the model may go on
        object.__setattr__(self, "_chain", chain)
        if not isinstance(chain.problem, RidgeProblem):
            raise WrongInput(
                "model must be ridge with batch_size=None, got mini-batches or another loss. For "
                "other losses there is SmoothRuns."
            )
        if len(chain.schedule.segments) != 1 or not chain.problem.source.live.all():
            raise WrongInput(
                "model must not have forgotten anybody yet, got one that has. Fit it again."
            )
        live_rows(chain.problem.source.live, self.rows)

    def unlearned(self, seed: int) -> Array:
        """Parameters of one run that learned the rows and unlearned them."""
        return self._run(self._problem, seed)

    def retrained(self, seed: int) -> Array:
        """Parameters of one run that never saw the rows, the unlearning steps included."""
        return self._run(self._left, seed)

    @property
    def likelihood_ratio(self) -> Known:
        """The best distinguisher there is, for `audit`."""
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

    @property
    def _problem(self) -> RidgeProblem:
        problem = self._chain.problem
        assert isinstance(problem, RidgeProblem)
        return problem

    @cached_property
    def _left(self) -> RidgeProblem:
        source = self._problem.source
        request = Request.read(source, live_rows(source.live, self.rows))
        left = self._problem.without(request.rows, request.X, request.Y)
        left.consolidate()
        return left

    def _run(self, problem: RidgeProblem, seed: int) -> Array:
        learned = self._chain.redrawn(problem, SeededGaussian(seed, 0))
        segment = Segment(self.n_unlearn_steps, self.noise)
        return learned.forgetting(self._left, segment, SeededGaussian(seed, 1)).theta.ravel()

    @cached_property
    def _laws(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Means (p x d) and covariances (p x p) of the two outputs."""
        return self._law(self._problem.spectrum), self._law(self._left.spectrum)

    def _law(self, learning: Spectrum) -> tuple[Array, Array]:
        chain, left, K = self._chain, self._left.spectrum, self.n_unlearn_steps
        steps, noise = chain.schedule.segments[0]
        eta = chain.step_size
        V, W = _complete(learning), _complete(left)
        (a, B), (b, C) = V[1:], W[1:]
        learned = V[0] @ (
            drift(a[:, None], eta, steps) * B
            + decay(a[:, None], eta, steps) * (V[0].T @ chain.start)
        )
        covariance = noise**2 * (V[0] * spread(a, eta, steps)) @ V[0].T
        step = (W[0] * decay(b, eta, K)) @ W[0].T
        mean = step @ learned + W[0] @ (drift(b[:, None], eta, K) * C)
        added = self.noise**2 * (W[0] * spread(b, eta, K)) @ W[0].T
        return mean, step @ covariance @ step + added


def _complete(spectrum: Spectrum) -> tuple[Array, Array, Array]:
    """A square eigenbasis, its eigenvalues and X'Y in it."""
    V, a, B = spectrum.basis, spectrum.eigenvalues, spectrum.cross
    if not spectrum.has_complement:
        return V, a, B
    rest = scipy.linalg.null_space(V.T)
    missing = rest.shape[1]
    return (
        np.hstack([V, rest]),
        np.concatenate([a, np.full(missing, spectrum.alpha)]),
        np.vstack([B, np.zeros((missing, B.shape[1]))]),
    )


def _log_density(theta: Array, mean: Array, covariance: Array) -> Array:
    # theta is n x p x d; columns are independent with one covariance.
    root = np.linalg.cholesky(covariance)
    n, p, d = theta.shape
    away = np.moveaxis(theta - mean, 1, 0).reshape(p, n * d)
    scaled = scipy.linalg.solve_triangular(root, away, lower=True).reshape(p, n, d)
    log_root = float(np.sum(np.log(np.diag(root))))
    norms = np.sum(np.square(scaled), axis=(0, 2))
    return np.asarray(-norms / 2 - d * log_root - p * d * math.log(2 * math.pi) / 2)
