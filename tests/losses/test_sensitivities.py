"""Sensitivity bounds: a hundred fresh chains in plain NumPy must stay below them.

delta_s is 0.2, so that a bound which fails too often is seen with a hundred chains. Without the
deviation term, by hand from the same means, the same count does fail.
"""

import numpy as np
import pytest

from conftest import with_ones
from losses.plain import (
    CASES,
    FORMS,
    chains,
    gradients_along,
    model_for,
    problem_for,
    statistics_along,
    walk,
)
from pilu import LangevinLogistic
from pilu.data.rows import Request
from pilu.losses.law import SmoothSensitivities

N_ROWS, STEPS, ALPHA, NOISE, SLACK, RUNS = 24, 60, 0.5, 0.08, 0.2, 100
BOTH_WAYS = pytest.mark.parametrize("b", [None, 5], ids=["full batch", "mini-batches"])


def fitted(name, b=None, **options):
    X, y, _ = problem_for(name)
    options = {"alpha": ALPHA, "n_steps": STEPS, "noise": NOISE, "random_state": 1} | options
    return model_for(name, batch_size=b, **options).fit(X, y)


def request_for(name, rows):
    X, _, Y = problem_for(name)
    rows = np.asarray(rows)
    return Request(with_ones(X)[rows], Y[rows], rows)


def bounds_of(model, request, slack=SLACK):
    return SmoothSensitivities(model.fitted_.law).of_each(request, slack)


def visited(b, n_steps=STEPS):
    """Which rows take part in which step: n x N."""
    b = b or N_ROWS
    turns = np.arange(n_steps) % -(-N_ROWS // b)
    return (np.arange(N_ROWS) // b)[:, None] == turns


def spreads(schedule, eta):
    """tau_k, by the sum over all noises before step k."""
    sigmas = np.concatenate([np.full(steps, noise) for steps, noise in schedule])
    c = 1 - eta * ALPHA
    return np.array(
        [
            np.sqrt(sum(2 * eta * sigmas[j] ** 2 * c ** (2 * (k - 1 - j)) for j in range(k)))
            for k in range(len(sigmas))
        ]
    )


def q(count, failing):
    return np.sqrt(2 * np.log(2 * count / failing))


def means_at_every_step(model, b):
    """The auxiliary means at the visits, zeros elsewhere: n x N."""
    n_steps = sum(steps for steps, _ in model.schedule_)
    where = visited(b, n_steps)
    means = np.zeros(where.shape)
    for i in range(N_ROWS):
        n_visits = int(where[i].sum())
        means[i, where[i]] = model.fitted_.law.mean_statistics(np.array([i]), n_visits)[0]
    return means


def by_hand(model, name, b, away):
    """eta |x_i| sup |dl/dz| where the statistic is within lipschitz |x_i| away_k of its mean."""
    form, norms = FORMS[name].form, np.linalg.norm(with_ones(problem_for(name)[0]), axis=1)
    means = means_at_every_step(model, b)
    reach = form.lipschitz * norms[:, None] * away
    return model.step_size_ * norms[:, None] * form.largest(means - reach, means + reach)


@pytest.mark.one_in(2)
@BOTH_WAYS
@pytest.mark.parametrize("name", FORMS)
def test_fresh_chains_stay_below_the_bounds(name, b):
    case, model, where = FORMS[name], fitted(name, b), visited(b)
    eta = model.step_size_
    bounds = bounds_of(model, request_for(name, range(N_ROWS)))
    assert (bounds[~where] == 0).all()
    X, Y, path = chains(name, RUNS, [(STEPS, NOISE)], eta, alpha=ALPHA, batch_size=b)
    gradients = gradients_along(path, X, Y, case.gradient, eta)
    violations = ((gradients > bounds) & where).any(axis=-1).sum(axis=0)
    assert violations.max() <= SLACK * RUNS
    # The test would notice: the means alone are no bound.
    bare_means = by_hand(model, name, b, 0.0)
    violations = ((gradients > bare_means) & where).any(axis=-1).sum(axis=0)
    assert np.median(violations) > SLACK * RUNS
    if case.relative:
        last = np.array([np.flatnonzero(where[i])[-1] for i in range(N_ROWS)])
        each = np.arange(N_ROWS)
        truth = np.median(gradients[:, each, last])
        assert np.median(bounds[each, last]) < 20 * truth


@pytest.mark.one_in(2)
@BOTH_WAYS
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("runs", [1, 32])
def test_bounds_by_hand(name, b, runs):
    model, where = fitted(name, b, n_auxiliary_runs=runs), visited(b)
    n_visits = where.sum(axis=1)[:, None]
    deviation = q(n_visits, SLACK / 2) + q(n_visits.sum(), SLACK / 2) / np.sqrt(runs)
    tau = spreads(model.schedule_, model.step_size_)
    expected = np.where(where, by_hand(model, name, b, tau * deviation), 0.0)
    found = bounds_of(model, request_for(name, range(N_ROWS)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # Rounded up; where y = 0 begins a chain, or a hinge is far off, zero stays next to zero.
    assert (found >= expected * (1 - 1e-13)).all()


@pytest.mark.one_in(2)
@BOTH_WAYS
@pytest.mark.parametrize("name", CASES)
def test_auxiliary_means_are_means_of_fresh_chains(name, b):
    """Both are averages of independent runs; five standard errors, and step 0 has none.

    A hinge that is almost always satisfied is rarely other than 0: it has a tenth of the largest
    standard error for itself.
    """
    model, where = fitted(name, b, n_auxiliary_runs=200), visited(b)
    X, Y, path = chains(name, 400, [(STEPS, NOISE)], model.step_size_, alpha=ALPHA, batch_size=b)
    found = statistics_along(path, X, Y, FORMS[name].form.statistic)
    means, error = found.mean(axis=0), found.std(axis=0) * np.sqrt(1 / 200 + 1 / 400)
    off = np.abs(means_at_every_step(model, b) - means)
    rare = 0.1 * error.max() * (np.arange(STEPS) > 0)
    assert (off <= 5 * error + rare + 1e-12)[where].all()
    assert np.mean((off > error / 10)[where]) > 0.5  # and they are not the same runs


@pytest.mark.one_in(2)
@BOTH_WAYS
@pytest.mark.parametrize("name", CASES)
def test_groups_and_earlier_requests(name, b):
    """Once row 3 is forgotten the reference has never seen it, and two levels of noise."""
    model = fitted(name, b)
    options = {"keep_empty_classes": True} if hasattr(model, "classes_") else {}
    model.unlearn(3, n_unlearn_steps=7, epsilon=3.0, **options)
    rows, live, n_steps = [2, 9, 17], np.arange(N_ROWS) != 3, STEPS + 7
    where, eta = visited(b, n_steps), model.step_size_
    request = request_for(name, rows)
    of_sum = SmoothSensitivities(model.fitted_.law).of_group_sum(request, SLACK)
    tau = spreads(model.schedule_, eta)
    deviation = q(where[rows].sum(), SLACK / 2) + q(where[live].sum(), SLACK / 2) / np.sqrt(32)
    each = np.where(where, by_hand(model, name, b, tau * deviation), 0.0)
    np.testing.assert_allclose(of_sum, each[rows].sum(axis=0), rtol=1e-9, atol=1e-12)

    run = {"alpha": ALPHA, "batch_size": b, "live": live}
    X, Y, path = chains(name, RUNS, model.schedule_, eta, **run)
    together = np.zeros((RUNS, n_steps))
    for k, theta in enumerate(path[:-1]):
        taken = [i for i in rows if where[i, k]]
        slopes = X[taken].T @ FORMS[name].gradient(X[taken] @ theta, Y[taken])
        together[:, k] = eta * np.linalg.norm(slopes, axis=(1, 2))
    assert (together > of_sum).any(axis=-1).sum() <= SLACK * RUNS
    gradients = gradients_along(path, X, Y, FORMS[name].gradient, eta)
    bounds = bounds_of(model, request_for(name, np.flatnonzero(live)))
    exceeded = (gradients[:, live] > bounds) & where[live]
    assert exceeded.any(axis=-1).sum(axis=0).max() <= SLACK * RUNS


@pytest.mark.parametrize("name", ["logistic", "squared", "hinge"])
def test_the_deviation_is_not_larger_than_it_has_to_be(name):
    """Where curvature is all in the penalty, tau_k is the truth and one visit has no union.

    Then a margin exceeds 2.45 (tails) + 0.18 (means) standard deviations, on one side, with
    probability 0.0043; the tail bound allows for 0.1.
    """
    case, (X, y, Y) = FORMS[name], problem_for(name)
    X *= 0.01 / np.linalg.norm(X, axis=1)[:, None]
    options = {"alpha": ALPHA, "n_steps": N_ROWS, "noise": 1.0, "batch_size": 1, "step_size": 0.1}
    own = {"fit_intercept": False, "random_state": 0, "n_auxiliary_runs": 400}
    model = model_for(name, **options, **own).fit(X, y)
    bounds = bounds_of(model, Request(X, Y, np.arange(N_ROWS)))
    start, rng = np.zeros((2000, 3, 1)), np.random.default_rng(8)
    run = (case.gradient, ALPHA, 0.1, [(N_ROWS, 1.0)], rng.standard_normal, 1)
    gradients = gradients_along(walk(start, X, Y, *run), X, Y, case.gradient, 0.1)
    at_visits = gradients[:, range(N_ROWS), range(N_ROWS)] > np.diag(bounds)
    assert not at_visits[:, 0].any()
    assert 0.001 < at_visits[:, 1:].mean() < 0.01


@pytest.mark.parametrize("name", CASES)
def test_less_slack_more_noise_and_fewer_runs_cost_more(name):
    request = request_for(name, range(N_ROWS))
    model = fitted(name)
    usual = bounds_of(model, request)
    assert (bounds_of(model, request, 1e-6) >= usual).all()
    assert (bounds_of(model, request, 1e-300) >= bounds_of(model, request, 1e-6)).all()
    assert np.isfinite(bounds_of(model, request, 1e-300)).all()
    louder = bounds_of(fitted(name, noise=5 * NOISE), request)
    assert np.mean(louder[:, -1]) > np.mean(usual[:, -1])
    single = bounds_of(fitted(name, n_auxiliary_runs=1), request)
    assert np.mean(single[:, -1]) > np.mean(usual[:, -1])


def test_a_step_size_beyond_one_over_the_curvature():
    """c is then |1 - eta L|, which the spread must know of."""
    name = "squared"
    X = problem_for(name)[0]
    largest = float(np.linalg.eigvalsh(with_ones(X).T @ with_ones(X))[-1]) + ALPHA
    model = fitted(name, step_size=1.97 / largest, noise=0.3)
    gradient = CASES[name].gradient
    X, Y, path = chains(name, RUNS, [(STEPS, 0.3)], model.step_size_, alpha=ALPHA)
    gradients = gradients_along(path, X, Y, gradient, model.step_size_)
    bounds = bounds_of(model, request_for(name, range(N_ROWS)))
    assert (gradients > bounds).any(axis=-1).sum(axis=0).max() <= SLACK * RUNS
    law = model.fitted_.law
    assert law.contraction == pytest.approx(0.97, rel=1e-9)
    X, Y, path = chains(name, 2000, [(STEPS, 0.3)], model.step_size_, alpha=ALPHA, seed=1)
    found = statistics_along(path, X, Y, CASES[name].form.statistic)
    spread = np.linalg.norm(X, axis=1)[:, None] * law.spreads
    assert (found.std(axis=0) <= spread * 1.05 + 1e-12).all()


def test_a_start_of_ones_own_is_where_the_means_begin():
    X, y, Y = problem_for("softmax")
    start = np.random.default_rng(4).normal(size=(3, 4))
    model = model_for("softmax", alpha=ALPHA, n_steps=5, noise=NOISE).fit(X, y, coef_init=start)
    form, X = FORMS["softmax"].form, with_ones(X)
    found = model.fitted_.law.mean_statistics(np.arange(N_ROWS), 1)[:, 0]
    np.testing.assert_allclose(found, form.statistic(X @ start.T, Y), rtol=1e-11)
    true = model.step_size_ * np.linalg.norm(X, axis=1)
    true *= np.linalg.norm(FORMS["softmax"].gradient(X @ start.T, Y), axis=1)
    bounds = bounds_of(model, request_for("softmax", range(N_ROWS)))[:, 0]
    assert (bounds >= true).all()
    assert (bounds <= 1.3 * true).all()  # all but the two rivals' share, step 0 is known


@pytest.mark.slow
@pytest.mark.parametrize("b", [None, 60])
def test_ten_classes_of_digits(digits, b):
    """300 rows, 65 parameters a class: no dimension stands in the bound."""
    X, y = digits[0][:300], digits[1][:300]
    model = LangevinLogistic(1.0, n_steps=150, noise=0.3, batch_size=b, random_state=0).fit(X, y)
    X, Y, eta = with_ones(X), np.eye(10)[y], model.step_size_
    bounds = bounds_of(model, Request(X, Y, np.arange(300)))
    rng, gradient = np.random.default_rng(1), FORMS["softmax"].gradient
    start = np.zeros((100, 65, 10))
    path = walk(start, X, Y, gradient, 1.0, eta, [(150, 0.3)], rng.standard_normal, b)
    where = bounds > 0
    exceeded = np.zeros((100, 300), dtype=bool)
    for k, theta in enumerate(path[:-1]):
        size = np.linalg.norm(gradient(X @ theta, Y), axis=-1) * np.linalg.norm(X, axis=1)
        exceeded |= (eta * size > bounds[:, k]) & where[:, k]
    assert exceeded.sum(axis=0).max() <= SLACK * 100
