"""The two runs of Definition 1 for a smooth loss, many of them at a time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer, check_real
from pilu.auditing.distinguishers import Known
from pilu.chains.chain import Chain
from pilu.chains.entropy import SimulatedGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.estimators.requests import live_rows
from pilu.estimators.smooth import SmoothClassifier, SmoothRegressor
from pilu.exceptions import WrongInput
from pilu.losses.problem import SmoothProblem
from pilu.losses.steps import smooth_iterates

__all__ = ["SmoothRuns"]

Array = NDArray[np.float64]

_UNLEARNED, _RETRAINED = 2, 3  # streams of a seed: a model's own auxiliary runs have 1


@dataclass(frozen=True, eq=False)
class SmoothRuns:
    """Learning and unlearning, again and again, with the rows of a request and without them.

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
    >>> found = audit(*runs.draw(200, seed=0), delta=1e-2, seed=0)
    >>> found.epsilon_lower <= 1.0
    True
    """

    model: SmoothClassifier | SmoothRegressor
    rows: Any
    noise: float
    n_unlearn_steps: int
    _chain: Chain = field(init=False, repr=False)
    _request: Request = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_real("noise", self.noise, above=0.0, remedy="Without it there is nothing to audit.")
        check_integer("n_unlearn_steps", self.n_unlearn_steps, least=1)
        check_is_fitted(self.model)
        chain = self.model.fitted_.chain  # as it stands: the model may go on
        source = chain.problem.source
        if not isinstance(chain.problem, SmoothProblem):
            raise WrongInput(
                f"model must have a smooth loss, got {type(self.model).__name__}. For ridge "
                "there is RidgeRuns."
            )
        if len(chain.schedule.segments) != 1 or not source.live.all():
            raise WrongInput(
                "model must not have forgotten anybody yet, got one that has. Fit it again."
            )
        object.__setattr__(self, "_chain", chain)
        request = Request.read(source, live_rows(source.live, self.rows))
        object.__setattr__(self, "_request", request)

    def unlearned(self, seed: int) -> Array:
        """Parameters of one run that learned the rows and unlearned them."""
        return np.asarray(self._runs(self._problem, 1, (seed, _UNLEARNED))[0])

    def retrained(self, seed: int) -> Array:
        """Parameters of one run that never saw the rows, the unlearning steps included."""
        return np.asarray(self._runs(self._left, 1, (seed, _RETRAINED))[0])

    def draw(self, n_runs: int, seed: int) -> tuple[Array, Array]:
        """Many runs of both kinds, side by side and so much faster: n_runs x parameters each."""
        return (
            self._runs(self._problem, n_runs, (seed, _UNLEARNED)),
            self._runs(self._left, n_runs, (seed, _RETRAINED)),
        )

    @property
    def score_of_the_rows(self) -> Known:
        """How well the first of the rows is fitted: what an adversary would look at first."""
        x, y = self._request.X[0], self._request.Y[0]
        loss, shape = self._problem.loss, self._chain.theta.shape

        def fit(outputs: Array) -> Array:
            scores = np.einsum("rpc,p->rc", np.asarray(outputs).reshape(-1, *shape), x)
            return -loss.value(scores, y)

        return Known(fit, "loss of the row")

    @property
    def _problem(self) -> SmoothProblem:
        problem = self._chain.problem
        assert isinstance(problem, SmoothProblem)
        return problem

    @property
    def _left(self) -> SmoothProblem:
        return self._problem.without(self._request.rows, self._request.X, self._request.Y)

    def _runs(self, learning: SmoothProblem, n_runs: int, seed: tuple[int, ...]) -> Array:
        check_integer("n_runs", n_runs, least=1)
        chain, gaussian = self._chain, SimulatedGaussian(seed)
        theta, done = np.tile(chain.start, (1, n_runs)), 0
        walks = (
            (learning, chain.schedule.segments[0]),
            (self._left, Segment(self.n_unlearn_steps, self.noise)),
        )
        for problem, segment in walks:
            problem.check_rows(range(done, done + segment.steps))
            for moved in smooth_iterates(
                theta, problem, chain.step_size, segment, done, gaussian, n_runs
            ):
                theta = moved
            done += segment.steps
        p, C = chain.start.shape
        return np.asarray(theta.reshape(p, n_runs, C).transpose(1, 0, 2).reshape(n_runs, p * C))
