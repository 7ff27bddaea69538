"""Margins of docs/margins.md against 30 digits, rational numbers and another integration path."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from oracles.high_precision import delta_from_mu_mp
from oracles.ray import ray_delta
from pilu.accounting import (
    GaussianPair,
    delta_from_mu,
    epsilons_of_pairs,
    gaussians,
    quadrature,
)
from pilu.accounting.cumulants import cumulant, log_down, log_up
from pilu.accounting.shifted import extra_noise_for_each

PAIRS = [
    ([0.5], [0.3], [1], 0.5),
    ([-0.5, -0.4], [0.3, 0.1], [1, 2], 0.2),
    ([-0.3, 0.2, 1e-3], [0.1, 0.2, 0.3], [1, 1, 4], 1.0),
]


@pytest.mark.parametrize(("x", "a2", "counts", "epsilon"), PAIRS)
def test_the_bound_on_the_sum_covers_what_is_missed(x, a2, counts, epsilon, monkeypatch):
    pair = GaussianPair(x, a2, counts)
    truth = float(ray_delta(pair.excesses, pair.squared_shifts, pair.counts, epsilon))
    gap, kappa = pair._saddle(epsilon), pair._bends(epsilon)[0]

    def missed(step):
        value, bound = pair._quadrature(gap, epsilon, 0.0, step, kappa)
        assert abs(value - truth) <= bound
        return abs(value - truth) / truth, bound / truth

    assert missed(0.04)[1] < 1e-9
    for cut in (1e-2, 1e-4, 1e-6):  # sums that end too early: what is cut is seen
        monkeypatch.setattr(gaussians, "_CUT", cut)
        seen, bound = missed(0.04)
        assert 1e-6 * cut < seen <= bound < 1e4 * cut
    monkeypatch.setattr(gaussians, "_CUT", 1e-16)
    for module in (gaussians, quadrature):  # coarse steps: aliases are seen
        monkeypatch.setattr(module, "CELL", 2)
    seen, bound = missed(0.2)
    assert 1e-12 < seen <= bound < 0.1


HUGE_COUNTS = [
    ([-1e-8], [0.3], [1e14], 0.5),
    ([-1.1700427342623003e-4], [0.5], [1e7], 0.3),
    ([1e-8], [0.01], [1e8], 1.0),
    ([1e-7, -2e-7], [0.2, 0.1], [3e12, 1e12], 0.7),
]


@pytest.mark.parametrize(("x", "a2", "counts", "epsilon"), HUGE_COUNTS)
def test_huge_counts_of_tiny_excesses_round_to_the_safe_side(x, a2, counts, epsilon):
    truth = ray_delta(x, a2, counts, epsilon)
    assert GaussianPair(x, a2, counts).delta(epsilon) >= truth
    delta = float(truth)
    found = epsilons_of_pairs([x], [a2], np.array(counts), delta)[0]
    assert ray_delta(x, a2, counts, found) <= delta


def test_a_cumulant_keeps_its_digits_where_excesses_are_tiny():
    x, a2, half = np.array([1e-9, -3e-12]), np.zeros(2), np.array([1e17, 1e20])
    for z in (0.3 + 0.2j, 5.0 - 3.0j, complex(2.0)):
        found = cumulant(x, a2, half, np.array([1 + z]), np.array([z]))[0]
        with mp.workdps(60):
            Z = mp.mpc(z)
            terms = [
                -mpf(float(h)) * (mp.log(1 - Z * mpf(v)) + Z * mp.log(1 + mpf(v)))
                for v, h in zip(x.tolist(), half.tolist(), strict=True)
            ]
            size = sum(mpf(float(h)) * abs(Z) * abs(mpf(v)) for v, h in zip(x, half, strict=True))
            assert abs(found - mp.fsum(terms)) <= size * mpf(2) ** -49


@pytest.mark.parametrize("sensitivity", [0.1, 1 / 3, 1 / 7])
def test_the_noise_of_a_million_equal_steps_is_enough(sensitivity):
    n, variance, mu = 1_000_000, 0.7, 50.0
    extra, reached = extra_noise_for_each(
        np.full((1, n), sensitivity), np.full(n, variance), 1.0, mu
    )
    s, v, found = Fraction(sensitivity), Fraction(variance), Fraction(float(extra[0]))
    true_square = (n * s) ** 2 / (n * v + found)  # one block, by symmetry
    assert true_square <= Fraction(mu) ** 2
    assert true_square <= Fraction(float(reached[0])) ** 2


def test_logarithms_of_delta_round_to_their_side(rng):
    with mp.workdps(50):
        for delta in [5e-324, 1e-300, 1 - 2**-53, *(10.0 ** rng.uniform(-300, 0, 300)).tolist()]:
            assert mpf(log_down(delta)) <= mp.log(mpf(delta)) <= mpf(log_up(delta))


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (7.50514408535881e-12, 2.799153288189472e-10),
        (3.0132775560962694e-06, 0.00011335747444837942),
        (4.310662592214434, 173.06897612303462),
    ],
)
def test_deltas_below_the_normal_doubles_are_rounded_up(mu, epsilon):
    truth = delta_from_mu_mp(mu, epsilon)
    assert mpf("1e-320") < truth < mpf("1e-308")
    assert delta_from_mu(mu, epsilon) >= truth
    pair = GaussianPair([0.0], [mu**2], 1)
    assert pair.delta(epsilon) >= delta_from_mu_mp(mpf(pair.squared_shifts[0]) ** 0.5, epsilon)
