"""What scikit-learn's linear heads minimise, in mpmath, from the source of version 1.9.1.

Nothing here imports pilu. Inputs are doubles and are taken as exact. Weights are the doubles that
scikit-learn forms (`row_weights`): class weights, and their products with `sample_weight`, are
rounded to double once; from there on everything is exact to the digits asked for. To check a solver
that forms its weights otherwise, pass them as `sample_weight` and leave `class_weight` at None.
"""

from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

Array = np.ndarray[Any, Any]


class Huber(NamedTuple):
    """sum_i w_i h(y_i - x_i'w - b) + alpha/2 |w|^2; h(r) = r^2/2, or width |r| - width^2/2 outside.

    The intercept b is not penalised. scikit-learn has no such head.
    """

    width: float = 1.0
    alpha: float = 1.0
    fit_intercept: bool = True


def targets(head: Any, y: Array) -> Array:
    """One row an output: the targets themselves, or +1 and -1 for one class against the others.

    Two classes have one row, +1 for the second; softmax has 1 and 0 and a row for each class.
    """
    y = np.asarray(y)
    if not hasattr(head, "class_weight"):
        return np.atleast_2d(y.T).astype(float)
    classes = np.unique(y)
    if len(classes) == 2:
        classes = classes[1:]
    elif isinstance(head, LogisticRegression):
        return np.array([y == c for c in classes], dtype=float)
    return np.array([np.where(y == c, 1.0, -1.0) for c in classes])


def row_weights(head: Any, y: Array, sample_weight: Array | None = None) -> Array:
    """The weight of each row (column) in each output (row), with the class weights in it.

    'balanced' counts classes with `sample_weight` in LogisticRegression and LinearSVC, and without
    in RidgeClassifier. LinearSVC with several classes weighs the class that is set against the
    others and leaves these alone.
    """
    y = np.asarray(y)
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    outputs = len(targets(head, y))
    class_weight = getattr(head, "class_weight", None)
    if class_weight is None:
        return np.tile(weights, (outputs, 1))
    classes, index = np.unique(y, return_inverse=True)
    if class_weight == "balanced":
        counted = None if type(head).__name__.startswith("RidgeClassifier") else weights
        counts = np.bincount(index, weights=counted).astype(float)
        factors = counts.sum() / (len(classes) * counts)
    else:
        factors = np.array([class_weight.get(c, 1.0) for c in classes.tolist()], dtype=float)
    if isinstance(head, LinearSVC) and outputs > 1:
        return np.array(
            [np.where(index == k, weights * factors[k], weights) for k in range(outputs)]
        )
    return np.tile(weights * factors[index], (outputs, 1))


def objective(
    head: Any,
    X: Array,
    y: Array,
    coef: Array,
    intercept: Any,
    sample_weight: Array | None = None,
) -> mpf:
    """The function that scikit-learn minimises, constants dropped as there, at 50 digits or more.

    With scores s_i = x_i'w + b, weights v_i of `row_weights` and V = sum_i v_i:

    - Ridge, RidgeClassifier: sum_i v_i (y_i - s_i)^2 + alpha |w|^2, over all outputs;
    - LogisticRegression: 1/V sum_i v_i l_i + |w|^2/(2 C V), l_i = log(1 + exp(-y_i s_i)), or for
      more than two classes log(sum_k exp(s_ik)) minus the score of the row's own class;
    - the same with liblinear: C sum_i v_i l_i + |w|^2/2 + (b/intercept_scaling)^2/2;
    - LinearSVC: C sum_i v_i max(0, 1 - y_i s_i)^2 + |w|^2/2 + (b/intercept_scaling)^2/2, over all
      outputs;
    - Poisson, gamma, Tweedie: 1/V sum_i v_i d_i + alpha/2 |w|^2, d_i half of the deviance;
    - Huber: as in its docstring.
    """
    with mp.workdps(max(mp.dps, 50)):
        weights, Y = row_weights(head, y, sample_weight), targets(head, y)
        coef = np.reshape(coef, (len(Y), -1))
        offsets = np.broadcast_to(intercept, len(Y))
        S = [
            [mp.fdot(map(mpf, map(float, x)), w) + b for x in np.asarray(X)]
            for w, b in zip(coef, offsets, strict=True)
        ]
        squares = [mp.fdot(w, w) for w in coef]
        biases = [(b / mpf(float(getattr(head, "intercept_scaling", 1)))) ** 2 for b in offsets]
        rows = [
            [(mpf(float(v)), mpf(float(t)), s) for v, t, s in zip(*row, strict=True) if v > 0]
            for row in zip(weights, Y, S, strict=True)
        ]
        total = mp.fsum(v for v, _, _ in rows[0])
        name = type(head).__name__
        if name in ("Ridge", "RidgeClassifier"):
            alphas = np.broadcast_to(head.alpha, len(Y))
            return mp.fsum(v * (t - s) ** 2 for row in rows for v, t, s in row) + mp.fsum(
                mpf(float(a)) * square for a, square in zip(alphas, squares, strict=True)
            )
        if name == "LinearSVC":
            hinges = (v * max(0, 1 - t * s) ** 2 for row in rows for v, t, s in row)
            return mpf(float(head.C)) * mp.fsum(hinges) + mp.fsum(squares + biases) / 2
        if name == "LogisticRegression":
            if len(Y) > 1:
                parts = [
                    v * mp.log(mp.fsum(mp.exp(other[i][2] - s) for other in rows))
                    for row in rows
                    for i, (v, t, s) in enumerate(row)
                    if t == 1
                ]
            else:
                parts = [v * mp.log1p(mp.exp(-t * s)) for v, t, s in rows[0]]
            C = mpf(float(head.C))
            if head.solver == "liblinear":
                return C * mp.fsum(parts) + mp.fsum(squares + biases) / 2
            return mp.fsum(parts) / total + mp.fsum(squares) / (2 * C * total)
        if name == "Huber":
            width = mpf(float(head.width))
            parts = [
                v * ((t - s) ** 2 / 2 if abs(t - s) <= width else width * (abs(t - s) - width / 2))
                for v, t, s in rows[0]
            ]
            return mp.fsum(parts) + mpf(float(head.alpha)) * squares[0] / 2
        p = mpf({"PoissonRegressor": 1, "GammaRegressor": 2}.get(name) or float(head.power))
        if p == 1:
            parts = [v * (mp.exp(s) - t * s) for v, t, s in rows[0]]
        elif p == 2:
            parts = [v * (s + t * mp.exp(-s)) for v, t, s in rows[0]]
        else:
            parts = [
                v * (mp.exp((2 - p) * s) / (2 - p) - t * mp.exp((1 - p) * s) / (1 - p))
                for v, t, s in rows[0]
            ]
        return mp.fsum(parts) / total + mpf(float(head.alpha)) * squares[0] / 2
