"""Infinitely many steps as one: against a published limit, sums of many digits, and a solver."""

import numpy as np
import pytest
from mpmath import mp, mpf

from oracles.qp import minmax_mu
from pilu.accounting.endless import N_WINDOWS, pooled_steps, window_length, window_tails
from pilu.accounting.shifted import blocks_from_sensitivities
from pilu.exceptions import BeyondPrecision, WrongInput


@pytest.mark.parametrize("c", [0.5, 0.99, 1 - 1e-7, 1 - 1e-12])
def test_constant_sensitivities_have_the_published_limit(c):
    # Bok et al., T to infinity: mu = (s / r) sqrt((1 + c) / (1 - c))
    s, variance = 0.3, 0.04
    bounds = np.full(N_WINDOWS + 1, s)
    pooled, variances = pooled_steps(bounds, np.empty(0), window_length(1 - c), variance, c)
    mu = blocks_from_sensitivities(pooled, variances, c).mu()
    with mp.workdps(50):
        limit = mpf(s) / mp.sqrt(mpf(variance)) * mp.sqrt((1 + mpf(c)) / (1 - mpf(c)))
        assert 0 <= mpf(mu) / limit - 1 < 1e-10


@pytest.mark.parametrize("c", [0.7, 0.9, 0.97])
def test_windows_and_later_steps_against_the_program(c, rng):
    length = window_length(1 - c)
    windows = np.sort(rng.uniform(1, 2, N_WINDOWS + 1))
    later_s, later = rng.uniform(0, 3, 8), rng.uniform(0.1, 5, 8)
    bounds = np.concatenate([windows, later_s])
    pooled, variances = pooled_steps(bounds, later, length, 0.5, c)
    mu = blocks_from_sensitivities(pooled, variances, c).mu()
    literal = np.repeat(windows[:-1], int(length))[::-1]  # the last window comes first
    s = np.concatenate([literal, later_s])
    truth = minmax_mu(s, np.concatenate([np.full(len(literal), 0.5), later]), c)
    assert truth * (1 - 1e-12) <= mu <= truth * (1 + 1e-9)


def test_what_lies_past_the_windows_is_covered():
    # bounds that grow linearly past them, summed in 50 digits; a short window leaves much there
    c, length, last = 0.999, 3.0, 2.0
    bounds = np.append(np.full(N_WINDOWS, 1.0), last)
    (mass, *_), _ = pooled_steps(bounds, np.empty(0), length, 1.0, c)
    with mp.workdps(50):
        total = mpf(0)
        for j in range(60_000):
            g = j // 3
            s = 1.0 if g < N_WINDOWS else last * (1 + g - N_WINDOWS)
            total += mpf(c) ** j * s
        assert 0 <= mpf(mass) / total - 1 < 1e-9


def test_tails_sum_to_the_slack():
    tails = window_tails(1e-3, 7.0)
    assert len(tails) == N_WINDOWS + 1
    assert 7 * tails[:-1].sum() == pytest.approx(1e-3, rel=1e-11)
    assert 7 * (tails[:-1].sum() + 2 * tails[-1]) <= 1e-3 * (1 + 1e-15)
    with pytest.raises(WrongInput, match="delta must be larger"):
        window_tails(1e-300, 1e7)


def test_steps_that_do_not_contract_are_refused():
    with pytest.raises(BeyondPrecision, match="retained"):
        pooled_steps(np.ones(N_WINDOWS + 1), np.empty(0), 10.0, 1.0, 1.0)
