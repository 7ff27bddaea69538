"""Cyclic mini-batches by literal, step-by-step dense propagation  [PILU, App. on mini-batches].

Letters are the paper's. Batch t holds the rows t b, ..., (t+1) b - 1, there are M = ceil(n / b) of
them, and step k, counted from 0 through all `segments` and on into unlearning, takes batch k mod M.
Rows that are left out (`gone` in every phase, and the rows to forget where a phase does without
them) leave the batches of the others as they are; a batch without rows still takes its step:

    theta_{k+1} = theta_k - eta (X_b'(X_b theta_k - Y_b) + lambda theta_k) + sqrt(2 eta) sigma_k xi.

The update is followed, with + lambda theta in every step, not the paper's lambda / (2 M) in the
objective. Arrays are two-dimensional except where said.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar

from .calibrate import dense_mu
from .dense import Array, Segments, shifted_norm_bound
from .high_precision import mu_from_epsilon_mp
from .pairs import whitened

_DIGITS = 50
_DUST = 1e-15  # an excess of this size is rounding
_BENDS = [math.tan(math.radians(degrees)) for degrees in (15, -15, 25, -25, 10, -10, 5, -5, 1, -1)]

Law = tuple[Array, Array]


class Pair(NamedTuple):
    """(mean, covariance) of P and of Q, and P's excesses x and squared shifts a^2 against Q.

    In direction l of the pair whitened by Q, P has variance 1 + x_l and squared mean shift a2_l,
    over d coordinates: the form of pairs.py.
    """

    P: Law
    Q: Law
    x: Array
    a2: Array


def batch_of_step(k: int, n: int, b: int, left_out: Collection[int] = ()) -> list[int]:
    """The rows that step k uses."""
    first = k % math.ceil(n / b) * b
    return [row for row in range(first, min(first + b, n)) if row not in left_out]


def visits(row: int, n: int, b: int, n_steps: int) -> list[int]:
    """The set I_i: the steps k < n_steps at which the batch of `row` has its turn."""
    return [k for k in range(n_steps) if row in batch_of_step(k, n, b)]


def step_map(X: Array, rows: Sequence[int], alpha: float, eta: float) -> Array:
    """A_k = I - eta (X_b'X_b + lambda I) for the batch that holds `rows`."""
    eye = np.eye(X.shape[1], dtype=X.dtype)
    gram = sum((np.outer(X[i], X[i]) for i in rows), 0 * eye)
    return eye - eta * (gram + alpha * eye)


def next_law(
    law: Law, X: Array, Y: Array, rows: Sequence[int], alpha: float, eta: float, noise: float
) -> Law:
    """m_{k+1} = A_k m_k + eta X_b'Y_b and Sigma_{k+1} = A_k Sigma_k A_k' + 2 eta sigma_k^2 I."""
    mean, covariance = law
    A = step_map(X, rows, alpha, eta)
    drive = sum((np.outer(X[i], Y[i]) for i in rows), 0 * mean)
    spread = 2 * eta * noise**2 * np.eye(X.shape[1], dtype=X.dtype)
    return A @ mean + eta * drive, A @ covariance @ A.T + spread


def noise_levels(segments: Segments) -> list[float]:
    """sigma_k for k = 0..N-1."""
    return [noise for steps, noise in segments for _ in range(steps)]


def cyclic_laws(
    X: Array,
    Y: Array,
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    gone: Collection[int] = (),
) -> tuple[list[Array], list[Array]]:
    """Means m_k (p x d) and covariances Sigma_k (p x p) of theta_k for k = 0..N.

    vec(theta_k) ~ N(vec(m_k), I_d kron Sigma_k), from m_0 = theta_0 and Sigma_0 = 0.
    """
    laws = [(np.array(theta0, dtype=X.dtype), 0 * np.eye(X.shape[1], dtype=X.dtype))]
    for k, noise in enumerate(noise_levels(segments)):
        rows = batch_of_step(k, len(X), b, gone)
        laws.append(next_law(laws[-1], X, Y, rows, alpha, eta, noise))
    return [mean for mean, _ in laws], [covariance for _, covariance in laws]


def walk(
    X: Array,
    Y: Array,
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    rng: np.random.Generator,
    gone: Collection[int] = (),
) -> Array:
    """theta_0, ..., theta_N of one simulated run, (N + 1) x p x d."""
    path = [np.array(theta0, dtype=float)]
    for k, noise in enumerate(noise_levels(segments)):
        rows = batch_of_step(k, len(X), b, gone)
        gradient = X[rows].T @ (X[rows] @ path[-1] - Y[rows]) + alpha * path[-1]
        xi = rng.standard_normal(path[-1].shape)
        path.append(path[-1] - eta * gradient + math.sqrt(2 * eta) * noise * xi)
    return np.array(path)


def cyclic_sensitivities(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    delta_s: float,
    gone: Collection[int] = (),
) -> Array:
    """s_k for k = 0..N-1, (N,): zero but for the steps that visit one of the rows.

    At a visit of row i, s_{i,k} = eta |x_i| sqrt(v_k q_k), q_k the upper quantile of
    chi'^2_d(|u_k|^2 / v_k) at tail delta_s / N_i, and eta |x_i| |u_k| if v_k = 0. A group adds its
    rows up at every step (triangle inequality), all visits of all rows sharing the union bound:
    tail delta_s / sum_i N_i. The law is that of the run with the rows present. Rows that are never
    visited have no say.
    """
    if set(rows) & set(gone) or len(set(rows)) < len(rows):
        raise ValueError(f"rows must be distinct and still there, got {rows} without {gone}.")
    n_steps = sum(steps for steps, _ in segments)
    means, covariances = cyclic_laws(X, Y, alpha, eta, b, segments, theta0, gone)
    turns = {row: visits(row, len(X), b, n_steps) for row in rows}
    n_visits = sum(len(steps) for steps in turns.values())
    s = np.zeros(n_steps)
    for row, steps in turns.items():
        x, y = X[row], Y[row]
        for k in steps:
            u, v = float(np.linalg.norm(x @ means[k] - y)), float(x @ covariances[k] @ x)
            bound = shifted_norm_bound(u, v, len(y), delta_s / n_visits)
            s[k] += eta * float(np.linalg.norm(x)) * bound
    return s


def check_contraction(
    X: Array, alpha: float, eta: float, b: int, left_out: Collection[int]
) -> None:
    """Every step on the retained rows contracts by c = 1 - eta lambda, as eta <= 1/L_max ensures.

    The proof of Proposition 1 moves both processes by the retained map, so the row to forget may
    be in `left_out`. A batch without rows contracts by c exactly.
    """
    for t in range(math.ceil(len(X) / b)):
        A = step_map(X, batch_of_step(t, len(X), b, left_out), alpha, eta)
        if np.linalg.norm(A, 2) > 1 - eta * alpha + 1e-12:
            raise ValueError(f"batch {t} contracts by {np.linalg.norm(A, 2)}: eta is too large.")


def cyclic_mu(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    delta_s: float,
    sigma: float,
    K: int,
    gone: Collection[int] = (),
) -> float:
    """Value mu of (QP) over the N past steps and K more with noise sigma, with c = 1 - eta lambda.

    The zeros before the first visit force a_{k+1} = z_{k+1} = 0 there; `minmax_mu` needs no special
    case for them or for the zeros between visits (and `solve_qp` none either), but Proposition 1's
    closed form is too small with the former and can be with the latter.
    """
    check_contraction(X, alpha, eta, b, {*rows, *gone})
    s = cyclic_sensitivities(X, Y, rows, alpha, eta, b, segments, theta0, delta_s, gone)
    return dense_mu(s, segments, sigma, K, eta, alpha)


def cyclic_noise(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    epsilon: float,
    delta: float,
    delta_split: float,
    K: int,
    gone: Collection[int] = (),
) -> float:
    """The least sigma_unlearn of Theorem 1(ii) on mini-batches, to 1e-12 relative, from above.

    delta_s = delta_split * delta pays for the sensitivities, delta_m = delta - delta_s for
    delta_GDP(mu(sigma), epsilon). Returns 0 if no noise is needed (so for a row never visited), inf
    if no noise suffices (K = 0).
    """
    delta_s = delta_split * delta
    check_contraction(X, alpha, eta, b, {*rows, *gone})
    s = cyclic_sensitivities(X, Y, rows, alpha, eta, b, segments, theta0, delta_s, gone)
    target = float(mu_from_epsilon_mp(epsilon, delta - delta_s))

    def enough(sigma: float) -> bool:
        return dense_mu(s, segments, sigma, K, eta, alpha) <= target

    if enough(0.0):
        return 0.0
    if K == 0:
        return math.inf
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def as_mpf(array: Array) -> Array:
    """The same numbers as `mpf`, in an object array."""
    return np.vectorize(mpf, otypes=[object])(np.asarray(array, dtype=float))


def whitened_mp(P: Law, Q: Law) -> tuple[Array, Array]:
    """`pairs.whitened` on object arrays of `mpf`, at the caller's precision."""
    factor = mp.inverse(mp.cholesky(mp.matrix(Q[1].tolist())))
    gap = factor * mp.matrix((P[1] - Q[1]).tolist()) * factor.T
    x, vectors = mp.eigsy((gap + gap.T) / 2)
    shift = np.array((vectors.T * factor * mp.matrix((P[0] - Q[0]).tolist())).tolist())
    return np.array(list(x)), np.sum(shift**2, axis=1)


def _learned(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    gone: Collection[int],
) -> tuple[Law, Law]:
    """The laws of theta_N with and without the rows."""
    if set(rows) & set(gone):
        raise ValueError(f"rows must still be there, got {rows} without {gone}.")
    problem = (X, Y, alpha, eta, b, segments, theta0)
    with_rows, without = cyclic_laws(*problem, gone), cyclic_laws(*problem, {*rows, *gone})
    return (with_rows[0][-1], with_rows[1][-1]), (without[0][-1], without[1][-1])


def _unlearned(
    learned: tuple[Law, Law],
    X: Array,
    Y: Array,
    left_out: Collection[int],
    alpha: float,
    eta: float,
    b: int,
    n_steps: int,
    sigma: float,
    K: int,
) -> Pair:
    """Both laws after K more steps on the retained rows, from step n_steps on, and whitened."""
    P, Q = learned
    for k in range(n_steps, n_steps + K):
        retained = batch_of_step(k, len(X), b, left_out)
        P = next_law(P, X, Y, retained, alpha, eta, sigma)
        Q = next_law(Q, X, Y, retained, alpha, eta, sigma)
    return Pair(P, Q, *(whitened_mp if X.dtype == object else whitened)(P, Q))


def _in_digits50(
    X: Array, Y: Array, alpha: float, eta: float, segments: Segments, theta0: Array
) -> tuple[Array, Array, mpf, mpf, list[tuple[int, mpf]], Array]:
    wide = [(steps, mpf(noise)) for steps, noise in segments]
    return as_mpf(X), as_mpf(Y), mpf(alpha), mpf(eta), wide, as_mpf(theta0)


def cyclic_pair(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    sigma: float,
    K: int,
    gone: Collection[int] = (),
    digits50: bool = False,
) -> Pair:
    """Both sides of Definition 1 after N + K steps, step by step.

    P runs `segments` with the rows present, then K steps of noise sigma without them, the order
    going on; Q does without the rows throughout; `gone` is absent from both. With `digits50` every
    array is an object array of `mpf` and every step is in 50 digits, which is what a small sigma
    needs (small p only). Fails if Q's covariance is singular, as it may be without noise: at
    eta = 1/L_max one batch has a singular A_k.
    """
    with mp.workdps(_DIGITS):
        if digits50:
            X, Y, alpha, eta, segments, theta0 = _in_digits50(X, Y, alpha, eta, segments, theta0)
            sigma = mpf(sigma)
        learned = _learned(X, Y, rows, alpha, eta, b, segments, theta0, gone)
        n_steps = sum(steps for steps, _ in segments)
        return _unlearned(learned, X, Y, {*rows, *gone}, alpha, eta, b, n_steps, sigma, K)


def reversed_pair(x: Array, a2: Array) -> tuple[Array, Array]:
    """Q's excesses and squared shifts against P, from P's against Q."""
    return -x / (1 + x), a2 / (1 + x)


def hockey_stick(x: Array, a2: Array, d: int, epsilon: float) -> float:
    """delta(epsilon) = P(l > epsilon) - e^epsilon Q(l > epsilon), l = log dP/dQ, to 1e-10 relative.

    The inversion integral of section 4 of MATH in double precision, with r = s - 1,

        (1 / 2 pi i) int exp( r (1 + r) sum a^2 / (2 D) - (d/2) sum (log D + r log(1 + x))
                              - epsilon r ) / (r (1 + r)) dr,   D = 1 - r x,

    along r = g + w (i sinh t + bend (cosh t - 1)) through the minimum g of the integrand on
    (0, 1 / max x), up to where it is below 1e-26 of its peak. The singularities are on the real
    axis, so bends on which the integrand does not climb first give the same value: two have to
    agree to 1e-10, each with its own half step. Returns 0 below 1e-300.
    """
    x, a2 = np.asarray(x, dtype=float), np.asarray(a2, dtype=float)
    x = np.where(np.abs(x) < _DUST, 0.0, x)
    log_e = float(np.sum(np.log1p(x)))
    rate = epsilon + d / 2 * log_e + float(np.sum(a2[x != 0] / (2 * x[x != 0])))
    if x.max() <= 0 and not a2[x == 0].any() and rate >= 0:
        return 0.0  # l never exceeds epsilon

    def log_integrand(r: Array) -> Array:
        D = 1 - r[:, None] * x
        square = r * (1 + r) / 2 * np.sum(a2 / D, axis=1)
        logs = np.sum(np.log(D), axis=1) + r * log_e
        return square - d / 2 * logs - epsilon * r - np.log(r) - np.log(1 + r)

    end = 1 / x.max() if x.max() > 0 else 1e12

    def on_axis(log_gap: float) -> float:
        return float(log_integrand(np.array([math.exp(log_gap)]))[0])

    bracket = (math.log(end) - 60, math.log(end) - 1e-9)
    options = {"xatol": 1e-6}
    gap = math.exp(minimize_scalar(on_axis, bounds=bracket, method="bounded", options=options).x)
    peak = on_axis(math.log(gap))
    if peak < -690:
        return 0.0
    h = 1e-3 * min(gap, end - gap)
    sides = log_integrand(np.array([gap - h, gap, gap + h]))
    width = 1 / math.sqrt(float(sides[0] - 2 * sides[1] + sides[2]) / h**2)
    t = np.arange(0, 40, 1 / 64)
    values: list[float] = []
    for bend in _BENDS:
        r = gap + width * (1j * np.sinh(t) + bend * (np.cosh(t) - 1))
        speed = width * (1j * np.cosh(t) + bend * np.sinh(t))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            exponents = log_integrand(r) - peak + np.log(speed)
        faded = np.flatnonzero(exponents.real < exponents.real[0] - 60)
        if len(faded) == 0 or exponents.real[: faded[0]].max() > exponents.real[0] + 3:
            continue
        terms = np.exp(exponents[: faded[0]]).imag
        terms[0] /= 2
        fine, coarse = float(terms.sum()) / 64, float(terms[::2].sum()) / 32
        if abs(fine - coarse) < 1e-11 * abs(fine):
            values.append(fine)
        if len(values) == 2:
            break
    if len(values) < 2 or abs(values[0] - values[1]) > 1e-10 * abs(values[0]):
        raise RuntimeError(f"no contour for x={x}, a2={a2}, d={d}, epsilon={epsilon}: {values}")
    return values[0] / math.pi * math.exp(peak)


def both_ways_delta(x: Array, a2: Array, d: int, epsilon: float) -> float:
    """The larger of delta(epsilon) of P against Q and of Q against P."""
    forth, back = hockey_stick(x, a2, d, epsilon), hockey_stick(*reversed_pair(x, a2), d, epsilon)
    return max(forth, back)


def cyclic_exact_noise(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    eta: float,
    b: int,
    segments: Segments,
    theta0: Array,
    epsilon: float,
    delta: float,
    K: int,
    gone: Collection[int] = (),
    digits50: bool = False,
) -> float:
    """The least sigma with delta(epsilon) <= delta both ways, to 1e-11 relative, from above.

    The error of delta(epsilon), about 1e-14 relative, is more than that where next to no noise is
    needed. With `digits50` the pair is computed in 50 digits, its divergence in double precision.

    sigma = 0 is judged by the laws of theta_N, as if steps without noise were one-to-one: exact if
    every retained A_k is regular, never too favourable otherwise, and not enough if Q's covariance
    is singular. At eta = 1/L_max one batch has a singular A_k, up to rounding, and unless the rows
    are in it, its turn loses a direction: then the answer may be of the size of rounding (it is
    returned down to 1e-20 of the largest noise), and only `digits50` gets there. Returns 0 if no
    noise is needed, inf if none suffices (K = 0).
    """
    with mp.workdps(_DIGITS):
        if digits50:
            X, Y, alpha, eta, segments, theta0 = _in_digits50(X, Y, alpha, eta, segments, theta0)
        learned = _learned(X, Y, rows, alpha, eta, b, segments, theta0, gone)
        left_out, n_steps = {*rows, *gone}, sum(steps for steps, _ in segments)

        def enough(sigma: float) -> bool:
            more = (mpf(sigma) if digits50 else sigma, K if sigma > 0 else 0)
            try:
                pair = _unlearned(learned, X, Y, left_out, alpha, eta, b, n_steps, *more)
            except ValueError:
                if sigma > 0:
                    raise
                return False
            return both_ways_delta(pair.x, pair.a2, Y.shape[1], epsilon) <= delta

        if enough(0.0):
            return 0.0
        if K == 0:
            return math.inf
        high = start = max(float(noise) for _, noise in segments) or 1.0
        while not enough(high):
            high *= 2
        low = high / 2
        while enough(low):
            low, high = low / 2, low
            if high < 1e-20 * start:
                return high
        while high - low > 1e-11 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high
