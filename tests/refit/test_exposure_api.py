"""Exposure as a user meets it: who is asked about, how it answers, what is refused.

What the numbers are is tested in `test_exposure_oracle.py`.
"""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    Normalizer,
    StandardScaler,
)

from pilu import AlreadyForgotten, Forgetful, LangevinRidge
from pilu.exceptions import WrongInput
from refit.exposure_tables import N, content_of, labels, people, ridge, rows_of, table

# Who is asked about


def test_without_subjects_every_row_is_a_request():
    found = ridge().exposure()
    assert found.names == tuple(range(N))
    assert found.requests == tuple((i,) for i in range(N))
    assert len(found) == len(found.epsilon) == len(found.tightness) == N
    assert found.delta == 1e-6
    assert found.noise_scale == 1.0


def test_with_subjects_every_person_is_a_request_in_the_order_of_their_first_rows():
    listed = people()
    found = ridge(subjects=listed).exposure()
    assert found.names == tuple(dict.fromkeys(listed))
    assert found.requests == tuple(rows_of(name, listed) for name in found.names)


def test_listed_people_and_groups_come_back_in_the_given_order():
    listed = people()
    model = ridge(subjects=listed)
    everybody = dict(
        zip(*(getattr(model.exposure(), k) for k in ("names", "epsilon")), strict=True)
    )
    some = model.exposure(subjects=["ian", "ada"])
    assert some.names == ("ian", "ada")
    assert some.requests == (rows_of("ian", listed), rows_of("ada", listed))
    for name, epsilon in zip(some.names, some.epsilon, strict=True):
        assert epsilon == pytest.approx(everybody[name], rel=1e-6)
    one = model.exposure(subject="ben")
    assert one.names == ("ben",)
    assert one.epsilon[0] == pytest.approx(everybody["ben"], rel=1e-6)
    groups = model.exposure([[7, 2], 5, np.array([1, 9, 4])])
    assert groups.requests == ((2, 7), (5,), (1, 4, 9))
    assert groups.names == ((2, 7), 5, (1, 4, 9))


def test_rows_have_the_names_that_were_given_to_fit():
    names = [f"r{i}" for i in range(N)]
    found = ridge(sample_ids=names).exposure([3, [0, 2]])
    assert found.names == ("r3", ("r0", "r2"))
    X, y = table()
    frame = pd.DataFrame(X, index=names, columns=list("abc"))
    assert ridge(frame, y).exposure([3]).names == ("r3",)


def test_one_row_number_is_one_request_and_none_is_none():
    model = ridge()
    assert model.exposure(4).requests == ((4,),)
    classes = Forgetful(LogisticRegression(), noise_scale=1.0).fit(table()[0], labels(table()[1]))
    for fitted in (model, classes):
        nobody = fitted.exposure([])
        assert (len(nobody), nobody.names, nobody.requests) == (0, (), ())
        assert repr(nobody) == "Exposure(0 requests)"
        assert len(nobody.to_frame()) == 0


def test_who_is_forgotten_is_no_longer_there_and_who_is_added_is():
    listed = people()
    model = ridge(subjects=listed)
    X, y = table()
    model.unlearn(subject="ben")
    model.add(X[:2] + 0.1, y[:2], subjects=["eva", "zoe"])
    found = model.exposure()
    assert found.names == (
        "eva",
        *[n for n in dict.fromkeys(listed) if n not in ("eva", "ben")],
        "zoe",
    )
    assert found.requests[0] == (*rows_of("eva", listed), N)
    assert found.requests[-1] == (N + 1,)


def test_a_langevin_model_answers_in_the_same_form():
    listed, (X, y) = people(), table()
    model = LangevinRidge(noise=0.1, n_steps=50, random_state=0).fit(X, y, subjects=listed)
    found = model.exposure(subjects=["ian", "ada"])
    assert found.names == ("ian", "ada")
    assert found.requests == (rows_of("ian", listed), rows_of("ada", listed))
    assert found.covers_preprocessing is False
    assert found.noise_scale is None
    assert list(found.to_frame().columns) == list(ridge().exposure([0]).to_frame().columns)


# What an answer looks like


def test_a_frame_has_a_line_for_each_request():
    found = ridge(subjects=people()).exposure(delta=1e-3)
    frame = found.to_frame()
    assert list(frame.columns) == ["name", "rows", "n_rows", "epsilon", "delta", "tightness"]
    assert list(frame["name"]) == list(found.names)
    assert list(frame["rows"]) == list(found.requests)
    assert list(frame["n_rows"]) == [len(rows) for rows in found.requests]
    assert list(frame["epsilon"]) == list(found.epsilon)
    assert set(frame["delta"]) == {1e-3}
    frame.loc[0, "epsilon"] = 7.0  # a copy
    assert found.epsilon[0] != 7.0


def test_the_text_of_an_answer():
    model = ridge()
    found = model.exposure([0])
    text = f"Exposure(1 request, epsilon {found.epsilon[0]:.4g}, delta 1e-06)"
    assert repr(found) == text
    found = model.exposure()
    middle, most = np.median(found.epsilon), found.epsilon.max()
    span = f"epsilon {middle:.4g} (median) to {most:.4g} (largest)"
    assert repr(found) == f"Exposure({N} requests, {span}, delta 1e-06)"


def test_an_answer_cannot_be_changed():
    found = ridge().exposure()
    with pytest.raises(ValueError, match="read-only"):
        found.epsilon[0] = 0.0
    with pytest.raises(AttributeError):
        found.delta = 0.5


def test_a_smaller_delta_asks_for_a_larger_epsilon():
    model = ridge(exposure_delta=1e-4)
    assert model.exposure().delta == 1e-4
    large, small = (model.exposure(delta=d).epsilon for d in (1e-2, 1e-8))
    assert (small >= large).all()
    assert (small > large).any()


# What is refused


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"subject": "zoe"}, "subject must be among those given to fit, got unknown 'zoe'"),
        ({"subjects": ["ada", "zoe"]}, "subjects must be among .* got unknown 'zoe'"),
        ({"subjects": ["ada", "ada"]}, "subjects must be distinct"),
        ({"subjects": []}, "subjects must be at least one name"),
        ({"subjects": "ada"}, "subjects must be a list of names.*Use subject="),
        ({"requests": [0], "subject": "ada"}, "exactly one of .* must be given"),
        ({"subject": "ada", "subjects": ["ada"]}, "exactly one of .* must be given"),
        ({"requests": [N]}, rf"rows must be in \[0, {N - 1}\]"),
        ({"requests": [[0, 0]]}, "rows must be distinct, got row 0 more than once"),
        ({"requests": [[]]}, "rows must be at least one row number"),
        ({"requests": [0.5]}, "rows must be integers"),
        ({"requests": [list(range(N))]}, f"rows must leave at least one row, got all {N}"),
        ({"delta": 0}, "delta must be"),
        ({"delta": 1}, "delta must be"),
        ({"delta": "small"}, "delta must be"),
        ({"exact": 1}, "exact must be"),
    ],
)
def test_bad_questions_are_refused_in_words(asked, message):
    model = ridge(subjects=people())
    before = content_of(model)
    with pytest.raises(WrongInput, match=message):
        model.exposure(**asked)
    assert content_of(model) == before


def test_forgotten_rows_and_people_are_named():
    model = ridge(subjects=people())
    model.unlearn(subject="ada")
    with pytest.raises(
        AlreadyForgotten, match=r"'ada' has already been forgotten\. .*earlier_releases"
    ):
        model.exposure(subject="ada")
    gone = rows_of("ada", people())[0]
    with pytest.raises(AlreadyForgotten, match=rf"row\(s\) {gone} have already been forgotten"):
        model.exposure([gone])


def test_people_are_refused_by_a_model_without_subjects():
    with pytest.raises(WrongInput, match="fitted without `subjects`"):
        ridge().exposure(subject="ada")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_exposure": 0.0},
            "max_exposure must be a finite number >= 1e-06, got max_exposure=0",
        ),
        ({"max_exposure": -1.0}, "max_exposure must be a finite number >= 1e-06"),
        ({"max_exposure": math.inf}, "max_exposure must be"),
        ({"max_exposure": 1e4}, "max_exposure must be at most 1000"),
        ({"max_exposure": "1"}, "max_exposure must be"),
        (
            {"max_exposure": 1.0, "noise_scale": 1.0},
            "must not both be given.*Leave out noise_scale",
        ),
        ({"noise_scale": -1.0}, "noise_scale must be a finite number > 0, got noise_scale=-1.0"),
        ({"noise_scale": 0.0}, "noise_scale must be a finite number > 0"),
        ({"noise_scale": math.nan}, "noise_scale must be"),
        ({"exposure_quantile": 0}, "exposure_quantile must be a finite number > 0"),
        ({"exposure_quantile": 1.5}, "exposure_quantile must be at most 1, got"),
        ({"exposure_delta": 0.0}, "exposure_delta must be"),
        ({"exposure_delta": 1.0}, "exposure_delta must be"),
        ({"fold_scaler": "yes"}, "fold_scaler must be"),
    ],
)
def test_bad_parameters_are_refused_at_fit_and_at_a_request(options, message):
    X, y = table()
    with pytest.raises(WrongInput, match=message):
        Forgetful(Ridge(), **options).fit(X, y)
    model = ridge(noise_scale=None)
    before = model.released_
    model.set_params(**options)
    with pytest.raises(WrongInput, match=message):
        model.unlearn([0])
    assert model.released_ is before
    assert len(model.remaining_) == N


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(),
        make_pipeline(MaxAbsScaler(), Ridge()),
        make_pipeline(StandardScaler(), Normalizer(), Ridge()),
        make_pipeline(StandardScaler(), Ridge(fit_intercept=False)),
    ],
)
def test_only_a_standard_scaler_and_a_head_can_be_folded(estimator):
    with pytest.raises(WrongInput, match=r"fold_scaler must be False unless .* StandardScaler"):
        Forgetful(estimator, fold_scaler=True, noise_scale=1.0).fit(*table())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"validation": table()[0]}, r"validation must be a pair \(X, y\)"),
        ({"validation": (table()[0],)}, r"validation must be a pair \(X, y\)"),
        ({"n_draws": 1}, "n_draws must be an integer >= 2, got n_draws=1"),
        ({"n_draws": 2.5}, "n_draws must be an integer >= 2"),
        ({"max_exposure": [1.0, 0.0]}, "max_exposure must be a finite number >= 1e-06"),
        ({"max_exposure": "all"}, "max_exposure must be"),
    ],
)
def test_bad_plans_are_refused(asked, message):
    model = ridge(noise_scale=None)
    with pytest.raises(WrongInput, match=message):
        model.plan_exposure(**{"validation": table(seed=1), **asked})


def test_an_unfitted_model_has_no_exposure():
    model = Forgetful(Ridge(), noise_scale=1.0)
    assert not hasattr(model, "noise_scale_")
    for call in (model.exposure, lambda: model.plan_exposure(table())):
        with pytest.raises(ValueError, match="not fitted"):
            call()


@pytest.mark.parametrize(
    ("options", "later"),
    [
        ({}, {"score_noise": 1.0}),
        ({"noise_scale": 1.0}, {"fold_scaler": True}),
        ({"noise_scale": 1.0}, {"estimator__ridge__alpha": 1e4}),
    ],
)
def test_parameters_that_are_set_later_do_not_change_what_was_released(options, later):
    pipeline = make_pipeline(StandardScaler(), Ridge())
    model = Forgetful(pipeline, random_state=0, **options).fit(*table())
    before = model.exposure()
    model.set_params(**later)
    try:
        after = model.exposure()
    except WrongInput:
        return
    assert after.covers_preprocessing is before.covers_preprocessing
    np.testing.assert_allclose(after.epsilon, before.epsilon, rtol=1e-6)


def test_a_plan_that_is_refused_is_not_one_out_of_reach(rng):
    X, y = rng.normal(size=(30, 2100)), rng.integers(2, size=30)
    model = Forgetful(LogisticRegression(C=0.01)).fit(X, y)
    with pytest.raises(WrongInput, match="at most 2048 parameters"):
        model.plan_exposure((X, y), max_exposure=[1.0], n_draws=2)


def test_words_say_what_is_taken_as_given(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    fixed = Forgetful(Ridge(), noise_scale=0.75).fit(X, y).exposure([0])
    assert "given the noise scale 0.75, the penalties" in fixed.words[0]
    assert "preprocessing" not in fixed.words[0]
    scaled = Forgetful(make_pipeline(StandardScaler(), Ridge())).fit(X, y).exposure([0])
    assert "noise scale" not in scaled.words[0]
    assert "preprocessing as it was fitted" in scaled.words[0]
