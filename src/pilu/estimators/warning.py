"""Warnings of the Langevin estimators: learning that stopped early, totals that promise little.

Both are for the holder of the data. What they say depends on all rows.
"""

import warnings

from sklearn.exceptions import ConvergenceWarning

from pilu.certify.certificate import Certificate
from pilu.chains.problem import Run
from pilu.estimators.fitted import Fitted
from pilu.exceptions import TotalBudgetWarning

__all__ = ["LARGEST_TOTAL_DELTA", "warn_of_total", "warn_unless_converged"]

LARGEST_TOTAL_DELTA = 0.1


def warn_unless_converged(fitted: Fitted, stacklevel: int = 3) -> None:
    """Warn if learning stopped far from the minimiser (`chains.shortfall`)."""
    chain = fitted.chain
    if chain.schedule.is_stationary:
        return
    found = chain.problem.shortfall(Run(chain.step_size, chain.schedule, chain.start), chain.theta)
    if found is None or not found.is_large:
        return
    is_ridge = chain.law(corrected=True).is_gaussian
    what = "R2 on the training rows" if is_ridge else "the share of the loss that is explained"
    known = not chain.problem.reads_rows  # the law in closed form
    remedy = " n_steps=None learns at the minimiser." if known else ""
    warnings.warn(
        f"learning has not converged after n_steps={chain.schedule.n_steps}: {what} is "
        f"{found.reached:.3g}, and {'' if known else 'at least '}{found.reachable:.3g} at the "
        "minimiser. Bring the columns to similar sizes by fixed constants, or take more steps."
        f"{remedy} pilu.Forgetful fits any scikit-learn pipeline to the minimiser instead.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def warn_of_total(certificate: Certificate, stacklevel: int = 3) -> None:
    """Warn if the total after a request promises little."""
    if certificate.total_delta <= LARGEST_TOTAL_DELTA:
        return
    n = len(certificate.conditional_on) + 1
    warnings.warn(
        f"total_delta is {certificate.total_delta:.3g} after {n} request{'s' * (n > 1)} since the "
        f"last redraw, above {LARGEST_TOTAL_DELTA:g}: the total promises little. "
        "unlearn(method='redraw') resets it to zero. pilu.Forgetful has no total: each of its "
        "releases is compared with retraining.",
        TotalBudgetWarning,
        stacklevel=stacklevel + 1,
    )
