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


def newton_to_safe_end(
    excess: Callable[[Array, NDArray[np.intp]], tuple[Array, Array, Array]],
    guess: Array,
    floor: Array,
    *,
    most: float,
    rtol: float = 1e-10,
    atol: float = 1e-13,
    max_steps: int = 60,
) -> tuple[Array, Array]:
    """Where each of many falling functions turns <= 0, from that side, and how far off at most.

    `excess(arguments, rows)` evaluates the functions number `rows`: bounds on their values from
    above, how steeply they fall, and how far the bounds may be off. A value that is NaN gives
    its row up. Every argument returned was evaluated and is safe. It is at least `floor`; inf
    stands for "not at `most`", NaN for a search without an end.
    """
    ends, doubts = np.full(len(guess), np.nan), np.zeros(len(guess))
    ends[floor > most] = np.inf
    rows = np.flatnonzero(floor <= most)
    at = np.clip(guess[rows], floor[rows], most)
    low, high = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    for _ in range(max_steps):
        with np.errstate(all="ignore"):
            value, fall, doubt = excess(at, rows)
            safe, unsafe = value <= 0, value > 0
            low, high = np.where(unsafe, at, low), np.where(safe, at, high)
            room = rtol * at + atol
            least = safe & (at <= floor[rows])
            near = safe & ((-value <= fall * room) | (high - low <= room))
            off = np.minimum(-value / fall, high - low) + doubt / fall
            aim = at + value / fall + room / 2  # Newton's step, ending a little beyond the root
        beyond = unsafe & (at >= most)
        ends[rows[least | near]] = at[least | near]
        doubts[rows[near & ~least]] = off[near & ~least]
        ends[rows[beyond]] = np.inf

        go = (safe | unsafe) & ~(least | near | beyond)
        if not go.any():
            break
        rows, low, high, at, aim = (a[go] for a in (rows, low, high, at, aim))
        least_of_all = np.isinf(low) & ~(aim > floor[rows])
        middle = np.where(np.isinf(high), 2 * at + 1, (np.maximum(low, floor[rows]) + high) / 2)
        inside = (aim > low) & (aim < high)
        at = np.where(least_of_all, floor[rows], np.where(inside, aim, middle))
        at = np.clip(at, floor[rows], most)
    return ends, doubts
