"""The certified radius against exact minimisers, which share no code with the solvers."""

import numpy as np
import pytest
from mpmath import mp, mpf, sqrt
from sklearn.linear_model import LogisticRegression

from pilu import HuberRidge
from pilu.exceptions import BeyondPrecision
from pilu.refit import solve as solve_module
from pilu.refit import sums_of_squares as sums_module
from pilu.refit.held_rows import Table
from pilu.refit.program import prepare
from pilu.refit.radius import distance_by_factorisation, distance_by_penalty
from pilu.refit.settings import Options
from pilu.refit.solve import solve
from refit.minimisers import Huber, hostile_problems, minimiser

OPTIONS = Options(epsilon=0.1, delta=1e-9, score_noise=1e-3)


def prepared_for(head, X, y, weights):
    if isinstance(head, Huber):
        head = HuberRidge(head.alpha, threshold=head.width)
    table = Table.of(X, y, weights, key=b"k")
    return prepare(head, table, OPTIONS)


def exact_distance(theta, coordinates, coef, intercept):
    """The distance of theta (P x K) from exact parameters, in standard coordinates."""
    coef = np.atleast_2d(np.array(coef, dtype=object)).T
    intercept = np.broadcast_to(np.atleast_1d(np.array(intercept, dtype=object)), coef.shape[1:])
    with mp.workdps(60):
        squares = mpf(0)
        for k in range(coef.shape[1]):
            for j in range(len(coef)):
                scale = mpf(float(coordinates.scale[j]))
                squares += (mpf(float(theta[j, k])) - coef[j, k] * scale) ** 2
            if coordinates.intercept_column is not None:
                pairs = zip(coordinates.shift, coef[:, k], strict=True)
                shift = sum(mpf(float(m)) * c for m, c in pairs)
                factor = mpf(coordinates.into(np.zeros((len(coef), 1)), np.ones(1))[-1, 0])
                squares += (mpf(float(theta[-1, k])) - (intercept[k] + shift) * factor) ** 2
        return sqrt(squares)


def check_problem(head, X, y, weights, rng):
    """Solve from a cold start and from a wild one; 1 if it was answered."""
    prepared = prepared_for(head, X, y, weights)
    exact = minimiser(head, X, y, weights)
    answered = 0
    for start in (None, rng.normal(size=prepared.objective.shape) * 10 ** rng.uniform(-3, 3)):
        try:
            theta = solve(prepared.objective, start, prepared.radius)
        except BeyondPrecision:
            continue
        answered += 1
        distance = exact_distance(theta, prepared.coordinates, *exact)
        assert distance <= prepared.radius, head
    return answered


def run_seeds(seeds):
    rng, answers, names = np.random.default_rng(0), 0, {}
    for seed in seeds:
        for name, head, X, y, weights in hostile_problems(seed):
            answered = check_problem(head, X, y, weights, rng)
            answers += answered
            names.setdefault(name.split(":")[0], []).append(answered)
    return answers, names


def test_the_true_distance_is_never_above_the_radius_on_hostile_problems():
    answers, names = run_seeds([0])
    assert answers > 150
    assert all(sum(counts) > 0 for counts in names.values())  # no table is refused for every head


@pytest.mark.slow
def test_the_true_distance_is_never_above_the_radius_on_many_problems():
    answers, _ = run_seeds(range(1, 41))  # 12,320 runs
    assert answers > 6000


@pytest.mark.slow
def test_the_bound_by_penalty_holds_where_no_hessian_is_written_down(monkeypatch):
    monkeypatch.setattr(solve_module, "MOST_PARAMETERS", 0)
    monkeypatch.setattr(sums_module, "MOST_PARAMETERS", 0)
    answers, _ = run_seeds([0])
    assert answers > 100


def test_the_bound_is_not_vacuous():
    """A point that is twice the radius away is not accepted."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    prepared = prepared_for(LogisticRegression(), X, y, None)
    objective, radius = prepared.objective, prepared.radius
    theta = solve(objective, None, radius / 1e6)
    for length, accepted in ((0.3, True), (2.0, False)):
        direction = rng.normal(size=theta.shape)
        point = objective.at(theta + length * radius * direction / np.linalg.norm(direction))
        hessians = [H for _, H in objective.hessians(point, radius)]
        by_factor = distance_by_factorisation(objective, point, hessians, radius)
        assert by_factor >= length * radius * (1 - 1e-3)
        assert distance_by_penalty(objective, point, radius) >= length * radius * (1 - 1e-3)
        if not accepted:
            assert by_factor == np.inf
