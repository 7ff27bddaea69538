"""How the run with some rows differs in law from the run without them, at any noise.

After the N steps of the schedule both are Gaussian. With A' = A - X_f'X_f the retained problem,

    Delta = m_N - m'_N:          Delta_{k+1} = (1 - eta A') Delta_k - eta X_f' u_k,
    C = Sigma_N - Sigma'_N = h(A) - h(A'),

u_k the residual means of the rows and h the schedule's variance as a function of the eigenvalue.
K steps with noise sigma on A' follow for both. Seen from step N they add the covariance
R = sigma^2 spread_K(A') / (1 - eta A')^{2K} to both, so the whitened difference is

    x = eig(F C F),  shift = F Delta,  F = (h(A') + R)^{-1/2},

which stays well conditioned however small sigma or (1 - eta a)^K become. With K = 0, the
parameters as they are, R = 0. C is of low rank up to
rounding: with [C, Delta] in the span of few columns U and F U = W L, all of it happens in W.

Less noise is never safer, so R is taken as small as the errors of `chains.schedule` allow: with s
what K steps leave of a direction in units of their noise, for any w > 0,

    R^-1  <=  ((1 + w) (1 + zeta)^2 s^2 + (1 + 1/w) e_K^2) / sigma^2.

docs/exact.md derives all of this.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pilu.chains.reduced import Reduced
from pilu.chains.schedule import UNIT, Schedule, StepRounding
from pilu.exceptions import BeyondPrecision

Array = NDArray[np.float64]

ROUNDING_LIMIT = 1e-8  # beyond it the laws are too narrow to be distinguished from rounding
_LARGEST_TAU = 0.01
_REACH = 20.0  # in log noise, to both sides of learning's


@dataclass(frozen=True, eq=False)
class Whitened:
    """The difference in units of the retained run's noise, within the span W."""

    scale: Array  # L: F U = W L
    core: Array  # F C F
    shift: Array  # F Delta, d columns

    def principal(self) -> tuple[Array, Array]:
        """Excesses x, and the squared shifts a^2 along their directions."""
        x, directions = np.linalg.eigh(self.core)
        return x, np.sum(np.square(directions.T @ self.shift), axis=1)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A whitened difference that is never too small, up to a stated error.

    The true laws differ from those described by at most `shift_error` in the mean and
    `covariance_error` (Frobenius) in the covariance, in units of the retained run's noise.
    """

    excesses: Array
    squared_shifts: Array
    shift_error: float
    covariance_error: float
    inflation: float = 0.0  # of the squared shifts, relative to their sum
    excess_inflation: float = 0.0  # of the excesses, in Frobenius norm


@dataclass(frozen=True, eq=False)
class ChainDifference:
    """Delta and C as they matter once K more steps follow.

    Directions are those in which the retained run is uncorrelated, now and later. For a full batch
    these are the eigenbasis of the retained problem, or of a projection of it.
    """

    n_steps: int  # K
    variances: Array  # of the retained run after the schedule, m of them
    kept: Array  # the share of each direction that K steps leave
    added: Array  # the variance that they add to it with noise 1
    reduced: Reduced
    largest: float  # variance, in units in which rounding is relative to it
    mean_rounding: float  # of Delta, which may be small because large terms cancel
    rounding: StepRounding
    is_whole: bool = True  # whether there are no other directions

    def later_variances(self, noise: float) -> Array:
        """Eigenvalues of R, never too large: what K steps add, seen from before them."""
        return noise**2 * self._later_variances

    @cached_property
    def _later_variances(self) -> Array:
        """With noise 1."""
        if self.n_steps == 0:
            return np.zeros_like(self.variances)
        left = self.kept**2 / self.added
        relative, absolute = self.rounding.of_later_steps(self.n_steps)
        # Any w is valid. This one is best where only what is left of C and Delta matters.
        sizes = self.reduced.squared_means
        sizes = sizes + np.square(self.reduced.span) @ np.abs(self.reduced.sizes)
        seen, total = float(np.sum(left * sizes)), float(np.sum(sizes))
        w = min(absolute * math.sqrt(total / seen), 1.0) if seen > 0 else 1.0
        w = max(w, UNIT)
        return np.asarray(1 / ((1 + w) * (1 + relative) ** 2 * left + (1 + 1 / w) * absolute**2))

    def total_variances(self, noise: float) -> Array:
        """Of the retained run and what follows, seen from before K steps with this noise."""
        known = self._totals.get(noise)
        if known is None:
            known = self.variances + self.later_variances(noise)
            self._totals.clear()  # only the last is asked for many times
            self._totals[noise] = known
        return known

    @cached_property
    def _totals(self) -> dict[float, Array]:
        return {}

    def total_squared_shifts(self, noises: Array) -> Array:
        """|F Delta|^2 at each noise: the sum of all squared shifts, without their directions."""
        variances = self.variances + np.square(noises)[:, None] * self._later_variances
        return np.asarray((1 / variances) @ self.reduced.squared_means)

    def least_variance(self, noise: float) -> float:
        """The least of `total_variances`, or less."""
        least = float(self.total_variances(noise).min())
        if self.is_whole:
            return least
        # In any direction h(A') is at least the last step's variance, and R K times a step's.
        last = self.rounding.schedule.segments[-1].noise
        return min(least, 2 * self.rounding.step_size * (last**2 + self.n_steps * noise**2))

    def whitened_errors(self, mean: float, covariance: float, noise: float) -> tuple[float, float]:
        """Bounds on errors of Delta and of C, in units of the retained run's noise."""
        least = self.least_variance(noise)
        return (mean / math.sqrt(least), covariance / least) if least > 0 else (math.inf, math.inf)

    def rest_errors(self, noise: float) -> tuple[float, float]:
        """What the reduction left out of Delta and of C, whitened."""
        reduced = self.reduced
        return self.whitened_errors(reduced.mean_rest, reduced.covariance_rest, noise)

    def rounding_errors(self, noise: float) -> tuple[float, float]:
        """What rounding of Delta, and of C as a sum of products, may amount to once whitened."""
        return self.whitened_errors(self.mean_rounding, UNIT * self.largest, noise)

    def whitened(self, noise: float) -> Whitened:
        """The difference that is left once K steps with this noise have followed."""
        reduced, root = self.reduced, np.sqrt(self.total_variances(noise))
        scale = np.asarray(np.linalg.qr(reduced.span / root[:, None], mode="r"))
        return Whitened(scale, (scale * reduced.sizes) @ scale.T, scale @ reduced.mean)


class View:
    """The difference before K more steps, seen in all directions; `size` is then 0.

    A projection (`ridge.krylov`) sees few directions and states what it misses.
    """

    size = 0

    def __init__(self, before: Callable[[int], ChainDifference]) -> None:
        self.before = cache(before)

    def is_guide(self, n_steps: int, noise: float) -> bool:
        """Whether it is fine enough to guess a noise near this one, or the finest there is."""
        return True

    def errors(self, n_steps: int, noise: float) -> tuple[float, float]:
        """Bounds on the errors of Delta and C as this view sees them, whitened."""
        return self.before(n_steps).rest_errors(noise)

    def enclosure(self, n_steps: int, noise: float) -> Enclosure | None:
        """The whitened difference, never too small; None where a finer view is worth its cost."""
        white = self.before(n_steps).whitened(noise)
        return Enclosure(*white.principal(), *self.errors(n_steps, noise))


class Comparison:
    """The run with some rows against the run without them, at any noise, rounding charged.

    Parameters
    ----------
    schedule : Schedule
        All steps so far.
    n_outputs : int
        Columns of theta, d.
    views : iterator of View
        From the cheapest to the one in all directions; the next is taken only where the errors of
        the last are too large. No view at all is for rows that leave no trace.
    always_dense : bool
        Whether this kind of chain never uses projections.
    """

    def __init__(
        self,
        schedule: Schedule,
        n_outputs: int,
        views: Iterator[View],
        *,
        always_dense: bool = False,
    ) -> None:
        self._schedule, self.n_outputs = schedule, n_outputs
        self._views, self._view, self._always_dense = views, next(views, None), always_dense

    @property
    def is_dense(self) -> bool:
        """Whether all directions had to be used, not a projection."""
        return self._always_dense or (self._view is not None and self._view.size == 0)

    @property
    def size(self) -> int:
        """Dimensions of the projection in use; 0 without one."""
        return 0 if self._view is None else self._view.size

    def likely_log_noise(self, mu: float, n_steps: int) -> float:
        """About where the difference is that of a mu-Gaussian mechanism."""
        start = math.log(self._schedule.segments[0].noise)
        while self._view is not None:
            guess = self._shift_root(mu**2, n_steps, start)
            if guess is None:  # without any noise the shifts are small: the excesses decide
                guess = self._size_root(mu**2, n_steps, start)
            if guess is None:
                break
            if self._view.is_guide(n_steps, math.exp(guess)):
                return guess
            self._view = next(self._views)
        return start

    def _shift_root(self, aim: float, n_steps: int, start: float) -> float | None:
        low, high = start - _REACH, start + _REACH
        for _ in range(3):  # many noises cost little more than one
            grid = np.linspace(low, high, 65)
            excess = np.log(self._squared_shifts(np.exp(grid), n_steps) / aim + 1e-300)
            place = int(np.argmax(excess <= 0))  # the first; 0 if there is none
            if place == 0 or not math.isfinite(excess[place - 1]):
                return None
            low, high = float(grid[place - 1]), float(grid[place])
        above, below = float(excess[place - 1]), float(excess[place])
        return low + (high - low) * above / (above - below)

    def _size_root(self, aim: float, n_steps: int, start: float) -> float | None:
        def excess(log_noise: float) -> float:
            return math.log(self._squared_size(math.exp(log_noise), n_steps) / aim + 1e-300)

        low, high = start - _REACH, start + _REACH
        if excess(low) <= 0 or excess(high) > 0:
            return None
        return float(brentq(excess, low, high, xtol=1e-5))

    def _squared_size(self, noise: float, n_steps: int) -> float:
        # Twice the Kullback-Leibler divergence, to leading order
        try:
            shifts, _, _, excesses = self.moments(noise, n_steps)
        except ArithmeticError:
            return math.inf
        return shifts + self.n_outputs / 2 * excesses

    def squared_shift(self, noise: float, n_steps: int) -> float:
        """The sum of all squared shifts."""
        return float(self._squared_shifts(np.array([noise]), n_steps)[0])

    def _squared_shifts(self, noises: Array, n_steps: int) -> Array:
        if self._view is None:
            return np.zeros_like(noises)
        return self._view.before(n_steps).total_squared_shifts(noises)

    def rough(self, noise: float, n_steps: int) -> tuple[Array, Array]:
        """Excesses and squared shifts without errors.

        Raises
        ------
        ArithmeticError
            Where the laws are too narrow to be distinguished from rounding.
        """
        if self._view is None:
            return np.zeros(1), np.zeros(1)
        seen = self._view.before(n_steps)
        _check_rounding(seen, noise)
        x, a2 = seen.whitened(noise).principal()
        _check_not_degenerate(seen, x, a2, noise)
        return x, a2

    def moments(self, noise: float, n_steps: int) -> tuple[float, float, float, float]:
        """Sums of a^2, x a^2, x^2 a^2 and x^2 over the directions, without errors."""
        if self._view is None:
            return 0.0, 0.0, 0.0, 0.0
        seen = self._view.before(n_steps)
        _check_rounding(seen, noise)
        white = seen.whitened(noise)
        turned = white.core @ white.shift
        return (
            float(np.sum(np.square(white.shift))),
            float(np.sum(white.shift * turned)),
            float(np.sum(np.square(turned))),
            float(np.sum(np.square(white.core))),
        )

    def likely_errors(self, noise: float, n_steps: int) -> tuple[float, float]:
        """About the errors that `enclosure` will state, without solving for the directions."""
        if self._view is None:
            return 0.0, 0.0
        seen = self._view.before(n_steps)
        shift, covariance = self._view.errors(n_steps, noise)
        shift_rounding, unit = seen.rounding_errors(noise)
        tau = seen.rounding.covariance_error(noise, n_steps)
        return shift + shift_rounding + unit, covariance + 4 * tau + unit

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The same with all errors on the safe side."""
        if self._view is None:
            return Enclosure(np.zeros(1), np.zeros(1), 0.0, 0.0)
        _check_rounding(self._view.before(n_steps), noise)
        while (enclosure := self._view.enclosure(n_steps, noise)) is None:
            self._view = next(self._views)
        return self._with_rounding(enclosure, self._view.before(n_steps), noise)

    def _with_rounding(self, e: Enclosure, seen: ChainDifference, noise: float) -> Enclosure:
        tau = seen.rounding.covariance_error(noise, seen.n_steps)
        if not tau <= _LARGEST_TAU:
            raise _beyond_precision(
                seen,
                noise,
                f"rounding in {self._schedule.n_steps} steps hides the difference of the two laws.",
            )
        # Both covariances are those of the computed steps up to factors (1 - tau)^2, (1 + tau)^2:
        # the retained run's is made smaller, the difference of the two is off by tau's share.
        wider = (1 - tau) ** -2
        excesses, squared_shifts = wider * e.excesses, wider * e.squared_shifts
        _check_not_degenerate(seen, excesses, squared_shifts, noise)
        shift_rounding, unit = seen.rounding_errors(noise)
        ratio = 2 + max(float(np.max(excesses)), 0.0)
        size = math.sqrt(float(np.sum(squared_shifts)))
        # An excess of rounding size is none: merging would take its ratio to others seriously.
        dust = np.abs(excesses) <= unit + tau
        lost = float(np.linalg.norm(excesses[dust]))
        return Enclosure(
            np.where(dust, 0.0, excesses),
            squared_shifts,
            math.sqrt(wider) * (e.shift_error + shift_rounding) + unit * (1 + size),
            wider * e.covariance_error + 1.5 * tau * ratio + unit + lost,
        )


def _check_rounding(seen: ChainDifference, noise: float) -> None:
    if seen.rounding_errors(noise)[1] > ROUNDING_LIMIT:
        raise _beyond_precision(
            seen, noise, "the two laws are too narrow to be distinguished from rounding."
        )


def _check_not_degenerate(
    seen: ChainDifference, excesses: Array, squared_shifts: Array, noise: float
) -> None:
    finite = np.isfinite(excesses).all() and np.isfinite(squared_shifts).all()
    if not (finite and float(np.min(excesses)) > -1.0):
        raise _beyond_precision(seen, noise, "one of the two laws is degenerate.")


def _beyond_precision(seen: ChainDifference, noise: float, reason: str) -> BeyondPrecision:
    if seen.n_steps == 0:
        return BeyondPrecision(f"{reason} Learn with more noise, or redraw.")
    return BeyondPrecision(f"with noise={noise!r} {reason} Use more noise.")
