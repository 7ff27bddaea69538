"""Totals over requests, against chains of Gaussians whose end-to-end divergence is known."""

import math

import numpy as np
import pytest
from mpmath import mp

from oracles.high_precision import delta_from_mu_mp
from pilu.accounting import Spent, epsilon_from_mu


def test_a_first_request_is_its_own_total():
    spent = Spent().after(epsilon=1.0, delta=1e-5, mu=0.2, slack=5e-6)
    assert spent == Spent(1.0, 1e-5, 0.2, 5e-6)


def test_two_requests_by_hand():
    first = Spent().after(epsilon=1.0, delta=1e-5, mu=0.2, slack=5e-6)
    second = first.after(epsilon=0.5, delta=2e-5, mu=0.1, slack=1e-5)
    plain = 1e-5 + math.e * 2e-5
    z = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(1e-5))  # Phi(-z) = 1e-5
    gaussian = float(delta_from_mu_mp(0.3, 1.5)) + 5e-6 + float(mp.ncdf(0.2 - z))
    assert second.epsilon == 1.5
    assert second.delta == pytest.approx(min(plain, gaussian), rel=1e-9)
    assert second.delta >= min(plain, gaussian)


def test_total_bounds_the_true_divergence_of_a_chain():
    # P_0 = N(0, 1) against P_m = N(sum mu, 1): a chain of m pure mu-GDP links.
    mus, spent, delta = [0.3, 0.5, 0.2, 0.4], Spent(), 1e-3
    for mu in mus:
        spent = spent.after(epsilon=epsilon_from_mu(mu, delta), delta=delta, mu=mu, slack=0.0)
    truth = float(delta_from_mu_mp(sum(mus), spent.epsilon))
    assert truth <= spent.delta <= truth * (1 + 1e-9)  # the Gaussian rule is exact here


def test_plain_rule_where_it_is_the_smaller():
    # Two failures without any mu: the Gaussian rule must not beat what is true.
    spent = Spent().after(epsilon=0.0, delta=0.1, mu=0.0, slack=0.1)
    spent = spent.after(epsilon=0.0, delta=0.1, mu=0.0, slack=0.1)
    assert spent.delta == pytest.approx(0.2)
    assert spent.delta >= 0.2


def test_a_total_that_promises_nothing_says_so():
    spent = Spent()
    for _ in range(40):
        spent = spent.after(epsilon=30.0, delta=0.4, mu=7.0, slack=0.2)
    assert spent.delta == 1.0
    assert math.isfinite(spent.epsilon)


def test_total_never_falls_with_another_request():
    spent, last = Spent(), 0.0
    for _ in range(12):
        spent = spent.after(epsilon=1.0, delta=1e-4, mu=0.25, slack=5e-5)
        assert spent.delta >= last
        last = spent.delta
    assert np.isfinite(spent.mu)
