"""Each method learns a data set once and answers requests: parameters, epsilon and seconds.

All of them learn with the same objective, sum_j l(theta'x_j, y_j) + alpha/2 |theta|^2, and forget
with the same alpha. Only the Newton step takes the rows' share of alpha away with them, as its
authors do. Methods of `pilu.baselines` answer each request from the state that all rows left.
"""

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.methods.config import SideBySide
from experiments.methods.data import Case
from pilu import Forgetful
from pilu.baselines import DPGD, Langevin, Learned, NewtonStep, Redraw, Task
from pilu.baselines.dp_gd import gradient_norms
from pilu.exceptions import PiluError

QUICK = 0.3  # seconds up to which a call is timed again
COARSE = 0.001  # seconds that are too few for the processor's clock


class Reply(NamedTuple):
    """What a method gives back for one request."""

    theta: np.ndarray
    epsilon: float
    delta: float
    certified: bool
    against: str
    noise: float


class Contestant(NamedTuple):
    """A method after learning: the parameters before any request, and how it answers one."""

    before: np.ndarray
    answer: Callable[[np.ndarray], Reply]  # from the rows to forget


class TooLong(BaseException):
    """A method took longer than this study allows; no `except Exception` on its way stops it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop after so many seconds of the processor, at the end of the call that is then running."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """The result and the processor's seconds, in which other work on the machine hardly counts.

    Quick calls are the shortest of five, and below `COARSE` by the wall clock: the processor's has
    too few ticks for them, and others seldom interrupt them. `compare` sees to it that there is one
    thread.
    """
    result, spent, waited = clocked(call, *arguments)
    if spent > QUICK:
        return result, spent
    for _ in range(4):
        _, again, wall = clocked(call, *arguments)
        spent, waited = min(spent, again), min(waited, wall)
    return result, spent if spent > COARSE else waited


def clocked(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float, float]:
    """The result, the processor's seconds and those of the wall clock."""
    started, wall = time.process_time(), time.perf_counter()
    result = call(*arguments)
    return result, time.process_time() - started, time.perf_counter() - wall


def task_of(case: Case, config: SideBySide, n_unlearn_steps: int = 1, **chain: Any) -> Task:
    """The case as `pilu.baselines` takes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few steps are one of the choices
        return Task.of(
            case.chain(random_state=None, **chain),
            case.X,
            case.y,
            epsilon=config.epsilon,
            n_unlearn_steps=n_unlearn_steps,
        )


def learned(method: Any, task: Task) -> Learned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return method.fit(task)


def answering(found: Learned, against: str) -> Contestant:
    def answer(rows: np.ndarray) -> Reply:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            reply = found.answer(rows.tolist())
        certified = reply.certified and np.isfinite(reply.epsilon)
        return Reply(reply.theta, reply.epsilon, reply.delta, certified, against, reply.noise)

    return Contestant(found.theta, answer)


# The methods


def retraining(case: Case, config: SideBySide) -> Contestant:
    """scikit-learn, cold, on the rows that are left."""

    def fit(rows: np.ndarray) -> np.ndarray:
        left = np.delete(np.arange(len(case.X)), rows)
        return parameters(case.head().fit(case.X[left], case.y[left]))

    def answer(rows: np.ndarray) -> Reply:
        return Reply(fit(rows), 0.0, 0.0, True, "itself", 0.0)

    return Contestant(fit(np.array([], dtype=int)), answer)


def refit(case: Case, config: SideBySide) -> Contestant:
    """`pilu.Forgetful` with its defaults; every request starts from a fit on all rows."""
    model = Forgetful(case.head()).fit(case.X, case.y)
    before = model.fitted_  # replaced by a request, and put back for the next one

    def answer(rows: np.ndarray) -> Reply:
        try:
            certificate = model.unlearn(rows=rows.tolist())
            theta = parameters(model)
        finally:
            model.fitted_ = before
        return Reply(
            theta, certificate.epsilon, certificate.delta, True, "retraining", certificate.noise
        )

    return Contestant(parameters(model), answer)


def redraw(case: Case, config: SideBySide) -> Contestant:
    chain = {"n_steps": config.redraw_steps, "noise": config.noise}
    found = learned(Redraw(), task_of(case, config, **chain))
    return answering(found, "the same noisy steps without them")


def newton(case: Case, config: SideBySide) -> Contestant:
    """Certified: for squares by a perturbed objective, else by noise on the output."""
    found = learned(NewtonStep(), task_of(case, config, n_steps=1))
    perturbed = ", with the same perturbation" if not case.is_classification else ""
    return answering(found, "the minimiser without them" + (perturbed or ", with the same noise"))


def langevin(case: Case, config: SideBySide, n_steps: int, noise: float) -> Contestant:
    """Exact for squares, Theorem 1 for other losses."""
    chain: dict[str, Any] = {"n_steps": n_steps, "noise": noise}
    if case.is_classification:
        chain["n_auxiliary_runs"] = config.auxiliary_runs
    accountant = "theorem" if case.is_classification else "exact"
    task = task_of(case, config, config.unlearn_steps, **chain)
    found = learned(Langevin(accountant), task)
    return answering(found, f"the same noisy steps without them ({accountant} accountant)")


def dp_gd(case: Case, config: SideBySide, n_steps: int, clipping: float) -> Contestant:
    """One model for all requests: what follows learning is one more private step.

    The threshold is a multiple of the median row's gradient at zero. It is read off the rows, and
    nothing is charged for that.
    """
    task = task_of(case, config, 1, n_steps=n_steps, noise=config.noise)
    norms = gradient_norms(np.zeros(task.shape), task.X, task.Y, task.loss)
    found = learned(DPGD(clipping=clipping * float(np.median(norms))), task)
    return answering(found, "a model that never saw them, before the request too")


def grid_of(name: str, config: SideBySide) -> list[dict[str, float]]:
    """The settings among which a method takes the best; none for a method without a grid."""
    if name == "Langevin":
        return [
            {"n_steps": n_steps, "noise": noise}
            for n_steps in config.learn_steps
            for noise in config.noises
        ]
    if name == "DP-GD":
        return [
            {"n_steps": n_steps, "clipping": clipping}
            for n_steps in config.dp_steps
            for clipping in config.clippings
        ]
    return [{}]


MAKERS: dict[str, Callable[..., Contestant]] = {
    "retraining": retraining,
    "refit": refit,
    "redraw": redraw,
    "Langevin": langevin,
    "Newton step": newton,
    "DP-GD": dp_gd,
}
REFUSALS = (PiluError, ValueError, ArithmeticError, MemoryError)


def learns_at_random(name: str, case: Case) -> bool:
    """Whether a method learns anew for every repeat; Newton perturbs learning for squares only."""
    if name == "Newton step":
        return not case.is_classification
    return name in ("redraw", "Langevin", "DP-GD")


def parameters(model: Any) -> np.ndarray:
    """Of a fitted scikit-learn head without an intercept, one column an output."""
    return np.atleast_2d(np.asarray(model.coef_, dtype=np.float64)).T
