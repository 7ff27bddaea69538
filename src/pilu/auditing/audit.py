"""An audit: how well can unlearned and retrained models be distinguished?

It returns two kinds of numbers. Estimates are as in the paper: the trade-off curve, AUC, a fitted
mu and its epsilon, from cross-fitted scores of all runs. beta(alpha) is the least rate of misses at
a rate alpha of false alarms [PILU, app. CIFAR-10]. The paper fits Phi(Phi^-1(1 - alpha) - mu) to it
by least squares. These estimates may be above or below the truth.

For bounds, some of the runs train the distinguisher and choose thresholds, and the errors on the
others are counted (`bounds.py`). Each bound by itself is below the truth with the stated
confidence.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from pilu._checks import as_numbers, check_integer, check_probability, complaint
from pilu._progress import progress_bar
from pilu.accounting.gdp import epsilon_from_mu
from pilu.auditing.bounds import Counts, runs_needed
from pilu.auditing.distinguishers import Distinguisher, cross_scores, resolve_distinguisher, scored
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]
Runs = ArrayLike | Callable[[int], ArrayLike]

_MOST_TRAINING = 2000  # runs of a kind that train a distinguisher, however many there are
_MOST_CHOOSING = 500  # the same for a known score, for which only thresholds are chosen
_STRICTER = 100.0  # the failure probability is divided by it to choose a threshold
_GRID = np.linspace(0.005, 0.995, 199)  # of alpha, to fit mu
_LARGEST = 1e100  # squares of outputs must be doubles


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    auc, alpha, beta : float, array, array
        Area under the ROC and trade-off curve of cross-fitted scores. Estimates.
    mu_hat, fit_error, epsilon_hat : float
        The Gaussian parameter fitted to the curve, the mean squared error of the fit, and its
        epsilon at `delta`. Estimates, as in the paper.
    mu_lower, epsilon_lower, epsilon_lower_reverse : float
        Bounds: a smaller claim for the two laws is wrong, with the stated confidence (each of the
        three by itself). `epsilon_lower` is for the direction of Definition 1, reverse with the two
        kinds exchanged.
    mu_provable, epsilon_provable : float
        The largest bounds that the counted runs could have proved, without a single error.
    delta, confidence : float
    n_unlearned, n_retrained : int
        Runs of each kind.
    n_counted : tuple of int
        Unlearned and retrained runs on which errors were counted; the others trained the
        distinguisher.
    distinguisher : str
    """

    auc: float
    alpha: Array
    beta: Array
    mu_hat: float
    fit_error: float
    epsilon_hat: float
    mu_lower: float
    epsilon_lower: float
    epsilon_lower_reverse: float
    mu_provable: float
    epsilon_provable: float
    delta: float
    confidence: float
    n_unlearned: int
    n_retrained: int
    n_counted: tuple[int, int]
    distinguisher: str

    def __post_init__(self) -> None:
        for array in (self.alpha, self.beta):
            array.setflags(write=False)


def audit(
    unlearned: Runs,
    retrained: Runs,
    *,
    delta: float,
    confidence: float = 0.95,
    seed: int | None = None,
    distinguisher: str | Distinguisher = "logistic",
    n_runs: int | None = None,
) -> Audit:
    """Distinguish unlearned from retrained models.

    Parameters
    ----------
    unlearned, retrained : array of shape (n_runs, n_features), or function
        Outputs of independent runs (parameters, logits on a probe set, ...), or a function that
        carries out one run for a seed and returns its outputs.
    delta : float in (0, 1)
    confidence : float in (0, 1)
        Of each lower bound.
    seed : int, optional
        For the split, the folds, the distinguisher and the runs; None draws a fresh one.
    distinguisher : {"logistic", "mlp"} or object
    n_runs : int, optional
        Runs of each kind, if functions are given.

    Returns
    -------
    audit : Audit

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> result = audit(rng.normal(2, 1, (500, 1)), rng.normal(0, 1, (500, 1)), delta=1e-3, seed=0)
    >>> result.mu_lower < 2.0
    True
    """
    check_probability("delta", delta)
    check_probability("confidence", confidence)
    distinguisher = resolve_distinguisher(distinguisher)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    seed = check_integer("seed", seed, least=0)
    # The two kinds take every second seed, so they never share one.
    first = int(np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(1)[0])
    P = _outputs("unlearned", unlearned, n_runs, first)
    Q = _outputs("retrained", retrained, n_runs, first + 1)
    if P.shape[1] != Q.shape[1]:
        raise WrongInput(
            "unlearned and retrained must have the same number of features, got "
            f"{P.shape[1]} and {Q.shape[1]}."
        )
    _check_number(P, Q, confidence)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    level = 1 - confidence
    # The bounds come first, and on copies: nothing learned from all runs may reach them.
    mu, forward, reverse, flawless = _lower_bounds(distinguisher, P, Q, delta, level, seed, rng)
    curve = trade_off(*_different(cross_scores(distinguisher, P, Q, seed)))
    mu_hat, fit_error = fit_mu(curve, min(len(P), len(Q)))
    return Audit(
        auc=curve.auc,
        alpha=curve.alpha,
        beta=curve.beta,
        mu_hat=mu_hat,
        fit_error=fit_error,
        epsilon_hat=float(epsilon_from_mu(mu_hat, delta)) if mu_hat > 0 else 0.0,
        mu_lower=mu,
        epsilon_lower=forward,
        epsilon_lower_reverse=reverse,
        mu_provable=float(flawless.mu(level)),
        epsilon_provable=float(flawless.epsilon(level, delta)),
        delta=delta,
        confidence=confidence,
        n_unlearned=len(P),
        n_retrained=len(Q),
        n_counted=(flawless.n_unlearned, flawless.n_retrained),
        distinguisher=distinguisher.name,
    )


def _lower_bounds(
    distinguisher: Distinguisher,
    P: Array,
    Q: Array,
    delta: float,
    level: float,
    seed: int,
    rng: np.random.Generator,
) -> tuple[float, float, float, Counts]:
    """Bounds on mu and on epsilon both ways, and the counts of a test without an error."""
    # The same positions of both kinds: runs that share a seed stay on one side.
    most = _MOST_TRAINING if distinguisher.learns else _MOST_CHOOSING
    common = min(len(P), len(Q))
    apart = rng.permutation(common)[: min(common // 2, most)]
    train, test = (P[apart], Q[apart]), (np.delete(P, apart, axis=0), np.delete(Q, apart, axis=0))
    chosen = _different(cross_scores(distinguisher, *train, seed))
    score = copy.deepcopy(distinguisher).fit(*train, seed)
    # All at once and shuffled, so that a score cannot distinguish the kinds by their batch.
    mixed, place = np.concatenate(test), rng.permutation(len(test[0]) + len(test[1]))
    scores = np.empty(len(mixed))
    scores[place] = scored(score, mixed[place])
    unlearned, retrained = scores[: len(test[0])], scores[len(test[0]) :]

    def bound(value: Callable[[Counts, float], Array]) -> float:
        # A stricter level avoids a threshold whose error rate is small by chance.
        threshold = _best_threshold(*chosen, lambda seen: value(seen, level / _STRICTER))
        alarms, misses = np.sum(retrained > threshold), np.sum(unlearned <= threshold)
        return float(value(Counts(alarms, len(retrained), misses, len(unlearned)), level))

    return (
        bound(lambda seen, level: seen.mu(level)),
        bound(lambda seen, level: seen.epsilon(level, delta)),
        bound(lambda seen, level: seen.epsilon_reverse(level, delta)),
        Counts(0, len(retrained), 0, len(unlearned)),
    )


def _best_threshold(unlearned: Array, retrained: Array, value: Callable[[Counts], Array]) -> float:
    """The threshold with which these runs would prove the most."""
    scores = np.unique(np.concatenate([unlearned, retrained]))
    thresholds = (scores[1:] + scores[:-1]) / 2
    alarms = len(retrained) - np.searchsorted(np.sort(retrained), thresholds, side="right")
    misses = np.searchsorted(np.sort(unlearned), thresholds, side="right")
    values = value(Counts(alarms, len(retrained), misses, len(unlearned)))
    best = np.flatnonzero(values >= np.max(values))
    return float(thresholds[best[len(best) // 2]])  # the middle of a plateau


def _different(scores: tuple[Array, Array]) -> tuple[Array, Array]:
    if np.ptp(np.concatenate(scores)) == 0.0:
        raise WrongInput(
            "the distinguisher must return more than one score, got the same for every run. The "
            "outputs may be constant; use other outputs or another distinguisher."
        )
    return scores


def _outputs(name: str, given: Any, n_runs: int | None, first_seed: int) -> Array:
    if callable(given):
        if n_runs is None:
            raise WrongInput(f"n_runs must be given if {name} is a function.")
        check_integer("n_runs", n_runs, least=1)
        runs = []
        with progress_bar(n_runs, what=f"{name} runs", unit="run") as bar:
            for k in range(n_runs):
                seed = (first_seed + 2 * k) % 2**32  # small enough for every generator
                runs.append(np.ravel(np.asarray(given(seed))))
                bar.update()
        if len({len(run) for run in runs}) > 1:
            raise WrongInput(f"{name} must return the same number of outputs for every seed.")
        given = runs
    try:
        outputs = as_numbers(name, given)
    except ValueError:
        raise WrongInput(f"{name} must be real numbers, equally many for every run.") from None
    if outputs.ndim != 2 or outputs.shape[1] == 0:
        raise complaint(name, "an array of shape (n_runs, n_features)", outputs.shape)
    if not np.isfinite(outputs).all():
        wrong = np.argwhere(~np.isfinite(outputs))[0]
        value = float(outputs[tuple(wrong)])
        raise complaint(
            name, f"finite in run {wrong[0]}", value, "Leave diverged runs out of both kinds."
        )
    largest = float(np.max(np.abs(outputs)))
    if largest > _LARGEST:
        raise complaint(name, f"at most {_LARGEST:g} in size", largest, "Rescale the outputs.")
    return outputs


def _check_number(P: Array, Q: Array, confidence: float) -> None:
    needed = 2 * runs_needed(confidence)
    for name, outputs in (("unlearned", P), ("retrained", Q)):
        if len(outputs) < needed:
            raise WrongInput(
                f"{name} must have at least {needed} runs for confidence={confidence}, got "
                f"{len(outputs)}: fewer prove nothing, even without an error. About {10 * needed} "
                "are needed to prove much."
            )


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


def fit_mu(curve: TradeOff, n_runs: int) -> tuple[float, float]:
    """The mu of least squares over a grid of alpha, and the mean squared error left.

    The curve of mu is Phi(Phi^-1(1 - alpha) - mu). The result is at most the mu at which n runs
    of each kind show half an error on average: a curve without errors fits any mu beyond it.
    """
    beta = np.interp(_GRID, curve.alpha, curve.beta)

    def error(mu: float) -> float:
        return float(np.mean(np.square(beta - ndtr(-ndtri(_GRID) - mu))))

    largest = -2 * float(ndtri(0.5 / n_runs))
    coarse = np.linspace(0.0, largest, 200)
    middle = int(np.argmin([error(mu) for mu in coarse]))
    around = coarse[max(middle - 1, 0)], coarse[min(middle + 1, len(coarse) - 1)]
    refined = minimize_scalar(error, bounds=around, method="bounded", options={"xatol": 1e-9})
    best = min((float(coarse[middle]), float(refined.x)), key=error)
    return best, error(best)
