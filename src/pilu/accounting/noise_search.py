"""The least noise that is enough to make two runs close: a root in log noise.

The runs are given by their whitened difference as a function of the noise (`Difference`). Its
errors are not looked at here: the caller checks what the search finds. Where the runs nearly are a
Gaussian mechanism, delta is taken from a series.
"""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu, mu_from_epsilon
from pilu.accounting.search import safe_root

Array = NDArray[np.float64]

_NOISE_TOLERANCE = 1e-10
_MARGIN = 1e-8  # in log delta: the least that is kept while searching
_SECANT_STEPS = 8
_SECANT_END = 1e-5  # a step of this size leaves an error of its square
_NEARLY_GAUSSIAN = 1e-7  # squared excesses below which a series will do for the search
_SMALL_CORRECTION = 2e-2  # by that series, relative to the Gaussian mechanism's delta
_CLEARLY = 1e-7  # in log delta: a direction this much smaller is left out of the search
LARGEST_LOG_NOISE = 250.0


class Difference(Protocol):
    """How two runs differ once `n_steps` with some noise follow, in units of that law's noise.

    Methods raise `ArithmeticError` where rounding hides the difference.
    """

    def rough(self, noise: float, n_steps: int) -> tuple[Array, Array]:
        """Excess variances and squared shifts along the principal directions."""

    def moments(self, noise: float, n_steps: int) -> tuple[float, float, float, float]:
        """Sums of a^2, x a^2, x^2 a^2 and x^2 over the directions."""

    def squared_shift(self, noise: float, n_steps: int) -> float:
        """The sum of all squared shifts."""


class NoiseSearch:
    """The least noise after which (epsilon, delta) holds, errors of the difference aside."""

    def __init__(
        self,
        difference: Difference,
        n_outputs: int,
        n_steps: int,
        epsilon: float,
        delta: float,
        *,
        both: bool,
        series: bool = True,
        margin: float = 0.0,
    ) -> None:
        self._difference, self._outputs, self._n_steps = difference, n_outputs, n_steps
        self._epsilon, self._delta = epsilon, delta
        self._both, self._uses_series = both, series
        self._margin = max(margin, _MARGIN)  # in log delta, for what the errors will take
        self._reverse_only = False
        self.used_series = False
        self.steepness = math.inf  # how fast log delta falls with log noise, once known

    def log_noise(self, guess: float, floor: float) -> float:
        """-inf for none at all, else not below the floor."""
        root = self._by_secant(guess, floor)
        return self._by_bracket(max(guess, floor), floor) if root is None else root

    def _excess(self, log_noise: float) -> float:
        """log delta over its target: falls with the noise."""
        noise, K = math.exp(log_noise), self._n_steps
        aim = math.log(self._delta)
        try:
            reached = self._by_series(noise, K)
            if reached is None:
                outputs = np.array(self._outputs)
                pair = GaussianPair(*self._difference.rough(noise, K), outputs)
                reached = self._log_delta(pair.without_dust(), aim)
            return reached - aim + self._margin
        except ArithmeticError:
            return math.inf  # too far apart to evaluate, or to tell from rounding: more noise

    def _by_series(self, noise: float, n_steps: int) -> float | None:
        """log delta where the laws are nearly those of a Gaussian mechanism, else None."""
        moments = self._difference.moments(noise, n_steps)
        outputs = self._outputs
        small = 0 < outputs * moments[3] < _NEARLY_GAUSSIAN < moments[0]
        if not (small and self._uses_series) or self._reverse_only:
            return None
        self.used_series = True
        try:
            return nearly_gaussian_log_delta(*moments, outputs, self._epsilon, both=self._both)
        except ArithmeticError:
            return None

    def _log_delta(self, pair: GaussianPair, aim: float) -> float:
        epsilon = self._epsilon
        if self._reverse_only:
            return pair.reversed().log_delta(epsilon, aim - 1, proved=False)
        forward = pair.log_delta(epsilon, aim - 1, proved=False)
        if not self._both:
            return forward
        backward = pair.reversed().log_delta(epsilon, aim - 1, proved=False)
        if aim - 1 < max(forward, backward) < math.inf and abs(forward - backward) > _CLEARLY:
            # One direction leads, and will near the root; the answer is checked in both.
            self._both, self._reverse_only = False, backward > forward
        return max(forward, backward)

    def _by_secant(self, guess: float, floor: float) -> float | None:
        """The root from a good guess in two or three evaluations; None where that fails."""
        slope = self._likely_slope(guess)
        here, value = guess, self._excess(guess)
        for _ in range(_SECANT_STEPS):
            if not (math.isfinite(value) and slope < 0 and here > floor):
                return None
            step = -value / slope
            if abs(step) > 1.0:
                return None
            there = here + step
            if abs(step) < _SECANT_END:
                self.steepness = -slope
                return there if there > floor else None
            after = self._excess(there)
            slope = (after - value) / step
            here, value = there, after
        return None

    def _likely_slope(self, guess: float) -> float:
        """d log delta / d log noise, as if the pair were a Gaussian mechanism."""
        h = 1e-3
        shift = [
            self._difference.squared_shift(math.exp(guess + t), self._n_steps) for t in (-h, h)
        ]
        if not min(shift) > 0:
            return 0.0
        rate = math.log(shift[1] / shift[0]) / (4 * h)  # of log mu
        return rate * _log_delta_rate(self._epsilon, self._delta)

    def _by_bracket(self, start: float, floor: float) -> float:
        low = high = start
        step = 0.01
        while self._excess(high) > 0:
            low, high, step = high, high + step, min(4 * step, 1.0)
            if high > LARGEST_LOG_NOISE:
                raise ArithmeticError("no noise was found to suffice; please report this.")
        if low == high:  # none at all, or the least that is worth adding: no need to walk there
            for least in (-math.inf, floor):
                if self._excess(least) <= 0:
                    return least
        while low == high or self._excess(low) <= 0:
            low, high, step = max(low - step, floor), low, min(4 * step, 1.0)
        root = safe_root(self._excess, low, high, tolerance=_NOISE_TOLERANCE)
        h = 1e-4
        self.steepness = max((self._excess(root) - self._excess(root + h)) / h, 1e-3)
        return root


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float) -> float:
    """mu of the Gaussian mechanism with this (epsilon, delta)."""
    return float(mu_from_epsilon(epsilon, delta))


def likely_epsilon(mu: float, delta: float) -> float:
    """epsilon of the Gaussian mechanism at delta, without any claim to safety: to search from."""
    if not 0.0 < mu < math.inf:
        return 0.0

    def excess(epsilon: float) -> float:
        # delta = Phi(-x) - e^eps Phi(-x - mu), x = eps/mu - mu/2
        x = epsilon / mu - mu / 2
        top, rest = float(log_ndtr(-x)), epsilon + float(log_ndtr(-x - mu))
        return top + math.log(max(-math.expm1(rest - top), 1e-300)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    high = mu * (math.sqrt(-2 * math.log(delta)) + mu / 2)  # Phi(-x) <= e^(-x^2 / 2)
    return float(brentq(excess, 0.0, high, rtol=1e-6)) if excess(high) < 0 else high


@lru_cache(maxsize=64)
def _log_delta_rate(epsilon: float, delta: float) -> float:
    """d log delta / d log mu of the Gaussian mechanism at the target."""
    mu, h = mu_of(epsilon, delta), 1e-4
    low, high = (math.log(float(delta_from_mu(mu * (1 + t), epsilon))) for t in (-h, h))
    return (high - low) / (2 * h)


@lru_cache(maxsize=64)
def log_delta_fall(epsilon: float, delta: float) -> float:
    """-d log delta / d epsilon of the Gaussian mechanism at the target."""
    mu = mu_of(epsilon, delta)
    h = min(1e-4, epsilon / 2)
    low, high = (math.log(float(delta_from_mu(mu, epsilon + t))) for t in (-h, h))
    return (low - high) / (2 * h)


def nearly_gaussian_log_delta(
    shifts: float,
    mixed: float,
    mixed_twice: float,
    excesses: float,
    outputs: int,
    epsilon: float,
    *,
    both: bool,
) -> float:
    """log delta(epsilon) for small excesses, to second order in them: an estimate for searching.

    With A, B, D and E the sums of a^2, x a^2, x^2 a^2 and x^2,

        log M(s) = s(s-1)/2 (A + dE/2 + (s-1) B + (s-1)^2 D) + ...

    and a factor s - 1 in the integrand is a derivative by -epsilon of p(epsilon), the density
    of the Gaussian mechanism's loss.
    """

    def forward(A: float, B: float, D: float) -> float:
        mu = math.sqrt(A + outputs * excesses / 2)
        t = epsilon / mu - mu / 2
        first = float(log_ndtr(-t))
        gap = epsilon + float(log_ndtr(-t - mu)) - first
        if not gap < 0:
            raise ArithmeticError("too small a mechanism for a series.")
        log_delta = first + math.log(-math.expm1(gap))
        density = math.exp(min(-t * t / 2 - log_delta, 700.0)) / math.sqrt(2 * math.pi) / mu
        first_order = B * t / mu
        second_order = D * (t**2 - 1) / mu**2
        second_order += B**2 / 4 * ((t**4 - 6 * t**2 + 3) / mu**4 + (t**3 - 3 * t) / mu**3)
        correction = density / 2 * (first_order + second_order)
        if not abs(correction) < _SMALL_CORRECTION:
            raise ArithmeticError("too far from a Gaussian mechanism for a series.")
        return log_delta + math.log1p(correction)

    here = forward(shifts, mixed, mixed_twice)
    if not both:
        return here
    # The reversed pair has -x/(1+x) and a^2/(1+x).
    return max(here, forward(shifts - mixed + mixed_twice, 2 * mixed_twice - mixed, mixed_twice))
