"""The laws and sensitivity bounds of Theorem 1 by literal, step-by-step dense propagation.

Letters are the paper's: X (n x p), Y (n x d), theta (p x d), eta the step size, lambda the ridge
penalty `alpha`. `segments` lists (number of steps, noise) in the order run; N is the total number
of steps. Every array is two-dimensional except where said.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .quantiles import norm_quantile_gap

Array = NDArray[np.float64]
Segments = list[tuple[int, float]]


def dense_laws(
    X: Array, Y: Array, alpha: float, step_size: float, segments: Segments, theta0: Array
) -> tuple[list[Array], list[Array]]:
    """Means m_k (p x d) and covariances Sigma_k (p x p) of theta_k for k = 0..N.

    vec(theta_k) ~ N(vec(m_k), I_d kron Sigma_k) with, from m_0 = theta_0 and Sigma_0 = 0,
    m_{k+1} = M m_k + eta B and Sigma_{k+1} = M Sigma_k M' + 2 eta sigma_k^2 I, where
    M = I - eta (X'X + lambda I) and B = X'Y  [PILU, Lemma "Gaussian propagation"].
    """
    p = X.shape[1]
    M = np.eye(p) - step_size * (X.T @ X + alpha * np.eye(p))
    B = X.T @ Y
    means, covariances = [np.array(theta0, dtype=float)], [np.zeros((p, p))]
    for steps, noise in segments:
        for _ in range(steps):
            means.append(M @ means[-1] + step_size * B)
            covariances.append(M @ covariances[-1] @ M.T + 2 * step_size * noise**2 * np.eye(p))
    return means, covariances


def residual_law(
    x: Array, y: Array, means: list[Array], covariances: list[Array]
) -> tuple[Array, Array]:
    """u (N x d) and v (N,): x'theta_k - y ~ N(u_k, v_k I_d) for k = 0..N-1.

    u_k = x'm_k - y and v_k = x'Sigma_k x  [PILU, Lemma "Isotropic Gaussian law"].
    Here x is (p,) and y is (d,); the last law, that of theta_N, is not used.
    """
    u = np.array([x @ mean - y for mean in means[:-1]])
    v = np.array([x @ covariance @ x for covariance in covariances[:-1]])
    return u, v


def shifted_norm_bound(mean_norm: float, variance: float, df: int, tail: float) -> float:
    """The t with P(|N(mean, variance I_df)| > t) = tail, where |mean| = mean_norm.

    That is sqrt(v q), q the upper `tail` quantile of chi'^2_df(|mean|^2 / v), and |mean| if v = 0.
    """
    if variance == 0:
        return mean_norm
    deviation = math.sqrt(variance)
    return mean_norm + deviation * norm_quantile_gap(tail, df, mean_norm / deviation)


def sensitivity_bounds(
    x: Array,
    y: Array,
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    segments: Segments,
    theta0: Array,
    tail: float,
) -> Array:
    """s_k for k = 0..N-1, each exceeded with probability `tail`  [PILU, Thm 1(i)].

    s_0 = eta |x| |x'theta_0 - y| and s_k = eta |x| sqrt(v_k q_k), q_k the upper `tail` quantile of
    chi'^2_d(|u_k|^2 / v_k). The union bound is the caller's: the theorem has tail = delta_s / N.
    """
    u, v = residual_law(x, y, *dense_laws(X, Y, alpha, step_size, segments, theta0))
    residual_bounds = [
        shifted_norm_bound(float(np.linalg.norm(u_k)), float(v_k), len(y), tail)
        for u_k, v_k in zip(u, v, strict=True)
    ]
    return step_size * float(np.linalg.norm(x)) * np.array(residual_bounds)


def joint_group_bounds(
    Xf: Array,
    Yf: Array,
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    segments: Segments,
    theta0: Array,
    tail: float,
) -> Array:
    """Bounds on eta |Xf'(Xf theta_k - Yf)|_F for k = 0..N-1, each exceeded with prob. <= `tail`.

    The gradient of the forgotten rows (R x p and R x d) is Gaussian with mean m = Xf'U, U = Xf m_k
    - Yf, and covariance I_d kron W, W = Xf' (Xf Sigma_k Xf') Xf. Then  [MATH, section 7]

        eta min{ sqrt(|m|^2 + d tr W) + sqrt(lmax W) z_tail,
                 sqrt(lmax W * upper `tail` quantile of chi'^2_{d rank}(|m|^2 / lmax W)) }.
    """
    means, covariances = dense_laws(X, Y, alpha, step_size, segments, theta0)
    d, rank = Yf.shape[1], int(np.linalg.matrix_rank(Xf))
    bounds = []
    for mean, covariance in zip(means[:-1], covariances[:-1], strict=True):
        m_norm = float(np.linalg.norm(Xf.T @ (Xf @ mean - Yf)))
        W = Xf.T @ (Xf @ covariance @ Xf.T) @ Xf
        largest = max(float(np.linalg.eigvalsh((W + W.T) / 2)[-1]), 0.0)
        concentration = math.sqrt(m_norm**2 + d * float(np.trace(W)))
        concentration += math.sqrt(largest) * -float(ndtri(tail))
        bounds.append(min(concentration, shifted_norm_bound(m_norm, largest, d * rank, tail)))
    return step_size * np.array(bounds)
