"""What rounding may do to a chain: each bound against chains whose steps really are perturbed.

Doubles perturb steps by 1e-15. Here it is 1e-3, so that every bound is put to the test, and all of
it is dense linear algebra.
"""

import math

import numpy as np
import pytest

from pilu.chains.schedule import (
    Schedule,
    Segment,
    StepRounding,
    deviation_errors,
    mean_errors,
    mean_size,
)

ETA, E = 0.4, 1e-3
SCHEDULES = {
    "learning": [(12, 0.3)],
    "a loud request since": [(12, 0.3), (3, 5.0)],
    "a quiet request since": [(12, 0.3), (3, 0.01)],
    "a request without noise since": [(12, 0.3), (4, 0.0)],
    "a quiet start": [(5, 1e-3), (4, 0.4)],
}


def symmetric(rng, factors):
    turn = np.linalg.qr(rng.normal(size=(len(factors),) * 2))[0]
    return (turn * factors) @ turn.T


def two_steps(rng, p=5):
    """M with a factor that is nearly nothing, and M^ at a distance of E; both at most 1 in norm."""
    factors = rng.uniform(-0.6, 0.98, p)
    factors[0] = rng.choice([0.0, 1e-5, 3e-3])
    M, off = symmetric(rng, factors), rng.normal(size=(p, p))
    off = off + off.T
    return M, M + E * off / np.linalg.norm(off, 2)


def segments_of(name):
    return Schedule(tuple(Segment(*s) for s in SCHEDULES[name]))


def rounding_of(schedule, memory=math.nan):
    return StepRounding(E, 1.0, memory, ETA, schedule)


def covariances(M, segments):
    """After every step."""
    sigma, found = np.zeros_like(M), []
    for steps, noise in segments:
        for _ in range(steps):
            sigma = M @ sigma @ M + 2 * ETA * noise**2 * np.eye(len(M))
            found.append(sigma)
    return found


def deviation(M, variances, x):
    """sqrt(x'Sigma x) after one step for each of the variances."""
    reached = [np.linalg.matrix_power(M, j) @ x for j in range(len(variances))]
    return math.sqrt(sum(v * a @ a for v, a in zip(variances[::-1], reached, strict=True)))


def least_eigenvalue(matrix):
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])


@pytest.mark.parametrize("K", [1, 2, 3, 5, 30])
def test_later_noise_is_never_less_than_stated(K, rng):
    zeta, e_K = rounding_of(segments_of("learning")).of_later_steps(K)
    tightest = 0.0
    for _ in range(40):
        M, computed = two_steps(rng)

        def inverse_noise(step):  # R^-1 with noise 1
            added = 2 * ETA * sum(np.linalg.matrix_power(step, 2 * j) for j in range(K))
            power = np.linalg.matrix_power(step, K)
            return power @ np.linalg.solve(added, power)

        true, found = inverse_noise(M), inverse_noise(computed)
        for w in (1e-3, 0.1, 1.0, 30.0):
            bound = (1 + w) * (1 + zeta) ** 2 * found + (1 + 1 / w) * e_K**2 * np.eye(len(M))
            assert least_eigenvalue(bound - true) >= -1e-12
        tightest = max(tightest, float(np.linalg.norm(true - found, 2)) / e_K**2)
    assert tightest > 0.1  # without the charge it would fail


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("K", "later"), [(0, 0.0), (3, 0.05), (3, 2.0)])
def test_covariances_are_as_close_as_stated(name, K, later, rng):
    schedule, shares = segments_of(name), []
    for _ in range(40):
        M, computed = two_steps(rng)
        loudest = np.maximum.accumulate(schedule.variances(ETA))
        traces = [np.trace(sigma) for sigma in covariances(M, SCHEDULES[name])]
        memory = float(np.max(traces / loudest))
        tau = rounding_of(schedule, memory).covariance_error(later, K)
        if not tau < 0.2:  # nothing is claimed
            continue
        # The steps of the schedule are perturbed, the later ones are the same.
        true = covariances(M, SCHEDULES[name])[-1]
        found = covariances(computed, SCHEDULES[name])[-1]
        for _ in range(K):
            added = 2 * ETA * later**2 * np.eye(len(M))
            true, found = M @ true @ M + added, M @ found @ M + added
        assert least_eigenvalue(true - (1 - tau) ** 2 * found) >= -1e-12 * np.trace(found)
        root = np.linalg.inv(np.linalg.cholesky(found))
        whitened = float(np.linalg.norm(root @ (true - found) @ root.T))
        assert whitened <= (math.sqrt(2) + tau) * tau
        shares.append(whitened / tau)
    if not shares:  # the last steps had no noise, and little follows: no bound, and none claimed
        assert SCHEDULES[name][-1][1] == 0.0
        assert later < 0.1
    elif K == 0:
        assert max(shares) > 0.02


@pytest.mark.parametrize("name", SCHEDULES)
def test_means_and_deviations_are_as_close_as_stated(name, rng):
    schedule = segments_of(name)
    N, variances = schedule.n_steps, schedule.variances(ETA)
    for _ in range(20):
        M, computed = two_steps(rng)
        push, other = rng.normal(size=5), 1e-4 * rng.normal(size=5)
        means, found = [np.zeros(5)], [np.zeros(5)]
        for _ in range(N - 1):
            means.append(M @ means[-1] + push)
            found.append(computed @ found[-1] + push + other)
        norms = np.linalg.norm(found, axis=1)
        off = np.linalg.norm(np.subtract(means, found), axis=1)
        assert (off <= mean_errors(E, norms, float(np.linalg.norm(other))) + 1e-15).all()
        x = rng.normal(size=5)
        for k, bound in enumerate(deviation_errors(E, variances)):
            roots = [
                math.sqrt(
                    sum(
                        variances[j]
                        * np.linalg.norm(np.linalg.matrix_power(step, k - 1 - j) @ x) ** 2
                        for j in range(k)
                    )
                )
                for step in (M, computed)
            ]
            assert abs(roots[0] - roots[1]) <= bound * np.linalg.norm(x) + 1e-15


@pytest.mark.parametrize("factor", [0.3, 1.0, 1.7, 1.99])
def test_means_stay_as_small_as_stated_whichever_rows_are_left(factor, rng):
    for _ in range(30):
        batches = [(rng.normal(size=(4, 3)), 10 * rng.normal(size=4)) for _ in range(3)]
        alpha = float(rng.choice([0.0, 0.1]))
        largest = alpha + max(float(np.linalg.norm(X, 2)) ** 2 for X, _ in batches)
        eta, start, steps = factor / largest, rng.normal(size=3), int(rng.integers(1, 40))
        sizes = [float(np.linalg.norm(batches[k % 3][1])) for k in range(steps)]
        bound = mean_size(
            eta, largest, float(np.linalg.norm(start)), float(np.sum(np.square(sizes))), sum(sizes)
        )
        for _ in range(5):
            kept = [rng.random(4) < 0.7 for _ in batches]
            theta = start
            for k in range(steps):
                X, y = (part[kept[k % 3]] for part in batches[k % 3])
                theta = theta - eta * (X.T @ (X @ theta - y) + alpha * theta)
            assert np.linalg.norm(theta) <= bound * (1 + 1e-12)
