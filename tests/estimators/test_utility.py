"""Predicted utility in quotes and certificates, against dense laws and simulated chains."""

import dataclasses
import json
import pickle

import numpy as np
import pytest

import pilu
from conftest import with_ones
from oracles.predictions import accuracy_of_law, law_of_run, rmse_of_law, simulated_runs
from pilu import Certificate, CertificateMismatch, LangevinRidge, LangevinRidgeClassifier, Utility

RNG = np.random.default_rng(3)
X, X_VAL = RNG.normal(size=(40, 3)), RNG.normal(size=(9, 3))
WEIGHTS = RNG.normal(size=(3, 3))
Y, Y_VAL = (x @ WEIGHTS + 0.5 * RNG.normal(size=(len(x), 3)) for x in (X, X_VAL))
LABELS, LABELS_VAL = np.argmax(Y, axis=1), np.argmax(Y_VAL, axis=1)
ALPHA, LEARNED = 0.3, (25, 0.4)
EVERY = list(range(40))


def fitted(estimator=LangevinRidge, targets=Y, **options):
    options = {"alpha": ALPHA, "n_steps": 25, "noise": 0.4, "step_size": 0.01, **options}
    return estimator(**options).fit(X, targets)


def without(*rows):
    return [i for i in EVERY if i not in rows]


def dense_rmse(model, Y, Y_val, phases):
    start = np.zeros((4, Y.shape[1]))
    law = law_of_run(with_ones(X), Y, ALPHA, model.step_size_, phases, start)
    return rmse_of_law(*law, with_ones(X_VAL), Y_val)


@pytest.mark.parametrize("targets", [1, 3])
def test_quoted_rmse(targets):
    y, y_val = Y[:, :targets], Y_VAL[:, :targets]
    model = fitted(targets=y)
    before = pickle.dumps(model)
    quote = model.quote([4, [7, 1]], n_unlearn_steps=6, validation=(X_VAL, y_val))
    assert pickle.dumps(model) == before
    u = quote.utility
    assert isinstance(u, Utility)
    assert u.metric == "rmse"
    assert u.before == pytest.approx(dense_rmse(model, y, y_val, [(EVERY, *LEARNED)]), rel=1e-10)
    for i, left in enumerate((without(4), without(1, 7))):
        after = dense_rmse(model, y, y_val, [(EVERY, *LEARNED), (left, 6, quote.noise[i])])
        assert u.after[i] == pytest.approx(after, rel=1e-9)
        redraw = dense_rmse(model, y, y_val, [(left, *LEARNED)])
        assert u.redraw[i] == pytest.approx(redraw, rel=1e-9)
    assert (u.seconds > 0).all()
    assert u.redraw_seconds > 0
    assert not u.after.flags.writeable
    plain = model.quote([4, [7, 1]], n_unlearn_steps=6)
    assert plain.utility is None
    np.testing.assert_array_equal(plain.noise, quote.noise)


def test_all_rows_and_the_frame():
    model = fitted(targets=Y[:, 0])
    quote = model.quote(validation=(X_VAL, Y_VAL[:, 0]), n_unlearn_steps=6)
    some = model.quote([11], validation=(X_VAL, Y_VAL[:, 0]), n_unlearn_steps=6)
    assert quote.utility.after.shape == quote.utility.seconds.shape == (40,)
    assert quote.utility.after[11] == pytest.approx(some.utility.after[0], rel=1e-8)
    assert quote.utility.redraw[11] == pytest.approx(some.utility.redraw[0], rel=1e-10)
    frame = quote.to_frame()
    assert list(frame.columns[5:]) == [
        "rmse_before",
        "rmse_after",
        "rmse_redraw",
        "seconds",
        "redraw_seconds",
    ]
    np.testing.assert_array_equal(frame.rmse_after, quote.utility.after)
    assert len(model.quote([], validation=(X_VAL, Y_VAL[:, 0])).utility.after) == 0


def test_later_requests():
    # The law is that of a run which never saw row 4: two segments on the rows without it.
    model = fitted()
    first = model.unlearn(4, n_unlearn_steps=6)
    certificate = model.unlearn([7, 8], n_unlearn_steps=3, validation=(X_VAL, Y_VAL))
    base = without(4)
    phases = [(base, *LEARNED), (base, 6, first.noise)]
    found = certificate.utility
    assert found["before"] == pytest.approx(dense_rmse(model, Y, Y_VAL, phases), rel=1e-9)
    left = without(4, 7, 8)
    after = [*phases, (left, 3, certificate.noise)]
    assert found["after"] == pytest.approx(dense_rmse(model, Y, Y_VAL, after), rel=1e-9)
    redraw = dense_rmse(model, Y, Y_VAL, [(left, *LEARNED)])
    assert found["redraw"] == pytest.approx(redraw, rel=1e-9)
    drawn = model.unlearn(9, method="redraw", validation=(X_VAL, Y_VAL)).utility
    redraw = dense_rmse(model, Y, Y_VAL, [(without(4, 7, 8, 9), *LEARNED)])
    assert drawn["after"] == drawn["redraw"] == pytest.approx(redraw, rel=1e-9)
    assert drawn["seconds"] == drawn["redraw_seconds"] > 0
    again = model.unlearn(method="redraw", validation=(X_VAL, Y_VAL)).utility
    assert again["before"] == pytest.approx(again["after"], rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_accuracy_against_integrals(classes):
    labels, labels_val = LABELS % classes, list(LABELS_VAL % classes)
    model = fitted(LangevinRidgeClassifier, labels)
    labels_val[2] = 77  # nobody's label: never right
    quote = model.quote([5], n_unlearn_steps=4, validation=(X_VAL, labels_val))
    Y = np.eye(classes)[labels]
    columns = [-1 if c == 77 else int(c) for c in labels_val]

    def dense(phases):
        law = law_of_run(with_ones(X), Y, ALPHA, model.step_size_, phases, np.zeros((4, classes)))
        return accuracy_of_law(*law, with_ones(X_VAL), columns)

    u = quote.utility
    assert u.metric == "accuracy"
    assert u.before == pytest.approx(dense([(EVERY, *LEARNED)]), abs=1e-9)
    after = dense([(EVERY, *LEARNED), (without(5), 4, quote.noise[0])])
    assert u.after[0] == pytest.approx(after, abs=1e-9)
    assert u.redraw[0] == pytest.approx(dense([(without(5), *LEARNED)]), abs=1e-9)
    assert "accuracy_after" in quote.to_frame().columns


def test_against_simulated_chains(rng):
    runs, learning = 4000, (25, 2.0)  # noise enough to change some labels
    model = fitted(LangevinRidgeClassifier, LABELS, noise=2.0)
    regressor = fitted(noise=2.0)
    options = {"n_unlearn_steps": 4, "epsilon": 2.0}
    one = model.quote([[2, 30]], validation=(X_VAL, LABELS_VAL), **options)
    other = regressor.quote([[2, 30]], validation=(X_VAL, Y_VAL), **options)
    V = with_ones(X_VAL)
    for quote, targets in ((one, np.eye(3)[LABELS]), (other, Y)):
        u = quote.utility
        learned, left = (EVERY, *learning), without(2, 30)
        for phases, predicted in (
            ([learned], u.before),
            ([learned, (left, 4, quote.noise[0])], u.after[0]),
            ([(left, *learning)], u.redraw[0]),
        ):
            scores = V @ simulated_runs(
                with_ones(X), targets, ALPHA, model.step_size_, phases, runs, rng
            )
            if u.metric == "accuracy":
                each = np.mean(np.argmax(scores, axis=2) == LABELS_VAL, axis=1)
            else:
                each = np.mean((scores - Y_VAL) ** 2, axis=(1, 2))
                predicted = predicted**2
            assert abs(np.mean(each) - predicted) < 4.5 * np.std(each) / np.sqrt(runs)


@pytest.mark.parametrize("solver", ["spectral", "gradient"])
def test_certificates(solver):
    model = fitted(solver=solver, random_state=1)
    twin = fitted(solver=solver, random_state=1)
    quoted = model.quote([3], n_unlearn_steps=6, validation=(X_VAL, Y_VAL)).utility
    certificate = model.unlearn(3, n_unlearn_steps=6, validation=(X_VAL, Y_VAL))
    found = certificate.utility
    assert found["metric"] == "rmse"
    assert found["before"] == quoted.before
    assert found["after"] == quoted.after[0]
    assert found["redraw"] == quoted.redraw[0]
    assert found["seconds"] > 0
    assert found["redraw_seconds"] > 0
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.sha256 == certificate.sha256
    assert model.verify(again)["utility_recomputed"] is False
    # Predicting, and the draws thrown away for timing, leave the model's own noise alone.
    plain = twin.unlearn(3, n_unlearn_steps=6)
    assert plain.utility is None
    assert plain.parameters_sha256 == certificate.parameters_sha256
    assert any("utility" in words for words in certificate.words)
    assert dataclasses.replace(certificate, utility=None).sha256 != certificate.sha256


@pytest.mark.parametrize(
    "value",
    [
        3,
        [],
        {},
        {"metric": "rmse"},
        {"metric": "luck", "before": 1, "after": 1, "redraw": 1, "seconds": 1, "redraw_seconds": 1},
        {
            "metric": "rmse",
            "before": "1",
            "after": 1,
            "redraw": 1,
            "seconds": 1,
            "redraw_seconds": 1,
        },
    ],
)
def test_a_certificate_with_another_utility_is_refused(value):
    record = json.loads(fitted().unlearn(3, n_unlearn_steps=2).to_json())
    with pytest.raises(CertificateMismatch, match="utility"):
        Certificate.from_json(json.dumps({**record, "utility": value}))
    del record["utility"]
    with pytest.raises(CertificateMismatch, match="missing: \\['utility'\\]"):
        Certificate.from_json(json.dumps(record))


def test_more_columns_than_rows_and_no_intercept(rng):
    X, Y = rng.normal(size=(8, 20)), rng.normal(size=(8, 2))
    V, Y_val = rng.normal(size=(5, 20)), rng.normal(size=(5, 2))
    start = rng.normal(size=(2, 20))
    model = LangevinRidge(alpha=0.5, n_steps=9, noise=0.2, fit_intercept=False)
    model.fit(X, Y, coef_init=start)
    quote = model.quote([[1, 6]], n_unlearn_steps=4, validation=(V, Y_val))
    left = [0, 2, 3, 4, 5, 7]
    every = ([*range(8)], 9, 0.2)
    for phases, found in (
        ([every], quote.utility.before),
        ([every, (left, 4, quote.noise[0])], quote.utility.after[0]),
        ([(left, 9, 0.2)], quote.utility.redraw[0]),
    ):
        law = law_of_run(X, Y, 0.5, model.step_size_, phases, start.T)
        assert found == pytest.approx(rmse_of_law(*law, V, Y_val), rel=1e-9)


def changed(array, value):
    array = np.array(array, dtype=float)
    array.flat[3] = value
    return array


@pytest.mark.parametrize(
    ("validation", "words"),
    [
        (X_VAL, r"validation must be a pair \(X, y\), got validation=.*Pass validation=\(X_val"),
        ((X_VAL,), r"validation must be a pair .*tuple of length 1"),
        (5, r"validation must be a pair \(X, y\), got validation=5\."),
        ("ab", "validation must be a pair"),
        ((X_VAL[:, :2], Y_VAL), "validation must be .*2 features"),
        ((X_VAL[0], Y_VAL), "validation must be .*2D array"),
        ((X_VAL[:4], Y_VAL), r"X and y with the same number of rows, got validation=\(4, 9\)"),
        ((X_VAL, Y_VAL[:, :2]), r"a y with 3 target\(s\), got validation=2"),
        ((X_VAL, Y_VAL[:, 0]), r"a y with 3 target\(s\), got validation=1"),
        ((changed(X_VAL, np.nan), Y_VAL), "finite in X, got validation=nan. Drop or impute"),
        ((changed(X_VAL, np.inf), Y_VAL), "finite in X, got validation=inf"),
        ((X_VAL, changed(Y_VAL, np.nan)), "finite in y, got validation=nan"),
        ((X_VAL[:0], Y_VAL[:0]), "validation must be .*0 sample"),
        ((np.full((9, 3), "a"), Y_VAL), "validation must be"),
        ((X_VAL, np.full((9, 3), "a")), "validation must be"),
        ((X_VAL, None), "validation must be"),
    ],
)
def test_bad_validation(validation, words):
    model = fitted()
    before = pickle.dumps(model)
    for call in (
        lambda: model.quote([3], validation=validation),
        lambda: model.unlearn(3, validation=validation),
        lambda: model.unlearn(3, method="redraw", validation=validation),
        lambda: model.plan(3, validation=validation, tolerated_loss=1.0),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert pickle.dumps(model) == before


def test_names_at_the_top():
    assert {"Plan", "Utility"} <= set(pilu.__all__)
