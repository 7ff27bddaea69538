"""High-probability bounds on eta |grad l(theta_k)| along the chain, for ridge  [PILU, Thm 1(i)].

This is all that the theorem asks of a problem: another loss supplies the same three methods.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pilu.accounting.quantiles import noncentral_chi_upper_quantile
from pilu.certify.accountant import Request
from pilu.laws.iterates import IterateLaw

__all__ = ["ROUNDING", "RidgeSensitivities"]

Array = NDArray[np.float64]

ROUNDING = 1e-12  # relative allowance for the floating-point error of residual means and variances


@dataclass(frozen=True)
class RidgeSensitivities:
    """Sensitivity bounds of a ridge chain; `tail` is the failure probability of each single bound.

    Iterate 0 is deterministic and needs no tail; the paper's union bound over all steps is kept.
    """

    law: IterateLaw

    def of_each(self, rows: Request, tail: float) -> Array:
        """Bounds for each row by itself: (n x N).

        s_k = eta |x| sqrt(v_k q_k),  q_k the upper `tail` quantile of chi'^2_d(|u_k|^2 / v_k)
        """
        law = self.law
        Z = law.coordinates(rows.X)
        norms = np.sqrt(np.sum(np.square(rows.X), axis=1))
        target_norms = np.sqrt(np.sum(np.square(rows.Y), axis=1))
        u = law.residual_mean_norms(Z, rows.Y)
        u += ROUNDING * (norms[:, None] * law.mean_norms + target_norms[:, None])
        root_v = np.sqrt(law.residual_variances(Z))
        bounds = _gaussian_norm_bound(u, root_v, law.n_outputs, tail)
        bounds *= law.step_size * norms[:, None] * (1 + ROUNDING)
        return bounds

    def of_group_sum(self, rows: Request, tail: float) -> Array:
        """Triangle inequality over the rows of a group: (N,)   [PILU, Cor. group-unlearning]."""
        return np.asarray(np.sum(self.of_each(rows, tail), axis=0))

    def of_group_jointly(self, rows: Request, tail: float) -> Array:
        """The norm of the group's summed gradient, bounded as one Gaussian matrix: (N,).

        X_f'(X_f theta_k - Y_f) has mean m = X_f'U and, in each output, covariance W = X_f'V X_f.
        The smaller of two bounds (docs/guarantee.md, "Groups"):

            sqrt(|m|^2 + d tr W) + sqrt(lmax W) z_tail
            sqrt(lmax W) * root of the chi'^2_{d R}(|m|^2 / lmax W) quantile at `tail`
        """
        law, (X, Y) = self.law, rows
        R, d = Y.shape
        Z = law.coordinates(X)
        # X' = Q root, so |X'U| = |root U| and W has the eigenvalues of root V root'. Not from X X':
        # that would square the condition of nearly equal rows.
        root = np.linalg.qr(X.T, mode="r")
        U = law.residual_means(Z, Y)
        scale = np.linalg.norm(X) * (np.linalg.norm(X) * law.mean_norms + np.linalg.norm(Y))
        m = np.sqrt(np.sum(np.square(np.einsum("ij,jdk->idk", root, U)), axis=(0, 1)))
        m += ROUNDING * scale
        rooted = root @ Z
        trace, largest = np.empty_like(m), np.empty_like(m)
        for k, variances in enumerate(law.variance_profile.T):
            W = (rooted * variances) @ rooted.T
            trace[k] = np.trace(W)
            largest[k] = np.linalg.eigvalsh(W)[-1]
        largest = np.maximum(largest, 0.0) * (1 + ROUNDING) + ROUNDING * trace
        spread = np.sqrt(largest)
        z = max(-float(ndtri(tail)), 0.0)
        concentrated = np.sqrt(m**2 + d * trace) + spread * z
        isotropic = _gaussian_norm_bound(m, spread, d * min(R, X.shape[1]), tail)
        bound = np.minimum(concentrated, isotropic) if tail <= 0.5 else concentrated
        return np.asarray(law.step_size * bound * (1 + ROUNDING))

    def contraction(self, X: Array, strong_convexity: str) -> float:
        """c = max(|1 - eta m|, |1 - eta L|) of the retained problem   [PILU, Assumption 1].

        m = alpha, or a lower bound on the retained problem's own smallest eigenvalue.
        """
        spectrum = self.law.spectrum
        m = spectrum.alpha if strong_convexity == "alpha" else spectrum.smallest_without(X)
        low = 1.0 - self.law.step_size * m
        high = self.law.step_size * spectrum.largest * (1 + ROUNDING) - 1.0
        return min(max(abs(low), high) + 2.0**-52, 1.0)


def _gaussian_norm_bound(mean: Array, root_v: Array, df: int, tail: float) -> Array:
    """Upper `tail` quantile of |N(mean, v I_df)|, which is `mean` itself where v = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = np.where(root_v > 0, mean / root_v, 0.0)
    # r overflows only where v is negligible against the mean: any finite r rounds the same way.
    quantile = noncentral_chi_upper_quantile(tail, df, np.minimum(r, 1e300))
    return np.where(root_v > 0, np.maximum(root_v * quantile, mean), mean)
