"""Newton-step removal with objective perturbation [Guo et al. 2020; PILU, app. Newton step].

Learning minimises L_b = sum_j |x_j'theta - y_j|^2 / 2 + n lambda |theta|^2 / 2 + <b, theta> with
n lambda = alpha and b ~ N(0, sigma^2 I); removing R rows, with their share of the regulariser, is

    theta^- = theta + H'^{-1} (R lambda theta + X_f'(X_f theta - Y_f)),
    H' = X'X - X_f'X_f + (n - R) lambda I.

For ridge the step is exact: the retained gradient at theta^- is that of learning at theta,

    r = -M^T (B - b) after T steps from zero,  M = 1 - eta A,  and 0 at the minimiser.

So theta^- is the minimiser for the retained rows and the perturbation w = b - r. Against that for
a fresh b, the log of the density ratio is a quadratic in g = b / sigma. Its mean and variance bound
its tail (docs/baselines.md, "Newton step"): with q the eigenvalues of M^T,

    epsilon = KL + sqrt(2 log(1/delta) V)
    KL = |M^T B|^2 / 2 sigma^2 + d sum (-log(1 - q) - q + q^2 / 2)
    V  = |(1 - M^T) M^T B|^2 / sigma^2 + d/2 sum (q (2 - q))^2.

Guo's conversion, epsilon' / sigma sqrt(2 log(1.5/delta)) for |r| <= epsilon', is for a residual
that does not depend on b and for small epsilon. With a measured residual instead of a bound it is
the paper's practice, but no proof. Other losses than ridge: `newton_smooth.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from pilu._checks import (
    check_choice,
    check_flag,
    check_integer,
    check_probability,
    check_real,
    complaint,
)
from pilu.accounting.gdp import delta_from_mu
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, titled
from pilu.baselines.newton_smooth import MEASURED, learn_smooth, measured_epsilon
from pilu.baselines.objective import ClosedForms, check_conditioning, descended
from pilu.chains.predictions import Predictions
from pilu.exceptions import WrongInput
from pilu.ridge.spectral import decay, drift

Array = NDArray[np.float64]

_SIGMA_GUO = 0.1  # the paper's
HORIZONS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)  # of the paper's table

_UP = 1 + 1e-9
_VISIBLE = 1e-6  # a residual, in units of the perturbation, that is more than rounding
_RESIDUALS = 4.0  # times the measured residual is charged


@dataclass(frozen=True)
class NewtonStep(Method):
    """One Newton correction for each request.

    Parameters
    ----------
    perturbation : float > 0, default=0.1
        sigma_Guo, the deviation of the linear term. Other losses than ridge have one for "measured"
        only; "bound" certifies them by noise on the output, as much as the target needs.
    converged : bool, default=True
        True learns the exact minimiser, False T gradient steps.
    accounting : {"bound", "measured"}, default="bound"
        "bound" holds with high probability over the perturbation and is certified. "measured"
        turns the measured residual into an epsilon as the paper does, and is not certified. At the
        minimiser of ridge the residual is rounding: epsilon is 0, and delta covers the rounding.
    """

    perturbation: float = _SIGMA_GUO
    converged: bool = True
    accounting: str = "bound"

    def __post_init__(self) -> None:
        check_real("perturbation", self.perturbation, above=0.0)
        check_choice("accounting", self.accounting, ("bound", "measured"))
        check_flag("converged", self.converged)

    @property
    def name(self) -> str:
        """Newton step, with its start and its accounting."""
        sigma = "" if self.perturbation == _SIGMA_GUO else f"perturbation {self.perturbation:g}"
        start = ["" if self.accounting == "bound" else self.accounting]
        if not self.converged:
            start = ["T steps", self.accounting]
        return titled("Newton step", *start, sigma)

    def fit(self, task: Task) -> Learned:
        """The minimiser of the perturbed objective, or T steps towards it."""
        forms = task.closed_forms
        if forms is None:
            return self._fit_smooth(task)
        spectrum, sigma = forms.spectrum, self.perturbation
        b = sigma * task.gaussian(0).normal(task.shape)
        pull = spectrum.cross - spectrum.basis.T @ b
        if self.converged:
            q, theta = np.zeros(len(pull)), forms.solve(pull)
        else:
            task.check_short_steps(self.name)
            q = decay(spectrum.eigenvalues, task.step_size, task.n_steps)
            theta = descended(spectrum, pull, task.step_size, task.n_steps)

        def respond(rows: Rows) -> Answer:
            removal = _Removal(forms, rows)
            left = removal.step(theta)
            residual = removal.residual(left, b)
            epsilon, delta, certified, guarantee = self._claim(task, residual)

            def predictions(points: Array) -> Predictions:
                seen = removal.solve(points.T)
                mean = removal.cross - spectrum.basis @ (q[:, None] * spectrum.cross)
                spread = (1 - q)[:, None] * (spectrum.basis.T @ seen)
                return Predictions(seen.T @ mean, sigma**2 * np.sum(np.square(spread), axis=0))

            return Answer(
                left,
                epsilon,
                delta,
                certified,
                guarantee,
                rows_touched=len(rows),
                noise=sigma,
                predictions=predictions,
                details=lambda: {"residual": residual},
            )

        return Learned(task, theta, respond)

    def _fit_smooth(self, task: Task) -> Learned:
        if self.accounting == "measured":
            return learn_smooth(task, self.perturbation, converged=self.converged)
        if self.perturbation != _SIGMA_GUO:
            raise complaint(
                "perturbation",
                f"left at {_SIGMA_GUO} with accounting='bound' and the {task.loss.name} loss",
                self.perturbation,
                "It is replaced by noise on the output, as much as epsilon needs; "
                "accounting='measured' perturbs the objective, without a certificate.",
            )
        return learn_smooth(task, 0.0, converged=self.converged)

    def _claim(self, task: Task, residual: float) -> tuple[float, float, bool, str]:
        if self.converged:
            if residual > _VISIBLE * self.perturbation:
                raise WrongInput(
                    f"perturbation must be well above the rounding of the gradient, "
                    f"{residual:.2g}, got perturbation={self.perturbation}. Use a larger one, or "
                    "smaller units."
                )
            # The residual is rounding, as if the perturbation were shifted by it. It is measured in
            # doubles too, hence the factor.
            delta = float(delta_from_mu(_RESIDUALS * residual / self.perturbation, 0.0))
            same = "the law of the perturbed minimiser without the rows, a rounding shift charged"
            return 0.0, delta, True, same
        if self.accounting == "measured":
            epsilon = measured_epsilon(residual, self.perturbation, task.delta)
            return epsilon, task.delta, False, MEASURED
        epsilon = certified_epsilon(task, self.perturbation)
        if math.isinf(epsilon):
            return epsilon, task.delta, False, "none: a direction has not been learned at all"
        against = "against the perturbed minimiser without the rows, in this direction"
        return epsilon, task.delta, True, against


class _Removal:
    """A Newton step on the retained Hessian."""

    def __init__(self, forms: ClosedForms, rows: Rows) -> None:
        X, Y, alpha = forms.X[rows], forms.Y[rows], forms.alpha
        self._X, self._Y = X, Y
        self._share = len(rows) * alpha / len(forms.X)  # the rows' part of the regulariser
        gram, cross = forms.statistics.gram, forms.statistics.cross
        self._H, self.cross = gram - X.T @ X, cross - X.T @ Y
        np.fill_diagonal(self._H, self._H.diagonal() + (alpha - self._share))
        try:
            self._factor = scipy.linalg.cho_factor(self._H)
            # The rounding is that of X'X, even if most of it was subtracted.
            norm = float(np.linalg.norm(gram, 1)) + alpha
            reciprocal = scipy.linalg.lapack.dpocon(self._factor[0], norm)[0]
        except np.linalg.LinAlgError:
            reciprocal = 0.0
        condition = 1 / reciprocal if reciprocal > 0 else math.inf
        check_conditioning(condition, len(self._H), alpha)

    def solve(self, right: Array) -> Array:
        """H'^{-1} times a matrix."""
        return np.asarray(scipy.linalg.cho_solve(self._factor, right))

    def step(self, theta: Array) -> Array:
        """theta^-."""
        pull = self._share * theta + self._X.T @ (self._X @ theta - self._Y)
        return theta + self.solve(pull)

    def residual(self, theta: Array, b: Array) -> float:
        """|grad L_b(theta; D')|."""
        return float(np.linalg.norm(self._H @ theta - self.cross + b))


def certified_epsilon(task: Task, sigma: float) -> float:
    """epsilon at delta of T steps and a Newton step, against the retained minimiser.

    The same for every request.
    """
    spectrum = task.need_closed_forms("the bound of the Newton step").spectrum
    eta, T, d = task.step_size, task.n_steps, task.Y.shape[1]
    # Eigenvalues are taken as small as their rounding allows, which means less learning. The
    # rounding of the residual is a shift too, of a few eps |X| |Y| p at most.
    rounding = task.eigenvalue_rounding
    a = np.maximum(spectrum.eigenvalues - rounding * spectrum.largest, task.alpha)
    q, moved = decay(a, eta, T), np.minimum(a * drift(a, eta, T), 1.0)
    floor = rounding * float(np.linalg.norm(task.X) * np.linalg.norm(task.Y))
    pull = (np.linalg.norm(spectrum.cross, axis=1) + floor) / sigma
    if not (moved > 0).all():  # a direction that has not moved distinguishes the runs
        return math.inf
    shift = q * pull + floor / sigma
    mean = float(np.sum(np.square(shift))) / 2 + d * float(np.sum(_shrinkage(q, moved)))
    variance = float(np.sum(np.square(moved * q * pull + floor / sigma)))
    variance += d / 2 * float(np.sum(np.square(q * (1 + moved))))
    return float((mean + math.sqrt(2 * math.log(1 / task.delta) * variance)) * _UP)


def _shrinkage(q: Array, moved: Array) -> Array:
    """-log(1 - q) - q + q^2/2, where `moved` is 1 - q; q^2 (1 + q/3 + ...) for small q."""
    small = q < 1e-3
    series = np.square(q) * (1 + q / 3 + np.square(q))  # the terms left out are below q^4
    return np.where(small, series, -np.log(moved) - q + np.square(q) / 2)


def residual_bound(task: Task, sigma: float, tail: float) -> float:
    """The paper's bound on the residual after T steps, which fails with probability `tail`.

    L (1 - eta m)^T (|X'Y| + sigma (sqrt(pd) + sqrt(2 log(1/tail)))) / m with m = alpha. The factor
    L / m is not needed: |r| = |M^T (B - b)| has the rest as a bound.
    """
    check_probability("tail", tail)
    task.check_short_steps("the paper's bound")
    check_real("alpha", task.alpha, above=0.0)
    cross = task.need_closed_forms("the paper's bound").statistics.cross
    contracted = float(decay(np.array(task.alpha), task.step_size, task.n_steps))
    # |b| <= sigma (sqrt(pd) + sqrt(2 log(1/tail))) except with probability `tail`
    b = sigma * (math.sqrt(math.prod(task.shape)) + math.sqrt(2 * math.log(1 / tail))) * _UP
    total = float(np.linalg.norm(cross)) + b
    return float(task.largest * contracted * total / task.alpha * _UP)


@dataclass(frozen=True, eq=False)
class ResidualTable:
    """Retained gradient residuals after the Newton step, by the learning's number of steps."""

    horizons: tuple[int, ...]
    unperturbed: Array
    perturbed: Array
    perturbation: float

    def __str__(self) -> str:
        lines = [f"{'T':>8}  {'no perturbation':>16}  {f'sigma = {self.perturbation:g}':>16}"]
        for T, plain, noisy in zip(self.horizons, self.unperturbed, self.perturbed, strict=True):
            lines.append(f"{T:>8}  {plain:>16.6g}  {noisy:>16.6g}")
        return "\n".join(lines)


def residual_table(
    task: Task,
    rows: int | Sequence[int],
    *,
    perturbation: float = _SIGMA_GUO,
    horizons: Sequence[int] = HORIZONS,
) -> ResidualTable:
    """|grad L_b(theta_T^-; D')| for every T, without and with a perturbation [PILU, Table 3].

    Only T changes from line to line; rows, step size and b are the same.
    """
    check_real("perturbation", perturbation, above=0.0)
    forms = task.need_closed_forms("the residual table")
    spectrum, removal = forms.spectrum, _Removal(forms, task.rows(rows))
    b = perturbation * task.gaussian(0).normal(task.shape)
    residuals = []
    for T in horizons:
        check_integer("horizons", T, least=1)
        for term in (np.zeros_like(b), b):
            pull = spectrum.cross - spectrum.basis.T @ term
            theta = descended(spectrum, pull, task.step_size, T)
            residuals.append(removal.residual(removal.step(theta), term))
    unperturbed, perturbed = np.array(residuals).reshape(-1, 2).T
    return ResidualTable(tuple(horizons), unperturbed, perturbed, perturbation)
