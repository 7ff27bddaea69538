"""Divergences of two Gaussians by other means than the package's: closed forms and 50 digits.

In a direction of the whitened pair P has variance 1 + x and squared mean shift a2, over n
coordinates.
"""

from collections.abc import Sequence

import numpy as np
from mpmath import mp, mpf

from .dense import Array, dense_laws
from .high_precision import ncx2_sf_mp


def one_direction_delta(x: float, a2: float, n: int, eps: float) -> mpf:
    """delta(eps) = P(l > eps) - e^eps Q(l > eps) for a single direction with x != 0.

    The log-likelihood ratio is a square: l = x/(2e) |z + a/x|^2 - a^2/(2x) - (n/2) log e with
    e = 1 + x, noncentral chi-square under both laws.
    """
    with mp.workdps(60):
        x, a2, eps = mpf(x), mpf(a2), mpf(eps)
        e = 1 + x
        bound = (eps + a2 / (2 * x) + mpf(n) / 2 * mp.log(e)) * 2 * e / x
        if bound <= 0:  # x > 0: always exceeded; x < 0: never
            return 1 - mp.exp(eps) if x > 0 else mpf(0)
        q_sf = ncx2_sf_mp(bound, n, a2 / x**2)
        p_sf = ncx2_sf_mp(bound / e, n, a2 * e / x**2)
        if x > 0:
            return p_sf - mp.exp(eps) * q_sf
        return (1 - p_sf) - mp.exp(eps) * (1 - q_sf)


def contour_delta(x: Sequence[float], a2: Sequence[float], n: Sequence[int], eps: float) -> mpf:
    """delta(eps) in 50 digits: the inversion integral on a wedge of 15 degrees.

    Not for mixes of tiny excesses with huge shifts, where the wedge leads uphill.
    """
    with mp.workdps(50):
        xs, shifts, eps = [mpf(v) for v in x], [mpf(v) for v in a2], mpf(eps)

        def cumulant(s: mpf) -> mpf:
            total = mpf(0)
            for v, a, k in zip(xs, shifts, n, strict=True):
                d = 1 + (1 - s) * v
                total += s * (s - 1) * a / (2 * d)
                total -= mpf(int(k)) / 2 * (mp.log(d) + (s - 1) * mp.log(1 + v))
            return total

        def integrand(s: mpf) -> mpf:
            return mp.exp(cumulant(s) - eps * (s - 1)) / (s * (s - 1))

        end = min([1 / v for v in xs if v > 0], default=mpf(10) ** 7)
        gaps = [end * mpf(10) ** (-mpf(k) / 4) for k in range(1, 60)]
        gap = min(gaps, key=lambda g: mp.re(mp.log(integrand(1 + g))))
        width = min(gap, end - gap, 1 / mp.sqrt(sum(shifts) + mpf(10) ** -30))
        rate = eps + sum(
            a / (2 * v) + mpf(int(k)) / 2 * mp.log(1 + v)
            for v, a, k in zip(xs, shifts, n, strict=True)
            if v != 0
        )
        bend = mp.tan(mp.pi / 12)
        if rate < 0 and all(a < 400 * v * v for v, a in zip(xs, shifts, strict=True)):
            bend = -bend
        total, step, k = mp.re(integrand(1 + gap)) * width / 2, mpf(1) / 40, 1
        while k < 4000:
            u = k * step
            s = 1 + gap + width * (1j * mp.sinh(u) + bend * (mp.cosh(u) - 1))
            term = mp.im(integrand(s) * width * (1j * mp.cosh(u) + bend * mp.sinh(u)))
            total, k = total + term, k + 1
            if k > 100 and abs(term) < mpf(10) ** -22 * abs(total):
                break
        return total * step / mp.pi


def output_laws(
    X: Array,
    Y: Array,
    rows: Sequence[int],
    alpha: float,
    step_size: float,
    segments: list[tuple[int, float]],
    noise: float,
    n_unlearn_steps: int,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(mean, covariance) of U(A(D)) and of U(A(D')), both sides of Definition 1, step by step."""
    left = np.delete(np.arange(len(X)), rows)
    p = X.shape[1]
    start = np.zeros((p, Y.shape[1]))
    M = np.eye(p) - step_size * (X[left].T @ X[left] + alpha * np.eye(p))
    laws = []
    for learned in (np.arange(len(X)), left):
        means, covs = dense_laws(X[learned], Y[learned], alpha, step_size, segments, start)
        mean, cov = means[-1], covs[-1]
        for _ in range(n_unlearn_steps):
            mean = M @ mean + step_size * X[left].T @ Y[left]
            cov = M @ cov @ M.T + 2 * step_size * noise**2 * np.eye(p)
        laws.append((mean, cov))
    return laws[0], laws[1]


def whitened(P: tuple[Array, Array], Q: tuple[Array, Array]) -> tuple[Array, Array]:
    """Excesses x and squared shifts a^2 of P against Q by a Cholesky factor of Q's covariance."""
    factor = np.linalg.cholesky(Q[1])
    half = np.linalg.solve(factor, P[1] - Q[1])
    x, vectors = np.linalg.eigh(np.linalg.solve(factor, half.T))
    shift = vectors.T @ np.linalg.solve(factor, P[0] - Q[0])
    return x, np.sum(shift**2, axis=1)
