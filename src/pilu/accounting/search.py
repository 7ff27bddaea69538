"""The searches of the accounting room; both return a tested, safe end."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Array = NDArray[np.float64]


def bisect_to_safe_end(
    is_safe: Callable[[Array], NDArray[np.bool_]],
    unsafe: Array,
    safe: Array,
    *,
    rtol: float = 1e-12,
    max_steps: int = 400,
) -> Array:
    """Move `safe` towards `unsafe` until they agree to `rtol`, keeping it safe throughout.

    Works elementwise and in either direction (`safe` may be the larger or the smaller end); both
    ends are nonnegative. Every value returned has been tested by `is_safe`, or is the `safe` end
    that was handed in.
    """
    unsafe, safe = np.array(unsafe, dtype=np.float64), np.array(safe, dtype=np.float64)
    for _ in range(max_steps):
        # Ends that are orders of magnitude apart are halved on the log scale.
        low, high = np.minimum(unsafe, safe), np.maximum(unsafe, safe)
        far = (low > 0) & (high > 4 * low)
        middle = np.where(far, np.sqrt(low) * np.sqrt(high), low + (high - low) / 2)
        open_ = (high - low > rtol * high) & (middle > low) & (middle < high)
        if not open_.any():
            break
        good = is_safe(middle)
        safe = np.where(open_ & good, middle, safe)
        unsafe = np.where(open_ & ~good, middle, unsafe)
    return safe


def safe_root(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """Where a nonincreasing `excess` turns <= 0, within `tolerance` and from that side.

    excess(low) > 0 >= excess(high); values may be infinite.
    """

    def bounded(value: float) -> float:
        # Brent's method wants finite values; far from the root only the sign matters.
        return min(max(excess(value), -1e3), 1e3)

    root = float(brentq(bounded, low, high, xtol=tolerance / 4, rtol=1e-15))
    step = tolerance / 4
    while root < high:
        if bounded(root) <= 0:
            return root
        root, step = root + step, 2 * step
    return high
