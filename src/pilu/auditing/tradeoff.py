"""The empirical trade-off curve of scores, and its summary by one Gaussian parameter.

beta(alpha) is the least rate of misses at a rate alpha of false alarms [PILU, app. CIFAR-10]. The
paper fits Phi(Phi^-1(1 - alpha) - mu) to it by least squares. These are estimates, not bounds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

_GRID = np.linspace(0.005, 0.995, 199)


class TradeOff(NamedTuple):
    """Rates of false alarms and of misses, from (0, 1) to (1, 0), and the area under the ROC."""

    alpha: Array
    beta: Array
    auc: float


def trade_off(unlearned: Array, retrained: Array) -> TradeOff:
    """All thresholds on the scores; ties count half in the area."""
    thresholds = np.unique(np.concatenate([unlearned, retrained]))[::-1]
    alarms = len(retrained) - np.searchsorted(np.sort(retrained), thresholds)
    hits = len(unlearned) - np.searchsorted(np.sort(unlearned), thresholds)
    alpha = np.concatenate([[0.0], alarms / len(retrained)])
    beta = np.concatenate([[1.0], 1 - hits / len(unlearned)])
    auc = float(np.sum(np.diff(alpha) * (1 - (beta[1:] + beta[:-1]) / 2)))
    return TradeOff(alpha, beta, auc)


def gaussian_tradeoff(alpha: Array, mu: float) -> Array:
    """Phi(Phi^-1(1 - alpha) - mu)."""
    return np.asarray(ndtr(-ndtri(alpha) - mu))


def fit_mu(curve: TradeOff, n_runs: int) -> tuple[float, float]:
    """The mu of least squares over a grid of alpha, and the mean squared error left.

    At most the mu at which n runs of each kind show half an error on average: a curve without
    errors fits any mu beyond it.
    """
    beta = np.interp(_GRID, curve.alpha, curve.beta)

    def error(mu: float) -> float:
        return float(np.mean(np.square(beta - gaussian_tradeoff(_GRID, mu))))

    largest = -2 * float(ndtri(0.5 / n_runs))
    coarse = np.linspace(0.0, largest, 200)
    middle = int(np.argmin([error(mu) for mu in coarse]))
    around = coarse[max(middle - 1, 0)], coarse[min(middle + 1, len(coarse) - 1)]
    refined = minimize_scalar(error, bounds=around, method="bounded", options={"xatol": 1e-9})
    best = min((float(coarse[middle]), float(refined.x)), key=error)
    return best, error(best)
