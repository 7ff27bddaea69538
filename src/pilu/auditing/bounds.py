"""Valid lower bounds from counts: what a test that was fixed beforehand proves of P and Q.

A test says "unlearned" if its score is above a threshold. Its errors on runs that it has not seen
are binomial. So Clopper and Pearson's upper limits a and b on the rates of false alarms (retrained
runs above) and misses (unlearned ones below) hold together with the stated confidence. A true claim
of mu-GDP or (epsilon, delta) for the two laws must then have

    mu      >= Phi^-1(1 - a) - Phi^-1(b)
    epsilon >= log((1 - b - delta) / a)     P(S) <= e^epsilon Q(S) + delta, as in Definition 1
    epsilon >= log((1 - a - delta) / b)     with P and Q exchanged.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, ndtri

from pilu._checks import check_integer, check_probability

Array = NDArray[np.float64]

_UP = 1 + 1e-9  # for the rounding of quantiles
_SHARE = 0.9  # epsilon depends on the smaller of two rates, so most of the level is for it


class Counts(NamedTuple):
    """Errors of one test on held-out runs; entries may be arrays over thresholds."""

    false_alarms: ArrayLike
    n_retrained: int
    misses: ArrayLike
    n_unlearned: int

    def mu(self, level: float) -> Array:
        """Lower bound on mu, at least 0, wrong with probability at most `level`."""
        a, b = self._limits(level, 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = -ndtri(a) - ndtri(b)
        return np.asarray(np.maximum(np.nan_to_num(bound, nan=0.0, neginf=0.0) / _UP, 0.0))

    def epsilon(self, level: float, delta: float) -> Array:
        """Lower bound on epsilon in the direction of Definition 1, at least 0."""
        a, b = self._limits(level, _SHARE)
        return _log_ratio(1 - b - delta, a)

    def epsilon_reverse(self, level: float, delta: float) -> Array:
        """The same with the two laws exchanged."""
        a, b = self._limits(level, 1 - _SHARE)
        return _log_ratio(1 - a - delta, b)

    def _limits(self, level: float, share: float) -> tuple[Array, Array]:
        """Limits on both rates; `share` of the level is for that of false alarms."""
        return (
            upper_limit(self.false_alarms, self.n_retrained, share * level),
            upper_limit(self.misses, self.n_unlearned, (1 - share) * level),
        )


def upper_limit(errors: ArrayLike, trials: int, level: float) -> Array:
    """Clopper and Pearson's upper limit on a rate, wrong with probability at most `level`."""
    k = np.asarray(errors, dtype=np.float64)
    limit = betainccinv(np.minimum(k, trials - 1) + 1, np.maximum(trials - k, 1), level) * _UP
    return np.asarray(np.where(k >= trials, 1.0, np.minimum(limit, 1.0)))


def most_provable(n_runs: int, delta: float, confidence: float = 0.95) -> tuple[float, float]:
    """The mu and the epsilon that n runs of each kind prove if a test makes no error."""
    n = check_integer("n_runs", n_runs, least=1)
    flawless, level = Counts(0, n, 0, n), 1 - check_probability("confidence", confidence)
    epsilon = flawless.epsilon(level, check_probability("delta", delta))
    return float(flawless.mu(level)), float(epsilon)


def runs_needed(confidence: float) -> int:
    """The least number of runs of each kind that can prove anything at all."""
    n, level = 1, 1 - check_probability("confidence", confidence)
    while not float(Counts(0, n, 0, n).mu(level)) > 0:
        n += 1
    return n


def _log_ratio(above: Array, below: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(np.maximum(above, 0.0) / below)
    return np.maximum(bound / _UP, 0.0)
