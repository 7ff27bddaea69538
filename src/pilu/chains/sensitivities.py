"""High-probability bounds on eta |grad l(theta_k)| along a chain   [PILU, Thm 1(i)].

This is all that the theorem needs of a problem (`Sensitivities`).
"""

import math
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pilu.accounting.quantiles import noncentral_chi_upper_quantile
from pilu.data.rows import Request

Array = NDArray[np.float64]

ROUNDING = 1e-12  # relative allowance for the floating-point error of means, variances and norms


class Sensitivities(Protocol):
    """Bounds that fail, all together, with probability at most `slack`.

    What most kinds have in common is written here, once.
    """

    @property
    def rounding(self) -> float:
        """Relative allowance for the floating-point error of residual means and variances."""
        return ROUNDING

    def terms(self, slack: float) -> dict[str, Any]:
        """What the bounds rest on besides the data, for the certificate."""
        return {}

    def check_options(self, *, group: str, strong_convexity: str) -> None:
        """Refuse options of the theorem that this kind of problem does not have."""
        return None

    def prepare(self, rows: NDArray[np.intp]) -> None:
        """Do once what all requests about these rows share, if there is anything."""
        return None

    def of_each(self, rows: Request, slack: float) -> Array:
        """Bounds for each row by itself: (n x N)."""

    def of_group_sum(self, rows: Request, slack: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)   [PILU, Cor. group-unlearning]."""

    def of_group_jointly(self, rows: Request, slack: float) -> Array:
        """The norm of the group's summed gradient: (N,)."""

    def contraction(self, rows: Request, strong_convexity: str) -> float:
        """c = max(|1 - eta m|, |1 - eta L|) of the retained problem   [PILU, Assumption 1].

        m = alpha, or a lower bound on the retained problem's own smallest eigenvalue.
        """


def row_norm_bounds(
    X: Array,
    Y: Array,
    u: Array,
    v: Array,
    mean_errors: Array,
    deviation_errors: Array,
    step_size: float,
    tail: float,
) -> Array:
    """Upper `tail` quantile, or more, of eta |x| |x'theta_k - y| for every row at V steps: (n x V).

        eta |x| sqrt(v_k q_k),  q_k the upper `tail` quantile of chi'^2_d(|u_k|^2 / v_k)

    `u` are norms of residual means, which are overwritten, and `v` residual variances (n x V). The
    errors are bounds on those of m_k, and of the deviation along a vector of norm 1.
    """
    norms = np.sqrt(np.sum(np.square(X), axis=1))[:, None]
    target_norms = np.sqrt(np.sum(np.square(Y), axis=1))[:, None]
    u += norms * mean_errors
    u += ROUNDING * target_norms
    bounds = gaussian_norm_bound(u, np.sqrt(v) + norms * deviation_errors, Y.shape[1], tail)
    bounds *= step_size * norms * (1 + ROUNDING)
    return bounds


def joint_norm_bounds(
    X: Array,
    Y: Array,
    means: Array,
    covariances: Iterable[Array],
    mean_errors: Array,
    deviation_errors: Array,
    tail: float,
    rounding: float,
) -> Array:
    """Upper `tail` quantile, or more, of |X_f'(X_f theta_k - Y_f)| at V steps.

    `means` are the residual means U (R x d x V), `covariances` the R x R matrices X_f Sigma_k X_f',
    the errors bounds on those of m_k, and of the deviation along a vector of norm 1.
    The gradient has mean m = X_f'U and, in each output, covariance W = X_f'(X_f Sigma_k X_f')X_f.
    The smaller of two bounds (docs/guarantee.md, "Groups"):

        sqrt(|m|^2 + d tr W) + sqrt(lmax W) z_tail
        sqrt(lmax W) * root of the chi'^2_{d R}(|m|^2 / lmax W) quantile at `tail`
    """
    R, d = Y.shape
    # X' = Q root, so |X'U| = |root U| and W has the eigenvalues of root V root'. Not from X X':
    # that would square the condition of nearly equal rows.
    root = np.asarray(np.linalg.qr(X.T, mode="r"))
    m = np.sqrt(np.sum(np.square(np.einsum("ij,jdk->idk", root, means)), axis=(0, 1)))
    size = float(np.linalg.norm(X))
    m += size * (size * mean_errors + rounding * np.linalg.norm(Y))
    trace, largest = np.empty_like(m), np.empty_like(m)
    for k, V in enumerate(covariances):
        W = root @ V @ root.T
        trace[k] = np.trace(W)
        largest[k] = np.linalg.eigvalsh((W + W.T) / 2)[-1]
    largest = np.maximum(largest, 0.0) * (1 + rounding) + rounding * trace
    # W = H H' with H = X_f'X_f G_k, off by |X_f|^2 times what G_k is off by, and R rows of it
    unsure = size**2 * deviation_errors
    spread, trace = np.sqrt(largest) + unsure, (np.sqrt(trace) + math.sqrt(R) * unsure) ** 2
    z = max(-float(ndtri(tail)), 0.0)
    concentrated = np.sqrt(m**2 + d * trace) + spread * z
    isotropic = gaussian_norm_bound(m, spread, d * min(R, X.shape[1]), tail)
    bound = np.minimum(concentrated, isotropic) if tail <= 0.5 else concentrated
    return np.asarray(bound * (1 + rounding))


def gaussian_norm_bound(mean: Array, root_v: Array, df: int, tail: float) -> Array:
    """Upper `tail` quantile of |N(mean, v I_df)|, which is `mean` itself where v = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = np.where(root_v > 0, mean / root_v, 0.0)
    # r overflows only where v is negligible against the mean: any finite r rounds the same way.
    quantile = noncentral_chi_upper_quantile(tail, df, np.minimum(r, 1e300))
    return np.where(root_v > 0, np.maximum(root_v * quantile, mean), mean)


def contraction_between(smallest: float, largest: float, step_size: float) -> float:
    """c = max(|1 - eta m|, |1 - eta L|) for curvatures between m and L, rounded up."""
    low, high = 1.0 - step_size * smallest, step_size * largest * (1 + ROUNDING) - 1.0
    return min(max(abs(low), high) + 2.0**-52, 1.0)
