"""Two runs compared: their whitened difference at any noise, with rounding on the safe side."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pilu.chains.difference import ChainDifference, ChainLaw, Enclosure

__all__ = ["ROUNDING_LIMIT", "Comparison"]

Array = NDArray[np.float64]

ROUNDING_LIMIT = 1e-8  # past it the laws are too narrow to be told from rounding
_LARGEST_TAU = 0.01


class Comparison:
    """What tells the run with some rows from the run without them.

    A kind of chain supplies `_shown`, the difference before K more steps; one that only encloses it
    supplies `enclosure` too. `is_nothing` is for rows that leave no trace.
    """

    def __init__(self, law: ChainLaw, *, is_nothing: bool) -> None:
        self.law = law
        self._is_nothing = is_nothing
        self._rounding_asked, self._rounding = (math.nan, 0, 0), math.inf  # the last answer

    @property
    def is_dense(self) -> bool:
        """Whether all directions are used, not a projection."""
        return True

    @property
    def size(self) -> int:
        """Dimensions of the projection in use; 0 without one."""
        return 0

    def _shown(self, n_steps: int) -> ChainDifference:
        raise NotImplementedError

    def likely_log_noise(self, mu: float, n_steps: int) -> float:
        """About where the difference is that of a mu-Gaussian mechanism."""
        guess = None if self._is_nothing else self._likely_log_noise(mu, n_steps)
        return self._start if guess is None else guess

    @property
    def _start(self) -> float:
        return math.log(self.law.schedule.segments[0].noise)

    def _likely_log_noise(self, mu: float, n_steps: int) -> float | None:
        guess = self._root(self.squared_shift, mu**2, n_steps)
        if guess is None:  # without any noise the shifts are small: the excesses decide
            guess = self._root(self._squared_size, mu**2, n_steps)
        return guess

    def _root(self, size: Callable[[float, int], float], aim: float, n_steps: int) -> float | None:
        def excess(log_noise: float) -> float:
            return math.log(size(math.exp(log_noise), n_steps) / aim + 1e-300)

        low, high = self._start - 20, self._start + 20
        if excess(low) <= 0 or excess(high) > 0:
            return None
        return float(brentq(excess, low, high, xtol=1e-5))

    def _squared_size(self, noise: float, n_steps: int) -> float:
        # Twice the Kullback-Leibler divergence, to leading order
        try:
            shifts, _, _, excesses = self.moments(noise, n_steps)
        except ArithmeticError:
            return math.inf
        return shifts + self.law.n_outputs / 2 * excesses

    def squared_shift(self, noise: float, n_steps: int) -> float:
        """The sum of all squared shifts."""
        return 0.0 if self._is_nothing else self._shown(n_steps).total_squared_shift(noise, n_steps)

    def rough(self, noise: float, n_steps: int) -> tuple[Array, Array]:
        """Excesses and squared shifts without errors.

        Raises
        ------
        ArithmeticError
            Where the laws are too narrow to be told from rounding.
        """
        if self._is_nothing:
            return np.zeros(1), np.zeros(1)
        self._check_rounding(noise, n_steps)
        x, a2 = self._shown(n_steps).whitened(noise, n_steps).principal()
        _check_not_degenerate(x, noise)
        return x, a2

    def moments(self, noise: float, n_steps: int) -> tuple[float, float, float, float]:
        """Sums of a^2, x a^2, x^2 a^2 and x^2 over the directions, without errors."""
        if self._is_nothing:
            return 0.0, 0.0, 0.0, 0.0
        self._check_rounding(noise, n_steps)
        white = self._shown(n_steps).whitened(noise, n_steps)
        turned = white.core @ white.shift
        return (
            float(np.sum(np.square(white.shift))),
            float(np.sum(white.shift * turned)),
            float(np.sum(np.square(turned))),
            float(np.sum(np.square(white.core))),
        )

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The same with all errors on the safe side."""
        if self._is_nothing:
            return Enclosure(np.zeros(1), np.zeros(1), 0.0, 0.0)
        self._check_rounding(noise, n_steps)
        return self._with_rounding(self._enclosed(noise, n_steps), noise, n_steps)

    def _enclosed(self, noise: float, n_steps: int) -> Enclosure:
        shown = self._shown(n_steps)
        least = shown.least_variance(noise, n_steps)
        return Enclosure(
            *shown.whitened(noise, n_steps).principal(),
            shown.mean_rest / math.sqrt(least),
            shown.covariance_rest / least,
        )

    def _rounding_error(self, noise: float, n_steps: int) -> float:
        shown = self._shown(n_steps)
        asked = (noise, n_steps, len(shown.variances))
        if asked != self._rounding_asked:
            self._rounding_asked = asked
            self._rounding = shown.rounding_error(noise, n_steps)
        return self._rounding

    def _check_rounding(self, noise: float, n_steps: int) -> None:
        if self._rounding_error(noise, n_steps) > ROUNDING_LIMIT:
            raise ArithmeticError(
                f"with noise={noise!r} the two laws are too narrow to be told from rounding. Use "
                "more noise."
            )

    def _with_rounding(self, e: Enclosure, noise: float, n_steps: int) -> Enclosure:
        shown, unit = self._shown(n_steps), self._rounding_error(noise, n_steps)
        tau = shown.rounding.covariance_error(noise, n_steps)
        if not tau <= _LARGEST_TAU:
            raise ArithmeticError(
                f"with noise={noise!r} rounding in {self.law.schedule.n_steps} steps hides the "
                "difference of the two laws. Use more noise."
            )
        # Both covariances are those of the computed steps up to factors (1 - tau)^2, (1 + tau)^2:
        # the retained run's is made smaller, the difference of the two is off by tau's share.
        wider = (1 - tau) ** -2
        excesses, squared_shifts = wider * e.excesses, wider * e.squared_shifts
        _check_not_degenerate(excesses, noise)
        ratio = 2 + max(float(np.max(excesses)), 0.0)
        size = math.sqrt(float(np.sum(squared_shifts)))
        # An excess of rounding size is none: merging would take its ratio to others seriously.
        dust = np.abs(excesses) <= unit + tau
        lost = float(np.linalg.norm(excesses[dust]))
        return Enclosure(
            np.where(dust, 0.0, excesses),
            squared_shifts,
            math.sqrt(wider) * (e.shift_error + shown.shift_rounding(noise, n_steps))
            + unit * (1 + size),
            wider * e.covariance_error + 1.5 * tau * ratio + unit + lost,
        )


def _check_not_degenerate(excesses: Array, noise: float) -> None:
    if not (np.isfinite(excesses).all() and float(np.min(excesses)) > -1.0):
        raise ArithmeticError(
            f"with noise={noise!r} one of the two laws is degenerate. Use more noise."
        )
