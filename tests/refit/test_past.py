"""Losses of several releases against the laws of all of them, put together by the oracle."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from oracles.exposures import epsilon_of, joined, pair_of
from pilu.refit.past import Losses, Past
from pilu.refit.settings import Options
from pilu.refit.shifts import Measured, Shifts

DELTA = 1e-6
OPTIONS = Options(epsilon=0.1, delta=1e-9, score_noise=1e-3, noise_scale=1.0)
RELEASE = SimpleNamespace(noise=1.0, charge=0.0)


def release(rng, n_directions):
    """Excesses and squared shifts of one release: some directions equal, some wider."""
    x = -(rng.uniform(0, 0.5, n_directions) ** 2)
    x[rng.random(n_directions) < 0.2] = 0.0
    if rng.random() < 0.3:
        x = -x / (1 + x)
    return x, rng.uniform(0, 0.3, n_directions) ** 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_losses_of_releases_add_up_and_are_never_below_the_truth(seed):
    rng = np.random.default_rng(seed)
    losses, pairs = Losses(), []
    for _ in range(1 + seed):
        x, squares = release(rng, int(rng.integers(1, 5)))
        losses = losses.followed_by(x, squares, 1)
        pairs.append(pair_of(x, np.sqrt(squares)))
    truth = epsilon_of(joined(pairs), DELTA)
    assert losses.n_releases == 1 + seed
    assert truth <= losses.epsilon(DELTA) <= 1.25 * truth  # two roundings by up to 2^(1/8)


def test_a_hundred_releases_leave_a_short_record():
    """Leverages of a person who stays differ little from release to release."""
    rng, losses = np.random.default_rng(0), Losses()
    for _ in range(100):
        h = np.array([0.01, 0.002, 0.03]) * rng.uniform(0.8, 1.2, 3)
        losses = losses.followed_by(-h, rng.uniform(0, 0.1, 3) ** 2, 1)
    assert len(losses.record(DELTA)["excesses"]) < 30  # of 300 directions


def test_shaped_noise_is_not_gaussian_differential_privacy():
    """REFIT.md's warning: eight releases with h = 0.5 tell far more than their shifts do."""
    losses = Losses()
    for _ in range(8):
        losses = losses.followed_by(np.array([-0.5]), np.array([0.05**2]), 1)
    truth = epsilon_of(joined([pair_of([-0.5], [0.05])] * 8), DELTA)
    assert losses.epsilon(DELTA) >= truth > 5.0
    shifts_alone = epsilon_of(pair_of([0.0], [0.05 * math.sqrt(8)]), DELTA)
    assert shifts_alone < 1.0


def measured(n, rest=0.0):
    shifts = Shifts(np.full((n, 1), 0.1), np.full((n, 1), 0.2), np.full(n, rest), 1)
    return Measured(n, ((np.arange(n), shifts),))


def test_people_who_left_are_dropped_and_newcomers_start_from_nothing():
    past = Past().after(["anna", "ben"], measured(2), RELEASE, OPTIONS)
    past = past.after(["ben", "carl"], measured(2), RELEASE, OPTIONS)
    assert {name: losses.n_releases for name, losses in past.people.items()} == {
        "ben": 2,
        "carl": 1,
    }
    assert past.people["ben"].epsilon(DELTA) > past.people["carl"].epsilon(DELTA)


def test_one_release_without_a_bound_leaves_none():
    past = Past().after(["anna"], measured(1, rest=np.inf), RELEASE, OPTIONS)
    past = past.after(["anna"], measured(1), RELEASE, OPTIONS)
    assert past.people["anna"].epsilon(DELTA) == math.inf
    record = past.people["anna"].record(DELTA)
    assert (record["n_releases"], record["epsilon"], record["follows_from"]) == (2, None, None)


def test_a_release_without_shaped_noise_leaves_no_bound():
    past = Past().after(["anna"], measured(1), RELEASE, OPTIONS)
    past = past.after(["anna"], None, RELEASE, OPTIONS)
    assert past.people["anna"].record(DELTA)["epsilon"] is None


def test_each_release_is_listed_beside_the_total():
    past = Past().after(["anna"], measured(1), RELEASE, OPTIONS)
    past = past.after(["anna"], None, RELEASE, OPTIONS)
    past = past.after(["anna"], measured(1), RELEASE, OPTIONS)
    first, second, third = past.people["anna"].record(DELTA)["each"]
    truth = epsilon_of(pair_of([-0.1], [0.2]), DELTA)
    assert second is None
    assert truth <= first == third <= 1.1 * truth


def test_without_values_only_counts_and_caps_are_left():
    capped = replace(OPTIONS, noise_scale=None, max_exposure=0.5, exposure_delta=1e-7)
    past = Past().after(["anna"], measured(1), RELEASE, capped)
    past = past.after(["anna"], measured(1), RELEASE, capped)
    exact = past.people["anna"].record(DELTA)
    left = past.without_values().people["anna"]
    assert left.directions is None
    record = left.record(DELTA)
    assert record["follows_from"] == "caps"
    assert record["epsilon"] == pytest.approx(1.0)
    assert record["delta"] == pytest.approx(2e-7)
    assert exact["follows_from"] == "losses"
    uncapped = Past().after(["anna"], measured(1), RELEASE, OPTIONS).without_values()
    assert uncapped.people["anna"].record(DELTA)["epsilon"] is None


def test_rounding_hides_small_changes_of_other_people():
    """What is kept of one person changes by steps, not with every digit of another one's row."""
    losses = [
        Losses().followed_by(np.array([-0.1 - 1e-6 * k]), np.array([0.04 + 1e-6 * k]), 1)
        for k in range(100)
    ]
    assert len({tuple(one.record(DELTA)["squared_shifts"]) for one in losses}) == 1
