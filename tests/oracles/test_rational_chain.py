"""The oracle against brute force: exact fractions, integrals of densities, closed forms, sampling.

`literal_ends` shares no code with the oracle: it takes every step of both runs in fractions.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf

from oracles import rational_chain as oracle
from oracles.rational_chain import (
    log_delta_contour,
    log_delta_scalar,
    log_deltas,
    reversed_pair,
    standard_pair,
)


def assert_same_delta(log_delta, expected, tolerance=1e-12):
    """Two log deltas agree to a relative `tolerance` in delta (and one unit in the last place)."""
    if math.isinf(expected):
        assert log_delta == expected
    else:
        assert abs(log_delta - expected) <= tolerance + 4e-16 * abs(expected)


def multiply(A, B):
    return [
        [sum(a * b for a, b in zip(row, c, strict=True)) for c in zip(*B, strict=True)] for row in A
    ]


def literal_ends(
    X, Y, forget, *, alpha, step_size, schedule, n_unlearn_steps, noise, start=None, **_
):
    """((mean, covariance) of run P, the same of run Q), in fractions, one step after the other."""
    X = [[Fraction(float(v)) for v in row] for row in X]
    Y = [[Fraction(float(v)) for v in row] for row in np.reshape(Y, (len(X), -1))]
    p, d, eta, alpha = len(X[0]), len(Y[0]), Fraction(step_size), Fraction(alpha)
    kept = [i for i in range(len(X)) if i not in forget]

    def steps(mean, C, rows, count, sigma):
        M = [
            [
                (i == j) * (1 - eta * alpha) - eta * sum(X[r][i] * X[r][j] for r in rows)
                for j in range(p)
            ]
            for i in range(p)
        ]
        B = [[sum(X[r][i] * Y[r][k] for r in rows) for k in range(d)] for i in range(p)]
        for _ in range(count):
            mean = multiply(M, mean)
            mean = [[mean[i][k] + eta * B[i][k] for k in range(d)] for i in range(p)]
            C = multiply(multiply(M, C), M)
            for i in range(p):
                C[i][i] += 2 * eta * Fraction(sigma) ** 2
        return mean, C

    ends = []
    for rows in (range(len(X)), kept):
        mean = [[Fraction(0)] * d] * p if start is None else np.reshape(start, (p, d)).tolist()
        law = [[Fraction(v) for v in row] for row in mean], [[Fraction(0)] * p] * p
        for count, sigma in schedule:
            law = steps(*law, rows, count, sigma)
        ends.append(steps(*law, kept, n_unlearn_steps, noise))
    return ends


def solve(A, B):
    """A^-1 B and det A for fractions, A positive definite, by Gauss-Jordan elimination."""
    rows = [list(a) + list(b) for a, b in zip(A, B, strict=True)]
    determinant = Fraction(1)
    for i in range(len(rows)):
        pivot = rows[i][i]
        determinant *= pivot
        rows[i] = [v / pivot for v in rows[i]]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [v - rows[j][i] * w for v, w in zip(rows[j], rows[i], strict=True)]
    return [row[len(A) :] for row in rows], determinant


def shift_of(ends):
    (mean_p, _), (mean_q, _) = ends
    return [
        [a - b for a, b in zip(*rows, strict=True)] for rows in zip(mean_p, mean_q, strict=True)
    ]


def to_mpf(value):
    return mpf(value.numerator) / value.denominator


def problem(
    p, d, seed, *, n=None, spread=0.0, step_size=0.25, noise=0.3, K=2, schedule=((4, 0.2),)
):
    """Data whose rows have sizes from 10^-spread to 1 of each other, and settings."""
    rng = np.random.default_rng(seed)
    n = n or p + 3
    X = rng.normal(size=(n, p)) * 10 ** rng.uniform(-spread, 0, size=(n, 1))
    X /= np.linalg.norm(X, 2)
    Y = rng.normal(size=(n, d))
    settings = {
        "alpha": 0.0625,
        "step_size": step_size,
        "schedule": list(schedule),
        "n_unlearn_steps": K,
        "noise": noise,
        "start": rng.normal(size=(p, d)),
    }
    return (X, Y, [1]), settings


# -------------------------------------------------------------------------------- the two Gaussians


@pytest.mark.parametrize(
    ("p", "d", "changes"),
    [
        (1, 2, {}),
        (2, 1, {"schedule": ((2, 0.3), (3, 0.0), (1, 0.1))}),
        (3, 2, {"spread": 12.0}),
        (3, 1, {"spread": 12.0, "step_size": 3.5, "noise": 0.0, "K": 3}),
        (2, 1, {"step_size": 1e6, "noise": 1e-9, "K": 1}),
        (4, 3, {"schedule": ((1, 1e-6),), "K": 1, "noise": 1e3}),
    ],
)
def test_the_pair_has_the_invariants_of_the_exact_ends(p, d, changes):
    """Sums of x, log(1 + x), m2 and m2 / (1 + x) are traces, determinants and squared distances."""
    data, settings = problem(p, d, 5, **changes)
    pair, columns = standard_pair(*data, **settings)
    assert (len(pair), columns) == (p, d)
    ends = literal_ends(*data, **settings)
    (_, C_p), (_, C_q) = ends
    shift = shift_of(ends)
    with mp.workprec(2000):
        for x, _ in pair:
            assert x > -1
        solved, det_q = solve(C_q, [list(c) + list(s) for c, s in zip(C_p, shift, strict=True)])
        other, det_p = solve(C_p, shift)
        trace = to_mpf(sum(solved[i][i] - 1 for i in range(p)))
        near = [
            (mp.fsum(x for x, _ in pair), trace),
            (mp.fsum(mp.log1p(x) for x, _ in pair), mp.log(to_mpf(det_p / det_q))),
        ]
        pairs = [(i, k) for i in range(p) for k in range(d)]
        far_q = to_mpf(sum(solved[i][p + k] * shift[i][k] for i, k in pairs))
        far_p = to_mpf(sum(other[i][k] * shift[i][k] for i, k in pairs))
        near.append((mp.fsum(m2 for _, m2 in pair), far_q))
        near.append((mp.fsum(m2 / (1 + x) for x, m2 in pair), far_p))
        for value, exact in near:
            assert abs(value - exact) <= mpf(10) ** -50 * (1 + abs(exact))


def test_more_bits_change_nothing():
    data, settings = problem(4, 1, 6, spread=12.0, noise=0.0, step_size=1.5)
    pair, _ = standard_pair(*data, **settings)
    finer, _ = standard_pair(*data, **settings, min_bits=3000)
    for one, two in zip(pair, finer, strict=True):
        for a, b in zip(one, two, strict=True):
            assert abs(a - b) < mpf(2) ** -oracle.GOOD_BITS * (1 + abs(b))


# --------------------------------------------------------------------------------------- one number


def integral_of_densities(mean, variance, epsilon):
    """log of the integral of (p - e^eps q)_+, p = N(mean, variance), q = N(0, 1), in mpmath."""
    with mp.workdps(40):
        deviation = mp.sqrt(variance)

        def gap(z):
            q = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
            p = mp.exp(-((z - mean) ** 2) / variance / 2) / mp.sqrt(2 * mp.pi) / deviation
            return p - mp.exp(epsilon) * q

        low, high = mean - 16 * deviation, mean + 16 * deviation
        edges = [low]
        grid = [low + (high - low) * k / 400 for k in range(401)]
        for a, b in pairwise(grid):
            if gap(a) * gap(b) < 0:
                rising = gap(b) > 0
                for _ in range(110):
                    c = (a + b) / 2
                    a, b = (a, c) if (gap(c) > 0) == rising else (c, b)
                edges.append(a)
        edges.append(high)
        total = mpf(0)
        for a, b in pairwise(edges):
            if gap((a + b) / 2) > 0:
                total += mp.quad(gap, mp.linspace(a, b, 13))
        return mp.log(total) if total else -mp.inf


@pytest.mark.parametrize(
    ("seed", "K", "noise", "epsilon"),
    [(0, 1, 0.3, 0.0), (1, 2, 0.1, 0.5), (2, 5, 0.05, 1.0), (3, 1, 0.0, 0.1), (4, 2, 0.02, 1.0)],
)
def test_one_number_against_the_integral_of_the_densities(seed, K, noise, epsilon):
    data, settings = problem(1, 1, seed, K=K, noise=noise)
    (mean_p, C_p), (mean_q, C_q) = literal_ends(*data, **settings)
    got = log_deltas(*data, **settings, epsilon=epsilon)
    with mp.workdps(40):
        C_p, C_q, shift = (
            to_mpf(v[0][0]) for v in (C_p, C_q, shift_of([(mean_p, 0), (mean_q, 0)]))
        )
        forward = integral_of_densities(shift / mp.sqrt(C_q), C_p / C_q, mpf(epsilon))
        reverse = integral_of_densities(-shift / mp.sqrt(C_p), C_q / C_p, mpf(epsilon))
    assert -90 < got[1] < 0
    assert_same_delta(got[0], float(forward))
    assert_same_delta(got[1], float(reverse))


def random_pairs(seed, count):
    """One-dimensional pairs of all sizes: (x, m2) and epsilon."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = [
            10 ** rng.uniform(-25, 8),
            -(10 ** rng.uniform(-25, -0.001)),
            10 ** rng.uniform(-8, 0) - 1,
            10 ** rng.uniform(-2, 1),
        ][rng.integers(4)]
        m = 10 ** (rng.uniform(-25, 6) if rng.random() < 0.6 else rng.uniform(-1, 1.5))
        epsilon = [0.0, 10 ** rng.uniform(-4, 2), 10 ** rng.uniform(-25, 2)][rng.integers(3)]
        yield [(mpf(float(x)), mpf(float(m)) ** 2)], float(epsilon)


def test_the_normal_tails_agree_with_the_contour():
    """The two ways to delta share nothing but the pair."""
    seen = 0
    for pair, epsilon in random_pairs(7, 150):
        expected = log_delta_scalar(pair, epsilon)
        if expected > -95:
            seen += 1
            assert_same_delta(log_delta_contour(pair, 1, epsilon), expected)
    assert seen > 100


def test_the_normal_tail_is_that_of_mpmath():
    for bits in (100, 250, 600):
        with mp.workprec(bits):
            for z in (-30, -3.5, 0, 1e-20, 0.7, 5, 13.25, 19.9, 20.1, 44):
                z = mpf(z)
                with mp.workprec(2 * bits + 200):
                    exact = mp.erfc(z / mp.sqrt(2)) / 2
                assert abs(oracle._tail(z) / exact - 1) < mpf(2) ** (10 - bits)


# ------------------------------------------------------------------------------------- in the plane


def polar_integral(x, mean, epsilon):
    """Integral of (p - e^eps q)_+ in the plane, p = N(mean, diag(1 + x)), q = N(0, I).

    In polar coordinates around the point where the gradient of l is zero, l is l_0 plus r^2 times
    a function of the angle, and every integrand is smooth.
    """
    x, mean = np.array(x), np.array(mean)
    form = x / (1 + x) / 2  # l = l_0 + form . (z - centre)^2
    centre = -mean / x
    level = np.sum(-np.log1p(x) / 2 - (centre - mean) ** 2 / (1 + x) / 2 + centre**2 / 2) - epsilon
    nodes, weights = np.polynomial.legendre.leggauss(40)
    far = 12 * math.sqrt(2 + max(x)) + np.linalg.norm(centre) + np.linalg.norm(mean)
    angles = (np.arange(6400) + 0.5) * 2 * np.pi / 6400
    ways = np.stack([np.cos(angles), np.sin(angles)])
    bends = form @ ways**2
    roots = np.where(level * bends < 0, np.sqrt(abs(level / bends)), far).clip(max=far)
    starts, ends = (0 * roots, roots) if level > 0 else (roots, far + 0 * roots)
    pieces = (ends - starts) / 8
    total = 0.0
    for k in range(8):
        r = (starts + k * pieces)[:, None] + pieces[:, None] / 2 * (nodes + 1)
        z = centre[:, None, None] + r * ways[:, :, None]
        q = np.exp(-np.sum(z**2, axis=0) / 2)
        scaled = (z - mean[:, None, None]) ** 2 / (1 + x)[:, None, None]
        p = np.exp(-np.sum(scaled, axis=0) / 2) / math.sqrt(np.prod(1 + x))
        total += np.sum(((p - math.exp(epsilon) * q) * r) @ weights * pieces / 2)
    return total / len(angles)


@pytest.mark.parametrize(
    ("x", "mean", "epsilon"),
    [
        ([0.5, 1.5], [0.3, -0.4], 0.5),
        ([-0.4, -0.6], [0.5, 0.2], 0.3),
        ([-0.5, 2.0], [0.7, 0.1], 0.2),
        ([2.0, -0.5], [0.3, 1.0], 1.5),
    ],
)
def test_the_plane_against_the_integral_of_the_densities(x, mean, epsilon):
    pair = [(mpf(a), mpf(b) ** 2) for a, b in zip(x, mean, strict=True)]
    exact = math.log(polar_integral(x, mean, epsilon))
    assert_same_delta(log_delta_contour(pair, 1, epsilon), exact, 1e-10)


def test_two_parameters_end_to_end_against_the_integral_of_the_densities():
    data, settings = problem(2, 1, 6, n=4, K=1, noise=0.1, step_size=1.5)
    ends = literal_ends(*data, **settings)
    (C_p, C_q), shift = (np.array(C, dtype=float) for _, C in ends), np.array(shift_of(ends), float)
    for epsilon in (0.1, 1.0):
        for side, (one, two) in enumerate([(C_p, C_q), (C_q, C_p)]):
            whiten = np.linalg.inv(np.linalg.cholesky(two))
            values, vectors = np.linalg.eigh(whiten @ one @ whiten.T)
            mean = (vectors.T @ whiten @ shift).ravel()
            exact = math.log(polar_integral(values - 1, mean, epsilon))
            assert_same_delta(log_deltas(*data, **settings, epsilon=epsilon)[side], exact, 1e-9)


# ------------------------------------------------------------------------------------- closed forms


@pytest.mark.one_in(5)
@pytest.mark.parametrize("x", [1e-20, 1e-3, 0.5, 40.0, -1e-20, -0.01, -0.9, -1 + 1e-9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.4, 3.0, 60.0])
def test_two_columns_without_shift(x, epsilon):
    """For p = 1, d = 2 and no shift, |theta|^2 / 2 is exponential."""
    pair = [(mpf(x), mpf(0))]
    with mp.workprec(2000):
        v = 1 + mpf(x)
        t = (epsilon + mp.log(v)) * v / mpf(x)
        if x > 0:
            delta = mp.exp(-t / v) - mp.exp(epsilon - t)
        else:
            delta = mp.exp(epsilon - t) - mp.exp(-t / v) + 1 - mp.exp(epsilon) if t > 0 else mpf(0)
        exact = float(mp.log(delta)) if delta else -math.inf
    if exact < -900:
        exact = -math.inf
    assert_same_delta(log_delta_contour(pair, 2, epsilon), exact)


@pytest.mark.parametrize(("p", "d"), [(1, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("noise", [0.02, 1.0, 1e9])
def test_equal_covariances_are_the_gaussian_mechanism(p, d, noise):
    """Without learning noise both ends have the same covariance."""
    data, settings = problem(p, d, 8, noise=noise, schedule=((3, 0.0), (2, 0.0)))
    ends = literal_ends(*data, **settings)
    shift = shift_of(ends)
    solved, _ = solve(ends[1][1], shift)
    square = sum(solved[i][k] * shift[i][k] for i in range(p) for k in range(d))
    for epsilon in (0.0, 0.01, 1.0, 8.0, 100.0):
        got = log_deltas(*data, **settings, epsilon=epsilon)
        with mp.workdps(600):
            mu = mp.sqrt(to_mpf(square))
            delta = mp.erfc((epsilon / mu - mu / 2) / mp.sqrt(2)) / 2
            delta -= mp.exp(epsilon) * mp.erfc((epsilon / mu + mu / 2) / mp.sqrt(2)) / 2
            exact = float(mp.log(delta)) if delta > mpf(10) ** -60 else None
        for value in got:
            if exact is None:
                assert value < -110
            else:
                assert_same_delta(value, exact)


# ----------------------------------------------------------------------------------------- sampling


def test_sampled_chains():
    """delta = E_P (1 - e^(eps - l))_+ over chains run step by step, p = 3 and d = 2."""
    (X, Y, forget), settings = problem(3, 2, 9, noise=0.25, K=2, step_size=0.5)
    rng = np.random.default_rng(1)
    count, epsilon = 200_000, 0.7
    keep = np.setdiff1d(np.arange(len(X)), forget)
    ends = literal_ends(X, Y, forget, **settings)
    laws = [(np.array(mean, dtype=float), np.array(C, dtype=float)) for mean, C in ends]

    def log_density(theta, mean, C):
        white = np.linalg.solve(np.linalg.cholesky(C), theta - mean)
        return -np.sum(white**2, axis=(1, 2)) / 2 - np.linalg.slogdet(C)[1]

    eta = settings["step_size"]
    got = log_deltas(X, Y, forget, **settings, epsilon=epsilon)
    for side, rows in enumerate([np.arange(len(X)), keep]):
        theta = np.broadcast_to(settings["start"], (count, 3, 2)).copy()
        plan = [*((rows, *segment) for segment in settings["schedule"])]
        plan.append((keep, settings["n_unlearn_steps"], settings["noise"]))
        for on, steps, sigma in plan:
            for _ in range(steps):
                slope = X[on].T @ (X[on] @ theta - Y[on]) + settings["alpha"] * theta
                theta += math.sqrt(2 * eta) * sigma * rng.normal(size=theta.shape) - eta * slope
        loss = log_density(theta, *laws[side]) - log_density(theta, *laws[1 - side])
        sample = np.clip(-np.expm1(epsilon - loss), 0, None)
        assert abs(sample.mean() - math.exp(got[side])) < 4.5 * sample.std() / math.sqrt(count)
        assert sample.mean() > 20 * sample.std() / math.sqrt(count)


# -------------------------------------------------------------------------------------- the contour


def random_problems(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        p, d = rng.integers(2, 7), int(rng.integers(1, 4))
        signs = rng.choice([-1, 1], size=p) if rng.random() < 0.7 else np.ones(p)
        x = signs * 10 ** rng.uniform(-10, -0.1, size=p)
        m2 = 10 ** rng.uniform(-16, 1.5, size=p)
        epsilon = float(rng.choice([0.0, 10 ** rng.uniform(-3, 1)]))
        yield [(mpf(float(a)), mpf(float(b))) for a, b in zip(x, m2, strict=True)], d, epsilon


def test_a_moved_contour_gives_the_same():
    seen = 0
    for pair, d, epsilon in random_problems(2, 25):
        value = log_delta_contour(pair, d, epsilon)
        if value > -95:
            seen += 1
            assert_same_delta(log_delta_contour(pair, d, epsilon, saddle_shift=0.85), value)
    assert seen > 15


def test_long_doubles_are_as_good_as_more_digits(monkeypatch):
    problems = list(random_problems(3, 6))
    fast = [log_delta_contour(*problem) for problem in problems]
    monkeypatch.setattr(oracle, "_line_of_long_doubles", lambda *_: (mpf(1), math.inf))
    for value, problem in zip(fast, problems, strict=True):
        assert_same_delta(log_delta_contour(*problem), value)


def test_total_variation_has_no_direction():
    for pair, d, _ in random_problems(4, 10):
        there, back = (log_delta_contour(one, d, 0.0) for one in (pair, reversed_pair(pair)))
        assert_same_delta(there, back)


# -------------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize(("p", "d", "seed"), [(1, 1, 1), (1, 3, 1), (3, 2, 10)])
def test_scalings_and_orders_that_change_nothing(p, d, seed):
    (X, Y, forget), settings = problem(p, d, seed, spread=3.0, schedule=((5, 0.1), (2, 0.3)))
    expected = log_deltas(X, Y, forget, **settings, epsilon=0.3)
    assert all(-90 < value < 0 for value in expected)
    sizes = {
        **settings,
        "alpha": 64 * settings["alpha"],
        "step_size": settings["step_size"] / 64,
        "start": settings["start"] / 8,
    }
    units = {
        **settings,
        "start": 4 * settings["start"],
        "noise": 4 * settings["noise"],
        "schedule": [(steps, 4 * sigma) for steps, sigma in settings["schedule"]],
    }
    pieces = {**settings, "schedule": [(2, 0.1), (3, 0.1), (1, 0.3), (1, 0.3)]}
    turned = {**settings, "start": -settings["start"][::-1]}
    last = len(X) - 1
    for changed in (
        log_deltas(8 * X, Y, forget, **sizes, epsilon=0.3),
        log_deltas(X, 4 * Y, forget, **units, epsilon=0.3),
        log_deltas(X, Y, forget, **pieces, epsilon=0.3),
        log_deltas(-X[:, ::-1], Y, forget, **turned, epsilon=0.3),
        log_deltas(X[::-1].tolist(), Y[::-1].tolist(), [last - 1], **settings, epsilon=0.3),
    ):
        for value, other in zip(changed, expected, strict=True):
            assert_same_delta(value, other)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_feature_that_is_always_zero_changes_nothing(noise):
    """One number by normal tails, and the same by matrices and the contour."""
    (X, Y, forget), settings = problem(1, 1, 11, noise=noise)
    wide = {**settings, "start": np.vstack([settings["start"], [[0.5]]])}
    for epsilon in (0.0, 0.5, 2.0):
        alone = log_deltas(X, Y, forget, **settings, epsilon=epsilon)
        padded = log_deltas(np.hstack([X, 0 * X]), Y, forget, **wide, epsilon=epsilon)
        for value, other in zip(padded, alone, strict=True):
            assert other > -95 or epsilon > 1
            if other > -95:
                assert_same_delta(value, other)


# --------------------------------------------------------------------------------- extreme settings


@pytest.mark.parametrize("p", [1, 2])
def test_unlearning_without_noise_is_a_bijection(p):
    """With sigma_u = 0 the number of steps does not matter, even where I - eta A' is 1e-30."""
    X, Y = np.eye(p + 1)[:, :p], np.arange(1.0, p + 2)
    X[p] = 0.5
    X[1:p] /= 2
    settings = {"alpha": 2.0**-100, "step_size": 1.0, "schedule": [(3, 0.2)], "noise": 0.0}
    results = [
        log_deltas(X, Y, [p], **settings, n_unlearn_steps=K, epsilon=0.5) for K in (0, 1, 2, 30)
    ]
    assert all(-90 < value < 0 for value in results[0])
    for other in results[1:]:
        for value, expected in zip(other, results[0], strict=True):
            assert_same_delta(value, expected)


@pytest.mark.parametrize("p", [1, 2])
def test_a_step_that_forgets_everything(p):
    """With eta A' = I one unlearning step maps everything to one law; without noise, to a point."""
    X, Y = np.vstack([np.eye(p), np.full((1, p), 0.5)]), np.arange(1.0, p + 2)
    settings = {"alpha": 0.0, "step_size": 1.0, "schedule": [(3, 0.2)], "n_unlearn_steps": 1}
    assert log_deltas(X, Y, [p], **settings, noise=0.1, epsilon=0.0) == (-math.inf, -math.inf)
    with pytest.raises(ValueError, match=r"singular|is 0"):
        log_deltas(X, Y, [p], **settings, noise=0.0, epsilon=0.0)


def test_forgetting_nothing_costs_nothing():
    (X, Y, _), settings = problem(3, 1, 12)
    assert log_deltas(X, Y, [], **settings, epsilon=0.0) == (-math.inf, -math.inf)


def test_forgetting_every_row():
    """Then run Q only shrinks and shakes its start: p = 1, one step each, by hand."""
    got = log_deltas(
        [[1.0]],
        [2.0],
        [0],
        alpha=0.0,
        step_size=0.5,
        schedule=[(1, 1.0)],
        n_unlearn_steps=1,
        noise=1.0,
        epsilon=0.25,
    )
    # P: N(1, 1) and then + N(0, 1); Q: N(0, 1) and then + N(0, 1); so mu = 1 / sqrt 2
    mu = 1 / math.sqrt(2)
    with mp.workdps(30):
        exact = mp.ncdf(mu / 2 - 0.25 / mu) - mp.exp(0.25) * mp.ncdf(-mu / 2 - 0.25 / mu)
    assert_same_delta(got[0], math.log(exact))
    assert_same_delta(got[1], math.log(exact))
