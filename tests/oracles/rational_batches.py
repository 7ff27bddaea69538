"""The divergences of `rational_chain`, for chains on cyclic mini-batches, step by step.

Batch t holds the rows t b, ..., (t + 1) b - 1 of the fit, step k takes batch k modulo their number,
and rows that are gone leave their batch as it is. Everything is propagated in BITS bits from the
rows as they stand, so that no rounding of doubles is left.
"""

import numpy as np
from mpmath import mp, mpf

from oracles.rational_chain import log_delta_contour, log_delta_scalar, reversed_pair

BITS = 1200


def log_deltas_of_batches(
    X, Y, forget, gone, *, alpha, step_size, batch_size, schedule, n_unlearn_steps, noise, epsilon
):
    """log delta forward and in reverse; `gone` are rows that neither run has seen."""
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    Y = Y.reshape(len(X), -1)
    with mp.workprec(BITS):
        eta = mpf(step_size)
        variances = [2 * eta * mpf(sigma) ** 2 for steps, sigma in schedule for _ in range(steps)]
        with_rows = _steps(X, Y, set(gone), eta, alpha, batch_size)
        without = _steps(X, Y, {*gone, *forget}, eta, alpha, batch_size)
        ends = []
        for learned_on in (with_rows, without):
            mean, sigma = mp.zeros(X.shape[1], Y.shape[1]), mp.zeros(X.shape[1])
            for k, variance in enumerate(variances):
                mean, sigma = _moved(learned_on[k % len(learned_on)], mean, sigma, variance)
            for k in range(len(variances), len(variances) + n_unlearn_steps):
                later = 2 * eta * mpf(noise) ** 2
                mean, sigma = _moved(without[k % len(without)], mean, sigma, later)
            ends.append((mean, sigma))
        pair = _standard(*ends)
    d, other = Y.shape[1], reversed_pair(pair)
    if len(pair) == d == 1:
        return log_delta_scalar(pair, epsilon), log_delta_scalar(other, epsilon)
    return log_delta_contour(pair, d, epsilon), log_delta_contour(other, d, epsilon)


def _steps(X, Y, out, eta, alpha, batch_size):
    """(1 - eta A_t, eta X_t'Y_t) of every batch."""
    found = []
    for start in range(0, len(X), batch_size):
        rows = [i for i in range(start, min(start + batch_size, len(X))) if i not in out]
        gram, cross = mp.eye(X.shape[1]) * mpf(alpha), mp.zeros(X.shape[1], Y.shape[1])
        for i in rows:
            x, y = mp.matrix(X[i].tolist()), mp.matrix(Y[i].tolist())
            gram, cross = gram + x * x.T, cross + x * y.T
        found.append((mp.eye(X.shape[1]) - eta * gram, eta * cross))
    return found


def _moved(step, mean, sigma, variance):
    factor, push = step
    return factor * mean + push, factor * sigma * factor.T + variance * mp.eye(sigma.rows)


def _standard(P, Q):
    """Excess and squared shift in every direction, where Q is N(0, I)."""
    root = mp.cholesky(Q[1]) ** -1
    core = root * (P[1] - Q[1]) * root.T
    shift = root * (P[0] - Q[0])
    if core.rows == 1:
        values, turn = [core[0, 0]], mp.eye(1)
    else:
        values, turn = mp.eigsy((core + core.T) / 2)
    shift = turn.T * shift
    return [
        (value, sum(shift[i, k] ** 2 for k in range(shift.cols))) for i, value in enumerate(values)
    ]
