"""The audit of single rows: its two laws, its inversion, its intervals; and epsilons of totals.

Held against matrices propagated step by step, literal runs, closed forms and binomial bounds.
"""

import numpy as np
import pytest
from experiments.certificates import audits
from experiments.certificates.config import Audits
from experiments.certificates.sequences import epsilon_at
from experiments.certificates.two_laws import Pair, Problem, Steps, WithoutRow, scores
from experiments.certificates.words_audits import refuted
from scipy.stats import binom, ks_2samp, multivariate_normal, norm

from pilu.accounting.curves import CurveTable, GaussianCurve, PrivacyCurve, Spent
from pilu.accounting.gaussians import GaussianPair

EPSILONS = np.array([0.0, 0.3, 0.8, 1.5])
SETTINGS = Audits({"mnist": 4000}, epsilons=(0.0, 0.3, 0.6))
NONE = np.empty((0, 0))


def drawn_problem(seed, n=25, p=4, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.array([2.0, 1.0, 0.5, 0.2])[:p]
    Y = X @ rng.normal(size=(p, d)) + rng.normal(size=(n, d))
    eta = 0.9 / (np.linalg.norm(X, 2) ** 2 + 0.3)
    return X, Y, 0.3, Steps(eta, 20, 0.1, 5)


def propagated(X, Y, alpha, steps, noise, first):
    """Mean (p x d) and covariance (p x p), step by step: `first` rows are learned, then all."""
    p, eta = X.shape[1], steps.step_size
    mean, covariance = np.zeros((p, Y.shape[1])), np.zeros((p, p))
    for k in range(steps.n_learn + steps.n_unlearn):
        learning = k < steps.n_learn
        A, B = first if learning else (X, Y)
        M = np.eye(p) - eta * (A.T @ A + alpha * np.eye(p))
        sigma = steps.noise_learn if learning else noise
        mean = M @ mean + eta * A.T @ B
        covariance = M @ covariance @ M.T + 2 * eta * sigma**2 * np.eye(p)
    return mean, covariance


def both_laws(X, Y, alpha, steps, noise, row=0):
    rest = np.arange(len(X)) != row
    left = X[rest], Y[rest]
    with_row = propagated(*left, alpha, steps, noise, (X, Y))
    return with_row, propagated(*left, alpha, steps, noise, left)


def divergence(P, Q):
    """KL(P || Q) of Gaussians whose d columns are independent."""
    (m, S), (n, R) = P, Q
    ratio = np.linalg.solve(R, S)
    trace = np.trace(ratio) - len(S) - np.linalg.slogdet(ratio)[1]
    return (m.shape[1] * trace + np.sum((m - n) * np.linalg.solve(R, m - n))) / 2


def log_ratios(theta, P, Q):
    """log dP/dQ of runs x p x d by densities of all parameters."""
    total = np.zeros(len(theta))
    for column in range(theta.shape[2]):
        for sign, (mean, covariance) in ((1, P), (-1, Q)):
            law = multivariate_normal(mean[:, column], covariance)
            total += sign * law.logpdf(theta[:, :, column])
    return total


def pair_of(X, Y, alpha, steps, noise):
    return WithoutRow.of(Problem.of(X, Y, alpha), X[0], Y[0], steps).pair(noise)


@pytest.mark.parametrize("noise", [0.0005, 0.05, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_two_laws_are_those_of_steps_taken_densely(seed, noise):
    given = drawn_problem(seed)
    pair, (P, Q) = pair_of(*given, noise), both_laws(*given, noise)
    x, a, d = pair.excess, np.sum(pair.shift**2, axis=1), pair.shift.shape[1]
    forward = np.sum(d * (x - np.log1p(x)) + a) / 2
    backward = np.sum(d * (np.log1p(x) - x / (1 + x)) + a / (1 + x)) / 2
    assert forward == pytest.approx(divergence(P, Q), rel=1e-6)
    assert backward == pytest.approx(divergence(Q, P), rel=1e-6)


def test_the_maps_of_the_noise_have_the_covariances_of_the_two_laws():
    pair = pair_of(*drawn_problem(3), 0.02)
    last = pair.from_last @ pair.from_last.T
    learned = pair.from_own @ pair.from_own.T + last
    np.testing.assert_allclose(learned, np.diag(1 + pair.excess), atol=1e-9)
    retained = pair.from_retained @ pair.from_retained.T + last
    np.testing.assert_allclose(retained, np.eye(len(pair.excess)), atol=1e-9)


def test_scores_are_distributed_as_those_of_literal_runs(take_steps):
    X, Y, alpha, steps = drawn_problem(4)
    noise, n, rng = 0.02, 3000, np.random.default_rng(40)
    pair, laws = pair_of(X, Y, alpha, steps, noise), both_laws(X, Y, alpha, steps, noise)
    ((P, Q),) = scores([pair], X.shape[1], n, [5], 700)
    for found, first in ((P, slice(None)), (Q, slice(1, None))):
        eta, start = steps.step_size, np.zeros((n, X.shape[1], Y.shape[1]))
        theta = take_steps(
            start, X[first], Y[first], alpha, eta, steps.noise_learn, steps.n_learn, rng
        )
        theta = take_steps(theta, X[1:], Y[1:], alpha, eta, noise, steps.n_unlearn, rng)
        assert ks_2samp(found, log_ratios(theta, *laws)).pvalue > 1e-4


def test_parts_of_the_runs_are_fresh_draws():
    pair = pair_of(*drawn_problem(4), 0.02)
    ((P, Q),) = scores([pair], 4, 90, [6], 40)
    assert len(np.unique(np.concatenate([P, Q]))) == 180


# Inversion


@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_inversion_for_equal_covariances_is_the_gaussian_mechanism(mu):
    shift = np.array([[0.6, 0.0], [0.0, 0.8]]) * mu
    pair = Pair(np.zeros(2), shift, NONE, NONE, NONE)
    known = norm.cdf(-EPSILONS / mu + mu / 2) - np.exp(EPSILONS) * norm.cdf(-EPSILONS / mu - mu / 2)
    for found in pair.deltas(EPSILONS):
        np.testing.assert_allclose(found, known, atol=2e-9)


@pytest.mark.parametrize("x", [0.1, -0.08])
def test_inversion_in_one_direction_is_that_of_its_normal_laws(x):
    """l is a parabola in t, so that l > eps between its roots or outside of them."""
    a, sd = 0.8, np.sqrt(1 + x)
    found = Pair(np.array([x]), np.array([[a]]), NONE, NONE, NONE).deltas(EPSILONS)

    def above(level, mean, deviation):
        parabola = [(1 - 1 / sd**2) / 2, a / sd**2, -(a**2) / (2 * sd**2) - np.log(sd) - level]
        low, high = norm.cdf(np.sort(np.roots(parabola).real), mean, deviation)
        return 1 - (high - low) if x > 0 else high - low

    for k, epsilon in enumerate(EPSILONS):
        growth = np.exp(epsilon)
        forward = above(epsilon, a, sd) - growth * above(epsilon, 0, 1)
        back = (1 - above(-epsilon, 0, 1)) - growth * (1 - above(-epsilon, a, sd))
        assert found[0][k] == pytest.approx(forward, abs=2e-9)
        assert found[1][k] == pytest.approx(back, abs=2e-9)


def test_inversion_in_many_directions_is_that_of_draws():
    """Hoeffding: gains are within [0, 1]."""
    x, a = np.array([0.5, -0.2, 0.03]), np.array([[0.4, 0.1], [0.0, 0.3], [0.5, -0.2]])
    n, rng = 300_000, np.random.default_rng(7)
    sd = np.sqrt(1 + x)[:, None]
    found = Pair(x, a, NONE, NONE, NONE).deltas(EPSILONS)
    for of, (mean, deviation), sign in ((0, (a, sd), 1), (1, (0 * a, 1.0), -1)):
        t = mean + deviation * rng.standard_normal((n, 3, 2))
        ratio = sign * (norm.logpdf(t, a, sd) - norm.logpdf(t)).sum(axis=(1, 2))
        gains = np.maximum(-np.expm1(EPSILONS[:, None] - ratio), 0).mean(axis=1)
        bound = np.sqrt(np.log(2 * len(EPSILONS) / 1e-6) / (2 * n))
        assert np.abs(found[of] - gains).max() < bound


def test_laws_that_the_grid_cannot_invert_are_refused():
    slow = Pair(np.array([1.0]), np.array([[0.0]]), NONE, NONE, NONE)
    far = Pair(np.zeros(1), np.array([[40.0]]), NONE, NONE, NONE)
    for pair in (slow, far):
        with pytest.raises(ArithmeticError, match="must be below 1e-06"):
            pair.deltas(EPSILONS)


# Intervals


def ratios_of(mu, n, seed):
    rng = np.random.default_rng(seed)
    return (mu * rng.standard_normal(n) + sign * mu**2 / 2 for sign in (1, -1))


def gaussian_delta(mu, epsilons):
    e = np.asarray(epsilons)
    return norm.cdf(-e / mu + mu / 2) - np.exp(e) * norm.cdf(-e / mu - mu / 2)


def refutes(mu, claimed, seed):
    """Whether runs of a mu-Gaussian pair refute a claim, by counts or by means."""
    curve = audits.deltas(*ratios_of(mu, 1500, seed), SETTINGS, len(SETTINGS.epsilons))
    curve = curve.assign(claimed=claimed, row=0, kind="certified")
    return bool(refuted(curve, "certified"))


def test_the_truth_is_refuted_as_seldom_as_promised_and_too_little_noise_always():
    mu, n = 0.6, 200
    claimed = gaussian_delta(mu, SETTINGS.epsilons)
    false = sum(refutes(mu, claimed, [1, seed]) for seed in range(n))
    # Counts and means are wrong upwards with probability 1/40 each.
    assert false <= binom.isf(1e-6, n, 0.05)
    assert all(refutes(3 * mu, claimed, [2, seed]) for seed in range(20))


def test_counts_and_means_have_the_truth_inside():
    """Both ends; the level holds for all epsilons at once."""
    mu, n, missed = 0.6, 200, np.zeros(2)
    for seed in range(n):
        found = audits.deltas(*ratios_of(mu, 1500, [3, seed]), SETTINGS, len(SETTINGS.epsilons))
        truth = gaussian_delta(mu, found["epsilon"])
        for k, (low, high) in enumerate((("low", "high"), ("mean_low", "mean_high"))):
            missed[k] += ((found[low] > truth) | (found[high] < truth)).any()
    assert (missed <= binom.isf(1e-6, n, 0.05)).all()


@pytest.mark.parametrize("count", [0, 1, 17, 49, 50])
def test_shares_have_the_interval_of_clopper_and_pearson(count):
    middle, low, high = audits.share(count, 50, 0.02)
    assert middle == count / 50
    assert low == 0 if count == 0 else binom.sf(count - 1, 50, low) == pytest.approx(0.01)
    assert high == 1 if count == 50 else binom.cdf(count, 50, high) == pytest.approx(0.01)


def test_the_deviation_of_the_auc_is_that_of_many_audits():
    drawn = [tuple(ratios_of(1.2, 300, [4, seed])) for seed in range(300)]
    areas = [np.mean(P[:, None] > Q[None, :]) for P, Q in drawn]
    stated = [audits.auc_deviation(P, Q) for P, Q in drawn]
    assert np.std(areas) == pytest.approx(np.median(stated), rel=0.2)


def test_the_least_misses_are_those_of_the_gaussian_mechanism():
    mu = 0.9
    curve = PrivacyCurve(GaussianPair(np.zeros(1), np.array([mu**2]), np.ones(1)), both=False)
    found = audits.trade_off(*ratios_of(mu, 40_000, 5), curve)
    truth = norm.cdf(norm.isf(found["alpha"]) - mu)
    assert (found["least"] <= truth + 1e-12).all()
    np.testing.assert_allclose(found["least"], truth, atol=3e-3)
    np.testing.assert_allclose(found["beta"], truth, atol=0.025)


# Totals


def chord(table, epsilon):
    """Straight in e^epsilon from (0, 1) on, and constant behind the last point."""
    gamma = np.exp(np.array([-np.inf, *table.epsilons]))
    return np.interp(np.exp(epsilon), gamma, [1.0, *table.deltas])


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-4])
def test_the_epsilon_of_a_total_is_the_least_that_its_points_prove(delta):
    spent, pair = Spent(), GaussianPair(np.array([0.1]), np.array([0.2]), np.ones(1))
    for _ in range(3):
        spent = spent.after(epsilon=0.9, delta=0.02, curve=PrivacyCurve(pair, both=False))
    found = epsilon_at(spent, delta)
    grid = np.linspace(0, max(spent.table.epsilons), 200_001)
    proved = grid[chord(spent.table, grid) <= delta * (1 + 1e-9)]
    if not len(proved):
        assert found == np.inf
    else:
        assert found == pytest.approx(proved[0], abs=2 * grid[1])
        assert spent.table.at(found) <= delta  # never rounded down


def test_totals_that_prove_all_or_nothing():
    table = CurveTable((0.5, 1.0), (0.2, 0.1))
    assert epsilon_at(Spent(1.0, 0.1, None, table), 0.05) == np.inf
    assert epsilon_at(Spent(1.0, 0.1, None, table), 1.0) == 0.0
    assert epsilon_at(Spent(), 1e-6) == 0.0


def test_a_gaussian_total_counts_where_it_proves_more():
    table, mu = CurveTable((0.5, 5.0), (0.9, 0.8)), 0.7
    found = epsilon_at(Spent(5.0, 0.8, GaussianCurve(mu, 0.0), table), 1e-3)
    assert gaussian_delta(mu, found) == pytest.approx(1e-3, rel=1e-6)
