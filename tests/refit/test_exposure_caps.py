"""Caps on exposure, and rows that need care."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    StandardScaler,
)

from pilu import Forgetful
from pilu.exceptions import WrongInput
from refit.exposure_tables import N, content_of, labels, pairs, ridge, table

# Caps


def loner():
    """A table where row 0 alone has something in the last column."""
    X, y = table(60, 4)
    X[1:, -1] = 0.0
    X[0, -1] = 3.0
    return X, y


def one_of_a_class():
    X, y = table(60)
    classes = labels(y)
    classes[7] = "maybe"
    return X, classes


def test_a_cap_out_of_reach_says_for_how_many_and_what_helps():
    X, classes = one_of_a_class()
    with pytest.raises(WrongInput, match=r"cannot be reached for \d+ of 60 people") as error:
        Forgetful(LogisticRegression(), max_exposure=1.0).fit(X, classes)
    for words in ("max_exposure=1.0", "Regularise more", "set exposure_quantile to at most"):
        assert words in str(error.value)
    share = float(str(error.value).rsplit(" ", 1)[1].rstrip("."))
    model = Forgetful(LogisticRegression(), max_exposure=1.0, exposure_quantile=share)
    assert np.mean(model.fit(X, classes).exposure().epsilon > 1.0) <= 1 - share


def test_who_ends_a_class_counts_among_those_above():
    model = Forgetful(LogisticRegression(), max_exposure=1.0, exposure_quantile=0.9833)
    found = model.fit(*one_of_a_class()).exposure()  # one of 60 may be above
    assert np.flatnonzero(found.epsilon > 1.0).tolist() == [7]
    assert math.isinf(found.epsilon[7])


def test_a_plan_leaves_caps_out_of_reach_open():
    X, y = loner()
    model = Forgetful(Ridge(1e-3), random_state=0).fit(X, y)
    plan = model.plan_exposure(loner(), max_exposure=(1e-3, 30.0), n_draws=4)
    assert plan.max_exposure.tolist() == [1e-3, 30.0]
    for values in (plan.noise_scale, plan.score, plan.score_sd):
        assert np.isnan(values).tolist() == [True, False]
    with pytest.raises(WrongInput, match="cannot be reached"):
        Forgetful(Ridge(1e-3), max_exposure=1e-3).fit(X, y)
    frame = plan.to_frame()
    assert list(frame["max_exposure"]) == [1e-3, 30.0]
    assert frame["loss_of_score"][1] == plan.score_without - plan.score[1]


def test_a_plan_names_the_scale_that_a_fit_would_choose_and_changes_nothing():
    X, y = table(80)
    model = Forgetful(Ridge(), random_state=0).fit(X, y)
    before, state = content_of(model), model.fitted_
    plan = model.plan_exposure(table(seed=1), max_exposure=[3.0, 0.3], n_draws=8)
    assert content_of(model) == before
    assert model.fitted_ is state
    assert plan.noise_scale[0] < plan.noise_scale[1]
    assert plan.score[1] < plan.score[0] <= plan.score_without + 0.1
    for cap, scale in zip(plan.max_exposure, plan.noise_scale, strict=True):
        capped = Forgetful(Ridge(), max_exposure=cap, random_state=0).fit(X, y)
        assert capped.noise_scale_ == scale


@pytest.mark.parametrize("quantile", [0.5, 0.9, 1.0])
def test_at_most_the_allowed_share_is_above_the_cap(quantile):
    X, y = table(100)
    model = Forgetful(Ridge(), max_exposure=0.5, exposure_quantile=quantile).fit(X, y)
    above = np.mean(model.exposure().epsilon > 0.5)
    assert above <= 1 - quantile + 1e-12
    assert (above > 0) == (quantile < 1)


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
@pytest.mark.parametrize("head", [Ridge(), LogisticRegression(), PoissonRegressor()])
def test_nobody_is_above_the_cap_after_any_change(head):
    X, y = table(60)
    y = labels(y) if isinstance(head, LogisticRegression) else np.round(np.exp(y / 4))
    listed = pairs(60)
    model = Forgetful(make_pipeline(StandardScaler(), head), max_exposure=2.0, random_state=0)
    model.fit(X[:58], y[:58], subjects=listed[:58])
    changes = [
        lambda: model.unlearn(subject="p3"),
        lambda: model.unlearn(rows=[0, 11, 12]),
        lambda: model.add(X[58:], y[58:], subjects=listed[58:]),
        lambda: model.correct(X[20:21] * 2, y[20:21], rows=[20]),
        lambda: model.unlearn(subjects=["p1", "p20"]),
    ]
    scales = [model.noise_scale_]
    for change in changes:
        change()
        found = model.exposure()
        assert found.noise_scale == model.noise_scale_
        assert (found.epsilon <= 2.0).all()
        scales.append(model.noise_scale_)
    assert all(math.log2(s) * 4 == pytest.approx(round(math.log2(s) * 4)) for s in scales)


# Special rows


def test_the_last_person_of_a_class_has_no_bound():
    X, y = table()
    classes = labels(y)
    classes[:4] = "no"
    classes[5:7] = "maybe"
    listed = list(range(N))
    listed[6] = 5  # one person has both rows of the class
    for options in ({"noise_scale": 5.0}, {}):
        model = Forgetful(LogisticRegression(C=0.1), **options).fit(X, classes, subjects=listed)
        found = dict(zip(model.exposure().names, model.exposure().epsilon, strict=True))
        assert math.isinf(found[5])
    # A single row of the two leaves the other: its exposure has a bound.
    rows = Forgetful(LogisticRegression(C=0.1), noise_scale=5.0).fit(X, classes)
    assert np.isfinite(rows.exposure([5, 6]).epsilon).all()
    assert math.isinf(rows.exposure([[5, 6]]).epsilon[0])


def test_the_only_one_of_two_classes_has_no_bound():
    X, _ = table()
    classes = np.where(np.arange(N) == 3, "yes", "no")
    found = Forgetful(LogisticRegression(), noise_scale=5.0).fit(X, classes).exposure()
    assert np.isinf(found.epsilon).tolist() == (np.arange(N) == 3).tolist()


def test_rows_without_weight_tell_nothing():
    X, y = table()
    weights = np.ones(N)
    weights[[4, 9]] = 0.0
    found = ridge(sample_weight=weights).exposure()
    assert (found.epsilon[[4, 9]] == 0.0).all()
    assert (np.delete(found.epsilon, [4, 9]) > 0.0).all()
    without = ridge(np.delete(X, [4, 9], 0), np.delete(y, [4, 9])).exposure()
    np.testing.assert_allclose(np.delete(found.epsilon, [4, 9]), without.epsilon, rtol=1e-3)


def test_sparse_rows_are_those_of_the_dense_ones():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N, 6)) < 0.4, rng.normal(size=(N, 6)), 0.0)
    y = table()[1]
    for head, target in ((Ridge(), y), (LogisticRegression(), labels(y))):
        dense, sparse = (
            Forgetful(head, noise_scale=1.0).fit(rows, target).exposure().epsilon
            for rows in (X, sp.csr_matrix(X))
        )
        np.testing.assert_allclose(dense, sparse, rtol=0.02)


def test_several_targets_tell_more_than_one():
    X, y = table()
    Y = np.stack([y, np.roll(y, 1)], axis=1)
    one, two = (ridge(X, target).exposure().epsilon for target in (y, Y))
    assert two.shape == (N,)
    assert (two > one).all()


@pytest.mark.parametrize(
    "estimator",
    [
        RidgeCV([0.1, 1.0, 10.0]),
        make_pipeline(StandardScaler(), RidgeCV([0.1, 1.0, 10.0])),
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=KFold(4)),
        make_pipeline(StandardScaler(), GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=3)),
    ],
)
def test_choices_inside_are_made_again_and_taken_as_given(estimator):
    X, y = table(60)
    model = Forgetful(estimator, max_exposure=1.0, random_state=0).fit(X, y)
    assert (model.exposure().epsilon <= 1.0).all()
    model.unlearn([5])
    assert (model.exposure().epsilon <= 1.0).all()
    assert model.exposure().names == tuple(i for i in range(60) if i != 5)


def test_the_only_one_with_weight_in_a_class_has_no_bound():
    X, _ = table()
    classes, weights = np.zeros(N, dtype=int), np.ones(N)
    classes[[3, 4]], weights[4] = 1, 0.0
    model = Forgetful(LogisticRegression(), noise_scale=5.0)
    assert math.isinf(model.fit(X, classes, sample_weight=weights).exposure([3]).epsilon[0])


def test_a_cap_out_of_reach_counts_those_whom_no_shape_helps():
    with pytest.raises(WrongInput, match=r"cannot be reached for 1 of 60 people"):
        Forgetful(LogisticRegression(), max_exposure=1.0).fit(*one_of_a_class())


def test_a_plan_for_few_rows_leaves_what_it_cannot_reach_open():
    X, y = table()
    model = Forgetful(LogisticRegression(), random_state=0).fit(X, labels(y))
    plan = model.plan_exposure((X, labels(y)), n_draws=2)
    assert np.isnan(plan.score).tolist() == [True, False, False, False, False]
