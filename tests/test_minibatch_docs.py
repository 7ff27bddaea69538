"""docs/minibatches.md says what is so: its tables and formulas are recomputed."""

from pathlib import Path

import numpy as np
import pytest

from oracles.high_precision import mu_from_epsilon_mp
from oracles.minibatch import (
    both_ways_delta,
    cyclic_laws,
    cyclic_noise,
    cyclic_pair,
    cyclic_sensitivities,
)
from oracles.qp import closed_form_mu, minmax_mu
from pilu import LangevinRidge, Theorem
from pilu.minibatch.difference import compare_minibatches
from pilu.minibatch.law import MinibatchLaw

PAGE = (Path(__file__).parent.parent / "docs" / "minibatches.md").read_text()


def printed(heading):
    """The numbers of the table whose head begins with `heading`."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()
    cells = [line.strip("| ").replace(",", "").split("|") for line in lines[2:]]
    return [tuple(float(cell) for cell in row) for row in cells]


def least_noise(mu, target):
    """Least sigma with mu(sigma) <= target."""
    if mu(0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while mu(high) > target:
        low, high = high, 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if mu(middle) <= target else (middle, high)
    return high


@pytest.mark.parametrize("line", range(4))
def test_the_closed_form_is_too_small(line):
    sigma_learn, *ratios = printed("sigma_learn")[line]
    n, p, b, T, K, alpha = 40, 4, 8, 40, 5, 0.1
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, p))
    Y = (X @ rng.standard_normal(p) + rng.standard_normal(n))[:, None]
    eta = 1 / (alpha + max(np.linalg.norm(X[t : t + b], 2) ** 2 for t in range(0, n, b)))
    target, c = float(mu_from_epsilon_mp(1.0, 0.5 / n)), 1 - eta * alpha

    def variances(sigma):
        return 2 * eta * np.array([sigma_learn] * T + [sigma] * K) ** 2

    worst = np.ones(2)
    for row in range(n):
        s = np.zeros(T + K)
        s[:T] = cyclic_sensitivities(
            X, Y, [row], alpha, eta, b, [(T, sigma_learn)], np.zeros((p, 1)), 0.5 / n
        )
        truth = least_noise(lambda sigma, s=s: minmax_mu(s, variances(sigma), c), target)
        if truth == 0.0:
            continue
        for j, first in enumerate((0, row // b)):
            formula = least_noise(
                lambda sigma, s=s, k=first: closed_form_mu(s[k:], variances(sigma)[k:], c), target
            )
            worst[j] = min(worst[j], formula / truth)
    np.testing.assert_allclose(worst, ratios, atol=6e-4)


@pytest.fixture
def fitted(small):
    X, Y = small
    model = LangevinRidge(
        alpha=0.2, n_steps=23, noise=0.3, batch_size=7, fit_intercept=False, random_state=0
    )
    return model.fit(X, Y), X, Y


def test_theorem_solves_the_qp_for_every_row(fitted):
    model, X, Y = fitted
    eta, start = model.step_size_, np.zeros((4, 2))
    found = model.quote(delta=1e-3, n_unlearn_steps=6, accountant="theorem").noise
    for row in (0, 6, 7, 16, 29):
        want = cyclic_noise(X, Y, [row], 0.2, eta, 7, [(23, 0.3)], start, 1.0, 1e-3, 0.5, 6)
        assert want * (1 - 1e-12) <= found[row] <= want * (1 + 1e-6)


def test_a_group_shares_the_union_bound_over_all_visits(fitted):
    model, X, Y = fitted
    model.unlearn(3, n_unlearn_steps=9, accountant="theorem")  # visits of all phases count
    rows, eta, start = [4, 5, 20], model.step_size_, np.zeros((4, 2))
    found = model.quote([rows], delta=1e-3, n_unlearn_steps=6, accountant=Theorem()).noise[0]
    segments = list(model.schedule_)
    want = cyclic_noise(X, Y, rows, 0.2, eta, 7, segments, start, 1.0, 1e-3, 0.5, 6, gone={3})
    assert want * (1 - 1e-12) <= found <= want * (1 + 1e-6)


def test_both_ways_to_the_variance_agree(fitted):
    model, X, Y = fitted
    law = model.fitted_.law
    assert isinstance(law, MinibatchLaw)
    rows = np.arange(len(X))
    forwards = law._all_variances()[0].T
    backwards = law._variances_backwards(law.problem.batch_of(rows), X)
    np.testing.assert_allclose(forwards, backwards, rtol=1e-12, atol=0)
    _, covariances = cyclic_laws(X, Y, 0.2, model.step_size_, 7, [(23, 0.3)], np.zeros((4, 2)))
    for row in (0, 8, 29):
        for cycle, k in enumerate(range(row // 7, 23, 5)):
            v = float(X[row] @ covariances[k] @ X[row])
            assert forwards[row, cycle] == pytest.approx(v, rel=1e-11)


@pytest.mark.parametrize("noiseless", [0, 40])
def test_the_pair_is_whitened_as_derived(fitted, noiseless):
    """Seen from before the K steps; from after them where noiseless steps have gone before."""
    model, X, Y = fitted
    chain, start = model.fitted_.chain, np.zeros((4, 2))
    segments = [(23, 0.3), *([(noiseless, 0.0)] if noiseless else [])]
    schedule = chain.schedule
    if noiseless:
        schedule = schedule.then(type(schedule.segments[0])(noiseless, 0.0))
    rows = np.array([2, 9])
    law = MinibatchLaw(chain.problem, chain.step_size, schedule, start)
    found = compare_minibatches(law, rows, X[rows], Y[rows]).enclosure(0.4, 6)
    pair = cyclic_pair(
        X, Y, [2, 9], 0.2, chain.step_size, 7, segments, start, 0.4, 6, digits50=True
    )
    x, a2 = np.sort([float(v) for v in pair.x]), float(sum(pair.a2))
    shown = np.sort(np.pad(found.excesses, (0, 4 - len(found.excesses))))
    # Seen from before, s^2 is larger by 1e-9 on purpose: what it multiplies may be, too.
    assert np.max(np.abs(shown - x)) <= found.covariance_error + 1e-9 * np.max(np.abs(x))
    shift = np.sqrt(np.sum(found.squared_shifts))
    assert abs(shift - np.sqrt(a2)) <= found.shift_error + 1e-9 * shift


def test_exact_meets_its_target_and_no_more(fitted):
    model, X, Y = fitted
    noise = model.quote([[2, 9]], delta=1e-5, n_unlearn_steps=6).noise[0]
    pair = cyclic_pair(
        X, Y, [2, 9], 0.2, model.step_size_, 7, [(23, 0.3)], np.zeros((4, 2)), noise, 6
    )
    assert both_ways_delta(pair.x, pair.a2, 2, 1.0) == pytest.approx(1e-5, rel=1e-6)
