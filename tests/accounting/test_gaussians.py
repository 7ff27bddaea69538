"""The divergence of two Gaussians against closed forms and 50-digit quadrature."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mpf

from oracles.pairs import contour_delta, one_direction_delta
from pilu.accounting import GaussianPair, PrivacyCurve, delta_from_mu
from pilu.accounting.noise_search import nearly_gaussian_log_delta
from pilu.certify.exact import closeness

EPSILONS = [0.0, 0.1, 1.0, 5.0, 20.0]
ONE = [
    (0.5, 0.3, 1),
    (-0.5, 0.3, 1),
    (0.5, 0.0, 1),
    (-0.5, 0.0, 2),
    (3.0, 0.1, 1),
    (-0.99, 1.0, 1),
    (50.0, 1.0, 1),
    (0.01, 0.3, 10),
    (-0.2, 2.0, 10),
    (1e-3, 1e-4, 1),
]
MANY = [
    ([0.3, -0.2, 0.01], [0.1, 0.2, 0.3], [1, 1, 1]),
    ([0.3, -0.2, 0.01], [0.1, 0.2, 0.3], [10, 10, 10]),
    ([1e-6, -1e-9], [1e-2, 1.0], [1, 1]),
    (list(0.3 * (-0.3) ** np.arange(12)), list(0.1 * 0.5 ** np.arange(12)), [1] * 12),
    (list(-1e-3 * (-0.05) ** np.arange(8)), list(0.1 * 0.1 ** np.arange(8)), [10] * 8),
]


def assert_safe_and_tight(delta, exact):
    assert delta >= exact * (1 - mpf("1e-25"))
    assert delta <= exact * (1 + mpf("1e-8")) or delta < 1e-250


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("pair", "epsilon"), list(itertools.product(ONE, EPSILONS)))
def test_one_direction_against_noncentral_chi_square(pair, epsilon):
    x, a2, n = pair
    P = GaussianPair([x], [a2], n)
    exact = one_direction_delta(x, a2, n, epsilon)
    if exact > mpf("1e-40"):
        assert_safe_and_tight(P.delta(epsilon), exact)
    back = P.reversed()
    exact = one_direction_delta(float(back.excesses[0]), float(back.squared_shifts[0]), n, epsilon)
    if exact > mpf("1e-40"):
        assert_safe_and_tight(back.delta(epsilon), exact)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("pair", "epsilon"), list(itertools.product(MANY, EPSILONS)))
def test_many_directions_against_50_digits(pair, epsilon):
    for P in (GaussianPair(*pair), GaussianPair(*pair).reversed()):
        exact = contour_delta(P.excesses, P.squared_shifts, P.counts, epsilon)
        if exact > mpf("1e-40"):
            assert_safe_and_tight(P.delta(epsilon), exact)


@pytest.mark.parametrize("mu", [1e-4, 0.1, 1.0, 5.0])
def test_equal_covariances_are_the_gaussian_mechanism(mu):
    for epsilon in EPSILONS:
        delta = GaussianPair([0.0], [mu**2], 1).delta(epsilon)
        reference = delta_from_mu(mu, epsilon)
        assert delta == pytest.approx(reference, rel=1e-9) or delta < 1e-300


def test_bounded_loss_and_identical_laws():
    pair = GaussianPair([-0.5], [0.1], 1)
    largest = 0.1 / (2 * 0.5) - 0.5 * math.log(0.5)
    assert pair.delta(largest * 1.001) == 0.0
    assert pair.delta(largest * 0.99) > 0.0
    assert GaussianPair([0.0, 0.0], [0.0, 0.0], 3).delta(0.0) == 0.0


def test_laws_beyond_resolution_are_refused():
    with pytest.raises(ArithmeticError, match="wider"):
        GaussianPair([1e9], [1.0], 1).delta(0.5)
    with pytest.raises(ArithmeticError, match="wider"):
        GaussianPair([1e-10 - 1], [1.0], 1).reversed().delta(0.5)


def test_delta_falls_with_epsilon_and_rises_with_less_noise(rng):
    for _ in range(20):
        x = rng.uniform(-0.4, 0.6, 5) * 10.0 ** rng.integers(-6, 1, 5)
        a2 = rng.exponential(size=5) * 0.1
        pair = GaussianPair(x, a2, int(rng.integers(1, 6)))
        deltas = [pair.delta(e) for e in (0.0, 0.3, 1.0, 2.0)]
        assert deltas == sorted(deltas, reverse=True)
        louder = GaussianPair(1.2 * x, 1.2 * a2, pair.counts)
        assert louder.delta(0.5) >= pair.delta(0.5) * (1 - 1e-9)


def test_merging_is_never_safer(rng):
    for _ in range(15):
        x = np.concatenate([10.0 ** -rng.uniform(0.5, 9, 12), -(10.0 ** -rng.uniform(0.5, 9, 12))])
        pair = GaussianPair(x, rng.exponential(size=24) * np.abs(x), 2)
        merged = pair.merged(8)
        assert len(merged.excesses) <= 8
        assert merged.counts.sum() == pair.counts.sum()
        for epsilon in (0.1, 1.0):
            assert merged.delta(epsilon) >= pair.delta(epsilon) * (1 - 1e-9)
    small = GaussianPair([0.1, -0.1], [0.2, 0.1], 1)
    assert small.merged(16).delta(0.5) == pytest.approx(small.delta(0.5), rel=1e-12)


def test_a_curve_takes_the_worse_direction_and_pays_for_its_error():
    pair = GaussianPair([0.4], [0.05], 1)
    one, both = PrivacyCurve(pair, both=False), PrivacyCurve(pair, both=True)
    forward, backward = pair.delta(0.5), pair.reversed().delta(0.5)
    assert one.delta(0.5) == pytest.approx(forward)
    assert both.delta(0.5) == pytest.approx(max(forward, backward))
    careful = PrivacyCurve(pair, both=True, epsilon_error=0.01, log_tail=math.log(1e-9))
    assert careful.delta(0.5) >= math.exp(0.01) * max(forward, backward)
    for curve in (one, both, careful):
        epsilon = curve.epsilon(0.01)
        assert curve.delta(epsilon) <= 0.01
        assert curve.delta(epsilon * (1 - 1e-6)) > 0.01


def test_closeness_covers_two_nearby_gaussians(rng):
    # P(log dP/dP^ > e0) <= tail, by the exact divergence: it is at most tail at epsilon = e0.
    for shift, covariance, d in [(1e-2, 0.0, 1), (0.0, 1e-2, 3), (1e-3, 2e-3, 10)]:
        log_tail = math.log(1e-6)
        e0 = closeness(shift, covariance, d, log_tail)
        for sign in (1, -1):
            pair = GaussianPair([sign * covariance], [shift**2], d)
            assert pair.delta(e0) <= 1e-6
            assert pair.reversed().delta(e0) <= 1e-6
    with pytest.raises(ArithmeticError, match="too coarse"):
        closeness(1.0, 0.0, 1, -10.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([-1.0], [0.1], 1), "excesses must be"),
        (([np.nan], [0.1], 1), "excesses must be"),
        (([0.1], [-0.1], 1), "squared_shifts must be"),
        (([0.1, 0.2], [0.1], 1), "excesses must be"),
        (([0.1], [0.1], 0), "counts must be integers >= 1"),
        (([0.1], [0.1], 1.5), "counts must be"),
        (([0.1], [np.inf], 1), "squared_shifts must be"),
        (([True], [0.1], 1), "excesses must be a real number"),
        (([0.1], [0.1j], 1), "squared_shifts must be a real number"),
        ((["0.1"], [0.1], 1), "excesses must be a real number"),
    ],
)
def test_bad_input(arguments, words):
    for convert in (lambda value: value, np.array):  # arrays are checked as well as lists
        with pytest.raises(ValueError, match=words):
            GaussianPair(*(convert(value) for value in arguments))
    with pytest.raises(ValueError, match="epsilon must be"):
        GaussianPair([0.1], [0.1], 1).delta(-1.0)


@pytest.mark.parametrize("size", [1e-55, 1e-90, 1e-160, 1e-200, 1e-300, 5e-324])
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (0, 1), (1, 0), (-1, 0)])
def test_laws_that_hardly_differ(size, signs):
    # Where the saddle would leave the doubles a louder pair answers: finite, and tiny.
    pair = GaussianPair([signs[0] * size, 0.0], [abs(signs[1]) * size, 0.0], 3)
    for epsilon in (1e-9, 1e-3, 1.0):
        assert pair.log_delta(epsilon) < -700
        assert pair.reversed().log_delta(epsilon) < -700


@pytest.mark.parametrize("d", [1, 10])
@pytest.mark.parametrize("size", [1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize(("energy", "epsilon"), [(0.05, 0.3), (0.3, 1.0), (2.0, 3.0)])
def test_the_series_for_small_excesses_is_close_enough_to_search_with(
    d, size, energy, epsilon, rng
):
    x = rng.normal(size=6) * size / np.sqrt(d)
    a2 = rng.uniform(size=6)
    a2 *= energy / a2.sum()
    pair = GaussianPair(x, a2, d)
    true = [pair.log_delta(epsilon), pair.reversed().log_delta(epsilon)]
    moments = (a2.sum(), (x * a2).sum(), (x**2 * a2).sum(), (x**2).sum(), d, epsilon)
    assert nearly_gaussian_log_delta(*moments, both=False) == pytest.approx(true[0], abs=1e-8)
    assert nearly_gaussian_log_delta(*moments, both=True) == pytest.approx(max(true), abs=1e-8)


@pytest.mark.parametrize("squared_shift", [1e14, 1e20, 1e40, 1e300])
def test_laws_that_are_worlds_apart_have_delta_one(squared_shift):
    pair = GaussianPair(np.array([0.0, -0.3]), np.array([squared_shift, 1.0]), np.array([1, 1]))
    for direction in (pair, pair.reversed()):
        assert direction.log_delta(0.0) == 0.0
        assert direction.log_delta(1.0) == 0.0
    assert PrivacyCurve(pair, both=True).epsilon(1e-5) >= squared_shift / 4


def test_a_curve_known_to_next_to_nothing_claims_nothing():
    pair = GaussianPair(np.array([0.1]), np.array([0.5]), np.array([1]))
    curve = PrivacyCurve(pair, both=True, epsilon_error=1e4, log_tail=-50.0)
    assert curve.log_delta(3.0) == 0.0
    assert curve.epsilon(1e-5) >= 1e4


def test_a_pair_does_not_change_with_the_arrays_it_was_made_of():
    x, a2, counts = np.array([0.1, -0.2]), np.array([0.3, 0.4]), np.array([1, 2])
    pair = GaussianPair(x, a2, counts)
    before = pair.delta(0.5)
    x[:], a2[:], counts[:] = 5.0, 5.0, 7
    assert pair.delta(0.5) == before
