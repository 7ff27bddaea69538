"""Epsilons of many pairs against regions of the normal law, quadrature and one pair at a time."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mpf

from oracles.gaussian_regions import one_coordinate_delta, two_coordinates_delta
from oracles.pairs import contour_delta, one_direction_delta
from pilu.accounting import GaussianPair, PrivacyCurve, epsilon_from_mu, many_pairs
from pilu.accounting.many_pairs import epsilons_of_pairs

DELTAS = [1e-12, 1e-6, 1e-3, 0.05, 0.3]
NARROWINGS = [1e-14, 1e-10, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6]
SHIFTS = [0.0, 1e-8, 1e-5, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0]
FARTHEST = 1e4


def assert_least(epsilon, delta, true_delta):
    """epsilon is not below the least that satisfies delta, and at most 1e-9 (1e-12) above it."""
    if math.isinf(epsilon):
        assert true_delta(FARTHEST) > delta
        return
    assert 0 <= epsilon <= FARTHEST
    assert true_delta(epsilon) <= mpf(delta)
    below = mpf(epsilon) - max(mpf(epsilon) * mpf("1e-9"), mpf("1e-12"))
    if below >= 0:
        assert true_delta(below) > mpf(delta)


def larger_of_both(formula, x, a2, counts):
    """The larger delta of the two directions, from a formula for one."""
    x, a2 = [mpf(v) for v in x], [mpf(v) for v in a2]
    back = [-v / (1 + v) for v in x], [a / (1 + v) for a, v in zip(a2, x, strict=True)]

    def true_delta(epsilon):
        return max(formula(x, a2, counts, epsilon), formula(*back, counts, epsilon))

    return true_delta


def chi_square(x, a2, counts, epsilon):
    return one_direction_delta(x[0], a2[0], counts[0], epsilon)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("wider", [False, True])
def test_one_coordinate_at_hostile_places(delta, wider):
    h, a = (np.array(v) for v in zip(*itertools.product(NARROWINGS, SHIFTS), strict=True))
    x = h / (1 - h) if wider else -h
    epsilons = epsilons_of_pairs(x[:, None], a[:, None] ** 2, 1, delta)
    for epsilon, v, shift in zip(epsilons, x, a**2, strict=True):
        assert_least(epsilon, delta, lambda e, v=v, shift=shift: one_coordinate_delta(v, shift, e))


def test_one_coordinate_at_random(rng):
    n = 150
    x = -np.where(rng.random(n) < 0.8, 10.0 ** rng.uniform(-14, 0, n), rng.uniform(0, 1, n))
    a2 = 10.0 ** rng.uniform(-16, 3.4, n)
    for delta in (1e-12, 1e-5, 0.2):
        epsilons = epsilons_of_pairs(x[:, None], a2[:, None], 1, delta)
        for epsilon, v, shift in zip(epsilons, x, a2, strict=True):
            assert_least(
                epsilon, delta, lambda e, v=v, shift=shift: one_coordinate_delta(v, shift, e)
            )


@pytest.mark.parametrize("delta", DELTAS)
def test_the_contour_integral_at_hostile_places(delta, monkeypatch):
    # One coordinate again, because its truth is known, but by the method for several.
    def nothing(x, a2, target):
        return np.full(len(x), np.nan), np.zeros(len(x), dtype=bool)

    monkeypatch.setattr(many_pairs, "_of_single", nothing)
    for h, a in itertools.product([1e-10, 1e-3, 0.1, 0.5, 0.9], SHIFTS):
        epsilon = epsilons_of_pairs([[-h]], [[a * a]], 1, delta)[0]
        assert_least(epsilon, delta, lambda e, h=h, a=a: one_coordinate_delta(-h, a * a, e))


@pytest.mark.parametrize("h", [1e-6, 1e-2, 0.3, 0.6])
@pytest.mark.parametrize("a", [0.0, 0.03, 0.5, 1.0])
def test_where_delta_at_zero_is_hardly_above_delta(h, a):
    at_zero = float(one_coordinate_delta(-h, a * a, 0.0))
    assert at_zero < 0.52
    for more in (-1e-6, -1e-9, -1e-12, 0.0, 1e-12, 1e-9):
        delta = at_zero * (1 + more)
        epsilon = epsilons_of_pairs([[-h]], [[a * a]], 1, delta)[0]
        assert_least(epsilon, delta, lambda e: one_coordinate_delta(-h, a * a, e))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [1e-12, 0.3])
@pytest.mark.parametrize("count", [2, 50])
def test_several_coordinates_with_one_excess_against_noncentral_chi_square(count, delta):
    pairs = [(1e-5, 0.0), (1e-2, 0.04), (0.3, 1.0), (0.9, 1e-6), (0.999, 0.0)]
    x, a2 = (np.array(v)[:, None] for v in zip(*pairs, strict=True))
    epsilons = epsilons_of_pairs(-x, a2, count, delta)
    for epsilon, (h, shift) in zip(epsilons, pairs, strict=True):
        assert_least(epsilon, delta, larger_of_both(chi_square, [-h], [shift], [count]))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2])
def test_two_directions_against_nested_quadrature(delta):
    pairs = [
        ((-0.3, 0.2), (-0.1, 0.5)),
        ((0.0, 0.7), (-0.4, 0.1)),
        ((-1e-3, 1e-2), (-0.6, 0.0)),
        ((0.5, 0.3), (-0.4, 0.2)),
    ]
    x, a2 = (np.array([[one[k], two[k]] for one, two in pairs]) for k in (0, 1))
    for epsilon, (one, two) in zip(epsilons_of_pairs(x, a2, 1, delta), pairs, strict=True):
        assert_least(epsilon, delta, lambda e, one=one, two=two: two_coordinates_delta(one, two, e))


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_many_directions_against_50_digits(delta):
    counts = [1, 3, 50]
    x = np.array([[-0.3, -0.2, -0.01], [-1e-6, -1e-3, -0.5], [0.3, -0.2, 0.01], [-0.9, 0, -0.1]])
    a2 = np.array([[0.1, 0.2, 0.3], [1e-10, 1e-4, 0.0], [0.2, 0.0, 3.0], [0.01, 1.0, 2.0]])
    for epsilon, v, shift in zip(epsilons_of_pairs(x, a2, counts, delta), x, a2, strict=True):
        assert_least(epsilon, delta, larger_of_both(contour_delta, v, shift, counts))


def test_the_same_as_one_pair_at_a_time(rng):
    for m, counts in [(1, 1), (1, 10), (2, [1, 50]), (3, 1), (5, [1, 1, 2, 4, 8])]:
        x = -(10.0 ** rng.uniform(-9, 0, (80, m)))
        x = np.where(rng.random(x.shape) < 0.2, -x, x)  # some directions are wider
        x[rng.random(x.shape) < 0.2] = 0.0
        a2 = 10.0 ** rng.uniform(-10, 1.5, x.shape)
        a2[rng.random(x.shape) < 0.2] = 0.0
        for delta in (1e-10, 1e-4, 0.1):
            epsilons = epsilons_of_pairs(x, a2, counts, delta)
            for epsilon, v, shift in zip(epsilons, x, a2, strict=True):
                curve = PrivacyCurve(GaussianPair(v, shift, counts), both=True)
                # The curve's own delta may be 1e-9 too large.
                assert curve.delta(epsilon) <= delta * (1 + 2e-9)
                below = epsilon - max(1e-9 * epsilon, 1e-12)
                assert below < 0 or curve.delta(below) > delta


def test_equal_covariances_are_the_gaussian_mechanism():
    shifts = np.array([[0.0, 1e-20], [0.3, 0.1], [2.0, 5.0], [0.0, 900.0], [1e300, 0.0]])
    epsilons = epsilons_of_pairs(np.zeros((5, 2)), shifts, [1, 7], 1e-6)
    expected = epsilon_from_mu(np.sqrt(shifts[1:4].sum(axis=1)), 1e-6)
    assert epsilons[0] == 0.0
    np.testing.assert_allclose(epsilons[1:4], expected, rtol=1e-11)
    assert (epsilons[1:4] >= expected).all()
    assert epsilons[4] == np.inf


def test_identical_laws_and_laws_worlds_apart():
    x = np.array([[0.0, 0.0], [-0.5, 0.0], [-0.5, -0.1], [-(1 - 1e-12), -0.5]])
    a2 = np.array([[0.0, 0.0], [1e9, 0.0], [1e9, 1e9], [1.0, 1.0]])
    epsilons = epsilons_of_pairs(x, a2, 1, 1e-6)
    assert epsilons.tolist() == [0.0, np.inf, np.inf, np.inf]


@pytest.mark.parametrize("counts", [1, 3])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.3])
def test_laws_of_very_different_width_are_never_called_private(counts, delta):
    x = np.array([1e8, 1e9, 1e13, 1e17, 1e200, 1e-16 - 1, 1e-13 - 1])
    x, a2 = (np.ravel(v) for v in np.meshgrid(x, [0.0, 1e-300, 1.0, 1e9, 1e300]))
    narrow = np.full_like(x, -0.3)
    for table in (x[:, None], np.column_stack([x, narrow])):
        shifts = np.column_stack([a2] * table.shape[1])
        assert np.isinf(epsilons_of_pairs(table, shifts, counts, delta)).all()


def test_equal_rows_and_columns_of_zeros_change_nothing(rng):
    x, a2 = -rng.uniform(0, 0.9, (40, 2)), rng.exponential(size=(40, 2))
    x[:10, 1] = a2[:10, 1] = 0.0
    plain = epsilons_of_pairs(x, a2, [1, 3], 1e-5)
    order = rng.integers(0, 40, 200)
    zeros = np.zeros((200, 1))
    padded = epsilons_of_pairs(
        np.hstack([zeros, x[order], zeros]),
        np.hstack([zeros, a2[order], zeros]),
        [9, 1, 3, 1],
        1e-5,
    )
    assert (padded == plain[order]).all()


@pytest.mark.parametrize("counts", [[1], [10], [1, 1], [2, 5, 9]])
@pytest.mark.parametrize("delta", [1e-9, 1e-2])
def test_epsilon_rises_with_each_shift(counts, delta, rng):
    m = len(counts)
    grid = np.concatenate([[0.0], 10.0 ** np.linspace(-6, 2, 60)])
    for _ in range(5):
        x = np.tile(-(10.0 ** rng.uniform(-6, 0, m)), (len(grid), 1))
        a2 = np.tile(rng.exponential(size=m), (len(grid), 1))
        for column in range(m):
            moved = a2.copy()
            moved[:, column] = grid
            epsilons = epsilons_of_pairs(x, moved, counts, delta)
            assert (np.diff(epsilons) >= -np.maximum(1e-9 * epsilons[1:], 1e-12)).all()
            assert epsilons[-1] > epsilons[0]


def test_ordinary_tables_are_not_evaluated_one_pair_at_a_time(monkeypatch, rng):
    def refuse(*_, **__):
        raise AssertionError("one pair at a time")

    monkeypatch.setattr(many_pairs, "PrivacyCurve", refuse)
    for m, counts in [(1, 1), (1, 10), (3, 1)]:
        x, a2 = (10.0 ** rng.uniform(-5, 0, (500, m)) for _ in range(2))
        assert np.isfinite(epsilons_of_pairs(-x * 0.999, a2, counts, 1e-6)).all()


def test_what_does_not_converge_is_evaluated_one_pair_at_a_time(monkeypatch):
    x, a2 = [[-0.3, -0.1], [-0.2, 0.0]], [[0.2, 0.4], [0.3, 0.0]]
    usual = epsilons_of_pairs(x, a2, 1, 1e-5)
    monkeypatch.setattr(many_pairs, "_of_single", lambda *parts: (np.nan, False))
    monkeypatch.setattr(many_pairs, "_of_several", lambda *parts: np.nan)
    np.testing.assert_allclose(epsilons_of_pairs(x, a2, 1, 1e-5), usual, rtol=2e-9)


def test_no_pairs_at_all():
    assert epsilons_of_pairs(np.zeros((0, 3)), np.zeros((0, 3)), 1, 1e-5).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[-1.0]], [[0.1]], 1, 0.1), "excesses must be finite numbers > -1, got excesses=-1"),
        (([[np.nan]], [[0.1]], 1, 0.1), "excesses must be finite"),
        (([-0.1], [0.1], 1, 0.1), "excesses must be a table"),
        (([[-0.1]], [[0.1, 0.2]], 1, 0.1), "squared_shifts must be of the shape"),
        (([[-0.1]], [[-0.1]], 1, 0.1), "squared_shifts must be finite numbers >= 0"),
        (([[-0.1]], [[np.inf]], 1, 0.1), "squared_shifts must be"),
        (([[-0.1]], [[0.1]], 0, 0.1), "counts must be integers >= 1"),
        (([[-0.1]], [[0.1]], 1.5, 0.1), "counts must be integers >= 1"),
        (([[-0.1, 0.1]], [[0.1, 0.1]], [1, 0.5], 0.1), "counts must be integers >= 1"),
        (([[-0.1, 0.1]], [[0.1, 0.1]], [0, 2], 0.1), "counts must be integers >= 1"),
        (([[-0.1]], [[0.1]], [1, 1], 0.1), "counts must be one integer, or one for each"),
        (([[-0.1]], [[0.1]], 1, 0.0), "delta must be in the open interval"),
        (([[-0.1]], [[0.1]], 1, 1.0), "delta must be in the open interval"),
        (([["a"]], [[0.1]], 1, 0.1), "excesses must be a real number"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        epsilons_of_pairs(*arguments)
