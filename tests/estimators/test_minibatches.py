"""`batch_size`: learning and unlearning in mini-batches, as a user sees them."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

import pilu
from conftest import with_ones
from oracles.minibatch import both_ways_delta, cyclic_laws, cyclic_pair, walk
from oracles.predictions import rmse_of_law
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.data.rows import RowSource
from pilu.estimators import fitted, learning
from pilu.exceptions import RowsChanged, RowsNotAttached

OPTIONS = {"alpha": 0.3, "n_steps": 29, "noise": 0.2}
REQUEST = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 6}


class Replayed:
    """Normals of a generator that somebody else can draw the same from."""

    private = False

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def normal(self, shape):
        return self._rng.standard_normal(shape)


@pytest.mark.parametrize("b", [1, 4, 7, 29])
@pytest.mark.parametrize("solver", ["spectral", "gradient"])
def test_learning_unlearning_and_redrawing_walk_through_the_batches(b, solver, small, monkeypatch):
    X, Y = small
    noise = Replayed(5)
    for module in (learning, fitted):
        monkeypatch.setattr(module, "gaussian_source", lambda seed, stream: noise)
    model = LangevinRidge(batch_size=b, solver=solver, **OPTIONS).fit(X, Y)
    rng, whole, eta = np.random.default_rng(5), with_ones(X), model.step_size_
    learned = walk(whole, Y, 0.3, eta, b, [(29, 0.2)], np.zeros((5, 2)), rng)[-1]
    np.testing.assert_allclose(model.fitted_.theta, learned, rtol=1e-10, atol=1e-13)
    certificate = model.unlearn([3, 17], **REQUEST)
    # The order goes on at step 29: the walk is that of steps 29 to 34 of a longer one.
    left = literal_steps(whole, Y, eta, b, learned, range(29, 35), certificate.noise, rng, {3, 17})
    np.testing.assert_allclose(model.fitted_.theta, left, rtol=1e-9, atol=1e-12)
    model.unlearn(method="redraw")
    again = walk(whole, Y, 0.3, eta, b, [(29, 0.2)], np.zeros((5, 2)), rng, gone=(3, 17))[-1]
    np.testing.assert_allclose(model.fitted_.theta, again, rtol=1e-9, atol=1e-12)


def literal_steps(X, Y, eta, b, theta, steps, noise, rng, gone):
    for k in steps:
        first = k % (-(-len(X) // b)) * b
        rows = [r for r in range(first, min(first + b, len(X))) if r not in gone]
        gradient = X[rows].T @ (X[rows] @ theta - Y[rows]) + 0.3 * theta
        theta = theta - eta * gradient
        if noise > 0:
            theta = theta + np.sqrt(2 * eta) * noise * rng.standard_normal(theta.shape)
    return theta


def test_the_step_size_is_that_of_the_steepest_batch(small):
    X, Y = small
    model = LangevinRidge(batch_size=7, **OPTIONS).fit(X, Y)
    steepest = max(np.linalg.norm(with_ones(X[i : i + 7]), 2) ** 2 for i in range(0, 30, 7))
    assert model.step_size_ == pytest.approx(1 / (steepest + 0.3), rel=1e-12)
    with pytest.raises(ValueError, match="step_size must be < 2/L"):
        LangevinRidge(batch_size=7, step_size=2.1 * model.step_size_, **OPTIONS).fit(X, Y)


@pytest.mark.parametrize("accountant", ["theorem", "exact"])
def test_what_a_noise_certifies(accountant, small):
    X, Y = small
    model = LangevinRidge(batch_size=7, **OPTIONS).fit(X, Y)
    for rows in (20, [3, 20]):
        quoted = model.quote([rows], accountant=accountant, **REQUEST).noise[0]
        asked = {"accountant": accountant, "delta": 1e-3, "n_unlearn_steps": 6}
        assert model.certified_epsilon(rows, noise=quoted, **asked) == pytest.approx(1.0, rel=1e-6)
        assert model.certified_epsilon(rows, noise=2 * quoted, **asked) < 0.9


@pytest.mark.parametrize("share", [1.5, 1.99])
def test_steps_longer_than_one_over_the_curvature(share, small):
    X, Y = small
    auto = LangevinRidge(batch_size=7, **OPTIONS).fit(X, Y).step_size_
    model = LangevinRidge(batch_size=7, step_size=share * auto, **OPTIONS).fit(X, Y)
    noise = model.quote([20], **REQUEST).noise[0]
    run = (0.3, model.step_size_, 7, [(29, 0.2)], np.zeros((5, 2)))
    pair = cyclic_pair(with_ones(X), Y, [20], *run, noise, 6)
    assert both_ways_delta(pair.x, pair.a2, 2, 1.0) == pytest.approx(1e-3, rel=1e-5)
    every = model.quote(accountant="theorem", **REQUEST)
    np.testing.assert_allclose(
        every.noise, model.quote(range(30), accountant="theorem", **REQUEST).noise, rtol=1e-9
    )


def test_unlearning_reads_the_rows_of_its_batches_and_no_more(small, monkeypatch):
    X, Y = small
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    read = []
    raw = RowSource.raw
    monkeypatch.setattr(
        RowSource, "raw", lambda self, rows, **kw: (read.extend(rows), raw(self, rows, **kw))[1]
    )
    chain, problem = model.fitted_.chain, model.fitted_.chain.problem
    gone = np.array([21])
    chain.forgetting(
        problem.without(gone, X[gone], Y[gone]),
        chain.schedule.segments[0]._replace(steps=3),
        Replayed(0),
    )
    # Steps 29, 30, 31 are on batches 5, 6 and 7.
    assert set(read) == set(range(20, 30)) - {21}
    assert len(read) <= 2 * 3 * 4  # once for the check, once for the step


def test_a_memory_mapped_file_is_enough(small, tmp_path):
    X, Y = small
    for dtype in (np.float64, np.float32):
        np.save(tmp_path / "X.npy", X.astype(dtype))
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        options = {**OPTIONS, "batch_size": 7, "random_state": 0}
        model = LangevinRidge(**options).fit(mapped, Y)
        assert np.shares_memory(model.fitted_.source.rows.X, mapped)
        plain = LangevinRidge(**options).fit(np.asarray(mapped, dtype=np.float64), Y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
        for accountant in ("theorem", "exact"):
            found, expected = (
                m.quote([3], accountant=accountant, **REQUEST) for m in (model, plain)
            )
            np.testing.assert_allclose(found.noise, expected.noise, rtol=1e-10)


def test_a_row_that_was_never_visited_needs_no_noise(small):
    X, Y = small
    model = LangevinRidge(batch_size=4, **{**OPTIONS, "n_steps": 5}).fit(X, Y)
    for accountant in ("theorem", "exact"):
        np.testing.assert_array_equal(
            model.quote([20, 29, [21, 29]], accountant=accountant, **REQUEST).noise, 0.0
        )
        fresh = copy.deepcopy(model)
        certificate = fresh.unlearn([21, 29], accountant=accountant, **REQUEST)
        assert (certificate.noise, certificate.epsilon) == (0.0, 0.0)
        assert certificate.checks["batches_visited"] is False
        assert any("never visited the batches" in words for words in certificate.words)
        fresh.verify(certificate)
    assert model.quote([[3, 29]], **REQUEST).noise[0] > 0


def test_few_steps_may_not_come_back_to_the_batch(small):
    X, Y = small
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    # 29 steps of 8 batches: the next turns are those of batches 5, 6, 7, 0.
    for rows, K, revisited in (
        (20, 1, True),
        (19, 6, False),
        ([0, 19], 4, False),
        ([0, 29], 4, True),
    ):
        fresh = copy.deepcopy(model)
        certificate = fresh.unlearn(rows, epsilon=1.0, delta=1e-3, n_unlearn_steps=K)
        assert certificate.batch_size == 4
        assert certificate.checks["batches_revisited"] is revisited
        said = any("did not visit the batches" in words for words in certificate.words)
        assert said is not revisited
        assert fresh.verify(certificate)["epsilon_recomputed"]
        pair = cyclic_pair(
            with_ones(X), Y, np.atleast_1d(rows).tolist(), 0.3, model.step_size_, 4,
            [(29, 0.2)], np.zeros((5, 2)), certificate.noise, K,
        )  # fmt: skip
        assert both_ways_delta(pair.x, pair.a2, 2, 1.0) <= 1e-3


@pytest.mark.parametrize("b", [1, 4])
def test_a_batch_left_empty_keeps_its_turn(b, small):
    X, Y = small
    model = LangevinRidge(batch_size=b, random_state=0, **OPTIONS).fit(X, Y)
    rows = list(range(8, 8 + b))
    certificate = model.unlearn(rows, **REQUEST)
    assert certificate.checks["batches_left_empty"] is True
    assert any("still takes its step" in words for words in certificate.words)
    model.verify(certificate)
    later = model.unlearn(20, accountant="theorem", **REQUEST)
    assert later.checks["batches_left_empty"] is True
    segments = list(model.schedule_)
    means, _ = cyclic_laws(
        with_ones(X), Y, 0.3, model.step_size_, b, segments, np.zeros((5, 2)), [*rows, 20]
    )
    np.testing.assert_allclose(model.fitted_.law.means.final, means[-1], rtol=1e-9, atol=1e-12)


def test_certificates_say_so_and_cannot_be_moved_to_another_kind_of_run(small):
    X, Y = small
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    certificate = model.unlearn(5, **REQUEST)
    assert pilu.Certificate.from_json(certificate.to_json()) == certificate
    full = LangevinRidge(**OPTIONS).fit(X, Y).unlearn(5, **REQUEST)
    assert full.batch_size is None
    assert not [name for name in full.checks if name.startswith("batches")]
    for impossible in (0, -1, 2.5, True):
        with pytest.raises(pilu.CertificateMismatch, match="batch_size"):
            pilu.verify(dataclasses.replace(certificate, batch_size=impossible))
    for changed in ({"batch_size": None}, {"checks": {"dense": True}}):
        record = {**json.loads(certificate.to_json()), **changed}
        with pytest.raises(pilu.CertificateMismatch):
            pilu.verify(pilu.Certificate.from_json(json.dumps(record)))


def test_pickles_hold_no_rows_and_work_once_rows_are_attached(small):
    X, Y = small
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    expected = model.quote([3], accountant="theorem", **REQUEST).noise
    residuals = model.fitted_.law.residual_means(np.array([3]), 0)
    blob = pickle.dumps(model)
    assert X[3].tobytes() not in blob
    assert residuals.tobytes() not in blob
    loaded = pickle.loads(blob)
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.quote([3], **REQUEST)
    loaded.attach(X, Y)
    np.testing.assert_allclose(
        loaded.quote([3], accountant="theorem", **REQUEST).noise, expected, rtol=1e-12
    )


def test_after_forgetting_nothing_of_the_rows_is_held(small):
    X, Y = small
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    before = model.fitted_.law
    model.unlearn(3, **REQUEST)
    law = model.fitted_.law
    assert law is not before
    assert "means" not in law.__dict__
    assert not law.problem.source.digests[3].any()


def test_changed_rows_are_noticed(small):
    X, Y = small[0].copy(), small[1]
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    X[26] += 1.0
    with pytest.raises(RowsChanged, match="position 26"):
        model.quote([3], accountant="theorem", **REQUEST)
    before = model.fitted_.theta.copy()
    with pytest.raises(RowsChanged, match="position 26"):
        model.unlearn(3, **REQUEST)
    np.testing.assert_array_equal(model.fitted_.theta, before)


def test_predicted_error(small, rng):
    X, Y = small
    X_val, Y_val = rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    model = LangevinRidge(batch_size=4, **OPTIONS).fit(X, Y)
    whole, points, start = with_ones(X), with_ones(X_val), np.zeros((5, 2))
    found = model.quote([4, [7, 1]], validation=(X_val, Y_val), **REQUEST)
    run = (0.3, model.step_size_, 4, [(29, 0.2)], start)
    means, covariances = cyclic_laws(whole, Y, *run)
    before = rmse_of_law(means[-1], covariances[-1], points, Y_val)
    assert found.utility.before == pytest.approx(before, rel=1e-9)
    for i, rows in enumerate(([4], [7, 1])):
        pair = cyclic_pair(whole, Y, rows, *run, found.noise[i], 6)
        after = rmse_of_law(*pair.P, points, Y_val)
        assert found.utility.after[i] == pytest.approx(after, rel=1e-9)
        means, covariances = cyclic_laws(whole, Y, *run, gone=rows)
        redraw = rmse_of_law(means[-1], covariances[-1], points, Y_val)
        assert found.utility.redraw[i] == pytest.approx(redraw, rel=1e-9)
    assert (found.utility.seconds > 0).all()
    certificate = model.unlearn(4, validation=(X_val, Y_val), **REQUEST)
    assert certificate.utility["after"] == pytest.approx(found.utility.after[0], rel=1e-9)
    plan = model.plan(9, validation=(X_val, Y_val), tolerated_loss=0.5, n_unlearn_steps=[3, 6])
    assert plan.epsilon > 0


def test_a_classifier(digits):
    X, y = digits
    model = LangevinRidgeClassifier(alpha=1.0, n_steps=300, noise=0.02, batch_size=100)
    model.fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.8
    certificate = model.unlearn([4, 555], n_unlearn_steps=10)
    assert model.verify(certificate)["parameters_checked"]
    assert certificate.batch_size == 100
