"""Audits of other losses than ridge: certificates are never refuted, and too little noise is."""

import numpy as np
import pytest

from pilu import LangevinHuber, LangevinLogistic, LangevinRidge
from pilu.auditing import RidgeRuns, SmoothRuns, audit
from pilu.chains.chain import SeededGaussian
from pilu.chains.schedule import Segment

DELTA, STEPS, RUNS = 0.05, 3, 3_000


def world(loss):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 2)) / 2
    score = X @ [2.0, -1.0]
    settings = {"alpha": 0.5, "n_steps": 40, "noise": 0.05, "random_state": 0}
    if loss == "huber":
        y = score + 0.1 * rng.normal(size=30)
        y[7] += 5.0  # an outlier
        return LangevinHuber(**settings).fit(X, y)
    y = np.digitize(score, [0.0] if loss == "logistic" else [-0.5, 0.5])
    y[7] = 1 - y[7] if loss == "logistic" else (y[7] + 1) % 3  # a wrong label
    return LangevinLogistic(**settings, batch_size=15 if loss == "batches" else None).fit(X, y)


def audited(runs, distinguisher="logistic"):
    return audit(
        *runs.draw(RUNS, seed=1),
        delta=DELTA,
        seed=3,
        distinguisher=distinguisher,
        confidence=0.99,
    )


@pytest.mark.parametrize("loss", ["logistic", "softmax", "huber", "batches"])
def test_no_audit_exceeds_its_certificate(loss):
    model = world(loss)
    asked = {"epsilon": 0.5, "delta": DELTA, "n_unlearn_steps": STEPS}
    noise = model.quote([7, 11], **asked).noise
    for row, sigma in zip((7, 11), noise, strict=True):
        runs = SmoothRuns(model, row, noise=sigma, n_unlearn_steps=STEPS)
        for distinguisher in ("logistic", runs.score_of_the_rows):
            found = audited(runs, distinguisher)
            assert found.epsilon_provable > 1.0  # runs enough to refute
            assert found.epsilon_lower <= 0.5


@pytest.mark.parametrize("loss", ["logistic", "softmax", "huber", "batches"])
def test_too_little_noise_is_noticed(loss):
    runs = SmoothRuns(world(loss), 7, noise=1e-4, n_unlearn_steps=1)
    assert audited(runs).epsilon_lower > 0.5


def test_runs_are_those_of_the_estimator():
    """Means of runs side by side against fits and deletions one by one."""
    model = world("logistic")
    runs = SmoothRuns(model, 7, noise=0.3, n_unlearn_steps=STEPS)
    rows = model.fitted_.source.rows
    X, Y = rows.X, rows.Y[:, 0]
    ones = []
    for seed in range(300):
        other = LangevinLogistic(**{**model.get_params(), "random_state": seed}).fit(X, Y)
        chain = other.fitted_.chain
        left = chain.problem.without(np.array([7]), None, None)
        moved = chain.forgetting(left, Segment(STEPS, 0.3), SeededGaussian(seed, 9))
        ones.append(moved.theta.ravel())
    ones, many = np.array(ones), runs.draw(3_000, seed=0)[0]
    spread = many.std(axis=0)
    assert np.all(np.abs(ones.mean(axis=0) - many.mean(axis=0)) < 5 * spread / np.sqrt(300))
    assert np.all(np.abs(ones.std(axis=0) / spread - 1) < 0.25)


def test_one_run_at_a_time():
    """As `RidgeRuns` does it: functions of a seed."""
    runs = SmoothRuns(world("logistic"), 7, noise=0.3, n_unlearn_steps=STEPS)
    assert np.array_equal(runs.unlearned(5), runs.draw(1, seed=5)[0][0])
    assert np.array_equal(runs.retrained(5), runs.draw(1, seed=5)[1][0])
    found = audit(runs.unlearned, runs.retrained, delta=DELTA, seed=0, n_runs=40)
    assert found.n_unlearned == 40


def test_wrong_models():
    model, rng = world("logistic"), np.random.default_rng(0)
    ridge = LangevinRidge(n_steps=5).fit(rng.normal(size=(20, 2)), rng.normal(size=20))
    with pytest.raises(ValueError, match="noise must be"):
        SmoothRuns(model, 7, noise=0.0, n_unlearn_steps=1)
    with pytest.raises(ValueError, match="smooth loss"):
        SmoothRuns(ridge, 7, noise=1.0, n_unlearn_steps=1)
    with pytest.raises(ValueError, match="another loss"):
        RidgeRuns(model, 7, noise=1.0, n_unlearn_steps=1)
    model.unlearn(3, n_unlearn_steps=1)
    with pytest.raises(ValueError, match="forgotten any rows"):
        SmoothRuns(model, 7, noise=1.0, n_unlearn_steps=1)
