"""The least noise that is enough, as a projection of two runs sees it: a root in log noise."""

import math
from functools import lru_cache

import numpy as np

from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu, mu_from_epsilon
from pilu.accounting.search import safe_root
from pilu.accounting.series import nearly_gaussian_log_delta
from pilu.certify.accountant import Target
from pilu.chains.comparison import Comparison

__all__ = ["LARGEST_LOG_NOISE", "NoiseSearch", "mu_of"]

_NOISE_TOLERANCE = 1e-10
_MARGIN = 1e-8  # in log delta, kept while searching for what the errors will take
_SECANT_STEPS = 8
_SECANT_END = 1e-5  # a step of this size leaves an error of its square
_NEARLY_GAUSSIAN = 1e-7  # squared excesses below which a series will do for the search
_CLEARLY = 1e-7  # in log delta: a direction this much smaller is left out of the search
LARGEST_LOG_NOISE = 250.0


class NoiseSearch:
    """The least noise that is enough, as the projection sees it, without its error."""

    def __init__(
        self, difference: Comparison, target: Target, direction: str, *, series: bool = True
    ) -> None:
        self._difference, self._target = difference, target
        self._both, self._uses_series = direction == "both", series
        self._reverse_only = False
        self.steepness = math.inf  # how fast log delta falls with log noise, once known

    def log_noise(self, guess: float, floor: float) -> float:
        """-inf for none at all, else not below the floor."""
        root = self._by_secant(guess, floor)
        return self._by_bracket(max(guess, floor), floor) if root is None else root

    def _excess(self, log_noise: float) -> float:
        """log delta over its target: falls with the noise."""
        noise, K = math.exp(log_noise), self._target.n_unlearn_steps
        aim = math.log(self._target.delta)
        try:
            reached = self._by_series(noise, K)
            if reached is None:
                outputs = np.array(self._difference.law.n_outputs)
                pair = GaussianPair(*self._difference.rough(noise, K), outputs)
                reached = self._log_delta(pair.without_dust(), aim)
            return reached - aim + _MARGIN
        except ArithmeticError:
            return math.inf  # too far apart to evaluate, or to tell from rounding: more noise

    def _by_series(self, noise: float, n_steps: int) -> float | None:
        """log delta where the laws are nearly those of a Gaussian mechanism, else None."""
        moments = self._difference.moments(noise, n_steps)
        outputs = self._difference.law.n_outputs
        small = 0 < outputs * moments[3] < _NEARLY_GAUSSIAN < moments[0]
        if not (small and self._uses_series) or self._reverse_only:
            return None
        epsilon = self._target.epsilon
        try:
            return nearly_gaussian_log_delta(*moments, outputs, epsilon, both=self._both)
        except ArithmeticError:
            return None

    def _log_delta(self, pair: GaussianPair, aim: float) -> float:
        epsilon = self._target.epsilon
        if self._reverse_only:
            return pair.reversed().log_delta(epsilon, aim - 1)
        forward = pair.log_delta(epsilon, aim - 1)
        if not self._both:
            return forward
        backward = pair.reversed().log_delta(epsilon, aim - 1)
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
        target, h = self._target, 1e-3
        K = target.n_unlearn_steps
        shift = [self._difference.squared_shift(math.exp(guess + t), K) for t in (-h, h)]
        if not min(shift) > 0:
            return 0.0
        rate = math.log(shift[1] / shift[0]) / (4 * h)  # of log mu
        return rate * _log_delta_rate(target.epsilon, target.delta)

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


@lru_cache(maxsize=64)
def _log_delta_rate(epsilon: float, delta: float) -> float:
    """d log delta / d log mu of the Gaussian mechanism at the target."""
    mu, h = mu_of(epsilon, delta), 1e-4
    low, high = (math.log(float(delta_from_mu(mu * (1 + t), epsilon))) for t in (-h, h))
    return (high - low) / (2 * h)
