"""Six ways to forget, against computations that share nothing with them, and exposure's tables."""

import math
import time
from contextlib import suppress
from dataclasses import replace
from signal import ITIMER_PROF, SIGPROF, getitimer, getsignal

import numpy as np
import pandas as pd
import pytest
from experiments.methods import contestants, exposures, side_by_side
from experiments.methods.config import METHODS, SETTINGS, SHARES, Exposures, SideBySide
from experiments.methods.data import Case, load
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax, softmax
from scipy.stats import chi2, norm

from pilu import Forgetful
from pilu.baselines import newton_smooth
from pilu.baselines.dp_gd import clipped_gradient
from pilu.losses.loss import Logistic, Squared

FEW = SideBySide(
    "made up",
    repeats=2,
    redraw_steps=20,
    noise=0.05,
    learn_steps=(10,),
    noises=(0.1,),
    unlearn_steps=5,
    auxiliary_runs=2,
    dp_steps=(5, 9),
    clippings=(0.5,),
    tuning_requests=2,
)
ROWS = np.array([3, 11, 12, 40])


def made_up(kind: str, n: int = 90) -> Case:
    """Rows of norm one with a column of ones before scaling; two rows for most people."""
    rng = np.random.default_rng(21)
    X = np.hstack([rng.normal(size=(n + 60, 4)), np.ones((n + 60, 1))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ rng.normal(size=(5, 3)) * 2 + rng.normal(size=(n + 60, 3)) / 3
    y = {
        "two": (scores[:, 0] > 0).astype(int),
        "three": scores.argmax(axis=1),
        "numbers": scores[:, 0],
    }[kind]
    people = np.array([f"person {k // 2}" for k in range(n)])
    return Case("made up", 0.3, X[:n], y[:n], people, X[n:], y[n:])


def left_of(case, rows):
    kept = np.setdiff1d(np.arange(len(case.X)), rows)
    return case.X[kept], case.y[kept]


def minimiser(case, rows, alpha=None):
    """Of the stated objective on the rows that are left, by a general solver."""
    alpha = case.alpha if alpha is None else alpha
    X, y = left_of(case, rows)
    n_outputs = 3 if y.dtype.kind == "i" and y.max() == 2 else 1

    def objective(flat):
        theta = flat.reshape(X.shape[1], n_outputs)
        z = X @ theta
        if y.dtype.kind == "f":
            losses, slopes = (z[:, 0] - y) ** 2 / 2, z - y[:, None]
        elif n_outputs == 1:
            signs = 2 * y - 1
            losses = np.logaddexp(0, -signs * z[:, 0])
            slopes = (-signs * expit(-signs * z[:, 0]))[:, None]
        else:
            losses = -log_softmax(z, axis=1)[np.arange(len(y)), y]
            slopes = softmax(z, axis=1) - np.eye(3)[y]
        gradient = X.T @ slopes + alpha * theta
        return losses.sum() + alpha / 2 * (theta**2).sum(), gradient.ravel()

    start = np.zeros(X.shape[1] * n_outputs)
    options = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 10_000}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(X.shape[1], n_outputs)


def delta_of(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


# Every contestant


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_retraining_minimises_the_objective(kind):
    case = made_up(kind)
    found = contestants.retraining(case, FEW)
    np.testing.assert_allclose(found.before, minimiser(case, []), atol=2e-5)
    np.testing.assert_allclose(found.answer(ROWS).theta, minimiser(case, ROWS), atol=2e-5)


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_a_refit_is_the_minimiser_and_its_noise(kind):
    """In units of each column's power of two; the noise is there, and no more than there."""
    case = made_up(kind)
    found = contestants.refit(case, FEW)
    for rows in (ROWS, np.array([5])):  # the second request starts from all rows again
        reply = found.answer(rows)
        X, _ = left_of(case, rows)
        scale = 2.0 ** np.floor(np.log2(np.abs(X).max(axis=0)) + 1)
        off = (reply.theta - minimiser(case, rows)) * scale[:, None] / reply.noise
        least, most = chi2.ppf([1e-7, 1 - 1e-7], off.size)
        assert least**0.5 - 0.05 < np.linalg.norm(off) < most**0.5 + 0.05
        assert (reply.epsilon, reply.delta) == (0.1, 1e-9)
        assert reply.against == "retraining"


def test_a_redraw_has_the_law_of_steps_without_the_rows():
    case = made_up("numbers")
    found = contestants.redraw(case, FEW)
    draws = np.array([found.answer(ROWS).theta[:, 0] for _ in range(400)])
    X, y = left_of(case, ROWS)
    A = X.T @ X + case.alpha * np.eye(5)
    eta = 1 / (np.linalg.norm(case.X, 2) ** 2 + case.alpha)
    mean, covariance = np.zeros(5), np.zeros((5, 5))
    for _ in range(FEW.redraw_steps):
        mean = mean - eta * (A @ mean - X.T @ y)
        kept = np.eye(5) - eta * A
        covariance = kept @ covariance @ kept + 2 * eta * FEW.noise**2 * np.eye(5)
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / deviation).max() < 5 / 400**0.5
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.2)
    assert found.answer(ROWS).epsilon == 0.0


def test_a_newton_step_follows_the_formula():
    """theta + H'^-1 (R lambda theta + gradients of the rows), with noise of the stated size."""
    case = made_up("two")
    found = contestants.newton(case, FEW)
    theta, n = minimiser(case, []), len(case.X)
    np.testing.assert_allclose(found.before, theta, atol=2e-5)
    X, _ = left_of(case, ROWS)
    s = expit(X @ theta)
    share = len(ROWS) * case.alpha / n
    H = X.T @ (s * (1 - s) * X) + (case.alpha - share) * np.eye(5)
    slopes = expit(case.X[ROWS] @ theta) - case.y[ROWS, None]
    step = theta + np.linalg.solve(H, share * theta + case.X[ROWS].T @ slopes)
    replies = [found.answer(ROWS) for _ in range(200)]
    off = np.array([reply.theta - step for reply in replies]) / replies[0].noise
    assert np.abs(off.mean(axis=0)).max() < 5 / 200**0.5
    assert np.std(off) == pytest.approx(1, abs=0.1)
    # The noise is what hides the distance from the minimiser it is compared with.
    distance = np.linalg.norm(step - minimiser(case, ROWS, case.alpha - share))
    assert delta_of(distance / replies[0].noise, 1.0) <= replies[0].delta


def test_newton_for_squares_perturbs_the_objective_anew():
    case = made_up("numbers")
    X, y = left_of(case, ROWS)
    share = len(ROWS) * case.alpha / len(case.X)
    A = X.T @ X + (case.alpha - share) * np.eye(5)
    pulls = [
        A @ contestants.newton(case, FEW).answer(ROWS).theta[:, 0] - X.T @ y for _ in range(200)
    ]
    assert np.abs(np.mean(pulls, axis=0)).max() < 5 * 0.1 / 200**0.5
    assert np.std(pulls) == pytest.approx(0.1, rel=0.1)
    assert contestants.learns_at_random("Newton step", case)
    assert not contestants.learns_at_random("Newton step", made_up("two"))
    assert not contestants.learns_at_random("refit", case)


def test_langevin_forgets_towards_the_minimiser_at_its_target():
    """The certificate is another suite's matter: here are its kind, its target and its noise."""
    for kind, accountant in (("numbers", "exact"), ("two", "theorem")):
        case = made_up(kind)
        config = replace(FEW, unlearn_steps=60)
        reply = contestants.langevin(case, config, 200, 0.05).answer(np.array([7]))
        assert 0 <= reply.epsilon <= 1.0
        assert reply.delta == pytest.approx(1 / len(case.X))
        assert f"({accountant} accountant)" in reply.against
        # Langevin noise sigma^2/curvature about the minimiser; six deviations of the flattest.
        reach = 6 * max(reply.noise, 0.05) / case.alpha**0.5
        assert np.linalg.norm(reply.theta - minimiser(case, [7])) < reach


@pytest.fixture
def thresholds(monkeypatch):
    """The thresholds that DP-GD is given."""
    seen, method = [], contestants.DPGD
    monkeypatch.setattr(
        contestants, "DPGD", lambda clipping: seen.append(clipping) or method(clipping=clipping)
    )
    return seen


@pytest.mark.parametrize("kind", ["two", "numbers"])
def test_dp_gd_bounds_every_row_and_charges_groups(kind, thresholds):
    case = made_up(kind)
    found = contestants.dp_gd(case, FEW, n_steps=9, clipping=0.5)
    at_zero = np.abs(case.y) if kind == "numbers" else np.full(len(case.y), 0.5)
    (C,) = thresholds
    assert pytest.approx(0.5 * np.median(at_zero)) == C  # rows have norm one
    # One row moves a step by no more than C, wherever the step is taken.
    signs = case.y[:, None] if kind == "numbers" else 2.0 * case.y[:, None] - 1
    loss = Squared() if kind == "numbers" else Logistic()
    limits = np.full(len(case.X), C)
    whole = clipped_gradient(found.before, case.X, signs, limits, loss)
    moved = []
    for row in range(len(case.X)):
        left = np.arange(len(case.X)) != row
        rest = clipped_gradient(found.before, case.X[left], signs[left], limits[left], loss)
        moved.append(np.linalg.norm(whole - rest))
    assert C * 0.999 < max(moved) <= C * (1 + 1e-9)
    # Ten Gaussian steps of sensitivity R C.
    for n_rows in (1, 4):
        reply = found.answer(ROWS[:n_rows])
        mu = n_rows * C * math.sqrt(10) / reply.noise
        true = brentq(lambda e, mu=mu, reply=reply: delta_of(mu, e) - reply.delta, 0, 50)
        assert true <= reply.epsilon * (1 + 1e-9)
        assert reply.epsilon == pytest.approx(true, rel=1e-6)
        assert reply.certified


def test_one_dp_gd_model_answers_all_requests():
    case = made_up("two")
    found = contestants.dp_gd(case, FEW, n_steps=9, clipping=0.5)
    noise = found.answer(ROWS).noise
    eta = 1 / (np.linalg.norm(case.X, 2) ** 2 / 4 + case.alpha)
    for rows in (ROWS, ROWS[:1]):
        off = np.linalg.norm(found.answer(rows).theta - found.before)
        assert off < eta * (noise * chi2.ppf(1 - 1e-9, 5) ** 0.5 + 90)


# Clocks


def test_limited_stops_and_leaves_the_clock_alone():
    handler = getsignal(SIGPROF)
    started = time.process_time()

    def goes_on():
        while time.process_time() - started < 5:
            with suppress(Exception):  # as a library that tries again after errors
                sum(range(10_000))

    with pytest.raises(contestants.TooLong), contestants.limited(0.1):
        goes_on()
    assert time.process_time() - started < 2
    assert getitimer(ITIMER_PROF)[0] == 0
    assert getsignal(SIGPROF) is handler


def test_limited_counts_the_processor_not_the_wall():
    with contestants.limited(0.2):
        time.sleep(0.4)


def test_timed_takes_the_shortest_of_quick_calls_and_the_first_result(monkeypatch):
    """By the processor's clock, or by the wall's if the processor's has hardly ticked."""

    def takes(*pairs):
        clocks = iter((letter, *pair) for letter, pair in zip("abcde", pairs, strict=True))
        monkeypatch.setattr(contestants, "clocked", lambda *_: next(clocks))
        return contestants.timed(None)

    busy_machine = [(0.03, 0.9), (0.02, 0.5), (0.04, 0.05), (0.03, 0.6), (0.03, 0.2)]
    assert takes(*busy_machine) == ("a", 0.02)
    no_ticks = [(0.0, 0.0007), (0.01, 0.0004), (0.0, 0.0006), (0.0, 0.003), (0.0, 0.0005)]
    assert takes(*no_ticks) == ("a", 0.0004)


def test_timed_does_not_count_waiting():
    """Calls that work for longer than a tick and are interrupted, as on a busy machine."""

    def interrupted():
        started = time.process_time()
        while time.process_time() - started < 0.03:
            pass
        time.sleep(0.2)

    _, seconds = contestants.timed(interrupted)
    assert 0.03 <= seconds < 0.1


def test_timed_calls_slow_ones_once():
    calls = []

    def slow():
        calls.append(1)
        started = time.process_time()
        while time.process_time() - started < contestants.QUICK + 0.02:
            pass

    _, seconds = contestants.timed(slow)
    assert len(calls) == 1
    assert seconds >= contestants.QUICK


# The comparison


def test_people_leave_with_all_their_rows():
    case = made_up("two")
    for share, n_people in zip(SHARES, (1, 1, 4), strict=True):  # of 45 people: 0.45 and 4.5
        rows, count = side_by_side.people_of(case, share, [0, 1])
        assert count == n_people
        gone = set(case.people[rows])
        assert len(gone) == n_people
        assert rows.tolist() == [k for k, person in enumerate(case.people) if person in gone]
        again, _ = side_by_side.people_of(case, share, [0, 1])
        assert rows.tolist() == again.tolist()
    others = {tuple(side_by_side.people_of(case, "10 %", [0, k])[0]) for k in range(6)}
    assert len(others) == 6


@pytest.fixture(scope="module")
def compared():
    """All methods on made-up rows, their lines and what grids gave."""
    return {
        kind: side_by_side.compare(made_up(kind), replace(FEW, data=kind))
        for kind in ("two", "numbers")
    }


@pytest.mark.parametrize("kind", ["two", "numbers"])
def test_a_table_has_every_method_share_and_repeat(kind, compared):
    case, (lines, tuning) = made_up(kind), compared[kind]
    assert len(lines) == len(METHODS) * len(SHARES) * FEW.repeats
    assert (lines["why"] == "").all()
    assert lines["certified"].all()
    same = lines.groupby(["share", "repeat"])[["n_rows", "n_people"]].nunique()
    assert (same == 1).all(axis=None)  # every method forgets the same people
    dp_gd = lines[lines["method"] == "DP-GD"]
    assert (dp_gd[dp_gd["n_rows"] == 1]["epsilon"] <= 1).all()
    assert (dp_gd[dp_gd["n_rows"] > 1]["epsilon"] > 1).all()
    assert (lines[lines["method"].isin(["retraining", "redraw"])]["epsilon"] == 0).all()
    assert (lines["seconds"] > 0).all()
    assert set(tuning["method"]) == {"DP-GD"}  # Langevin's grid has one setting here
    assert lines["constant"].iloc[0] == pytest.approx(
        np.mean(case.y_test == np.argmax(np.bincount(case.y)))
        if kind == "two"
        else np.sqrt(np.mean((case.y_test - case.y.mean()) ** 2))
    )
    first = lines[(lines["method"] == "retraining")].iloc[0]
    rows, _ = side_by_side.people_of(case, first["share"], [0, 0])
    scores = case.X_test @ minimiser(case, rows)[:, 0]
    expected = (
        np.mean((scores > 0) == case.y_test)
        if kind == "two"
        else np.sqrt(np.mean((scores - case.y_test) ** 2))
    )
    assert first["after"] == pytest.approx(expected, abs=1e-4)


def test_a_method_that_refuses_says_why_and_gives_no_numbers(monkeypatch):
    monkeypatch.setattr(newton_smooth, "_MOST_PARAMETERS", 4)
    lines = side_by_side.of_method(made_up("two"), FEW, "Newton step", [])
    assert [line["share"] for line in lines] == list(SHARES)
    for line in lines:
        assert line["why"].startswith("not offered: ")
        assert "at most 4 parameters for a Newton step" in line["why"]
        assert not line["certified"]
        assert all(math.isnan(line[name]) for name in ("after", "seconds", "epsilon", "before"))


def test_reasons_are_one_sentence_with_their_numbers():
    error = ValueError("X must have at most 20,000 columns, got 20,480. Leave it out.")
    found = side_by_side.first_sentence(error)
    assert found == "X must have at most 20,000 columns, got 20,480"


def busy(*_, **__):
    started = time.process_time()
    while time.process_time() - started < 5:
        sum(range(1000))


def test_a_method_that_takes_too_long_says_so(monkeypatch):
    case, hasty = made_up("two"), replace(FEW, limit=0.1)
    monkeypatch.setitem(side_by_side.MAKERS, "refit", busy)
    lines = side_by_side.of_method(case, hasty, "refit", [])
    assert {line["why"] for line in lines} == {"learning took longer than 0 s"}
    found = contestants.Contestant(np.zeros((5, 1)), busy)
    line = side_by_side.answered(case, hasty, found, ROWS)
    assert line == {"why": "an answer took longer than 0 s"}


@pytest.mark.parametrize("kind", ["two", "numbers"])
def test_the_best_setting_is_taken_and_failures_are_not(kind, monkeypatch):
    """Parameters get worse with the distance of a setting from (9, 0.5)."""
    case = made_up(kind)
    good = minimiser(case, [])

    def made(case, config, n_steps, clipping):
        if clipping == 2.0:
            raise ValueError("no such threshold. Take another.")
        theta = good * (1.0 if (n_steps, clipping) == (9, 0.5) else -1.0)
        reply = contestants.Reply(theta, 1.0, 0.1, True, "", 0.0)
        return contestants.Contestant(theta, lambda rows: reply)

    monkeypatch.setitem(side_by_side.MAKERS, "DP-GD", made)
    tuning = []
    config = replace(FEW, clippings=(2.0, 1.0, 0.5))
    best = side_by_side.best_setting(case, config, "DP-GD", tuning)
    assert best == {"n_steps": 9, "clipping": 0.5}
    scores = pd.DataFrame(tuning).set_index(["n_steps", "clipping"])["score"]
    assert len(scores) == 6
    assert scores.xs(2.0, level=1).isna().all()
    assert scores[9, 0.5] == pytest.approx(case.score(good))
    config = replace(FEW, clippings=(2.0,))
    lines = side_by_side.of_method(case, config, "DP-GD", [])
    assert {line["why"] for line in lines} == {"not offered: no such threshold"}


def test_every_bundled_data_set_is_apart_and_scaled():
    """Rows to test are not learned, and rows that are classified have norm one."""
    for name in ("digits", "cancer", "diabetes"):
        case = load(name, "full", 0)
        if case.is_classification:
            np.testing.assert_allclose(np.linalg.norm(case.X, axis=1), 1)
        learned = {row.tobytes() for row in case.X}
        assert not learned & {row.tobytes() for row in case.X_test} or name == "digits"
        assert case.n_parameters == case.X.shape[1] * (10 if name == "digits" else 1)
    customers = load("customers", "quick", 300)
    assert customers.measure == "AUC"
    assert len(np.unique(customers.people)) < len(customers.X)


def test_full_sizes_compare_nine_data_sets():
    full = SETTINGS["full"].side_by_side
    assert len(full) == 9
    for config in full.values():
        assert config.epsilon == 1.0
        assert len(contestants.grid_of("DP-GD", config)) >= 6


# Exposure


@pytest.fixture(scope="module")
def exposed():
    case = made_up("two", n=400)
    config = Exposures(caps=(2.0, 8.0), plan=(1e-6, 2.0, 8.0, 50.0), n_draws=60, n_points=30)
    return case, config, *exposures.exposed(case, config)


def test_curves_are_sorted_and_capped_ones_are_below_their_cap(exposed):
    case, _, curves, _ = exposed
    assert set(curves["release"]) == {"default", "cap 2", "cap 8"}
    for release, curve in curves.groupby("release"):
        assert (np.diff(curve["epsilon"]) <= 0).all()
        assert (np.diff(curve["share"]) > 0).all()
        assert curve["share"].iloc[-1] == 1.0
        assert (curve["people"] == len(np.unique(case.people))).all()
        if release != "default":
            assert curve["epsilon"].max() <= float(release[4:])
            assert curve["infinite"].iloc[0] == 0
    default = curves[curves["release"] == "default"]
    assert default["median"].iloc[0] > 8


def test_costs_are_mean_scores_of_draws(exposed):
    case, config, _, costs = exposed
    costs = costs.set_index("release")
    X, y = case.X, 2.0 * case.y - 1
    A = X.T @ X + exposures.ALPHA * np.eye(5)
    centre = np.linalg.solve(A, X.T @ y)
    exact = np.mean((case.X_test @ centre > 0) == case.y_test)
    assert costs["mean"]["no noise"] == pytest.approx(exact)
    assert "cannot be reached" in costs["why"]["cap 1e-06"]
    assert math.isnan(costs["mean"]["cap 1e-06"])
    # N(0, s^2 A^-1) around the solution, with draws of the test's own.
    model = exposures.fitted(case, max_exposure=2.0, exposure_delta=config.delta)
    shape = X.T @ X + model.noise_penalty_ * exposures.ALPHA * np.eye(5)
    covariance = model.noise_scale_**2 * np.linalg.inv(shape)
    draws = np.random.default_rng(5).multivariate_normal(centre, covariance, 4000)
    scores = np.mean((case.X_test @ draws.T > 0) == case.y_test[:, None], axis=0)
    assert costs["mean"]["cap 2"] == pytest.approx(scores.mean(), abs=5 * scores.std() / 60**0.5)
    assert costs["low"]["cap 2"] <= costs["mean"]["cap 2"] <= costs["high"]["cap 2"]
    assert costs["high"]["cap 50"] - costs["low"]["cap 50"] < np.ptp(scores)


def test_drawn_noise_has_the_law_of_releases(monkeypatch):
    """The formula of the costs against many releases of the estimator itself."""
    case = made_up("three", n=60)
    head = exposures.head_of(case)
    model = Forgetful(head, noise_scale=3.0).fit(case.X, case.y)
    thetas = []
    monkeypatch.setattr(Case, "score", lambda _, theta: thetas.append(theta.ravel()) or 0.0)
    exposures.scores(case, model, 3000)
    ours = np.cov(np.array(thetas).T)
    A = case.X.T @ case.X + exposures.ALPHA * np.eye(5)
    law = np.kron(9 * np.linalg.inv(A), np.eye(3))
    size = np.sqrt(np.outer(np.diag(law), np.diag(law)) + law**2)
    assert np.abs((ours - law) / size).max() < 5.5 / 3000**0.5
    releases = np.array(
        [
            contestants.parameters(Forgetful(head, noise_scale=3.0).fit(case.X, case.y)).ravel()
            for _ in range(40)
        ]
    )
    centre = contestants.parameters(head.fit(case.X, case.y)).ravel()
    white = np.linalg.solve(np.linalg.cholesky(law), (releases - centre).T)
    assert chi2.ppf(1e-7, 600) < np.sum(white**2) < chi2.ppf(1 - 1e-7, 600)
    each = np.sum(white**2, axis=1)
    assert (chi2.ppf(1e-8, 40) < each).all()
    assert (each < chi2.ppf(1 - 1e-8, 40)).all()
