"""The minimisers of scikit-learn's linear heads to 50 digits and more, for small problems.

`objective` (in mpmath) and `minimiser` share weights and targets but no arithmetic: Newton's method
runs in the standard library's decimals, ten times as fast as mpmath without gmpy2, on derivatives
that are written out here. So finite differences of `objective` check `minimiser`.
Nothing here imports pilu.
"""

from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Decimal, getcontext, localcontext
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from sklearn.metrics import get_scorer

from refit.hostile import hostile_problems
from refit.objectives import Array, Huber, objective, row_weights, targets

__all__ = [
    "DIGITS",
    "Huber",
    "hostile_problems",
    "leave_one_out_alpha",
    "minimiser",
    "objective",
    "row_weights",
    "targets",
]

DIGITS = 120  # of the arithmetic: 50 are left where the condition is 1e60
_ROUGH = 40
_STEPS = 400


def minimiser(
    head: Any, X: Array, y: Array, sample_weight: Array | None = None
) -> tuple[Array, Array | mpf]:
    """`coef_` and `intercept_` of the exact minimiser, in scikit-learn's shapes, as mpf.

    Several classes of `LogisticRegression`: intercepts add up to zero, which is the choice of
    `newton-cholesky` and where the other solvers end; coefficients do so by themselves.
    ArithmeticError where Newton's method does not end: there is no minimiser, or not a single one.
    """
    thetas = []
    for problem in _problems(head, np.asarray(X, dtype=float), np.asarray(y), sample_weight):
        theta = np.array([Decimal(0)] * problem.size, dtype=object)
        for digits, enough in (_ROUGH, Decimal("1e-12")), (DIGITS, Decimal("1e-70")):
            with localcontext(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN):
                theta, done = _newton(problem, theta, enough)
        if not (done and _curved(head, problem, theta)):
            raise ArithmeticError(f"{head} has no single minimiser on these rows, or it is too far")
        thetas.extend(theta.reshape(-1, problem.features.shape[1]))
    with mp.workdps(DIGITS):
        values = np.array([[mpf(str(number)) for number in theta] for theta in thetas])
    return _fitted_shapes(head, values, np.ndim(y))


def _curved(head: Any, problem: Any, theta: Array) -> bool:
    """Huber's loss is flat along the intercept unless a row lies within the width."""
    if not (isinstance(head, Huber) and head.fit_intercept):
        return True
    return bool((abs(problem.features @ theta - problem.target) < Decimal(head.width)).any())


def _fitted_shapes(head: Any, values: Array, y_dimensions: int) -> tuple[Array, Array | mpf]:
    name, K = type(head).__name__, len(values)
    coef, intercept = (values[:, :-1], values[:, -1]) if head.fit_intercept else (values, mpf(0))
    if name not in ("LogisticRegression", "LinearSVC") and K == 1:
        coef = coef[0]
        if head.fit_intercept and name != "RidgeClassifier" and y_dimensions == 1:
            intercept = intercept[0]
    if name == "LogisticRegression" and head.solver != "liblinear" and not head.fit_intercept:
        intercept = np.array([mpf(0)] * K)
    return coef, intercept


# The minimiser, in decimals ------------------------------------------------------------------

_ln = np.frompyfunc(Decimal.ln, 1, 1)
_decimals = np.frompyfunc(lambda number: Decimal(float(number)), 1, 1)


def _squared(s: Array, y: Array) -> tuple[Array, Array, Array]:
    return (s - y) ** 2 / 2, s - y, 0 * s + 1


def _logistic(s: Array, y: Array) -> tuple[Array, Array, Array]:
    far = np.exp(-abs(s))  # at most 1
    wrong = np.where(s * y > 0, far, 1 + 0 * s) / (1 + far)
    return _ln(1 + far) + np.maximum(-s * y, 0 * s), -y * wrong, far / (1 + far) ** 2


def _squared_hinge(s: Array, y: Array) -> tuple[Array, Array, Array]:
    short = np.maximum(1 - s * y, 0 * s)
    return short**2, -2 * y * short, 2 * _decimals(short > 0)


def _huber(width: Decimal) -> Callable[[Array, Array], tuple[Array, Array, Array]]:
    def loss(s: Array, y: Array) -> tuple[Array, Array, Array]:
        r = s - y
        inside = abs(r) <= width
        value = np.where(inside, r**2 / 2, width * abs(r) - width**2 / 2)
        first = np.where(inside, r, np.where(r > 0, width, -width))
        # Without a row inside there is no curvature along the intercept; a parabola that lies above
        # the loss and touches it has first/r.
        return value, first, _decimals(inside) if inside.any() else first / r

    return loss


def _tweedie(power: Decimal) -> Callable[[Array, Array], tuple[Array, Array, Array]]:
    def loss(s: Array, y: Array) -> tuple[Array, Array, Array]:
        mean, per_mean = np.exp((2 - power) * s), y * np.exp((1 - power) * s)
        first = mean - per_mean
        if power == 1:
            return mean - y * s, first, mean
        if power == 2:
            return s + per_mean, first, per_mean
        value = mean / (2 - power) - per_mean / (1 - power)
        return value, first, (2 - power) * mean - (1 - power) * per_mean

    return loss


class _OneOutput(NamedTuple):
    """sum_j weights_j loss(features_j'theta, target_j) + 1/2 sum_k penalty_k theta_k^2."""

    loss: Callable[[Array, Array], tuple[Array, Array, Array]]
    features: Array
    target: Array
    weights: Array
    penalty: Array

    @property
    def size(self) -> int:
        return len(self.penalty)

    def at(self, theta: Array) -> tuple[Decimal, Array, Array]:
        value, first, second = self.loss(self.features @ theta, self.target)
        gradient = self.features.T @ (self.weights * first) + self.penalty * theta
        hessian = (self.features.T * (self.weights * second)) @ self.features
        hessian[np.diag_indices(self.size)] += self.penalty
        return self.weights @ value + self.penalty @ theta**2 / 2, gradient, hessian


class _Softmax(NamedTuple):
    """The same with a theta for each class, and half of the square of the intercepts' sum."""

    features: Array
    target: Array
    weights: Array
    penalty: Array
    fit_intercept: bool

    @property
    def size(self) -> int:
        return len(self.target) * len(self.penalty)

    def at(self, theta: Array) -> tuple[Decimal, Array, Array]:
        K, q, F = len(self.target), len(self.penalty), self.features
        theta = theta.reshape(K, q)
        scores = theta @ F.T
        odds = np.exp(scores - scores.max(axis=0))
        share = odds / odds.sum(axis=0)
        losses = _ln(odds.sum(axis=0)) + scores.max(axis=0) - (self.target * scores).sum(axis=0)
        value = self.weights @ losses + (self.penalty * theta**2).sum() / 2
        gradient = (self.weights * (share - self.target)) @ F + self.penalty * theta
        hessian = np.empty((K, q, K, q), dtype=object)
        for k in range(K):
            for m in range(k + 1):
                curvature = self.weights * share[k] * ((k == m) - share[m])
                block = (F.T * curvature) @ F
                if k == m:
                    block[np.diag_indices(q)] += self.penalty
                hessian[k, :, m], hessian[m, :, k] = block, block
        if self.fit_intercept:
            value += theta[:, -1].sum() ** 2 / 2
            gradient[:, -1] += theta[:, -1].sum()
            hessian[:, -1, :, -1] += 1
        return value, gradient.ravel(), hessian.reshape(K * q, K * q)


def _problems(head: Any, X: Array, y: Array, sample_weight: Array | None) -> Iterator[Any]:
    name = type(head).__name__
    weights, Y = row_weights(head, y, sample_weight), targets(head, y)
    scaled = name == "LinearSVC" or getattr(head, "solver", None) == "liblinear"
    F = np.column_stack([X, np.ones(len(X))]) if head.fit_intercept else X
    with localcontext(prec=DIGITS):
        if name in ("LogisticRegression", "LinearSVC"):
            penalties = [1 / Decimal(float(head.C))] * len(Y)
        elif name in ("PoissonRegressor", "GammaRegressor", "TweedieRegressor"):
            penalties = [Decimal(float(head.alpha)) * _decimals(weights[0]).sum()]
        else:
            penalties = list(_decimals(np.broadcast_to(head.alpha, len(Y))))
        losses: dict[str, Callable[[], Any]] = {
            "Ridge": lambda: _squared,
            "RidgeClassifier": lambda: _squared,
            "LogisticRegression": lambda: _logistic,
            "LinearSVC": lambda: _squared_hinge,
            "PoissonRegressor": lambda: _tweedie(Decimal(1)),
            "GammaRegressor": lambda: _tweedie(Decimal(2)),
            "TweedieRegressor": lambda: _tweedie(Decimal(float(head.power))),
            "Huber": lambda: _huber(Decimal(float(head.width))),
        }
        _refuse(head, Y, losses)
        for k, penalty in enumerate(penalties):
            rows = weights[k] > 0
            ridge = np.array([penalty] * F.shape[1], dtype=object)
            if head.fit_intercept:
                ridge[-1] = penalty / Decimal(float(head.intercept_scaling)) ** 2 if scaled else 0
            features, w = _decimals(F[rows]), _decimals(weights[k][rows])
            if name == "LogisticRegression" and len(Y) > 1:
                yield _Softmax(features, _decimals(Y[:, rows]), w, ridge, head.fit_intercept)
                return
            yield _OneOutput(losses[name](), features, _decimals(Y[k][rows]), w, ridge)


def _refuse(head: Any, Y: Array, known: dict[str, Any]) -> None:
    """What has no minimiser here: other heads, and other penalties, losses and links."""
    unlike = {
        "positive": True,
        "loss": "hinge",
        "multi_class": "crammer_singer",
        "link": "identity",
    }
    if type(head).__name__ not in known:
        raise TypeError(f"head must be one of {', '.join(known)}, got {type(head).__name__}")
    if getattr(head, "power", 1) < 1 or getattr(head, "power", 1) > 2:
        raise ValueError(f"power must be in [1, 2], got {head.power}")
    if getattr(head, "solver", "") == "liblinear" and len(Y) > 1:
        raise ValueError("liblinear takes two classes only")
    if getattr(head, "l1_ratio", 0) != 0 or getattr(head, "C", 1) == np.inf:
        raise ValueError(f"the penalty must be L2, got {head}")
    for name, value in unlike.items():
        if getattr(head, name, None) == value:
            raise ValueError(f"{name}={value!r} is not covered")


def _newton(problem: Any, theta: Array, enough: Decimal) -> tuple[Array, bool]:
    """Newton's method, the step halved until it pays; True where the last step was tiny."""
    rounding = _rounding()
    value, gradient, hessian = problem.at(theta)
    for _ in range(_STEPS):
        step = _solve(hessian, -gradient)
        if step is None:
            return theta, False
        last = abs(step).max() <= enough * (1 + abs(theta).max())
        slope, length = gradient @ step, Decimal(1)
        while True:
            trial = theta + length * step
            new = problem.at(trial)
            if new[0] <= value + length * slope / 10000 + rounding * abs(value):
                break
            length /= 2
        theta, (value, gradient, hessian) = trial, new
        if last:
            return theta, True
    return theta, False


def _rounding() -> Decimal:
    """What a sum of the terms here may be off by, relative to the largest, at this precision."""
    return Decimal(10) ** (15 - getcontext().prec)


def _solve(A: Array, b: Array) -> Array | None:
    """A^-1 b by Cholesky after scaling to a unit diagonal; None if a pivot is lost in rounding."""
    if min(np.diag(A)) <= 0:
        return None
    scale = 1 / np.sqrt(np.diag(A))
    A, b = A * scale * scale[:, None], b * scale
    least = _rounding()
    for j in range(len(b)):
        if A[j, j] <= least:
            return None
        ratio = A[j + 1 :, j] / A[j, j]
        A[j + 1 :, j + 1 :] -= np.multiply.outer(ratio, A[j, j + 1 :])
        b[j + 1 :] -= ratio * b[j]
    for j in reversed(range(len(b))):
        b[j] = (b[j] - (A[j, j + 1 :] * b[j + 1 :]).sum()) / A[j, j]
    return b * scale


# Alpha by leave-one-out ----------------------------------------------------------------------


def leave_one_out_alpha(
    head: Any, X: Array, y: Array, sample_weight: Array | None = None
) -> tuple[Any, Array]:
    """The alpha that RidgeCV or RidgeClassifierCV takes with cv=None, and the score of each alpha.

    By n refits for each alpha, in decimals. As in scikit-learn 1.9.1:

    - fits: the n - 1 other rows with their weights as they were (not rescaled to the sum that is
      left), the same alpha, an intercept of their own. 'balanced' class weights are those of *all*
      rows, counted without `sample_weight`, and are not computed anew without the row.
    - scoring=None: minus the mean over rows and outputs of w_i e_i^2, e_i = y_i - prediction
      without row i: divided by the number of rows and outputs, not by the sum of weights. A row
      with weight zero counts in the number. Class weights are part of w_i.
    - another scoring (metrics of `predict`): the metric of all n predictions at once with
      sample_weight = w, class weights included; unweighted if RidgeCV had no `sample_weight`.
      RidgeClassifierCV scores the argmax over outputs, and two classes have one output: then
      everything counts as right and the first alpha wins.
    - ties: the first alpha in the given order; a later one has to be better.
      `alpha_per_target=True`: the same for each output by itself.

    Scores are compared to 60 digits here and in doubles there: a closer race may end otherwise.
    """
    alphas = [float(alpha) for alpha in np.ravel(head.alphas)]
    X, Y = np.asarray(X, dtype=float), targets(head, y)
    w = row_weights(head, y, sample_weight)[0]
    F = np.column_stack([X, np.ones(len(X))]) if head.fit_intercept else X
    with localcontext(prec=60):
        features, outputs, weights = _decimals(F), _decimals(Y), _decimals(w)
        loo = np.empty((len(alphas), *Y.shape), dtype=object)
        for i in range(len(X)):
            keep = np.arange(len(X)) != i
            weighted = features[keep].T * weights[keep]
            gram, moments = weighted @ features[keep], weighted @ outputs[:, keep].T
            for a, alpha in enumerate(alphas):
                A = gram.copy()
                A[np.diag_indices(X.shape[1])] += Decimal(alpha)
                for k in range(len(Y)):
                    loo[a, k, i] = features[i] @ _solve(A, moments[:, k])
        if head.scoring is None:
            scores = -(weights * (outputs - loo) ** 2).mean(axis=2)
            if not getattr(head, "alpha_per_target", False):
                scores = scores.mean(axis=1, keepdims=True)
        else:
            scores = _metric(head, loo.astype(float), Y, None if sample_weight is None else w, w)
        best = [column.tolist().index(max(column)) for column in scores.T]
    scores = scores.astype(float)
    if getattr(head, "alpha_per_target", False) and len(Y) > 1:
        return np.array([alphas[b] for b in best]), scores
    return alphas[best[0]], scores[:, 0]


def _metric(head: Any, loo: Array, Y: Array, given: Array | None, w: Array) -> Array:
    scorer = get_scorer(head.scoring)

    def score(truth: Array, predicted: Array, weights: Array | None) -> float:
        return float(
            scorer._sign
            * scorer._score_func(truth, predicted, sample_weight=weights, **scorer._kwargs)
        )

    if hasattr(head, "class_weight"):
        rows = [[score(Y.argmax(axis=0), outputs.argmax(axis=0), w)] for outputs in loo]
    elif head.alpha_per_target:
        rows = [[score(t, o, given) for t, o in zip(Y, outputs, strict=True)] for outputs in loo]
    else:
        rows = [[score(Y.T, outputs.T, given)] for outputs in loo]
    return np.array(rows)
