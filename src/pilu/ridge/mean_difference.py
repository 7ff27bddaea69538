"""Delta_N, the difference of the means of the runs with and without some rows, and its rounding."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu.chains.schedule import UNIT, summed_before
from pilu.ridge.spectral import RequestSpace

if TYPE_CHECKING:
    from pilu.ridge.law import RidgeLaw

Array = NDArray[np.float64]


def mean_difference(space: RequestSpace, residuals: Array) -> Array:
    """Delta_N = -eta sum_k (1 - eta A')^{N-1-k} X_f' u_k in the eigenvectors of A'."""
    retained = space.retained
    total = np.zeros((len(retained.values), residuals.shape[1]))
    for x, u in zip(retained.rows.T, residuals, strict=True):
        total -= retained.step_size * x[:, None] * retained.powers.weighted(u.T[::-1])
    return total


def mean_rounding(
    law: "RidgeLaw",
    space: RequestSpace,
    lengths: Array,
    targets: Array,
    error: float,
    deflated: float,
) -> float:
    """What rounding may do to Delta_N: relative to its terms, not to what is left of them.

    The k-th is (1 - eta A')^{N-1-k} X_f' (X_f m_k - Y_f), and X_f m_k a sum of k others. `lengths`
    are the computed |u_k|, `error` is that of a step, and `deflated` that of X_f', relative to it
    (docs/exact.md, "Rounding").
    """
    reach, retained_reach = (half.reach(len(lengths)) for half in (space.own, space.retained))
    terms = reach[0] * law.mean_bounds + float(np.linalg.norm(targets))
    unsure = summed_before(reach) * (error * law.mean_bounds + law.push_error)
    unsure += (2 * UNIT + 2.0**-53 * np.arange(len(terms))) * terms  # running sums, too
    moved = error * summed_before(retained_reach)[::-1] * lengths
    moved += deflated * retained_reach[0] * lengths
    return law.step_size * float(retained_reach[::-1] @ unsure + np.sum(moved))
