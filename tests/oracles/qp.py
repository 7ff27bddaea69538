"""The shift problem (QP) at the end of the proof of Proposition 1, solved three ways.

    minimise  sum_k a_{k+1}^2 / variances_k,   mu^2 = its value,
    subject to  z_0 = z_N = 0,  z_{k+1} = c z_k + s_k - a_{k+1},  0 <= a_{k+1} <= c z_k + s_k.

`variances` are the per-step noise variances 2 eta sigma_k^2, `s` the sensitivities (zero after
learning) and `c` the contraction; both arrays have one entry for each of the N steps.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

Array = NDArray[np.float64]


def shift_path(a: Array, s: Array, c: float) -> Array:
    """z_1, ..., z_N by the literal recursion z_{k+1} = c z_k + s_k - a_{k+1}."""
    z, path = 0.0, []
    for a_k, s_k in zip(a, s, strict=True):
        z = c * z + s_k - a_k
        path.append(z)
    return np.array(path)


def solve_qp(s: Array, variances: Array, c: float) -> float:
    """Value mu of (QP) by a generic solver, for N <= 40 and c > 0; nine digits; inf if infeasible.

    In x_k = a_{k+1} / sqrt(variances_k) the problem is "least |x| subject to G x >= h", which
    Lawson and Hanson (Solving Least Squares Problems, ch. 23, LDP) reduce to nonnegative least
    squares. The upper bound on a_{k+1} is z_{k+1} >= 0, and z_N >= 0 can be left out: lowering x
    raises every z, so the least |x| with z_N <= 0 has z_N = 0. A step without noise takes a = 0,
    which keeps z >= 0 by itself. The optimality conditions are checked before returning.
    """
    s, roots = np.asarray(s, dtype=float), np.sqrt(np.asarray(variances, dtype=float))
    if not s.any():
        return 0.0
    noisy = np.flatnonzero(roots)
    if len(noisy) == 0 or s[noisy[-1] + 1 :].any():
        return math.inf  # nothing can bring z back to 0
    s, roots = s[: noisy[-1] + 1], roots[: noisy[-1] + 1]
    s_unit, root_unit = s.max(), roots.max()
    s, roots, nothing = s / s_unit, roots / root_unit, np.zeros(len(s))
    free = shift_path(nothing, s, c)  # z = free + slopes @ x
    units = np.eye(len(s))[noisy]
    slopes = np.array([shift_path(roots * unit, nothing, c) for unit in units]).T
    inner = noisy[:-1]
    G = np.vstack([slopes[inner], -slopes[-1:], np.eye(len(noisy))])  # z >= 0, -z_N >= 0, x >= 0
    h = np.concatenate([-free[inner], free[-1:], np.zeros(len(noisy))])
    last = np.eye(len(noisy) + 1)[-1]
    bounds = (0, np.inf)  # `nnls` stops early on opposite columns (s_0 = 0); BVLS does not
    u = lsq_linear(np.vstack([G.T, h]), last, bounds, method="bvls", tol=1e-15, max_iter=5000).x
    x = G.T @ u / (1 - h @ u)
    slack = G @ x - h
    if slack.min() < -1e-9 or np.abs(u * slack).max() > 1e-9 * (1 + u.max()):
        raise RuntimeError("the solution found violates the optimality conditions of (QP).")
    return float(np.linalg.norm(x)) * s_unit / root_unit


def closed_form_mu(s: Array, variances: Array, c: float) -> float:
    """mu = sum_k c^{N-1-k} s_k / sqrt(sum_k variances_k c^{2(N-1-k)})  [PILU, Prop. 1].

    Only the value of (QP) if `closed_form_feasible`, and otherwise too small.
    """
    w = c ** np.arange(len(s) - 1, -1, -1.0)
    return float(w @ s) / math.sqrt(float(w**2 @ variances))


def closed_form_feasible(s: Array, variances: Array, c: float, tolerance: float = 1e-12) -> bool:
    """Whether the Cauchy-Schwarz candidate keeps every z_{k+1} >= 0 (up to rounding of max z)."""
    w = c ** np.arange(len(s) - 1, -1, -1.0)
    a = variances * w * float(w @ s) / float(w**2 @ variances)
    z = shift_path(a, s, c)
    return bool(z.min() >= -tolerance * max(np.abs(z).max(), np.max(s)))


def minmax_mu(s: Array, variances: Array, c: float) -> float:
    """Value mu of (QP) by the min-max formula, in O(N^2).

    With w_k = c^{N-1-k}, mass_k = w_k s_k and var_k = w_k^2 variances_k, the constraints read
    sum_{j<=k} w_j a_{j+1} <= sum_{j<=k} mass_j, with equality at the end, so the best cumulative
    shift is the greatest convex minorant of the cumulative mass over the cumulative variance:
    mu^2 = sum_k var_k y_k^2,   y_k = max_{j<=k} min_{l>=k} sum_{j..l} mass / sum_{j..l} var.
    A step with var_k = 0 takes no shift: its mass waits for the next step that can take it.
    """
    w = c ** np.arange(len(s) - 1, -1, -1.0)
    mass, var, waiting = [], [], 0.0
    for mass_k, var_k in zip(w * s, w**2 * variances, strict=True):
        waiting += mass_k
        if var_k > 0:
            mass.append(waiting)
            var.append(var_k)
            waiting = 0.0
    if waiting > 0:
        return math.inf
    y = np.full(len(mass), -math.inf)
    for j in range(len(mass)):
        ratios = np.cumsum(mass[j:]) / np.cumsum(var[j:])  # over j..l for every l >= j
        least = np.minimum.accumulate(ratios[::-1])[::-1]  # min over l >= k for every k >= j
        y[j:] = np.maximum(y[j:], least)
    return math.sqrt(float(np.array(var) @ y**2))
