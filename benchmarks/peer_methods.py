"""What `benchmarks.peers` compares. Each learns when it is made, and can be asked to forget often.

Newton removal is written from

    C. Guo, T. Goldstein, A. Hannun and L. van der Maaten, Certified data removal from machine
    learning models, ICML 2020.
"""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from pilu import Forgetful
from pilu._extras import need

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

PENALTY = 1e-3  # lambda, for each row
SIGMA = 1.0  # of Guo et al.'s perturbation
DELTA = 1e-9  # of every epsilon
TOLERANCE = 1e-8  # of the gradient, for each row


class Rows(NamedTuple):
    """Rows to learn, of whom each is, and rows to test."""

    X: Array
    y: Array  # -1 or 1
    people: NDArray[Any]
    X_test: Array
    y_test: Array

    def of(self, count: int) -> Mask:
        """The rows of so many people, chosen by a fixed seed."""
        names = np.unique(self.people)
        if count >= len(names):
            raise ValueError(f"count must be below {len(names)} people, got count={count}.")
        return np.isin(self.people, np.random.default_rng(4).permutation(names)[:count])


class Answer(NamedTuple):
    """Parameters after a request, and how far they are from retraining."""

    theta: Array
    epsilon: float
    delta: float
    rests_on: str


class Peer(Protocol):
    """A model that can forget rows; asked again, it starts from what it had learned."""

    def forget(self, leaving: Mask) -> Answer: ...


def need_river() -> Any:
    """Imported before anything is timed."""
    return need("river.linear_model", for_="the comparison with peers", extra="peers")


def need_torch() -> Any:
    """The same."""
    return need("torch", for_="the comparison with peers", extra="peers")


class ScikitLearn:
    """`LogisticRegression` fitted again from zero on the rows that are left."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.rows = rows
        self.theta = self._fit(np.zeros(len(rows.X), bool))

    def _fit(self, leaving: Mask) -> Array:
        X, y = self.rows.X[~leaving], self.rows.y[~leaving]
        head = _head(len(self.rows.X), tol=TOLERANCE).fit(X, y)
        return np.asarray(head.coef_[0])

    def forget(self, leaving: Mask) -> Answer:
        """The same program on other rows."""
        return Answer(self._fit(leaving), 0.0, 0.0, "retraining itself")


class River:
    """river learns one row after the other, and cannot take one back: it learns all others anew."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.rows = rows
        self.linear = need_river()
        self.names = range(rows.X.shape[1])
        self.theta = self._learn(np.zeros(len(rows.X), bool))

    def _learn(self, leaving: Mask) -> Array:
        order = np.random.default_rng(5).permutation(np.flatnonzero(~leaving))
        model = self.linear.LogisticRegression(l2=PENALTY, intercept_lr=0.0)
        for x, label in zip(self.rows.X[order].tolist(), self.rows.y[order] > 0, strict=True):
            model.learn_one(dict(zip(self.names, x, strict=True)), bool(label))
        return np.array([model.weights[name] for name in self.names])

    def forget(self, leaving: Mask) -> Answer:
        """Learns the rows that are left, once each."""
        return Answer(self._learn(leaving), 0.0, 0.0, "learned anew")


class Torch:
    """Full-batch L-BFGS of torch in double precision, from zero."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.torch = need_torch()
        self.X, self.y = (self.torch.from_numpy(part) for part in (rows.X, rows.y))
        self.theta = self._fit(np.zeros(len(rows.X), bool))

    def _fit(self, leaving: Mask) -> Array:
        torch = self.torch
        kept = torch.from_numpy(~leaving)
        X, y, penalty = self.X[kept], self.y[kept], PENALTY * len(self.X) / (~leaving).sum()
        theta = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS(
            *([theta], 1.0, 1000),
            tolerance_grad=TOLERANCE,
            tolerance_change=1e-15,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Any:
            solver.zero_grad()
            value = torch.nn.functional.softplus(-y * (X @ theta)).mean()
            value = value + penalty / 2 * theta @ theta
            value.backward()
            return value

        solver.step(loss)
        return np.asarray(theta.detach().numpy())

    def forget(self, leaving: Mask) -> Answer:
        """The same program on other rows."""
        return Answer(self._fit(leaving), 0.0, 0.0, "retraining itself")


class Newton:
    """Guo et al.'s removal, as the paper has it.

    Learning minimises sum_j l_j + lambda n/2 |theta|^2 + <b, theta>, b ~ N(0, sigma^2 I). To remove
    m rows at once:

        theta^- = theta + H'^{-1} Delta,   Delta = m lambda theta + sum of the rows' gradients,

    with H' the Hessian of the rows that are left and their (n - m) lambda, at theta. The gradient
    that remains is bounded by gamma |X'|_2 |H'^{-1} Delta| |X' H'^{-1} Delta| with gamma = 1/4, and
    Theorem 3 turns a bound into epsilon = sqrt(2 log(1.5/delta)) bound / sigma. It asks for a bound
    that does not depend on b. This one does, through theta, so that epsilon is a claim and not
    proved (docs/truth.md). |X|_2, computed once at learning, stands for |X'|_2: it is no smaller.
    """

    def __init__(self, rows: Rows, seed: int) -> None:
        self.rows, (n, p) = rows, rows.X.shape
        self.b = np.random.default_rng(seed).normal(0.0, SIGMA, size=p)
        found = scipy.optimize.minimize(
            self._loss, np.zeros(p), jac=True, method="L-BFGS-B",
            options={"gtol": TOLERANCE * n, "ftol": 1e-15, "maxiter": 10_000},
        )  # fmt: skip
        self.theta: Array = found.x
        self.spectral_norm = math.sqrt(float(np.linalg.eigvalsh(rows.X.T @ rows.X)[-1]))

    def _loss(self, theta: Array) -> tuple[float, Array]:
        X, y, n = self.rows.X, self.rows.y, len(self.rows.X)
        margins = y * (X @ theta)
        value = np.logaddexp(0.0, -margins).sum() + PENALTY * n / 2 * theta @ theta
        gradient = -X.T @ (y * expit(-margins)) + PENALTY * n * theta + self.b
        return float(value + self.b @ theta), gradient

    def forget(self, leaving: Mask) -> Answer:
        """One Newton step, and the bound on what it leaves."""
        gone, left = self.rows.X[leaving], self.rows.X[~leaving]
        slopes = -self.rows.y[leaving] * expit(-self.rows.y[leaving] * (gone @ self.theta))
        delta = len(gone) * PENALTY * self.theta + gone.T @ slopes
        scores = left @ self.theta
        H = (left.T * (expit(scores) * expit(-scores))) @ left
        H[np.diag_indices_from(H)] += len(left) * PENALTY
        step = scipy.linalg.solve(H, delta, assume_a="pos")
        bound = 0.25 * self.spectral_norm * np.linalg.norm(step) * np.linalg.norm(left @ step)
        epsilon = math.sqrt(2 * math.log(1.5 / DELTA)) * float(bound) / SIGMA
        return Answer(self.theta + step, epsilon, DELTA, "claimed, not proved")


class Pilu:
    """`Forgetful` with its defaults: a refit, proved and with noise."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.rows = rows
        self.model = Forgetful(_head(len(rows.X)), delta=DELTA)
        self.model.fit(rows.X, rows.y, subjects=rows.people)

    def forget(self, leaving: Mask) -> Answer:
        """On a copy, so that the next request starts from the fit as well."""
        model = copy.copy(self.model)
        people = list(dict.fromkeys(self.rows.people[leaving].tolist()))
        certificate = model.unlearn(subjects=people)
        theta = np.asarray(model.coef_).ravel()
        return Answer(theta, float(certificate.epsilon), float(certificate.delta), "proved")


def _head(n: int, **options: Any) -> LogisticRegression:
    """The penalty of all rows, as a company's pipeline would have it, whoever leaves."""
    C = 1 / (PENALTY * n)
    return LogisticRegression(C=C, fit_intercept=False, max_iter=100_000, **options)


METHODS: dict[str, Callable[[Rows, int], Peer]] = {
    "scikit-learn, cold refit": ScikitLearn,
    "river, anew one by one": River,
    "Newton removal, Guo et al.": Newton,
    "torch, retraining": Torch,
    "pilu, refit": Pilu,
}
