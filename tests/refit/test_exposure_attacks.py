"""Attacks on exposure: an epsilon below the truth, a crash, a wrong scope, a residue, a forgery.

The truth comes from minimisers and divergences in 40 digits and more (`oracles.exposures`); pilu
has no part in it.
"""

import copy
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from mpmath import mp, mpf
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import pilu
import pilu.refit.noise_scale as noise_scale
from oracles.exposures import Law, epsilon_of, whitened
from pilu import Certificate, Forgetful, HuberRidge
from pilu.certify.certificate import sha256_of
from pilu.exceptions import CertificateMismatch, WrongInput

DELTA = 1e-6


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    return X, X @ [1.0, 2.0, -1.0] + rng.standard_normal(40)


def ridge_law(X, y, penalty, scale=1.0, weights=None):
    """The release of ridge regression with shaped noise, one penalty for each column."""
    with mp.workdps(50):
        w = np.ones(len(X)) if weights is None else weights
        Z, A = mp.matrix(X.tolist()), mp.diag([mpf(float(d)) for d in penalty])
        b = mp.zeros(X.shape[1], 1)
        for i in range(len(X)):
            A += mpf(float(w[i])) * Z[i, :].T * Z[i, :]
            b += mpf(float(w[i])) * mpf(float(y[i])) * Z[i, :].T
        return Law(mp.lu_solve(A, b), A, mpf(scale))


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


# An epsilon below the truth ------------------------------------------------------------------


@pytest.mark.parametrize("gap", [4e-8, 1e-7])
def test_two_almost_equal_rows_with_opposite_outliers(gap):
    # The smaller leverage is 1e-15 of the larger one, and the residual along it is 1e8: the shift
    # along it is 3, and the rounding of the leverage is a large share of it.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    y = X @ [1.0, 2.0] + rng.standard_normal(50)
    z = rng.uniform(0.5, 1, 2)
    X = np.vstack([X, z, z + gap * np.array([-z[1], z[0]])])
    y = np.r_[y, 20 / gap, -20 / gap]
    people = [f"r{i}" for i in range(50)] + ["a", "a"]
    model = Forgetful(Ridge(1.0, fit_intercept=False), noise_scale=1.0, random_state=0)
    answer = model.fit(X, y, subjects=people).exposure(subject="a").epsilon[0]
    pair = whitened(ridge_law(X, y, [1, 1]), ridge_law(X[:50], y[:50], [1, 1]))
    assert answer >= epsilon_of(pair, DELTA) * (1 - 1e-9)


def test_rows_without_weight_are_seen_by_a_folded_scaler(table):
    X, y = table
    X[0], weights = [50.0, 0.0, 0.0], np.r_[0.0, np.ones(39)]
    program = make_pipeline(StandardScaler(), Ridge(5.0))
    model = Forgetful(program, noise_scale=1.0, fold_scaler=True, random_state=0)
    exposure = model.fit(X, y, sample_weight=weights).exposure()
    assert exposure.covers_preprocessing

    def law(rows):
        penalty = [*(5.0 * X[rows].std(axis=0) ** 2), 0.0]
        return ridge_law(with_ones(X[rows]), y[rows], penalty, weights=weights[rows])

    truth = epsilon_of(whitened(law(np.arange(40)), law(np.arange(1, 40))), DELTA)
    assert exposure.epsilon[0] >= truth * (1 - 1e-9)


def test_the_radius_of_a_folded_scaler_in_units_of_the_narrower_noise():
    # Without the person the column's deviation is 10 times as large, and so is the penalty's root:
    # where the solver stopped, within the radius, shows 10 times as much.
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 1))
    X[:10, 0] = np.tile([1.0, -1.0], 5)
    y = X[:, 0] + rng.standard_normal(1000)
    program = make_pipeline(StandardScaler(with_mean=False), Ridge(1e4, fit_intercept=False))
    model = Forgetful(program, noise_scale=1.0, fold_scaler=True, random_state=0)
    model.fit(X, y, subjects=[f"r{i}" for i in range(10)] + ["a"] * 990)
    radius = model.correct(X[:1], y[:1], rows=[0]).evidence["radius"]
    answer = model.exposure(subject="a").epsilon[0]
    P = ridge_law(X, y, 1e4 * X.std(axis=0) ** 2)
    Q = ridge_law(X[:10], y[:10], 1e4 * X[:10].std(axis=0) ** 2)
    with mp.workdps(50):
        away = mp.sign(P.mean[0] - Q.mean[0]) * mpf(radius) / mp.sqrt(P.precision[0, 0])
        stopped = P._replace(mean=P.mean + mp.matrix([away]))  # as far as the proof allows
    assert answer >= epsilon_of(whitened(stopped, Q), DELTA) * (1 - 1e-9)


@pytest.mark.parametrize("change", [{"score_noise": 1.0}, {"estimator__alpha": 1e4}])
def test_exposure_is_that_of_the_release_not_of_later_settings(table, change):
    options = {"noise_scale": 1.0} if "estimator__alpha" in change else {}
    model = Forgetful(Ridge(1.0), random_state=0, **options).fit(*table)
    before = model.exposure().epsilon
    try:
        after = model.set_params(**change).exposure().epsilon
    except WrongInput:
        return
    assert (after >= before).all()


@pytest.mark.parametrize("head", [LogisticRegression(), LogisticRegression(C=0.1)])
def test_nobody_is_above_the_cap_that_was_just_reached(table, head, monkeypatch):
    X, y = table
    reached, choose = [], noise_scale.choose_scale

    def spy(measured, options, charge, least):
        scale = choose(measured, options, charge, least)
        reached.append(measured.epsilons(scale, charge, options.exposure_delta).max())
        return scale

    def largest(cap):
        model = Forgetful(head, max_exposure=cap, epsilon=0.01, random_state=0)
        return model.fit(X, y > 0).exposure().epsilon.max()

    monkeypatch.setattr(noise_scale, "choose_scale", spy)
    largest(2.0)
    monkeypatch.undo()
    cap = reached[-1] * (1 + 1e-9)
    assert largest(cap) <= cap


# Crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        Ridge(),
        HuberRidge(),
        LogisticRegression(),
        PoissonRegressor(fit_intercept=False),
        make_pipeline(StandardScaler(), Ridge()),
    ],
)
@pytest.mark.parametrize("scale", [None, 1.0])
def test_one_person_has_all_rows(table, program, scale):
    X, y = table
    y = y > 0 if isinstance(program, LogisticRegression) else np.abs(y)
    folds = hasattr(program, "steps")
    model = Forgetful(program, noise_scale=scale, fold_scaler=folds, random_state=0)
    epsilon = model.fit(X, y, subjects=["a"] * 40).exposure().epsilon
    assert epsilon[0] > 10.0


def test_all_rows_are_left_out_of_a_refit(table):
    model = Forgetful(Ridge(fit_intercept=False), noise_scale=1.0, random_state=0).fit(
        *table, subjects=["a"] * 40
    )
    assert model.exposure(exact=True).epsilon[0] > 10.0


@pytest.mark.parametrize("scale", [None, 1.0])
def test_the_only_one_of_a_class(table, scale):
    model = Forgetful(LogisticRegression(), noise_scale=scale, random_state=0)
    epsilon = model.fit(table[0], np.arange(40) == 0).exposure().epsilon
    assert np.isinf(epsilon[0])
    assert np.isfinite(epsilon[1:]).all() or scale is None


@pytest.mark.parametrize("scale", [None, 1.0])
def test_one_person_has_all_counts(table, scale):
    counts = np.where(np.arange(40) < 2, 3.0, 0.0)
    people = ["a", "a", *range(38)]
    model = Forgetful(PoissonRegressor(alpha=0.01), noise_scale=scale, random_state=0)
    # Without the person the intercept has no minimiser, so nothing can be promised.
    assert np.isinf(model.fit(table[0], counts, subjects=people).exposure(subject="a").epsilon[0])


def out_of_reach():
    """So few rows that each is a large part of the intercept, whatever the other penalties are."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 3)), rng.standard_normal(9)


def test_a_cap_that_cannot_be_reached_is_named():
    with pytest.raises(WrongInput, match="max_exposure"):
        Forgetful(Ridge(), max_exposure=0.3).fit(*out_of_reach())


def test_a_plan_shows_caps_that_cannot_be_reached():
    X, y = out_of_reach()
    plan = Forgetful(Ridge()).fit(X, y).plan_exposure((X, y), max_exposure=[0.3, 100.0])
    assert np.isnan(plan.noise_scale[0])
    assert plan.noise_scale[1] > 0


def test_a_person_with_many_rows_needs_no_square_of_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 3))
    people = ["a"] * 1500 + [f"r{i}" for i in range(100)]
    model = Forgetful(Ridge(), noise_scale=1.0, random_state=0).fit(X, X[:, 0], subjects=people)
    tracemalloc.start()
    try:
        model.exposure(subject="a")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1500**2  # bytes: one matrix of rows times rows


# What is stated ------------------------------------------------------------------------------


def stated(certificate):
    """Epsilon of the earlier releases of the one person who was forgotten; infinite if none is."""
    earlier = certificate.evidence.get("earlier")
    epsilon = None if earlier is None else earlier["people"][0]["epsilon"]
    return np.inf if epsilon is None else epsilon


def test_a_release_without_shaped_noise_is_among_the_earlier_ones(table):
    X, y = table
    model = Forgetful(Ridge(), random_state=0).fit(X, y)
    first = model.exposure([3]).epsilon[0]
    assert first > 1000.0
    model.set_params(noise_scale=5.0).add(X[:1] + 1, y[:1])
    assert stated(model.unlearn(rows=[3])) >= first


def test_a_later_release_without_shaped_noise_is_among_the_earlier_ones(table):
    X, y = table
    model = Forgetful(Ridge(), noise_scale=5.0, random_state=0).fit(X, y)
    model.set_params(noise_scale=None).add(X[:1] + 1, y[:1])
    second = model.exposure([3]).epsilon[0]
    assert second > 1000.0
    assert stated(model.unlearn(rows=[3])) >= second


def test_all_earlier_releases_have_to_cover_the_preprocessing(table):
    X, y = table
    program = make_pipeline(StandardScaler(), Ridge())
    model = Forgetful(program, noise_scale=5.0, random_state=0).fit(X, y)
    assert not model.exposure([3]).covers_preprocessing
    model.set_params(fold_scaler=True).add(X[:1] + 1, y[:1])
    earlier = model.unlearn(rows=[3]).evidence["earlier"]
    assert earlier["people"][0]["n_releases"] == 2
    assert not earlier["covers_preprocessing"]


def centred(X):
    return X - X.mean(axis=0)


def wide(X):
    return np.flatnonzero(X.std(axis=0) > 0.5).tolist()


@pytest.mark.parametrize(
    "step", [FunctionTransformer(centred), ColumnTransformer([("wide", "passthrough", wide)])]
)
def test_a_function_of_all_rows_is_not_fixed_beforehand(table, step):
    program = make_pipeline(step, Ridge(fit_intercept=False))
    model = Forgetful(program, noise_scale=1.0, random_state=0).fit(*table)
    assert not model.exposure([0]).covers_preprocessing


# Residue -------------------------------------------------------------------------------------


def test_no_record_of_a_forgotten_person_where_noise_is_no_longer_shaped(table):
    people = [f"person-{i}" for i in range(40)]
    model = Forgetful(Ridge(), noise_scale=1.0, random_state=0).fit(*table, subjects=people)
    model.set_params(noise_scale=None).unlearn(subject="person-7")
    assert b"person-7" not in pickle.dumps(model)


# Forgery -------------------------------------------------------------------------------------


@pytest.fixture
def released(table):
    X, y = table
    model = Forgetful(Ridge(), noise_scale=5.0).fit(X, y)
    return model, model.unlearn(rows=[3]), np.delete(X, 3, axis=0), np.delete(y, 3)


def forged(certificate, **changes):
    """A consistent certificate with other evidence: every hash is computed anew."""
    record = copy.deepcopy(json.loads(certificate.to_json()))
    record["evidence"].update(changes)
    fields = Certificate.from_json(json.dumps(record)).fields_sha256
    record["evidence"]["fields_sha256"] = fields
    evidence = Certificate.from_json(json.dumps(record)).evidence
    record["evidence_sha256"] = sha256_of(evidence)
    return Certificate.from_json(json.dumps(record))


def test_forging_changes_nothing_else(released):
    model, certificate, X, y = released
    assert pilu.verify(forged(certificate), model, X, y)["inputs_checked_against_data"]


@pytest.mark.parametrize(
    "change",
    [
        {"max_exposure": 0.01},  # a cap that the fixed scale does not keep
        {"penalty_factor": 1e6},  # a shape that the noise does not have
        {"curvature": 123.0},
    ],
)
def test_shaped_noise_is_compared_with_the_rows(released, change):
    model, certificate, X, y = released
    with pytest.raises((CertificateMismatch, WrongInput)):
        pilu.verify(forged(certificate, **change), model, X, y)


@pytest.mark.parametrize(
    "change",
    [{"rows": [17]}, {"rows": ["all of them"]}, {"n_releases": 1.5}, {"n_releases": "2"}],
)
def test_evidence_of_earlier_releases_is_about_the_rows_of_the_certificate(released, change):
    certificate = released[1]
    earlier = copy.deepcopy(json.loads(certificate.to_json())["evidence"]["earlier"])
    earlier["people"][0].update(change)
    with pytest.raises(CertificateMismatch):
        pilu.verify(forged(certificate, earlier=earlier))


def test_what_is_stated_of_preprocessing_is_a_boolean(released):
    certificate = released[1]
    earlier = copy.deepcopy(json.loads(certificate.to_json())["evidence"]["earlier"])
    with pytest.raises(CertificateMismatch):
        pilu.verify(forged(certificate, earlier=earlier | {"covers_preprocessing": "no"}))
