"""The laws of a refit's releases with and without some rows, in 50 digits, without pilu.

For each output, the minimiser plus noise whose shape is that of a bound on the curvature:

    N(theta*, s^2 A^-1),     A = kappa sum_i w_i z_i z_i' + alpha D,     z_i = (x_i, 1)

D is the identity, without the intercept if it has no penalty (and over the square of
`intercept_scaling` if it has one). What is given is not computed anew from the rows that are left:
the columns x_i, alpha, s and kappa. The penalty of Poisson, gamma and Tweedie regression is `alpha`
times the sum of all weights; that product is given.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf
from sklearn.base import clone

from oracles.exposures import DIGITS, Array, Law, Pair, epsilon_of, joined, whitened
from refit.minimisers import Huber, minimiser, row_weights, targets

SQUARES = ("Ridge", "RidgeClassifier")
TWEEDIE = {"PoissonRegressor": 1.0, "GammaRegressor": 2.0, "TweedieRegressor": None}


class Fit(NamedTuple):
    """A head (`Huber` for pilu's HuberRidge), its columns, targets and weights."""

    head: Any
    X: Array
    y: Array
    weights: Array | None = None
    given: Any = None  # the penalty of all rows, where it depends on their weights (mpf)

    @property
    def name(self) -> str:
        return type(self.head).__name__

    @property
    def penalised_intercept(self) -> bool:
        """Whether liblinear's objective is meant."""
        return self.name == "LinearSVC" or getattr(self.head, "solver", None) == "liblinear"

    def without(self, gone: Any) -> "Fit | None":
        """The fit of the other rows with the same penalty; None if a class is gone."""
        left = np.ones(len(self.X), dtype=bool)
        left[np.asarray(gone)] = False
        if hasattr(self.head, "class_weight") and len(np.unique(self.y[left])) < len(
            np.unique(self.y)
        ):
            return None
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        head, given = self.head, None
        if self.name in TWEEDIE:
            with mp.workdps(DIGITS):
                given = self.penalty
                total = mp.fsum(map(mpf, weights[left].tolist()))
                head = clone(head).set_params(alpha=float(given / total))
        return Fit(head, self.X[left], self.y[left], weights[left], given)

    @property
    def penalty(self) -> Any:
        """`alpha` times the sum of weights, unless it is given."""
        if self.given is not None:
            return self.given
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        return mpf(float(self.head.alpha)) * mp.fsum(map(mpf, weights.tolist()))


def tweedie_kappa(fit: Fit) -> float:
    """The power of two nearest to (mean of y)^(2 - power), on a scale of logarithms."""
    power = TWEEDIE[fit.name] or float(fit.head.power)
    mean = np.average(fit.y, weights=fit.weights)
    return 2.0 ** round(math.log2(mean ** (2 - power)))


def given_kappa(fit: Fit) -> float:
    """The bound on a row's curvature that shapes the noise."""
    if fit.name in TWEEDIE:
        return tweedie_kappa(fit)
    if fit.name == "LogisticRegression":
        return 0.25 if len(np.unique(fit.y)) == 2 else 0.5
    return {"Ridge": 1.0, "RidgeClassifier": 1.0, "Huber": 1.0, "LinearSVC": 2.0}[fit.name]


def penalty_matrices(fit: Fit) -> list[Any]:
    """alpha D of each output, or one that all outputs share."""
    head, q = fit.head, fit.X.shape[1]
    outputs = len(targets(head, fit.y))
    if fit.name in ("LogisticRegression", "LinearSVC"):
        alphas = [1 / mpf(float(head.C))]
    elif fit.name in TWEEDIE:
        alphas = [fit.penalty]
    else:
        alphas = [mpf(float(alpha)) for alpha in np.ravel(head.alpha)]
    if len(alphas) == 1 and fit.name == "LinearSVC" and outputs > 1:
        alphas *= outputs  # class weights differ by output
    matrices = []
    for alpha in alphas:
        diagonal = [alpha] * q
        if head.fit_intercept:
            scaling = mpf(float(getattr(head, "intercept_scaling", 1)))
            diagonal.append(alpha / scaling**2 if fit.penalised_intercept else mpf(0))
        matrices.append(mp.diag(diagonal))
    return matrices


def design(fit: Fit) -> Array:
    """The columns, and ones for the intercept."""
    return np.column_stack([fit.X, np.ones(len(fit.X))]) if fit.head.fit_intercept else fit.X


def precisions(fit: Fit, kappa: float, factor: float = 1.0) -> list[Any]:
    """A of each output, or the one that all outputs share; the factor is that of penalties."""
    with mp.workdps(DIGITS):
        F, weights = mp.matrix(design(fit).tolist()), row_weights(fit.head, fit.y, fit.weights)
        matrices = []
        for k, penalty in enumerate(penalty_matrices(fit)):
            pairs = zip(F.tolist(), weights[k].tolist(), strict=True)
            weighted = mp.matrix([[v * mpf(w) for v in row] for row, w in pairs])
            matrices.append(mpf(kappa) * (F.T * weighted) + mpf(factor) * penalty)
        return matrices


def optimum(fit: Fit) -> Any:
    """Minimisers as columns, the intercept last; squares in closed form."""
    with mp.workdps(DIGITS):
        if fit.name in SQUARES:
            F, Y = mp.matrix(design(fit).tolist()), targets(fit.head, fit.y)
            weights = row_weights(fit.head, fit.y, fit.weights)
            matrices = precisions(fit, 1.0)
            columns = []
            for k in range(len(Y)):
                pairs = zip(weights[k].tolist(), Y[k].tolist(), strict=True)
                moments = F.T * mp.matrix([mpf(w) * mpf(t) for w, t in pairs])
                columns.append(list(mp.cholesky_solve(matrices[k % len(matrices)], moments)))
            return mp.matrix(columns).T
        coef, intercept = minimiser(fit.head, fit.X, fit.y, fit.weights)
        coef = np.atleast_2d(coef)
        if fit.head.fit_intercept:
            last = np.broadcast_to(np.atleast_1d(intercept), len(coef))
            coef = np.column_stack([coef, last])
        return mp.matrix(coef.tolist()).T


def release_laws(fit: Fit, scale: float, kappa: float, factor: float = 1.0) -> list[Law]:
    """The law of the release, in independent parts."""
    theta, matrices = optimum(fit), precisions(fit, kappa, factor)
    if len(matrices) == 1:
        return [Law(theta, matrices[0], mpf(scale))]
    return [Law(theta[:, k], A, mpf(scale)) for k, A in enumerate(matrices)]


class Exposures:
    """The releases of all rows against those without some, for noise of a given scale."""

    def __init__(
        self, fit: Fit, scale: float, kappa: float | None = None, factor: float = 1.0
    ) -> None:
        self.fit, self.scale, self.factor = fit, scale, factor
        self.kappa = given_kappa(fit) if kappa is None else kappa
        self.laws = release_laws(fit, scale, self.kappa, factor)

    def pair(self, gone: Any) -> Pair | None:
        """All rows against the rows that are left; None if a class is gone."""
        left = self.fit.without(gone)
        if left is None:
            return None
        others = release_laws(left, self.scale, self.kappa, self.factor)
        return joined([whitened(P, Q) for P, Q in zip(self.laws, others, strict=True)])

    def epsilon(self, gone: Any, delta: float = 1e-5) -> float:
        """The least epsilon for delta, in both directions; infinite if a class is gone."""
        pair = self.pair(gone)
        return math.inf if pair is None else epsilon_of(pair, delta)


def standard_distance(fit: Fit, gone: Any) -> float:
    """|theta* - theta*'| in the standard coordinates of all rows (docs/refit.md)."""
    left = fit.without(gone)
    if left is None:
        return math.inf
    free = fit.head.fit_intercept and not fit.penalised_intercept
    weights = np.ones(len(fit.X)) if fit.weights is None else fit.weights
    middle = np.average(fit.X, axis=0, weights=weights) if free else np.zeros(fit.X.shape[1])
    last = float(fit.head.intercept_scaling) if fit.penalised_intercept else 1.0
    column = last / _power_of_two_above(last) if fit.penalised_intercept else 1.0
    extents = np.abs(fit.X - middle).max(axis=0)
    with mp.workdps(DIGITS):
        square = mpf(0)
        for output in (optimum(fit) - optimum(left)).T.tolist():
            coef = output[: fit.X.shape[1]]
            for change, extent in zip(coef, extents, strict=True):
                square += (change * _power_of_two_above(float(extent))) ** 2
            if fit.head.fit_intercept:
                moved = mp.fsum(mpf(float(m)) * c for m, c in zip(middle, coef, strict=True))
                square += ((output[-1] + moved) / column) ** 2
        return float(mp.sqrt(square))


def _power_of_two_above(extent: float) -> float:
    return 2.0 ** math.frexp(extent)[1] if extent > 0 else 2.0


__all__ = ["Exposures", "Fit", "Huber", "design", "given_kappa", "optimum", "standard_distance"]
