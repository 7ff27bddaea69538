"""The estimators: scikit-learn's checks, probabilities, names of classes, and bad input."""

import os
import pickle
from typing import ClassVar

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import with_ones
from losses.plain import SquaredHinge, problem_for
from pilu import Exact, LangevinHuber, LangevinLogistic, Theorem
from pilu.certify.coarse import CoarseTheorem
from pilu.chains.chain import SimulatedGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.estimators.smooth import SmoothClassifier, SmoothRegressor
from pilu.exceptions import NoiseBelowPrecision, RowsChanged

OPTIONS = {"n_steps": 15, "noise": 0.1}


@parametrize_with_checks(
    [
        LangevinLogistic(),
        LangevinLogistic(n_steps=200, batch_size=4, fit_intercept=False),
        LangevinHuber(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_probabilities(name):
    X, y, _ = problem_for(name)
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    theta = np.column_stack([model.coef_, model.intercept_])
    scores = with_ones(X) @ theta.T
    if name == "logistic":  # scikit-learn's: a score of zero for the first class
        scores = np.column_stack([np.zeros(len(X)), scores])
        np.testing.assert_allclose(model.decision_function(X), scores[:, 1], rtol=1e-12)
    else:
        np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, expected, rtol=1e-11)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    far = model.predict_proba(1e6 * X)
    assert np.isfinite(far).all()
    assert ((far >= 0) & (far <= 1)).all()
    logs = model.predict_log_proba(1e6 * X)  # far below what a probability can be
    far_scores = 1e6 * X @ theta[:, :-1].T + theta[:, -1]
    if name == "logistic":
        far_scores = np.column_stack([np.zeros(len(X)), far_scores])
    behind = far_scores - far_scores.max(axis=1, keepdims=True)
    assert logs.min() < -1e4
    np.testing.assert_allclose(logs, behind, rtol=1e-9, atol=1.0)


@pytest.mark.parametrize("names", [["no", "yes"], ["ant", "bee", "cow"]])
def test_names_of_classes(names):
    X, labels, _ = problem_for("logistic" if len(names) == 2 else "softmax")
    words = np.array(names)[labels]
    model = LangevinLogistic(random_state=1, **OPTIONS).fit(X, words)
    numbers = LangevinLogistic(random_state=1, **OPTIONS).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, names)
    np.testing.assert_array_equal(model.coef_, numbers.coef_)
    np.testing.assert_array_equal(model.predict(X), np.array(names)[numbers.predict(X)])
    assert model.coef_.shape == ((1, 3) if len(names) == 2 else (3, 3))
    assert model.intercept_.shape == ((1,) if len(names) == 2 else (3,))
    loaded = pickle.loads(pickle.dumps(model))
    loaded.attach(X, words)
    loaded.verify(loaded.unlearn(3, keep_empty_classes=True))


def test_the_last_row_of_a_class():
    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.array([0] * 8 + [1])
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match="leave at least one row of every class"):
        model.unlearn(8)
    assert len(model.remaining_) == 9
    model.verify(model.unlearn(8, keep_empty_classes=True))
    assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("names", [["no", "yes"], ["ant", "bee", "cow"]])
@pytest.mark.parametrize("wrong", ["other", "zebra", ""])
def test_labels_that_were_not_there_at_fit(names, wrong):
    X, labels, _ = problem_for("logistic" if len(names) == 2 else "softmax")
    words = np.array(names, dtype=object)[labels]
    model = pickle.loads(pickle.dumps(LangevinLogistic(**OPTIONS).fit(X, words)))
    unseen = words.copy()
    unseen[5] = wrong
    with pytest.raises((ValueError, RowsChanged)):
        model.attach(X, unseen)
    swapped = words.copy()
    swapped[5] = next(n for n in names if n != words[5])
    with pytest.raises(RowsChanged, match="position 5"):
        model.attach(X, swapped)
    model.attach(X, words)


@pytest.mark.parametrize("kind", [LangevinLogistic, LangevinHuber])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha must be a finite number > 0, got alpha=0.0.*Without a penalty"),
        ({"alpha": -1.0}, "alpha must be a finite number > 0, got alpha=-1.0"),
        ({"alpha": np.nan}, "alpha must be"),
        ({"n_auxiliary_runs": 0}, "n_auxiliary_runs must be an integer >= 1"),
        ({"n_auxiliary_runs": 2.5}, "n_auxiliary_runs must be an integer >= 1"),
        ({"noise": 0.0}, "Without learning noise"),
        ({"n_steps": 0}, "n_steps must be"),
        ({"step_size": 1e6}, "step_size must be < 2/L"),
        (
            {"batch_size": 25},
            "batch_size must be at most the number of rows, 24, got batch_size=25",
        ),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"fit_intercept": 1.5}, "fit_intercept must be True or False"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters(kind, options, words):
    X, y, _ = problem_for("logistic")
    model = kind(**OPTIONS).fit(X, y)
    before, theta = model.get_params(), model.coef_
    with pytest.raises(ValueError, match=words):
        clone(model).set_params(**options).fit(X, y)
    with pytest.raises(ValueError, match=words):
        model.set_params(**options).fit(X, y)
    np.testing.assert_array_equal(model.set_params(**before).coef_, theta)


@pytest.mark.parametrize("threshold", [0.0, -1.0, np.inf, "one"])
def test_bad_thresholds(threshold):
    X, y, _ = problem_for("huber")
    with pytest.raises(ValueError, match="threshold must be"):
        LangevinHuber(threshold=threshold, **OPTIONS).fit(X, y)


def test_one_class_only():
    X, _, _ = problem_for("logistic")
    with pytest.raises(ValueError, match="y must have at least 2 classes, got n_classes=1"):
        LangevinLogistic().fit(X, np.zeros(24, dtype=int))


def test_numbers_are_no_classes():
    X, y, _ = problem_for("huber")
    with pytest.raises(ValueError, match="Unknown label type"):
        LangevinLogistic().fit(X, y)


@pytest.mark.parametrize("name", ["logistic", "huber"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accountant": "exact"}, "accountant"),
        ({"accountant": Exact()}, "accountant"),
        ({"accountant": Theorem(group="joint")}, "group must be 'sum'"),
        ({"accountant": Theorem(strong_convexity="retained")}, "strong_convexity must be 'alpha'"),
        ({"validation": problem_for("logistic")[:2]}, "validation must be None"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"n_unlearn_steps": 0}, "n_unlearn_steps must be"),
    ],
)
def test_what_other_losses_than_ridge_cannot_have(name, options, words):
    X, y, _ = problem_for(name)
    model = (LangevinLogistic if name == "logistic" else LangevinHuber)(**OPTIONS).fit(X, y)
    before = pickle.dumps(model)
    for call in (
        lambda: model.unlearn([3, 4], **options),
        lambda: model.quote([[3, 4]], **options),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    for call in (lambda: model.unlearn(3, **options), lambda: model.quote(**options)):
        with pytest.raises(ValueError, match=words):
            call()
    assert pickle.dumps(model) == before
    assert "_found" not in vars(model.fitted_.law)  # nor were auxiliary runs taken first


def test_dask_collections():
    X, y, _ = problem_for("logistic")
    lazy = da.from_array(X, chunks=(8, 3)), da.from_array(y, chunks=8)
    with pytest.raises(ValueError, match="X and y must be arrays or memory maps"):
        LangevinLogistic(**OPTIONS).fit(*lazy)
    with pytest.raises(ValueError, match="X and y must be arrays or memory maps"):
        LangevinHuber(**OPTIONS).fit(X, lazy[1])


@pytest.mark.parametrize("name", ["logistic", "softmax", "huber"])
def test_dask_collections_attached_later(name):
    X, y, _ = problem_for(name)
    kind = LangevinHuber if name == "huber" else LangevinLogistic
    model = pickle.loads(pickle.dumps(kind(**OPTIONS).fit(X, y)))
    with pytest.raises(ValueError, match="X and y must be arrays or memory maps"):
        model.attach(da.from_array(X, chunks=(8, 3)), da.from_array(y, chunks=8))
    with pytest.raises(ValueError, match="X and y must be arrays or memory maps"):
        model.attach(da.from_array(X, chunks=(8, 3)), y)
    model.attach(X, y).quote([3])


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_names_of_rows_and_subjects():
    X, y, _ = problem_for("softmax")
    frame = pd.DataFrame(X, index=[f"r{i}" for i in range(24)], columns=["a", "b", "c"])
    model = LangevinLogistic(**OPTIONS).fit(frame, y, subjects=np.arange(24) // 4)
    assert model.unlearn(ids="r7", keep_empty_classes=True).rows == (7,)
    assert model.unlearn(subject=3, keep_empty_classes=True).rows == (12, 13, 14, 15)


def test_single_precision_rows():
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(random_state=0, **OPTIONS).fit(X.astype(np.float32), y)
    double = LangevinLogistic(random_state=0, **OPTIONS).fit(X.astype(np.float32).astype(float), y)
    np.testing.assert_allclose(model.coef_, double.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.quote().noise, double.quote().noise, rtol=1e-10)
    model.verify(model.unlearn(3, keep_empty_classes=True))


@pytest.mark.parametrize("base", [SmoothClassifier, SmoothRegressor])
def test_a_loss_has_to_be_given(base):
    X, y, _ = problem_for("logistic")
    with pytest.raises(TypeError, match="make_loss"):
        base(**OPTIONS).fit(X, y)


def test_a_loss_of_ones_own():
    class Hinge(SmoothClassifier):
        def make_loss(self, n_outputs):
            return SquaredHinge()

    X, y, _ = problem_for("logistic")
    model = Hinge(n_steps=300, noise=0.01).fit(X, y)
    assert model.score(X, y) > 0.8
    assert not hasattr(model, "predict_proba")
    assert model.unlearn(3, keep_empty_classes=True).accountant["loss"]["name"] == "squared hinge"


def test_means_that_the_machine_cannot_hold_are_refused_with_the_remedy(monkeypatch):
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 8, "SC_PHYS_PAGES": len(X)}.get)
    with pytest.raises(ValueError, match=r"means of .* rows at .* visits each .* batch_size"):
        model.quote(3)


def test_a_threshold_is_a_number_of_any_width():
    X, y, _ = problem_for("huber")
    model = LangevinHuber(threshold=np.float32(1.5), **OPTIONS).fit(X, y)
    assert model.unlearn(3).accountant["loss"]["threshold"] == 1.5
    with pytest.raises(ValueError, match="threshold must be a finite number > 0, got"):
        LangevinHuber(threshold=-1.0).fit(None, None)  # before a row is looked at


class NoNumberAnyMore(SquaredHinge):
    """A gradient that is no number once it is told so."""

    name: ClassVar[str] = "no number any more"
    broken: ClassVar[bool] = False

    def gradient(self, scores, targets):
        return np.nan * scores if self.broken else super().gradient(scores, targets)


class Broken(SmoothClassifier):
    def make_loss(self, n_outputs):
        return NoNumberAnyMore()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_parameters_that_are_no_numbers_are_not_certified(noise, monkeypatch):
    X, y, _ = problem_for("logistic")
    model = Broken(**OPTIONS).fit(X, y)
    monkeypatch.setattr(NoNumberAnyMore, "broken", True)
    chain = model.fitted_.chain
    with pytest.raises(NoiseBelowPrecision, match="overflowed"):
        chain.forgetting(chain.problem, Segment(3, noise), SimulatedGaussian((0,)))


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_a_coarse_accountant_tells_what_a_given_noise_certifies(name):
    X, y, _ = problem_for(name)
    model = (LangevinLogistic if name == "logistic" else LangevinHuber)(**OPTIONS).fit(X, y)
    for noise in (0.1, 3.0, 1e3):
        exact, coarse = (
            model.certified_epsilon(7, noise=noise, n_unlearn_steps=5, accountant=accountant)
            for accountant in (Theorem(), CoarseTheorem())
        )
        assert coarse == exact


def test_rows_are_compared_with_their_digests_once_for_the_floor_and_once_for_all_runs(monkeypatch):
    """Four segments, and two results that the law keeps: each rests on rows that were checked."""
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    for row in (1, 4, 9):
        model.unlearn(row, n_unlearn_steps=2)
    seen, check = [], RowSource.check
    monkeypatch.setattr(RowSource, "check", lambda self, runs: seen.append(1) or check(self, runs))
    model.quote()
    assert len(seen) == 2


def test_rows_from_a_generator():
    X, y, _ = problem_for("softmax")
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    assert model.unlearn((k for k in (1, 2)), n_unlearn_steps=2).rows == (1, 2)


@pytest.mark.parametrize("other", [1, None])
def test_labels_of_two_types(other):
    X, _, _ = problem_for("logistic")
    labels = np.array(["a", other] * 12, dtype=object)
    with pytest.raises(ValueError, match=r"y must hold labels of one type, got .*str"):
        LangevinLogistic().fit(X, labels)


def test_a_split_of_delta_is_a_number_of_any_width():
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    certificate = model.unlearn(3, accountant=Theorem(delta_split=np.float32(0.25)))
    assert model.verify(certificate)["epsilon_recomputed"]
    assert certificate.accountant["delta_split"] == 0.25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1e300}, r"epsilon must be at most 10000, got epsilon=1e\+300"),
        ({"epsilon": 1e-300, "delta": 1e-300}, "epsilon must be at least 1e-09"),
        (
            {"delta": 1e-300, "accountant": Theorem(delta_split=1e-30)},
            "delta must be at least 1e-305 over delta_split",
        ),
    ],
)
def test_targets_beyond_what_is_proved(options, words):
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(**OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match=words):
        model.unlearn(3, **options)
    with pytest.raises(ValueError, match=r"noise must be at most 1e\+50"):
        model.certified_epsilon(3, noise=1e300)
    assert len(model.remaining_) == 24


@pytest.mark.parametrize("options", [{"alpha": 1e300}, {"step_size": 1e-300}])
def test_parameters_beyond_what_is_proved(options):
    X, y, _ = problem_for("logistic")
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        LangevinLogistic(**options).fit(X, y)
