"""The competing methods, each written out literally from its definition.

The problem is f_D(theta) = 1/2 sum_j |x_j'theta - y_j|^2 + alpha/2 |theta|^2 with X (n x p), its
column of ones already in it if there is one, Y (n x d) and theta (p x d). `rows` lists the rows to
forget; norms of matrices are Frobenius norms.
"""

import math
from collections.abc import Iterable, Sequence

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import fixed_quad
from scipy.optimize import brentq, minimize, minimize_scalar
from sklearn.linear_model import Ridge

Array = NDArray[np.float64]
DIGITS = 50


def refit(X: Array, Y: Array, alpha: float) -> Array:
    """The minimiser of f_D, by scikit-learn."""
    model = Ridge(alpha=alpha, fit_intercept=False, solver="svd").fit(X, Y)
    return np.reshape(model.coef_, (Y.shape[1], X.shape[1])).T.copy()


def refit_without(X: Array, Y: Array, alpha: float, rows: Sequence[int]) -> Array:
    """The minimiser after deleting `rows`, with the same alpha."""
    return refit(np.delete(X, rows, axis=0), np.delete(Y, rows, axis=0), alpha)


def descend(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    n_steps: int,
    start: Array | None = None,
    linear: Array | None = None,
) -> Array:
    """Gradient descent on f_D(theta) + <linear, theta>, from `start` (zero if None)."""
    shape = (X.shape[1], Y.shape[1])
    theta = np.zeros(shape) if start is None else np.array(start, dtype=float)
    slope = np.zeros(shape) if linear is None else linear
    for _ in range(n_steps):
        theta = theta - step_size * (X.T @ (X @ theta - Y) + alpha * theta + slope)
    return theta


def descend_projected(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    n_steps: int,
    radius: float,
    start: Array | None = None,
) -> Array:
    """Gradient descent on f_D, put back into the ball |theta| <= radius after every step.

    The start itself is not projected.
    """
    theta = np.zeros((X.shape[1], Y.shape[1])) if start is None else np.array(start, dtype=float)
    for _ in range(n_steps):
        theta = theta - step_size * (X.T @ (X @ theta - Y) + alpha * theta)
        norm = np.linalg.norm(theta)
        if norm > radius:
            theta = theta * (radius / norm)
    return theta


def dp_gd(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    clipping: float,
    start: Array,
    noises: Iterable[Array],
) -> Array:
    """theta <- theta - eta (sum_j clip(grad_j) + alpha theta + noise_k), one step per noise.

    grad_j = x_j (x_j'theta - y_j)' is scaled down to norm `clipping` if longer. The regulariser is
    not clipped, and the noise is multiplied by eta.
    """
    theta = np.array(start, dtype=float)
    for noise in noises:
        total = np.zeros_like(theta)
        for x, y in zip(X, Y, strict=True):
            gradient = np.outer(x, x @ theta - y)
            norm = np.linalg.norm(gradient)
            if norm > clipping:
                gradient = gradient * (clipping / norm)
            total = total + gradient
        theta = theta - step_size * (total + alpha * theta + noise)
    return theta


def newton_removal(X: Array, Y: Array, alpha: float, rows: Sequence[int], theta: Array) -> Array:
    """theta + H'^{-1} Delta, the removal step of Guo et al. for the R rows at once.

    With lambda = alpha / n, Delta = R lambda theta + sum_removed x_i (x_i'theta - y_i)' and
    H' = sum_kept x_j x_j' + (n - R) lambda I.
    """
    n, p = X.shape
    removed = {int(i) % n for i in rows}
    lam = alpha / n
    delta = len(removed) * lam * theta
    hessian = (n - len(removed)) * lam * np.eye(p)
    for j in range(n):
        if j in removed:
            delta = delta + np.outer(X[j], X[j] @ theta - Y[j])
        else:
            hessian = hessian + np.outer(X[j], X[j])
    return theta + np.linalg.inv(hessian) @ delta


def retained_gradient(
    X: Array, Y: Array, alpha: float, rows: Sequence[int], theta: Array, b: Array
) -> Array:
    """Gradient at theta of the retained objective plus <b, theta>.

    That is of sum_kept |x_j'theta - y_j|^2 / 2 + (n - R) alpha / (2 n) |theta|^2 + <b, theta>.
    """
    n = len(X)
    removed = {int(i) % n for i in rows}
    gradient = (n - len(removed)) * (alpha / n) * theta + b
    for j in range(n):
        if j not in removed:
            gradient = gradient + np.outer(X[j], X[j] @ theta - Y[j])
    return gradient


def _newton_pair(
    X: Array, Y: Array, alpha: float, step_size: float, n_steps: int, sigma: float
) -> tuple[Array, Array]:
    """G = I - M^T (p x p) and mu = M^T B / sigma (p x d), T = n_steps, by T multiplications.

    Divided by sigma, P is N(mu, G G') in each column and Q is N(0, I).
    """
    p = X.shape[1]
    M = np.eye(p) - step_size * (X.T @ X + alpha * np.eye(p))
    power = np.eye(p)
    for _ in range(n_steps):
        power = power @ M
    return np.eye(p) - power, power @ (X.T @ Y) / sigma


def newton_delta(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    n_steps: int,
    sigma: float,
    epsilon: float,
    tilt: float = 1.0,
    bend: float = math.pi / 6,
) -> float:
    """delta(epsilon) = sup_S P(S) - e^epsilon Q(S), the P and Q of `newton_epsilon`.

    With l = log dP/dQ it is E_Q (e^l - e^epsilon)_+, which inverts a Laplace transform:
    delta = 1/(2 pi i) int_{Re s = c} F(s) e^{(1 - s) epsilon} / (s (s - 1)) ds, any c > 1 with
    F(c) finite, and F(s) = E_Q e^{s l} = int p^s q^{1 - s} is, with C_s = (1 - s) C + s I,
    |C|^{(1-s)/2} |C_s|^{-1/2} exp(-s (1 - s) mu' C_s^{-1} mu / 2) for each column, C = G G'.
    C_s is singular at real s only, so each half of the line may be turned about c by `bend`
    (radians, < pi/4), to the side on which the integrand dies exponentially. The value does not
    depend on `tilt` (which moves c; at most 1) nor on `bend`: two ways to check it.

    Relative accuracy 1e-8 or better for delta of 1e-5 to 1e-1 and p d <= 6, seen against exact
    values for p = 1, nested quadrature for p = 2, Imhof's formula and 50 digits; 1e-12 is
    usual. Slow: some 0.05 s.
    """
    G, mu = _newton_pair(X, Y, alpha, step_size, n_steps, sigma)
    p, d = mu.shape
    if np.linalg.matrix_rank(G) < p:
        return 1.0  # P lives on a set that Q never meets
    C = G @ G.T
    variances = np.linalg.svd(G, compute_uv=False) ** 2  # the eigenvalues of C
    log_det = float(np.sum(np.log(variances)))

    def log_integrand(s: complex | float) -> complex | float:
        mixed = C + s * (np.eye(p) - C)
        # No eigenvalue of C_s meets the negative axis: the sum of their logarithms is continuous.
        log_mixed = np.sum(np.log(variances + s * (1 - variances)))
        log_f = d * ((1 - s) * log_det - log_mixed) / 2
        log_f = log_f - s * (1 - s) * np.sum(mu * np.linalg.solve(mixed, mu)) / 2
        return log_f + (1 - s) * epsilon - np.log(s) - np.log(s - 1)

    # For large s the integrand is e^{s (limit - epsilon)} up to powers of s.
    limit = np.sum(mu * np.linalg.lstsq(np.eye(p) - C, mu, rcond=None)[0]) / 2
    limit = limit - d * log_det / 2
    widest = variances.max()
    if widest < 1 and epsilon >= limit:
        return 0.0  # l is never larger than its limit

    # c: near the least value on the real axis, where the integrand oscillates least.
    gap = min(1 / (widest - 1), 1e8) if widest > 1 else 1e8  # F is finite on (1, 1 + gap)
    best = minimize_scalar(
        lambda v: log_integrand(1 + math.exp(v)),
        bounds=(math.log(1e-8 * min(gap, 1.0)), math.log(gap * (1 - 1e-6))),
        method="bounded",
    )
    c = 1 + math.exp(best.x) * tilt
    turn = bend if limit > epsilon else -bend
    direction = 1j * complex(math.cos(turn), math.sin(turn))
    top = log_integrand(c)

    def integrand(u: float) -> float:
        return (np.exp(log_integrand(c + u * direction) - top) * direction).imag

    # From c outwards over panels that double, 60 Gauss nodes each, until two in a row add nothing.
    total, left, width, negligible = 0.0, 0.0, 1e-6 * (c - 1), 0
    while negligible < 2:
        part = fixed_quad(np.vectorize(integrand), left, left + width, n=60)[0]
        total = total + part
        negligible = negligible + 1 if abs(part) <= 1e-14 * abs(total) else 0
        left, width = left + width, 2 * width
    return float(np.exp(top) * total / math.pi)


def newton_epsilon(
    X: Array,
    Y: Array,
    alpha: float,
    step_size: float,
    n_steps: int,
    sigma: float,
    delta: float,
) -> float:
    """The least epsilon >= 0 with P(S) <= e^epsilon Q(S) + delta for all S.

    P is the law of w = (I - M^T) b + M^T B for b ~ N(0, sigma^2 I) in R^{p x d}, T = n_steps,
    M = I - step_size A, A = X'X + alpha I, B = X'Y; Q = N(0, sigma^2 I). One direction only.
    Infinite if I - M^T is singular. The root of `newton_delta`, which says how accurate it is.
    """

    def excess(epsilon: float) -> float:
        return newton_delta(X, Y, alpha, step_size, n_steps, sigma, epsilon) - delta

    G, _ = _newton_pair(X, Y, alpha, step_size, n_steps, sigma)
    if np.linalg.matrix_rank(G) < len(G):
        return math.inf
    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high = 2 * high
    return float(brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-13))


def projective_residual(X: Array, Y: Array, alpha: float, rows: Sequence[int]) -> Array:
    """The minimiser plus the part of the exact update that lies in the span of the removed rows."""
    theta = refit(X, Y, alpha)
    update = refit_without(X, Y, alpha, rows) - theta
    X_F = X[list(rows)]
    _, values, Vt = np.linalg.svd(X_F, full_matrices=False)
    basis = Vt[values > values.max() * max(X_F.shape) * np.finfo(float).eps]
    return theta + basis.T @ (basis @ update)


def chien_divergence(
    order: float,
    sensitivity: float,
    strong_convexity: float,
    step_size: float,
    noise: float,
    n_steps: int,
    n_unlearn_steps: int,
) -> mp.mpf:
    """order M^2 / (m s^2) (1 - e^{-m eta T}) e^{-m eta K / order}, to 50 digits.

    M is the sensitivity, m the strong convexity, s the noise, T = n_steps, K = n_unlearn_steps.
    """
    with mp.workdps(DIGITS):
        q, M, m = mp.mpf(order), mp.mpf(sensitivity), mp.mpf(strong_convexity)
        eta, s = mp.mpf(step_size), mp.mpf(noise)
        learned = q * M**2 / (m * s**2) * (1 - mp.exp(-m * eta * n_steps))
        return learned * mp.exp(-m * eta * n_unlearn_steps / q)


def gaussian_chain_divergence(
    order: float,
    a: float,
    shift: float,
    step_size: float,
    noise: float,
    n_steps: int,
    n_unlearn_steps: int,
) -> mp.mpf:
    """Renyi divergence of two chains x <- x - eta (a x - c) + sqrt(2 eta) noise N(0, 1), 50 digits.

    Both start at 0. The first has c = shift for n_steps steps, the second c = 0; then both have
    c = 0 for n_unlearn_steps. Equal variances v: it is order (difference of means)^2 / (2 v).
    """
    with mp.workdps(DIGITS):
        eta, rate = mp.mpf(step_size), mp.mpf(a)
        first, second, variance = mp.mpf(0), mp.mpf(0), mp.mpf(0)
        for k in range(n_steps + n_unlearn_steps):
            c = mp.mpf(shift) if k < n_steps else mp.mpf(0)
            first = first - eta * (rate * first - c)
            second = second - eta * rate * second
            variance = (1 - eta * rate) ** 2 * variance + 2 * eta * mp.mpf(noise) ** 2
        return mp.mpf(order) * (first - second) ** 2 / (2 * variance)


def largest_gradient(x: Array, y: Array, radius: float) -> float:
    """The largest |x (x'theta - y)'| over |theta| <= radius, by search; x is (p,) and y is (d,).

    The norm is convex in theta, hence largest on the sphere: theta = radius z / |z|, z free, by
    BFGS from many starts.
    """
    shape = (len(x), len(y))

    def norm(z: Array) -> float:
        theta = radius * z.reshape(shape) / np.linalg.norm(z)
        return float(np.linalg.norm(np.outer(x, x @ theta - y)))

    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(20):
        start = rng.standard_normal(len(x) * len(y))
        scale = norm(start) or 1.0
        for z in (start, -start):
            found = minimize(lambda z, scale=scale: -((norm(z) / scale) ** 2), z, tol=1e-10)
            best = max(best, norm(z), norm(found.x))
    return best
