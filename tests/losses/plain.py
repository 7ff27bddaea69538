"""The losses in plain NumPy, their Langevin chain as a loop, and models with any loss of one's own.

Scores and targets are (..., C); theta is p x C, many chains side by side are R x p x C.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conftest import with_ones
from pilu.estimators.smooth import SmoothClassifier, SmoothRegressor
from pilu.losses import Huber, Logistic, Loss, Softmax, Squared

THRESHOLD = 0.8


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y z)^2 / 2, with the additive form that every loss begins with."""

    name: ClassVar[str] = "squared hinge"
    smoothness: ClassVar[float] = 1.0

    def value(self, scores, targets):
        return np.sum(np.maximum(0.0, 1 - targets * scores) ** 2 / 2, axis=-1)

    def gradient(self, scores, targets):
        return -targets * np.maximum(0.0, 1 - targets * scores)


@dataclass(frozen=True)
class MarginHinge(SquaredHinge):
    """The same with its margin as the statistic."""

    name: ClassVar[str] = "squared hinge of the margin"
    lipschitz: ClassVar[float] = 1.0

    def statistic(self, scores, targets):
        return (targets * scores)[..., 0]

    def largest_gradient(self, low, high, n_scores):
        return np.maximum(0.0, 1 - low)


def bare(loss):
    """A subclass of `Loss` that has only what a loss must have: the additive form."""

    class Bare(Loss):
        name = "bare"
        smoothness = loss.smoothness

        def value(self, scores, targets):
            return loss.value(scores, targets)

        def gradient(self, scores, targets):
            return loss.gradient(scores, targets)

    return Bare()


def logistic_gradient(z, y):
    return -y / (1 + np.exp(y * z))


def softmax_gradient(z, y):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) - y


def huber_gradient(z, y):
    r = z - y
    return np.where(np.abs(r) <= THRESHOLD, r, THRESHOLD * np.sign(r))


def squared_gradient(z, y):
    return z - y


def hinge_gradient(z, y):
    return -y * np.where(y * z < 1, 1 - y * z, 0.0)


def own_margin(z, y):
    return (y * z)[..., 0]


def softmax_margin(z, y):
    own = np.sum(z * y, axis=-1)
    return own - np.log(np.sum(np.exp(z) * (1 - y), axis=-1))


def residual(z, y):
    return (z - y)[..., 0]


class Form(NamedTuple):
    """What a certificate of the loss rests on, written out by hand."""

    statistic: Any
    lipschitz: float
    largest: Any  # of (low, high): sup |dl/dz|


def additive(gradient, smoothness):
    def norm(z, y):
        return np.sqrt(np.sum(gradient(z, y) ** 2, axis=-1))

    return Form(norm, smoothness, lambda low, high: np.maximum(high, 0.0))


def larger_end(low, high):
    return np.maximum(-low, high)


def up_to(limit, size):
    return lambda low, high: np.minimum(size(low, high), limit)


ADDITIVE_HUBER = additive(huber_gradient, 1.0)


class Case(NamedTuple):
    loss: Loss
    gradient: Any
    form: Form
    n_scores: int
    relative: bool = True  # the form knows how well a row is fitted

    @property
    def classes(self):
        return isinstance(self.loss, Logistic | Softmax | SquaredHinge)

    def additively(self):
        form = additive(self.gradient, self.loss.smoothness)
        return self._replace(loss=bare(self.loss), form=form, relative=False)


CASES = {
    "logistic": Case(
        Logistic(),
        logistic_gradient,
        Form(own_margin, 1.0, lambda low, high: 1 / (1 + np.exp(low))),
        1,
    ),
    "softmax": Case(
        Softmax(),
        softmax_gradient,
        Form(softmax_margin, np.sqrt(2), lambda low, high: np.sqrt(2) / (1 + np.exp(low))),
        3,
    ),
    "huber": Case(
        Huber(THRESHOLD), huber_gradient, Form(residual, 1.0, up_to(THRESHOLD, larger_end)), 1
    ),
    "huber of two": Case(
        Huber(THRESHOLD),
        huber_gradient,
        ADDITIVE_HUBER._replace(largest=up_to(THRESHOLD * np.sqrt(2), ADDITIVE_HUBER.largest)),
        2,
        relative=False,
    ),
    "squared": Case(Squared(), squared_gradient, Form(residual, 1.0, larger_end), 1),
    "squared of two": Case(
        Squared(), squared_gradient, additive(squared_gradient, 1.0), 2, relative=False
    ),
    "hinge": Case(
        MarginHinge(),
        hinge_gradient,
        Form(own_margin, 1.0, lambda low, high: np.maximum(0.0, 1 - low)),
        1,
    ),
    "hinge, additive": Case(
        SquaredHinge(), hinge_gradient, additive(hinge_gradient, 1.0), 1, relative=False
    ),
}
FORMS = CASES | {f"bare {name}": case.additively() for name, case in CASES.items()}
CLASSIFYING = {"logistic", "softmax", "hinge", "hinge, additive"}


def problem_for(name, n=24, p=3, seed=5):
    """Features, what `fit` takes as y, and the targets that the loss sees."""
    case, rng = CASES[name.removeprefix("bare ")], np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.linspace(0.3, 1.5, n)[:, None]
    scores = X @ rng.normal(size=(p, case.n_scores)) + 0.5 * rng.normal(size=(n, case.n_scores))
    if not case.classes:
        return X, scores[:, 0] if case.n_scores == 1 else scores, scores
    if case.n_scores == 1:
        labels = (scores[:, 0] > 0).astype(int)
        return X, labels, 2.0 * labels[:, None] - 1
    labels = scores.argmax(axis=1)
    assert len(set(labels)) == 3
    return X, labels, np.eye(3)[labels]


def model_for(name, **options):
    """An unfitted estimator with the loss of this name."""
    base = SmoothClassifier if name.removeprefix("bare ") in CLASSIFYING else SmoothRegressor

    class Own(base):
        def make_loss(self, n_outputs):
            return FORMS[name].loss

    return Own(**options)


def step(theta, X, Y, rows, gradient, alpha, eta):
    """theta - eta grad f on `rows`; theta may be one chain (p x C) or many (R x p x C)."""
    x, y = X[rows], Y[rows]
    return theta - eta * (x.T @ gradient(x @ theta, y) + alpha * theta)


def turn(k, batch_size, live):
    """The rows of step k that are left."""
    M = -(-len(live) // batch_size)
    rows = np.arange(len(live))[(k % M) * batch_size :][:batch_size]
    return rows[live[rows]]


def walk(theta, X, Y, gradient, alpha, eta, segments, normal, batch_size=None, live=None, first=0):
    """All iterates theta_0, ..., theta_N of a chain whose first step is number `first`."""
    live = np.ones(len(X), dtype=bool) if live is None else live
    path, k = [theta], first
    for steps, noise in segments:
        for _ in range(steps):
            rows = turn(k, batch_size or len(X), live)
            theta = step(theta, X, Y, rows, gradient, alpha, eta)
            theta = theta + np.sqrt(2 * eta) * noise * normal(theta.shape)
            path.append(theta)
            k += 1
    return path


def statistics_along(path, X, Y, statistic):
    """R x n x N: the statistic of every row at every iterate but the last."""
    return np.stack([statistic(X @ theta, Y) for theta in path[:-1]], axis=-1)


def gradients_along(path, X, Y, gradient, eta):
    """eta |grad l_i(theta_k)|, in the same shape."""
    norms = np.linalg.norm(X, axis=1)[:, None]
    size = statistics_along(path, X, Y, lambda z, y: np.linalg.norm(gradient(z, y), axis=-1))
    return eta * norms * size


def chains(name, n_chains, segments, eta, *, alpha, seed=0, batch_size=None, live=None):
    """X with its ones, the targets, and the iterates of many fresh chains from zero."""
    case, (X, _, Y) = FORMS[name], problem_for(name)
    X, rng = with_ones(X), np.random.default_rng(seed)
    start = np.zeros((n_chains, X.shape[1], case.n_scores))
    run = (case.gradient, alpha, eta, segments, rng.standard_normal, batch_size, live)
    return X, Y, walk(start, X, Y, *run)
