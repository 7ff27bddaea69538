"""The (QP) of Proposition 1 against a generic solver, a min-max formula, a published identity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.qp import closed_form_feasible, closed_form_mu, minmax_mu, solve_qp
from pilu.accounting import mu_from_sensitivities
from pilu.accounting.shifted import (
    Blocks,
    blocks_from_sensitivities,
    extra_noise_for_each,
    later_variance,
    representable_contraction,
)


def random_chain(rng, n_learn=12, n_unlearn=6):
    s = rng.exponential(size=n_learn) * (rng.random(n_learn) < 0.7)
    s[rng.integers(n_learn)] = 1.0
    s = np.concatenate([s, np.zeros(n_unlearn)])
    variances = np.concatenate(
        [np.full(n_learn, rng.uniform(0.1, 2)), np.full(n_unlearn, rng.uniform(0.01, 5))]
    )
    return s, variances, rng.uniform(0.6, 1.0)


def test_against_a_generic_solver(rng):
    infeasible = 0
    for _ in range(60):
        s, variances, c = random_chain(rng)
        mu = mu_from_sensitivities(s, variances, c)
        exact = solve_qp(s, variances, c)
        assert exact * (1 - 1e-9) <= mu <= exact * (1 + 1e-8)
        if not closed_form_feasible(s, variances, c):
            infeasible += 1
            assert closed_form_mu(s, variances, c) < mu  # the paper's formula would be unsafe
    assert infeasible > 10


def test_against_minmax_on_long_chains(rng):
    for n in (200, 1000):
        s = np.abs(np.sin(np.arange(n) / 7)) * rng.exponential(size=n)
        variances = np.concatenate([np.full(n, 0.5), np.full(80, 3.0)])
        padded = np.concatenate([s, np.zeros(80)])
        mu, exact = mu_from_sensitivities(s, variances, 0.995), minmax_mu(padded, variances, 0.995)
        assert exact * (1 - 1e-13) <= mu <= exact * (1 + 1e-11)


@pytest.mark.parametrize("c", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("n", [1, 5, 300])
def test_published_identity(c, n):
    # Bok et al. (2024): constant sensitivity s, noise sd r at each of n contractive steps.
    s, r = 0.7, 2.0
    expected = s / r * math.sqrt((1 - c**n) / (1 + c**n) * (1 + c) / (1 - c))
    assert mu_from_sensitivities([s] * n, [r**2] * n, c) == pytest.approx(expected, rel=1e-11)


def test_steps_without_noise_carry_their_mass():
    # All mass waits for the one noisy step; after it there must be none.
    assert mu_from_sensitivities([1, 1, 1], [0, 0, 4], 1.0) == pytest.approx(1.5)
    assert mu_from_sensitivities([1, 1, 1], [4, 4, 0], 1.0) == math.inf
    assert mu_from_sensitivities([0, 0], [0, 0], 1.0) == 0.0
    assert mu_from_sensitivities([1.0, 0.0], [4.0, 0.0], 0.5) == pytest.approx(0.5)


def test_mass_without_noise_waits_for_what_comes_after():
    # Two noisy steps, then two without noise: the rest can only be paid later.
    s, variances = np.array([1.0, 1.0, 2.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0])
    history = blocks_from_sensitivities(s, variances, 0.9)
    assert history.mu() == math.inf
    for noise in (0.1, 10.0):
        whole = minmax_mu(np.append(s, [0.0, 0.0]), np.append(variances, [noise] * 2), 0.9)
        mu = history.mu(noise * later_variance(2, 0.9))
        assert whole * (1 - 1e-12) <= mu <= whole * (1 + 1e-10)
        extra = history.extra_for(whole)
        assert extra == pytest.approx(noise * later_variance(2, 0.9), rel=1e-9)
    each, reached = extra_noise_for_each(s[None], variances, 0.9, 0.4)
    assert each[0] == pytest.approx(history.extra_for(0.4), rel=1e-10)
    assert reached[0] <= 0.4
    nothing = blocks_from_sensitivities(s, np.zeros(4), 0.9)
    assert nothing.mu(2.0) == pytest.approx(
        minmax_mu(np.append(s, 0), np.append(np.zeros(4), 2 * 0.81), 0.9)
    )


def test_extreme_magnitudes_neither_vanish_nor_overflow():
    assert mu_from_sensitivities([1e-200], [1e-300], 1.0) == pytest.approx(1e-50)
    assert mu_from_sensitivities([1e200], [1e300], 1.0) == pytest.approx(1e50)


def test_targets_next_to_the_present_mu(rng):
    for _ in range(200):
        s, variances, c = random_chain(rng)
        history = blocks_from_sensitivities(s[:12], variances[:12], c)
        for share in (1 - 1e-12, 1 - 1e-13, 1 - 1e-15, 1.0):
            extra = history.extra_for(history.mu() * share / (1 + 1e-11))
            kept = history.pooled(extra).coarsened(2)
            assert kept.mu_as_pooled(extra) <= history.mu() * share


def test_underflow_of_the_weights_is_safe():
    s, variances = np.ones(3000), np.ones(3000)
    exact = minmax_mu(s[-400:], variances[-400:], 0.5)  # what is older weighs 2^-400
    mu = mu_from_sensitivities(s, variances, 0.5)
    assert exact <= mu <= exact * (1 + 1e-10)
    assert mu_from_sensitivities(s, variances, 0.0) == pytest.approx(1.0)


def test_history_and_later_noise_agree_with_the_whole_chain(rng):
    for _ in range(40):
        s, variances, c = random_chain(rng)
        history = blocks_from_sensitivities(s[:12], variances[:12], c)
        extra = variances[-1] * later_variance(6, c)
        whole = minmax_mu(s, variances, c)
        assert whole * (1 - 1e-12) <= history.mu(extra) <= whole * (1 + 1e-10)
        kept = history.pooled(extra).coarsened(2)
        assert len(kept.masses) <= 2
        assert whole * (1 - 1e-12) <= kept.mu_as_pooled(extra) <= whole * (1 + 1e-10)


def test_calibration_ends_on_the_private_side(rng):
    for _ in range(40):
        s, variances, c = random_chain(rng)
        history = blocks_from_sensitivities(s[:12], variances[:12], c)
        for share in (0.05, 0.5, 0.99, 0.999999, 2.0):
            target = history.mu() * share
            extra = history.extra_for(target)
            assert history.mu(extra) <= target
            if extra > 0:
                assert history.mu(extra * (1 - 1e-6)) > target * (1 - 1e-9)
            else:
                assert share > 1


def test_many_rows_at_once_agree_with_one_by_one(rng):
    rows = rng.exponential(size=(40, 15)) * (rng.random((40, 15)) < 0.8)
    rows[0] = 0.0
    variances = rng.uniform(0.5, 1.0, 15)
    for mu in (0.3, 3.0):
        extra, reached = extra_noise_for_each(rows, variances, 0.97, mu)
        for s, e, m in zip(rows, extra, reached, strict=True):
            blocks = blocks_from_sensitivities(s, variances, 0.97)
            assert e == pytest.approx(blocks.extra_for(mu), rel=1e-10)
            assert blocks.mu(e) <= m * (1 + 1e-11) <= mu * (1 + 2e-11)
    assert extra[0] == 0.0


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=15),
    st.floats(0.01, 5),
    st.floats(0.01, 5),
    st.integers(1, 20),
    st.floats(0.5, 1.0),
)
def test_monotone_in_later_noise_and_steps(s, learn, unlearn, n_unlearn, c):
    def mu(noise, steps):
        return mu_from_sensitivities(s, [learn] * len(s) + [noise] * steps, c)

    assert mu(2 * unlearn, n_unlearn) <= mu(unlearn, n_unlearn) * (1 + 1e-11)
    assert mu(unlearn, n_unlearn + 1) <= mu(unlearn, n_unlearn) * (1 + 1e-11)


def test_contraction_is_kept_within_the_doubles():
    assert representable_contraction(80, 0.99) == 0.99
    c = representable_contraction(80, 0.0)
    assert 0 < c < 0.02
    assert math.isfinite(later_variance(80, c))


def test_coarsening_does_not_touch_few_blocks():
    blocks = Blocks(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    assert blocks.coarsened(5) is blocks


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], [1.0], 1.1), r"contraction must be in \[0, 1\], got contraction=1.1."),
        (([-1.0], [1.0], 0.5), "sensitivities must be"),
        (([1.0], [np.nan], 0.5), "variances must be"),
        (([1.0, 1.0], [1.0], 0.5), "sensitivities must be no longer"),
        (([[1.0]], [1.0], 0.5), "sensitivities must be a sequence"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        mu_from_sensitivities(*arguments)
