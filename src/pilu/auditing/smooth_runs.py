"""The two runs of Definition 1 for a smooth loss, many of them at a time."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_integer
from pilu.auditing.distinguishers import Known
from pilu.auditing.two_runs import TwoRuns
from pilu.chains.entropy import SimulatedGaussian
from pilu.chains.problem import Problem
from pilu.exceptions import WrongInput
from pilu.losses.problem import SmoothProblem

__all__ = ["SmoothRuns"]

Array = NDArray[np.float64]

_UNLEARNED, _RETRAINED = 2, 3  # streams of a seed; stream 1 is for a model's auxiliary runs


class SmoothRuns(TwoRuns):
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

    def unlearned(self, seed: int) -> Array:
        """Parameters of one run that learned the rows and unlearned them."""
        return self._unlearned(1, seed).ravel()

    def retrained(self, seed: int) -> Array:
        """Parameters of one run that never saw the rows, the unlearning steps included."""
        return self._retrained(1, seed).ravel()

    def draw(self, n_runs: int, seed: int) -> tuple[Array, Array]:
        """Many runs of both kinds, n_runs x parameters each; faster than one by one."""
        return self._unlearned(n_runs, seed), self._retrained(n_runs, seed)

    @property
    def score_of_the_rows(self) -> Known:
        """How well the first of the rows is fitted: the most obvious attack."""
        x, y = self._request.X[0], self._request.Y[0]
        loss, shape = _objective(self._chain.problem).loss, self._chain.theta.shape

        def fit(outputs: Array) -> Array:
            scores = np.einsum("rpc,p->rc", np.asarray(outputs).reshape(-1, *shape), x)
            return -loss.value(scores, y)

        return Known(fit, "loss of the row")

    def _unlearned(self, n_runs: int, seed: int) -> Array:
        return self._runs(self._chain.problem, n_runs, (seed, _UNLEARNED))

    def _retrained(self, n_runs: int, seed: int) -> Array:
        return self._runs(self._retained, n_runs, (seed, _RETRAINED))

    def _runs(self, learning: Problem, n_runs: int, seed: tuple[int, ...]) -> Array:
        check_integer("n_runs", n_runs, least=1)
        chain, gaussian = self._chain, SimulatedGaussian(seed)
        theta, done = np.tile(chain.start, (1, n_runs)), 0
        walks = (learning, chain.schedule.segments[0]), (self._retained, self._forgetting)
        for problem, segment in walks:
            objective = _objective(problem)
            objective.check_rows(range(done, done + segment.steps))
            for moved in objective.steps(theta, chain.step_size, segment, done, gaussian, n_runs):
                theta = moved
            done += segment.steps
        p, C = chain.start.shape
        return np.asarray(theta.reshape(p, n_runs, C).transpose(1, 0, 2).reshape(n_runs, p * C))


def _objective(problem: Problem) -> SmoothProblem:
    # A law that is not Gaussian is that of a smooth loss, whose steps can be taken side by side.
    return cast(SmoothProblem, problem)
