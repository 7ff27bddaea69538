"""DP-GD: clipped noisy gradient descent that protects every row while it learns.

    theta <- theta - eta (sum_j clip_C(grad l_j(theta)) + alpha theta + N(0, sigma^2 I))

[Abadi et al. 2016; PILU, app. DP-GD]. The paper's formula leaves alpha theta out. It holds no data,
so it costs no privacy. T steps on all rows and K on the rows that are left are T + K Gaussian steps
of sensitivity R C for R rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice, check_real_or, complaint
from pilu.accounting.renyi import gaussian_epsilon, gaussian_noise, renyi_epsilon, renyi_noise
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, row_norms, titled
from pilu.chains.chain import walk
from pilu.chains.schedule import Segment
from pilu.losses.loss import Loss, Squared

Array = NDArray[np.float64]

_ACCOUNTINGS = {
    "gdp": (gaussian_noise, gaussian_epsilon),
    "renyi": (renyi_noise, renyi_epsilon),
}
_QUANTILE = 0.75
_UP = 1 + 1e-12
_SQUARED = Squared()


@dataclass(frozen=True)
class DPGD(Method):
    """Noise at every step of learning, calibrated beforehand for any one row.

    A group of R rows is answered too, at the larger epsilon that this noise certifies for it.

    Parameters
    ----------
    clipping : float > 0 or "quantile", default="quantile"
        The threshold C. "quantile" is the paper's choice: the 75% quantile of the rows' gradient
        norms, here after T steps without noise. It is read off the data; the claim does not account
        for that.
    accounting : {"gdp", "renyi"}, default="gdp"
        "gdp" is exact for the T + K steps; "renyi" is the paper's formula.
    """

    clipping: float | str = "quantile"
    accounting: str = "gdp"

    def __post_init__(self) -> None:
        check_choice("accounting", self.accounting, tuple(_ACCOUNTINGS))
        check_real_or("quantile", "clipping", self.clipping)

    @property
    def name(self) -> str:
        """DP-GD, with its accounting and a threshold that was given."""
        threshold = "" if isinstance(self.clipping, str) else f"C = {self.clipping:g}"
        return titled("DP-GD", "Renyi" if self.accounting == "renyi" else "", threshold)

    def fit(self, task: Task) -> Learned:
        """T clipped noisy steps on all rows."""
        C, eta, K = self._threshold(task), task.step_size, task.n_unlearn_steps
        noise_for, epsilon_of = _ACCOUNTINGS[self.accounting]
        multiplier = noise_for(task.epsilon, task.delta, task.n_steps + K)
        # A step adds eta sigma, and sqrt(2 eta) times the noise in the Langevin methods.
        sigma = max(multiplier * C * _UP, task.target.floor * math.sqrt(2 / eta))

        def stepped(theta: Array, X: Array, Y: Array, n_steps: int, stream: int) -> Array:
            limits, gaussian = residual_limits(X, C), task.gaussian(stream)

            def gradient(theta: Array, step: int) -> Array:
                clipped = clipped_gradient(theta, X, Y, limits, task.loss)
                return clipped + sigma * gaussian.normal(theta.shape) + task.alpha * theta

            return walk(theta, gradient, eta, Segment(n_steps, 0.0), gaussian)

        theta = stepped(np.zeros(task.shape), task.X, task.Y, task.n_steps, 0)
        read = ", which was read off the data" if self.clipping == "quantile" else ""

        def respond(rows: Rows) -> Answer:
            X, Y = task.without(rows)
            epsilon = task.epsilon  # what the noise was calibrated to
            if len(rows) > 1:
                share = multiplier / len(rows) / _UP
                epsilon = epsilon_of(share, task.n_steps + K, task.delta)
            return Answer(
                stepped(theta, X, Y, K, 1),
                epsilon,
                task.delta,
                certified=True,
                guarantee=f"differential privacy of all steps, given C = {C:.4g}{read}",
                rows_touched=K * len(X),
                noise=sigma,
                details=lambda: {"clipping": C},
            )

        return Learned(task, theta, respond)

    def _threshold(self, task: Task) -> float:
        if not isinstance(self.clipping, str):
            return float(self.clipping)
        start, noiseless = np.zeros(task.shape), Segment(task.n_steps, 0.0)
        theta = task.objective.walked(start, task.step_size, noiseless, task.gaussian(0))
        norms = gradient_norms(theta, task.X, task.Y, task.loss)
        threshold = float(np.quantile(norms, _QUANTILE))
        if threshold == 0.0:
            raise complaint("clipping", "a number > 0 if rows have no gradient", self.clipping)
        return threshold


def gradient_norms(theta: Array, X: Array, Y: Array, loss: Loss = _SQUARED) -> Array:
    """|grad l_j(theta)| of every row: |x_j| |dl/dz|."""
    return row_norms(X) * row_norms(loss.gradient(X @ theta, Y))


def clipped_gradient(
    theta: Array, X: Array, Y: Array, limits: Array, loss: Loss = _SQUARED
) -> Array:
    """sum_j clip_C(grad l_j(theta)), where the gradient of a row is the matrix x_j (dl/dz)'.

    So clipping it is clipping dl/dz, for squares the residual, to the row's limit C / |x_j|.
    """
    residuals = loss.gradient(X @ theta, Y)
    norms = np.maximum(row_norms(residuals), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):  # far above 1 is 1
        kept = np.minimum(1.0, limits / norms)
    return np.asarray(X.T @ (kept[:, None] * residuals))


def residual_limits(X: Array, C: float) -> Array:
    """C / |x_j|, reduced a little, so that rounding keeps the gradient of every row within C."""
    with np.errstate(divide="ignore"):  # a row of zeros has no gradient to limit
        return np.asarray(C * (1 - 1e-12) / row_norms(X))
