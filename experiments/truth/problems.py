"""Small problems, and the laws that noisy steps on them have.

    f(theta) = sum_j l(x_j'theta, y_j) + alpha/2 |theta|^2,

with l the squared loss, half of (z - y)^2, or the logistic one, log(1 + e^(-y z)). One row is to be
forgotten. Rows are no longer than 1 and targets lie in [-1, 1], but for those of the outlier.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit

from experiments.truth.laws import Array, Gaussian


@dataclass(frozen=True, eq=False)
class Problem:
    """The data, the row that has to go, and how the methods that take steps take them.

    `noise` is sigma of the learning steps theta <- theta - eta grad f + sqrt(2 eta) sigma N(0, I).
    """

    name: str
    setting: str
    X: Array
    y: Array
    row: int
    loss: str = "squared"
    alpha: float = 1.0
    n_steps: int = 200
    n_unlearn_steps: int = 10
    noise: float = 0.02
    delta: float = 1e-5

    @property
    def n_rows(self) -> int:
        """n."""
        return len(self.X)

    @property
    def n_parameters(self) -> int:
        """p."""
        return self.X.shape[1]

    @cached_property
    def left(self) -> "Problem":
        """The same without the row."""
        keep = np.arange(self.n_rows) != self.row
        return replace(self, X=self.X[keep], y=self.y[keep], row=-1)

    @property
    def curvature(self) -> float:
        """An upper bound on l''."""
        return 1.0 if self.loss == "squared" else 0.25

    @property
    def largest(self) -> float:
        """L, an upper bound on the eigenvalues of the Hessian."""
        return self.alpha + self.curvature * float(np.linalg.norm(self.X, 2)) ** 2

    @property
    def step_size(self) -> float:
        """eta = 1 / L."""
        return 1 / self.largest

    def slopes(self, scores: Array) -> Array:
        """dl/dz of every row; scores are n or n x m."""
        y = self.y.reshape(-1, *[1] * (np.ndim(scores) - 1))
        return scores - y if self.loss == "squared" else -y * expit(-y * scores)

    def curvatures(self, scores: Array) -> Array:
        """d2l/dz2 of every row."""
        if self.loss == "squared":
            return np.ones_like(scores)
        return expit(scores) * expit(-scores)

    def gradient(self, theta: Array) -> Array:
        """grad f at a p-vector, or at the columns of p x m."""
        return self.X.T @ self.slopes(self.X @ theta) + self.alpha * theta

    def hessian(self, theta: Array) -> Array:
        """The second derivatives of f at a p-vector."""
        weights = self.curvatures(self.X @ theta)
        return (self.X.T * weights) @ self.X + self.alpha * np.eye(self.n_parameters)

    def minimiser(self, tilt: Array | float = 0.0) -> Array:
        """The minimiser of f + <tilt, theta>, by Newton's method with halved steps."""
        theta = np.zeros(self.n_parameters)
        for _ in range(200):
            gradient = self.gradient(theta) + tilt
            step = np.linalg.solve(self.hessian(theta), gradient)
            size = 1.0
            while np.linalg.norm(self.gradient(theta - size * step) + tilt) > np.linalg.norm(
                gradient
            ):
                size /= 2
                if size < 1e-6:
                    return theta
            theta = theta - size * step
        return theta

    @property
    def cross(self) -> Array:
        """B = X'y of ridge."""
        return self.X.T @ self.y

    def after_steps(
        self, start: Gaussian | None, n_steps: int, noise: float, step_size: float
    ) -> Gaussian:
        """The law of ridge's noisy steps, from a law or, for None, from zero.

        With M = I - eta A in the eigenbasis of A, k steps are theta -> M^k theta + sum_j<k M^j
        (eta B + sqrt(2 eta) sigma xi_j). The sums are geometric.
        """
        p = self.n_parameters
        start = start or Gaussian(np.zeros(p), np.zeros((p, p)))
        a, U = np.linalg.eigh(self.hessian(np.zeros(p)))
        m = 1 - step_size * a
        drift = (1 - m**n_steps) / a
        spread = 2 * step_size * noise**2 * (1 - m ** (2 * n_steps)) / (1 - m**2)
        return start.then(
            (U * m**n_steps) @ U.T, (U * drift) @ U.T @ self.cross, (U * spread) @ U.T
        )

    def stationary(self, noise: float, step_size: float) -> Gaussian:
        """The law that ridge's noisy steps converge to."""
        a, U = np.linalg.eigh(self.hessian(np.zeros(self.n_parameters)))
        spread = 2 * step_size * noise**2 / (1 - (1 - step_size * a) ** 2)
        return Gaussian((U / a) @ U.T @ self.cross, (U * spread) @ U.T)


def _rows(rng: np.random.Generator, n: int, p: int) -> Array:
    """Directions of any kind, lengths from 0.5 to 1."""
    X = rng.standard_normal((n, p))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(0.5, 1, (n, 1))


def _ridge(setting: str, n: int = 60, p: int = 3, seed: int = 0, **options: object) -> Problem:
    rng = np.random.default_rng(seed)
    X = _rows(rng, n, p)
    y = np.clip(X @ rng.uniform(-1, 1, p) + 0.2 * rng.standard_normal(n), -1, 1)
    row = int(np.argsort(np.linalg.norm(X, axis=1) * np.abs(y))[n // 2])
    return Problem("ridge", setting, X, y, row, **options)


def _outlier(problem: Problem, setting: str, length: float) -> Problem:
    """The row longer, with a target that the other rows contradict."""
    X, y = problem.X.copy(), problem.y.copy()
    X[problem.row] *= length / np.linalg.norm(X[problem.row])
    y[problem.row] = -length * np.sign(X[problem.row] @ problem.left.minimiser())
    return replace(problem, setting=setting, X=X, y=y)


def _badly_conditioned(setting: str) -> Problem:
    plain = _ridge(setting, alpha=0.05, n_steps=400)
    return replace(plain, X=plain.X * np.array([1.0, 0.3, 0.05]))


def _line(setting: str, n: int = 40, seed: int = 1, **options: object) -> Problem:
    """Logistic regression of one parameter; the row has the least likely label of all."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    y = np.where(rng.uniform(size=n) < expit(3 * X[:, 0]), 1.0, -1.0)
    row = int(np.argmin(X[:, 0] * y))
    return Problem("logistic", setting, X, y, row, loss="logistic", **{"noise": 0.1, **options})


def problems(size: str) -> tuple[Problem, ...]:
    """All problems of a size; "quick" has three."""
    plain = _ridge("plain")
    line = _line("plain")
    quick = (plain, _outlier(plain, "outlier", 3.0), line)
    if size == "quick":
        return quick
    return (
        *quick,
        _ridge("T = 5", n_steps=5),
        _ridge("T = 30", n_steps=30),
        _ridge("T = 5,000", n_steps=5000),
        _ridge("K = 1", n_unlearn_steps=1),
        _ridge("K = 200", n_unlearn_steps=200),
        _ridge("strong penalty", alpha=20.0),
        _badly_conditioned("badly conditioned"),
        _ridge("n = 200, p = 10", n=200, p=10, seed=2),
        _ridge("n = 10, p = 1", n=10, p=1, seed=3),
        _ridge("delta = 0.01", delta=0.01),
        _line("strong penalty", alpha=20.0),
        _line("weak penalty", alpha=0.1),
        _line("T = 5", n_steps=5),
        _line("K = 1", n_unlearn_steps=1),
        _line("K = 200", n_unlearn_steps=200),
        _line("n = 10", n=10, seed=2),
    )
