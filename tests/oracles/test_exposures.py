"""The oracle of exposures against closed forms, quadrature, 50-digit contours and simulation."""

import math
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from oracles.exposures import (
    Law,
    Pair,
    _epsilon_one_way,
    _log_delta_mp,
    _saddle,
    delta_of,
    epsilon_of,
    joined,
    log_delta_of,
    pair_of,
    whitened,
)
from oracles.high_precision import delta_from_mu_mp, epsilon_from_mu_mp
from oracles.pairs import contour_delta
from oracles.refit_laws import Exposures, Fit, design, given_kappa, optimum, precisions
from refit.hostile_exposures import HEADS, hostile_exposures
from refit.minimisers import minimiser, objective, targets

EXACT = 1e-10


def as_law(mean, covariance, scale=1.0):
    with mp.workdps(50):
        precision = mp.inverse(mp.matrix(np.asarray(covariance).tolist()))
        return Law(mp.matrix(np.asarray(mean).tolist()), precision, mpf(scale))


def random_pair(rng, directions, largest=1.0):
    x = -(10 ** rng.uniform(-5, 0, size=directions)) * 0.99
    x[rng.random(directions) < 0.3] = 0.0
    shift = np.abs(rng.normal(size=directions)) * 10 ** rng.uniform(-3, np.log10(largest))
    return pair_of(x, shift + 1e-3)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 7.0, 100.0])
def test_equal_covariances_are_the_closed_form(mu):
    shifts = np.array([0.6, 0.8]) * mu
    pair = pair_of([0.0, 0.0], shifts)
    for eps in (0.0, 0.5 * mu, 3 * mu + mu**2 / 2):
        expected = delta_from_mu_mp(mp.sqrt(mp.fsum(mpf(v) ** 2 for v in shifts)), eps)
        assert delta_of(pair, eps) == pytest.approx(float(expected), rel=EXACT)
    expected = float(epsilon_from_mu_mp(float(np.linalg.norm(shifts)), 1e-5))
    assert epsilon_of(pair, 1e-5) == pytest.approx(expected, rel=EXACT)


def one_direction(x, a, eps):
    """P(L > eps) - e^eps Q(L > eps) by the roots of the quadratic L = eps, in 60 digits."""
    with mp.workdps(60):
        x, a, eps = mpf(x), mpf(a), mpf(eps)
        v = 1 + x  # 2v (L - eps) = x z^2 + 2 a z - a^2 - v log v - 2 v eps
        root = a**2 + x * (a**2 + v * mp.log(v) + 2 * v * eps)
        if root <= 0:
            return mpf(0) if x < 0 else 1 - mp.exp(eps)
        low, high = sorted([(-a - mp.sqrt(root)) / x, (-a + mp.sqrt(root)) / x])
        inside_p = mp.ncdf((high - a) / mp.sqrt(v)) - mp.ncdf((low - a) / mp.sqrt(v))
        inside_q = mp.ncdf(high) - mp.ncdf(low)
        if x < 0:
            return inside_p - mp.exp(eps) * inside_q
        return 1 - inside_p - mp.exp(eps) * (1 - inside_q)


def test_one_direction_is_a_difference_of_normal_probabilities(rng):
    compared = 0
    for _ in range(300):
        x = rng.choice([-1, 1]) * 10 ** rng.uniform(-6, 0) * 0.999999
        x = 10 ** rng.uniform(0, 4) if rng.random() < 0.2 else x
        a, eps = 10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-3, 2)
        expected = one_direction(x, a, eps)
        if expected > 1e-40:
            compared += 1
            assert abs(mp.exp(log_delta_of(pair_of(x, a), eps)) / expected - 1) < EXACT, (x, a, eps)
        else:
            assert delta_of(pair_of(x, a), eps) < 2e-40
    assert compared > 150


def test_an_excess_of_almost_minus_one_keeps_its_digits():
    pair = Pair(np.array([-1.0]), np.array([1e-3]), np.array([math.log(1e-25)]))
    with mp.workdps(80):
        expected = one_direction(-1 + mpf(10) ** -25, mpf(1e-3), mpf(25))
    assert delta_of(pair, 25.0) == pytest.approx(float(expected), rel=1e-9)


def test_two_directions_are_an_integral_of_one(rng):
    for _ in range(20):
        x, a = -rng.uniform(0.05, 0.9, size=2), rng.uniform(0.0, 2.0, size=2)
        pair = pair_of(x, a)
        for way in (pair, pair.reverse):
            eps = rng.uniform(0, 3)
            assert delta_of(way, eps) == pytest.approx(by_quadrature(way, eps), rel=1e-8, abs=1e-10)


def by_quadrature(pair, eps):
    """The first direction by normal probabilities, the second by quadrature over Q."""
    (x1, x2), (a1, a2) = pair.excess, pair.shift
    v1, v2 = 1 + x1, 1 + x2

    def term(z):
        ratio = -0.5 * math.log(v2) - (z - a2) ** 2 / (2 * v2) + z * z / 2
        root = a1**2 + x1 * (a1**2 + v1 * math.log(v1) + 2 * v1 * (eps - ratio))
        p = q = 0.0
        if root > 0:
            low, high = sorted([(-a1 - math.sqrt(root)) / x1, (-a1 + math.sqrt(root)) / x1])
            p = ndtr((high - a1) / math.sqrt(v1)) - ndtr((low - a1) / math.sqrt(v1))
            q = ndtr(high) - ndtr(low)
        if x1 > 0:
            p, q = 1 - p, 1 - q
        densities = [math.exp(-((z - a2) ** 2) / (2 * v2)) / math.sqrt(v2), math.exp(-z * z / 2)]
        return (densities[0] * p - math.exp(eps) * densities[1] * q) / math.sqrt(2 * math.pi)

    reach = 12 * max(1.0, math.sqrt(v2)) + a2
    points = np.linspace(-reach, reach, 200)
    return math.fsum(
        quad(term, u, v, epsabs=1e-15, epsrel=1e-12, limit=200)[0] for u, v in pairwise(points)
    )


@pytest.mark.slow
def test_several_directions_are_the_contour_of_another_oracle(rng):
    for _ in range(25):
        k = int(rng.integers(2, 8))
        pair = pair_of(-rng.uniform(0.05, 0.9, size=k), rng.uniform(0, 1.0, size=k))
        for way in (pair, pair.reverse):
            eps = _epsilon_one_way(way, 1e-3)
            expected = contour_delta(way.excess, way.shift**2, [1] * len(way.excess), eps)
            assert delta_of(way, eps) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.slow
def test_fifty_digits_agree_with_doubles(rng):
    for _ in range(5):
        pair = random_pair(rng, int(rng.integers(1, 6)), largest=30.0)
        pair = pair.reverse if rng.random() < 0.5 else pair
        eps = _epsilon_one_way(pair, 1e-5)
        _, where, width = _saddle(pair, eps, right=True)
        assert float(_log_delta_mp(pair, eps, where, width)) == pytest.approx(
            log_delta_of(pair, eps), abs=EXACT
        )


def test_both_directions_of_a_pair_are_one_curve(rng):
    """delta_QP(-eps) = 1 - e^-eps (1 - delta_PQ(eps))."""
    for _ in range(50):
        pair, eps = random_pair(rng, 4), float(rng.uniform(0, 4))
        expected = 1 - math.exp(-eps) * (1 - delta_of(pair, eps))
        assert delta_of(pair.reverse, -eps) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_dense_laws_agree_with_simulation(seed):
    rng = np.random.default_rng(seed)
    d, n = 4, 400_000
    means, factors = rng.normal(size=(2, d)) * 0.4, rng.normal(size=(2, d, d)) * 0.3 + np.eye(d)
    covs = [f @ f.T + 0.2 * np.eye(d) for f in factors]
    pair = whitened(*(as_law(m, C) for m, C in zip(means, covs, strict=True)))
    laws = [multivariate_normal(m, C) for m, C in zip(means, covs, strict=True)]
    for (P, Q), way in (((0, 1), pair), ((1, 0), pair.reverse)):
        z = rng.multivariate_normal(means[P], covs[P], size=n)
        ratio = laws[P].logpdf(z) - laws[Q].logpdf(z)
        for eps in (0.0, 1.0, 4.0):
            gains = np.maximum(0.0, -np.expm1(eps - ratio))
            error = gains.std() / math.sqrt(n)
            assert abs(gains.mean() - delta_of(way, eps)) < 5 * error
    assert epsilon_of(pair, 0.05) == max(
        eps for eps in (epsilon_of(joined([pair]), 0.05), epsilon_of(pair.reverse, 0.05))
    )


def test_epsilon_is_the_least_for_its_delta(rng):
    for _ in range(30):
        pair = random_pair(rng, 3, largest=5.0)
        eps = epsilon_of(pair, 1e-5)
        worst = max(delta_of(pair, eps), delta_of(pair.reverse, eps))
        assert eps == 0 or worst == pytest.approx(1e-5, rel=1e-8)
        assert worst < 1.00001e-5
    assert epsilon_of(pair_of(0.0, 1e-6), 1e-5) == 0.0


def test_laws_with_other_scales_and_units(rng):
    """A linear map of both laws changes nothing; twice the noise on one side is a ratio of four."""
    factors = rng.normal(size=(2, 3, 3))
    covs = [f @ f.T + np.eye(3) for f in factors]
    means, T = rng.normal(size=(2, 3)), rng.normal(size=(3, 3)) * np.array([1e-4, 1.0, 1e4])
    here = whitened(*(as_law(m, C) for m, C in zip(means, covs, strict=True)))
    with mp.workdps(50):
        T, back = mp.matrix(T.tolist()), mp.inverse(mp.matrix(T.tolist()))
        laws = (as_law(m, C) for m, C in zip(means, covs, strict=True))
        mapped = [Law(T * m, back.T * A * back, s) for m, A, s in laws]
    assert epsilon_of(whitened(*mapped), 1e-5) == pytest.approx(epsilon_of(here, 1e-5), rel=EXACT)
    wide = whitened(as_law(means[0], covs[0], 2.0), as_law(means[0], covs[0], 1.0))
    assert wide.excess == pytest.approx([3.0] * 3)


# Minimisers and matrices ---------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_squares_have_the_excess_and_shift_of_leverages(rng, intercept):
    """Excess -h_l, squared shift (E'W^1/2 e)_l^2 h_l/(1 - h_l)/s^2; H = E diag(h) E'."""
    n, p, scale, gone = 30, 4, 0.7, [2, 5, 11]
    X, y, weights = rng.normal(size=(n, p)), rng.normal(size=n), rng.uniform(0.1, 3, size=n)
    fit = Fit(Ridge(0.3, fit_intercept=intercept), X, y, weights)
    pair = Exposures(fit, scale).pair(gone)
    Z = design(fit)
    A = (Z.T * weights) @ Z + 0.3 * np.diag([1.0] * p + [0.0] * intercept)
    e = np.sqrt(weights) * (y - Z @ np.linalg.solve(A, Z.T @ (weights * y)))
    B = np.sqrt(weights[gone])[:, None] * Z[gone]
    h, E = np.linalg.eigh(B @ np.linalg.solve(A, B.T))
    order = np.argsort(-h)
    assert np.sort(pair.excess)[:3] == pytest.approx(-h[order], rel=1e-10)
    squares = (E.T @ e[gone]) ** 2 * h / (1 - h) / scale**2
    assert pair.shift[np.argsort(pair.excess)][:3] ** 2 == pytest.approx(squares[order], rel=1e-9)
    assert np.abs(np.sort(pair.excess)[3:]).max(initial=0) == 0


@pytest.mark.parametrize(
    "head", [Ridge(0.1), Ridge([0.1, 5.0], fit_intercept=False), RidgeClassifier(2.0)]
)
def test_squares_in_closed_form_are_the_minimisers(rng, head):
    X, Y, w = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.uniform(size=20) + 0.1
    y = np.arange(20) % 3 if isinstance(head, RidgeClassifier) else Y
    coef, intercept = minimiser(head, X, y, w)
    theta = optimum(Fit(head, X, y, w))
    expected = np.column_stack([coef, intercept]) if head.fit_intercept else coef
    got = np.array(theta.T.tolist())
    assert np.abs(got - expected).max() < 1e-40


@pytest.mark.parametrize("head", HEADS)
def test_the_penalty_stays_and_no_direction_lowers_the_objective(head):
    """The minimiser without a person has the same alpha, in all heads."""
    rng = np.random.default_rng(1)
    for hostile in hostile_exposures(head, 12, seed=5):
        for case in hostile.cases:
            gone = np.flatnonzero(np.array(hostile.people) == case.person)
            left = hostile.fit.without(gone)
            if case.pair is None or left is None:
                continue
            theta = np.array(optimum(left).T.tolist(), dtype=object)
            with mp.workdps(50):
                least = value_at(left, theta)
                for _ in range(3):
                    step = rng.normal(size=theta.shape) * 1e-8 * (1 + np.abs(theta.astype(float)))
                    assert value_at(left, theta + step) > least
            if left.given is not None:
                ratio = left.given / (mpf(left.head.alpha) * mp.fsum(map(mpf, left.weights)))
                assert abs(ratio - 1) < 1e-15
                with mp.workdps(50):
                    assert left.given == hostile.fit.penalty


def value_at(fit, theta):
    coef, intercept = theta, mpf(0)
    if fit.head.fit_intercept:
        coef, intercept = theta[:, :-1], theta[:, -1]
    return objective(fit.head, fit.X, fit.y, coef, intercept, fit.weights)


def test_noise_shapes_are_bounds_on_the_curvature(rng):
    """kappa Z'WZ + alpha D is at least the Hessian of bounded heads, whatever the parameters."""
    X, w = rng.normal(size=(25, 3)), rng.uniform(size=25)
    for head, y in (
        (LogisticRegression(C=0.5), np.arange(25) % 2),
        (LogisticRegression(C=0.5), np.arange(25) % 3),
        (LinearSVC(C=2.0, intercept_scaling=3.0), np.arange(25) % 2),
    ):
        fit = Fit(head, X, y, w)
        A = np.array(precisions(fit, given_kappa(fit))[0].tolist(), dtype=float)
        K, q, F = len(targets(head, y)), len(A), design(fit)
        S = F @ rng.normal(size=(q, K))
        if K == 1:
            curvature = 1 / (2 + 2 * np.cosh(S[:, 0])) if given_kappa(fit) == 0.25 else 2.0
            blocks = (F.T * (w * curvature)) @ F
        else:
            p = np.exp(S) / np.exp(S).sum(axis=1, keepdims=True)
            rows = np.einsum("ij,jk->ijk", p, np.eye(K)) - np.einsum("ij,ik->ijk", p, p)
            blocks = np.einsum("i,ijk,ia,ib->jakb", w, rows, F, F).reshape(K * q, K * q)
        penalty = A - given_kappa(fit) * (F.T * w) @ F
        gap = np.kron(np.eye(K), A - penalty) - blocks
        assert np.linalg.eigvalsh(gap).min() > -1e-12
        assert np.diag(penalty)[:-1] == pytest.approx([1 / head.C] * 3)
        last = 1 / head.C / 9 if isinstance(head, LinearSVC) else 0.0
        assert penalty[-1, -1] == pytest.approx(last, abs=1e-12)


@pytest.mark.parametrize("head", HEADS)
def test_hostile_tables_are_telling(head):
    """Kinks are hit, last people of a class occur, and few exposures are zero or infinite."""
    tables = list(hostile_exposures(head, 32, seed=3))
    assert sum(len(table.cases) for table in tables) >= 32
    truths = [case.epsilon(t.scale, 1e-5) for t in tables for case in t.cases]
    assert np.mean([0.05 < eps < 1e3 for eps in truths]) > 0.7
    assert sum(table.ordinary for table in tables) >= 2
    if head == "huber":
        kinks = [t for t in tables if "kinks" in t.name]
        gaps = [np.abs(np.abs(residuals(t.fit)) - t.fit.head.width).min() for t in kinks]
        assert min(gaps) < 1e-14


def residuals(fit):
    theta = np.array(optimum(fit).tolist(), dtype=float)[:, 0]
    return design(fit) @ theta - fit.y
