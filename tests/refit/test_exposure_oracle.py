"""Exposures against dense divergences of laws that pilu has no part in.

pilu charges the radius of its solver: for shaped noise up to 0.5 % of the shift and 2^-11 units of
noise. So the true epsilon is a lower bound, always, and that of a pair with longer shifts an upper
bound where the answer is exact.
"""

import math

import numpy as np
import pytest
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from oracles.exposures import epsilon_of, pair_of
from oracles.high_precision import epsilon_from_mu_mp, mu_from_epsilon_mp
from oracles.refit_laws import Exposures, Fit, Huber, given_kappa, precisions, standard_distance
from pilu import Forgetful, HuberRidge
from pilu.exceptions import BeyondPrecision, WrongInput
from refit.hostile_exposures import HEADS, hostile_exposures
from refit.standard import Noise, Standard

DELTA = 1e-5
BELOW = 1e-9  # how far below the truth an answer may be, relative: the oracle's own error
ACCOUNTANT = 1e-6  # relative and absolute, for rounding up in the search for epsilon
FARTHEST = 8192.0  # beyond it an answer may be infinite
CHARGE = (0.005, 2.0**-11)  # share of the shift, units of noise


def estimator_of(fit):
    if isinstance(fit.head, Huber):
        width, alpha, intercept = fit.head
        return HuberRidge(alpha, threshold=width, fit_intercept=intercept)
    return fit.head


def fitted(fit, people=None, estimator=None, X=None, **options):
    estimator = estimator_of(fit) if estimator is None else estimator
    model = Forgetful(estimator, random_state=0, **{"exposure_delta": DELTA, **options})
    X = fit.X if X is None else X
    return model.fit(X, fit.y, sample_weight=fit.weights, subjects=people)


def by_name(exposures):
    return dict(zip(exposures.names, map(float, exposures.epsilon), strict=True))


def rows_of(people, name):
    return np.flatnonzero(np.array(people) == name)


def assert_within_charge(answer, pair, charge=CHARGE, delta=DELTA):
    """Not below the truth, and not above the truth for shifts that are longer by the charge."""
    truth = epsilon_of(pair, delta)
    most = epsilon_of(pair.inflated(*charge), delta)
    if truth > FARTHEST:
        most = math.inf
    assert truth * (1 - BELOW) <= answer <= most * (1 + ACCOUNTANT) + ACCOUNTANT, (truth, most)


# Squares -------------------------------------------------------------------------------------


def people_of(sizes):
    return [f"p{i}" for i, size in enumerate(sizes) for _ in range(size)]


def squares_problem(kind):
    rng = np.random.default_rng(7)
    people = people_of([1, 1, 1, 2, 3, 5, 8, 20, 1, 2])
    n, p = len(people), 4
    X, y, weights, head = rng.normal(size=(n, p)), rng.normal(size=n), None, Ridge(0.5)
    if kind == "weights":
        weights = 10 ** rng.uniform(-2, 2, size=n)
    elif kind == "several targets":
        y, head = rng.normal(size=(n, 3)), Ridge([0.01, 1.0, 100.0])
    elif kind == "without intercept":
        head = Ridge(0.5, fit_intercept=False)
    elif kind == "leverage near 1":
        X[0], X[4:6, 1] = 1e2 * X[0], [3e1, -2e1]
        head = Ridge(1e-3)
    elif kind == "residuals zero":
        y = np.full(n, 2.5)  # coefficients are zero and the intercept is 2.5
    elif kind == "duplicated rows":
        X, y = np.repeat(X[:4], 11, axis=0), np.repeat(y[:4], 11)
    elif kind == "more columns than rows":
        people = people_of([1, 1, 2, 3])
        X, y, head = rng.normal(size=(7, 10)), y[:7], Ridge(0.01)
    elif kind == "classes":
        y, head = np.arange(n) % 3, RidgeClassifier(2.0, class_weight={0: 1.0, 1: 2.0, 2: 0.5})
    elif kind == "columns of other scales":
        X = X * np.array([1e-4, 1.0, 1e2, 1e4]) + np.array([0.0, 10.0, 0.0, 1e4])
    return Fit(head, X, y, weights), people


SQUARES = (
    "plain",
    "weights",
    "several targets",
    "without intercept",
    "leverage near 1",
    "residuals zero",
    "duplicated rows",
    "more columns than rows",
    "classes",
    "columns of other scales",
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("kind", SQUARES)
def test_squares_are_the_dense_divergence(kind, scale):
    fit, people = squares_problem(kind)
    answers = by_name(fitted(fit, people, noise_scale=scale).exposure(delta=DELTA))
    assert set(answers) == set(people)
    truth = Exposures(fit, scale)
    for name in sorted(answers):
        assert_within_charge(answers[name], truth.pair(rows_of(people, name)))


def test_every_row_is_a_request_where_there_are_no_subjects():
    fit, _ = squares_problem("plain")
    result = fitted(fit, noise_scale=0.5).exposure()
    truth = Exposures(fit, 0.5)
    assert len(result.epsilon) == len(fit.X)
    for row in (0, 1, 17, 43):
        assert_within_charge(float(result.epsilon[row]), truth.pair([row]))


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_one_subject_rows_and_other_deltas(delta):
    fit, people = squares_problem("weights")
    model, truth = fitted(fit, people, noise_scale=0.5), Exposures(fit, 0.5)
    one = model.exposure(subject="p5", delta=delta)
    assert_within_charge(
        float(np.ravel(one.epsilon)[0]), truth.pair(rows_of(people, "p5")), delta=delta
    )
    several = model.exposure([[0, 9], [3]], delta=delta)
    for answer, gone in zip(several.epsilon, ([0, 9], [3]), strict=True):
        assert_within_charge(float(answer), truth.pair(gone), delta=delta)


def test_preprocessing_is_given():
    """Columns are those of the released scaler, for the rows that are left as well."""
    raw, people = squares_problem("columns of other scales")
    program = make_pipeline(StandardScaler(), Ridge(0.5))
    model = fitted(raw, people, estimator=program, noise_scale=0.5)
    fit = raw._replace(X=model.released_[:-1].transform(raw.X))
    truth = Exposures(fit, 0.5)
    for name, answer in by_name(model.exposure()).items():
        assert_within_charge(answer, truth.pair(rows_of(people, name)))


def test_the_two_scales_of_an_answer_are_the_leverage_and_the_residual():
    """One row: excess -h and squared shift w e^2 h/(1 - h)/s^2, without any dense algebra."""
    fit, people = squares_problem("plain")
    Z = np.column_stack([fit.X, np.ones(len(fit.X))])
    A = Z.T @ Z + 0.5 * np.diag([1.0, 1, 1, 1, 0])
    h = np.einsum("ij,ij->i", Z, np.linalg.solve(A, Z.T).T)
    e = fit.y - Z @ np.linalg.solve(A, Z.T @ fit.y)
    answers = by_name(fitted(fit, people, noise_scale=0.2).exposure())
    for name in ("p0", "p1", "p2", "p8"):
        (i,) = rows_of(people, name)
        pair = pair_of(-h[i], abs(e[i]) * math.sqrt(h[i] / (1 - h[i])) / 0.2)
        assert_within_charge(answers[name], pair)


# The noise itself ----------------------------------------------------------------------------


def small_problem(kind):
    rng = np.random.default_rng(11)
    n = 60
    X, people = rng.normal(size=(n, 3)), people_of([1, 2, 3] * 10)
    signal = X @ np.array([0.8, -0.5, 0.3]) + rng.normal(size=n)
    three = np.digitize(signal, [-0.5, 0.5])
    mean = np.exp(0.4 * signal + 1)
    problems = {
        "ridge": (Ridge(1.0), signal),
        "logistic": (LogisticRegression(C=1.0), three > 0),
        "liblinear": (LogisticRegression(solver="liblinear", intercept_scaling=3.0), three > 0),
        "softmax": (LogisticRegression(C=1.0), three),
        "huber": (Huber(0.7, 1.0), signal),
        "squared hinge": (LinearSVC(C=1.0, intercept_scaling=3.0), three > 0),
        "squared hinge, three classes": (LinearSVC(C=1.0, class_weight={0: 2.0}), three),
        "poisson": (PoissonRegressor(alpha=0.02), rng.poisson(mean).astype(float)),
        "gamma": (GammaRegressor(alpha=0.02), mean * rng.gamma(3.0, size=n)),
        "tweedie": (TweedieRegressor(power=1.5, alpha=0.02, link="log"), mean * rng.poisson(1, n)),
    }
    head, y = problems[kind]
    return Fit(head, X, y.astype(int) if y.dtype == bool else y, None), people


OTHERS = (
    "logistic",
    "liblinear",
    "softmax",
    "huber",
    "squared hinge",
    "squared hinge, three classes",
    "poisson",
    "gamma",
    "tweedie",
)


def observed_noise(monkeypatch, fit, people=None, **options):
    """(released parameters with noise minus those without, q x K; the normals; the model)."""
    noise = Noise(3).instead_of_pilus(monkeypatch)
    thetas = []
    for noise.silent in (True, False):
        model = fitted(fit, people, **options)
        head = model.released_
        theta = np.atleast_2d(head.coef_).T
        if fit.head.fit_intercept:
            theta = np.vstack([theta, np.broadcast_to(head.intercept_, theta.shape[1])])
        thetas.append(theta)
    return thetas[1] - thetas[0], noise.last, model


def noise_in_units(moved, fit, kappa=None, factor=1.0):
    """sum_k d_k' A_k d_k over outputs: s^2 times the squared normals, for any square root."""
    kappa = given_kappa(fit) if kappa is None else kappa
    matrices = [np.array(A.tolist(), dtype=float) for A in precisions(fit, kappa, factor)]
    return sum(d @ matrices[k % len(matrices)] @ d for k, d in enumerate(moved.T))


@pytest.mark.parametrize("kind", ["ridge", *OTHERS])
def test_noise_has_the_stated_shape_and_scale(monkeypatch, kind):
    """Also for the given power of two of the Tweedie family: see `tweedie_kappa`."""
    fit, _ = small_problem(kind)
    moved, normals, _ = observed_noise(monkeypatch, fit, noise_scale=0.3)
    assert normals.size == moved.size
    expected = 0.3**2 * (normals**2).sum()
    assert noise_in_units(moved, fit) == pytest.approx(expected, rel=1e-6)


def test_a_cap_on_exposure_is_kept_and_not_by_waste(monkeypatch):
    fit, people = small_problem("ridge")
    cap, delta = 6.0, 1e-5
    moved, normals, model = observed_noise(
        monkeypatch, fit, people, max_exposure=cap, exposure_delta=delta, exposure_quantile=1.0
    )
    factor = model.fitted_.penalty_factor
    scale = math.sqrt(noise_in_units(moved, fit, factor=factor) / (normals**2).sum())
    assert scale == pytest.approx(model.noise_scale_, rel=1e-6)
    truth = Exposures(fit, scale, factor=factor)
    truths = [truth.epsilon(rows_of(people, name), delta) for name in sorted(set(people))]
    assert 0.8 * cap < max(truths) <= cap  # the grid of scales is a quarter of an octave
    assert max(model.exposure(delta=delta).epsilon) <= cap * (1 + ACCOUNTANT)


# Other heads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OTHERS)
def test_other_heads_are_never_below_and_finite(kind):
    fit, people = small_problem(kind)
    answers = by_name(fitted(fit, people, noise_scale=0.5).exposure())
    truth = Exposures(fit, 0.5)
    for name in sorted(set(people))[::5]:
        assert answers[name] >= truth.epsilon(rows_of(people, name)) * (1 - BELOW), name
    assert np.isfinite(list(answers.values())).all()


@pytest.mark.parametrize("kind", OTHERS)
def test_exact_answers_of_other_heads_are_close(kind):
    """Two minimisers, and the charge for each."""
    fit, people = small_problem(kind)
    names = sorted(set(people))[::6]
    answers = by_name(fitted(fit, people, noise_scale=0.5).exposure(exact=True))
    truth = Exposures(fit, 0.5)
    for name in names:
        pair = truth.pair(rows_of(people, name))
        assert_within_charge(answers[name], pair, charge=(2 * CHARGE[0], 2 * CHARGE[1]))


# Isotropic noise -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ridge", *OTHERS])
def test_isotropic_noise_is_the_distance_in_standard_coordinates(monkeypatch, kind):
    """mu = |theta* - theta*'|/sigma; the charge is at most two radii b = mu_certified sigma/2."""
    fit, people = small_problem(kind)
    moved, normals, model = observed_noise(monkeypatch, fit, people, score_noise=0.05)
    standard = Standard(model.released_, fit.X)
    there = moved[:3] * standard.scale[:, None]
    last = (moved[3] + standard.shift @ moved[:3]) * standard.last
    sigma = math.sqrt(((there**2).sum() + (last**2).sum()) / (normals**2).sum())
    charge = float(mu_from_epsilon_mp(0.1, 1e-9)) + CHARGE[1]
    answers, bounds = by_name(model.exposure(exact=True)), by_name(model.exposure())
    for name in sorted(set(people))[::6]:
        mu = standard_distance(fit, rows_of(people, name)) / sigma
        most = float(epsilon_from_mu_mp(mu * (1 + CHARGE[0]) + charge, DELTA))
        truth = float(epsilon_from_mu_mp(mu, DELTA))
        assert truth * (1 - 1e-6) <= answers[name] <= most * (1 + ACCOUNTANT) + ACCOUNTANT
        assert bounds[name] >= truth * (1 - 1e-6)


# Hostile tables ------------------------------------------------------------------------------

REFUSED = 0.02  # of ordinary cases
SETTLED = 0.6  # of all cases: at least so many are answered by a finite number


def answers_for(hostile):
    """Epsilon by name; a person is missing if pilu refuses, all are if it cannot fit."""
    try:
        model = fitted(hostile.fit, hostile.people, noise_scale=hostile.scale)
    except (BeyondPrecision, WrongInput):
        return {}
    try:
        return by_name(model.exposure(delta=DELTA))
    except (BeyondPrecision, WrongInput):
        answers = {}
    for case in hostile.cases:
        try:
            result = model.exposure(subject=case.person, delta=DELTA)
            answers[case.person] = float(np.ravel(result.epsilon)[0])
        except (BeyondPrecision, WrongInput):
            continue
    return answers


def run_hostile(head, count, seed):
    wrong, cases, settled, ordinary, refused = [], 0, 0, 0, 0
    for hostile in hostile_exposures(head, count, seed):
        answers = answers_for(hostile)
        for case in hostile.cases:
            answer = answers.get(case.person, math.inf)
            truth = case.epsilon(hostile.scale, DELTA)
            if not answer >= truth * (1 - BELOW):
                wrong.append((hostile.name, case.person, answer, truth))
            cases, settled = cases + 1, settled + (answer < math.inf)
            ordinary += hostile.ordinary
            refused += hostile.ordinary and answer == math.inf
    assert not wrong, f"{len(wrong)} of {cases} are below the truth, such as {wrong[:5]}"
    assert refused <= REFUSED * ordinary, f"{refused} of {ordinary} ordinary cases are refused"
    assert settled >= SETTLED * cases, f"only {settled} of {cases} cases have an answer"
    return cases


@pytest.mark.parametrize("head", HEADS)
def test_no_exposure_is_below_the_truth_on_hostile_tables(head):
    assert run_hostile(head, 30, seed=0) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_no_exposure_is_below_the_truth_on_many_hostile_tables(head):
    assert run_hostile(head, 1430, seed=1) >= 1430  # 10,010 in all
