"""Lower bounds on epsilon from runs, where a law is not known.

Half of the runs fit a score: the log-ratio of two normal laws. The other half decides. For a set
S = {score above a threshold}, P(S) <= e^eps Q(S) + delta gives

    eps >= log((P(S) - delta) / Q(S)),

with P(S) and Q(S) at their Clopper-Pearson limits, 0.5 % for each of the two. Each direction uses
one threshold, chosen on the first half. The normal laws only choose S: a bad fit makes the bound
weak, never wrong.
"""

import numpy as np
from scipy.stats import beta

from experiments.truth.laws import Array, Draws, Gaussian, Law

_TAIL = 0.005
_SEED = 20_200_710


def lower_bounds(P: Law, Q: Law, delta: float) -> tuple[float, float]:
    """Forward and backward, each with 99 % confidence."""
    n = min(len(law.values) for law in (P, Q) if isinstance(law, Draws))
    least = 4 * p_of(P, Q)
    if n < least:
        raise ValueError(f"Draws must have at least {least} runs, got {n}.")
    rng = np.random.default_rng(_SEED)
    p, q = (law.values if isinstance(law, Draws) else law.draw(n, rng) for law in (P, Q))
    fit, decide = slice(0, n // 2), slice(n // 2, n)
    laws = fitted(p[fit]), fitted(q[fit])
    first, second = (
        (log_density(laws[0], x) - log_density(laws[1], x) for x in (p[part], q[part]))
        for part in (fit, decide)
    )
    (p_fit, q_fit), (p_new, q_new) = first, second
    return (
        bound(p_fit, q_fit, p_new, q_new, delta),
        bound(-q_fit, -p_fit, -q_new, -p_new, delta),
    )


def p_of(*laws: Law) -> int:
    """How many parameters the draws have."""
    return next(law.values.shape[1] for law in laws if isinstance(law, Draws))


def fitted(values: Array) -> Gaussian:
    """The normal law with the moments of the runs."""
    covariance = np.atleast_2d(np.cov(values, rowvar=False))
    return Gaussian(values.mean(axis=0), covariance)


def log_density(law: Gaussian, x: Array) -> Array:
    """Up to a constant that all laws of p parameters share."""
    factor = np.linalg.cholesky(law.covariance)
    t = np.linalg.solve(factor, (x - law.mean).T)
    return -np.square(t).sum(axis=0) / 2 - np.log(np.diag(factor)).sum()


def bound(p_fit: Array, q_fit: Array, p_new: Array, q_new: Array, delta: float) -> float:
    """The threshold with the best bound on the first half, judged on the second."""
    best = max(
        np.quantile(np.concatenate([p_fit, q_fit]), np.linspace(0.01, 0.99, 99)),
        key=lambda threshold: log_ratio(p_fit > threshold, q_fit > threshold, delta),
    )
    return max(log_ratio(p_new > best, q_new > best, delta), 0.0)


def log_ratio(p: Array, q: Array, delta: float) -> float:
    """log((P(S) - delta) / Q(S)) at the limits of the shares."""
    least = clopper_pearson(int(p.sum()), len(p))[0] - delta
    return float(np.log(least / clopper_pearson(int(q.sum()), len(q))[1])) if least > 0 else -np.inf


def clopper_pearson(k: int, n: int) -> tuple[float, float]:
    """Limits of a share, each wrong with probability _TAIL."""
    low = beta.ppf(_TAIL, k, n - k + 1) if k else 0.0
    high = beta.ppf(1 - _TAIL, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)
