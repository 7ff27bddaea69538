"""The engine of the linear figures against Algorithm 1 taken literally, in law."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.linear.config import RowSet
from experiments.linear.engine import ACCOUNTANTS, Engine, choose, summary

from oracles.calibrate import dense_noise
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.chains.schedule import Segment

MANY = 4000
SIGMA = 0.25  # sigma_unlearn of the runs that are compared


@pytest.fixture
def theta_of(monkeypatch):
    """The parameters, runs x p x d, of which `run` gives the scores."""

    def theta(engine, *given):
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "scores", lambda self, theta, n_runs: theta)
            found = engine.run(*given)
        return np.moveaxis(found.reshape(len(found), MANY, -1), 0, 1)

    return theta


def test_rows_stand_at_quantiles_of_the_smallest_norms():
    norms = np.array([5.0, 1.0, 40.0, 2.0, 3.0, 10.0, 4.0, 8.0, 7.0, 6.0])
    in_order = [1, 3, 4, 6, 0, 9, 8, 7, 5, 2]
    assert choose(norms, RowSet((0.0, 0.25, 0.5, 0.75, 1.0), share=0.5)) == in_order[:5]
    assert choose(norms, RowSet((0.0, 1.0))) == [1, 2]
    assert choose(norms, RowSet((0.0, 1.0), share=0.9)) == [1, 5]
    assert choose(norms, RowSet((0.05, 0.95))) == [1, 2]  # places 0.45 and 8.55 of 0 to 9
    assert choose(norms, RowSet((0.5,), share=0.0)) == [1]


def test_rows_of_a_study_are_those_of_its_sets(depth):
    norms = [float(norm) for norm in depth.gradient_norms]
    kept = sorted(norms)[: round(0.9 * len(norms))]
    first, middle, last = (norms[row] for row in depth.rows())
    assert (first, last) == (kept[0], kept[-1])
    assert middle == pytest.approx(np.median(kept), rel=0.1)
    assert [norms[row] for row in depth.rows("ends")] == [min(norms), max(norms)]


def test_gradient_norms_row_by_row(engine, targets_of):
    theta, Y = engine.model.fitted_.theta, targets_of(engine)
    by_hand = [
        np.linalg.norm(np.outer(x, x @ theta - y)) for x, y in zip(engine.data.X, Y, strict=True)
    ]
    np.testing.assert_allclose(engine.gradient_norms, by_hand, rtol=1e-10)
    assert engine.delta == 1 / len(Y)


@pytest.mark.parametrize("name", ["depth", "digits", "wide"])
def test_runs_have_the_law_of_algorithm_1(name, request, theta_of, run_algorithm, law_gap):
    engine = request.getfixturevalue(name)
    row, K = engine.rows()[-1], engine.study.n_unlearn_steps
    drawn = theta_of(engine, engine.law(), row, Segment(K, SIGMA), MANY, [1]).reshape(MANY, -1)
    literal = run_algorithm(engine, row, SIGMA, MANY, seed=2).reshape(MANY, -1)
    assert max(law_gap(drawn, literal)) < 5
    kept = run_algorithm(engine, row, SIGMA, MANY, seed=3, forget=False).reshape(MANY, -1)
    assert max(law_gap(drawn, kept)) > 6  # the comparison would see a row that stayed
    louder = run_algorithm(engine, row, 1.1 * SIGMA, MANY, seed=4).reshape(MANY, -1)
    assert law_gap(drawn, louder)[1] > 6


@pytest.mark.parametrize("name", ["depth", "digits"])
def test_scores_of_runs_are_those_of_algorithm_1(name, request, run_algorithm, scores_of):
    engine = request.getfixturevalue(name)
    row, K = engine.rows()[-1], engine.study.n_unlearn_steps
    drawn = engine.run(engine.law(), row, Segment(K, SIGMA), MANY, [5])
    literal = scores_of(engine, run_algorithm(engine, row, SIGMA, MANY, seed=6))
    assert drawn.shape == (MANY,)
    error = np.sqrt((drawn.var() + literal.var()) / MANY)
    assert abs(drawn.mean() - literal.mean()) < 5 * error
    assert drawn.std() == pytest.approx(literal.std(), rel=0.1)


def test_scores_run_by_run(engine, scores_of, rng):
    theta = rng.normal(size=(3, engine.data.X.shape[1], engine.n_outputs))
    side_by_side = np.concatenate(list(theta), axis=1)
    np.testing.assert_allclose(engine.scores(side_by_side, 3), scores_of(engine, theta), rtol=1e-12)


def test_a_label_that_was_never_learned_is_never_right(digits):
    """By the runs' count as by the expectation: here the first class is always predicted."""
    engine = Engine(digits.study, digits.data._replace(y_test=np.full(30, 7)))
    row, K = engine.rows()[0], digits.study.n_unlearn_steps
    assert engine.expected(engine.prospects(engine.law(), [row], [K])[row, K], 0.1) == 0.0
    first = np.zeros((engine.data.X.shape[1], 3))
    first[-1, 0] = 1.0
    assert engine.scores(first, 1) == 0.0


@pytest.mark.parametrize("sigma", [0.0, SIGMA, 3.0])
def test_expected_score_is_that_of_many_literal_runs(engine, sigma, run_algorithm, scores_of):
    row, K = engine.rows()[-1], engine.study.n_unlearn_steps
    prospect = engine.prospects(engine.law(), [row], [K])[row, K]
    expected = engine.expected(prospect, sigma)
    scores = scores_of(engine, run_algorithm(engine, row, sigma, MANY, seed=7))
    if engine.data.is_classification:
        # Accuracies come in steps: a few rare ones may be all that there is of a deviation.
        error = scores.std() / np.sqrt(MANY) + 1 / (MANY * len(engine.data.X_test))
        assert abs(scores.mean() - expected) < 5 * error
    else:
        assert abs(np.mean(scores**2) - expected**2) < 5 * np.std(scores**2) / np.sqrt(MANY)


def test_expected_scores_for_several_horizons(depth, run_algorithm, scores_of):
    row, steps = depth.rows()[0], (1, 9)
    prospects = depth.prospects(depth.law(), [row], steps)
    for K in steps:
        other = Engine(replace(depth.study, n_unlearn_steps=K), depth.data)
        squares = scores_of(depth, run_algorithm(other, row, SIGMA, MANY, seed=8)) ** 2
        aim = depth.expected(prospects[row, K], SIGMA) ** 2
        assert abs(squares.mean() - aim) < 5 * squares.std() / np.sqrt(MANY)


def test_a_seed_repeats_its_runs_and_no_other(engine):
    row, segment = engine.rows()[0], Segment(3, SIGMA)
    first, again, other = (
        engine.run(engine.law(), row, segment, 30, seed) for seed in ([0, 1], [0, 1], [0, 2])
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert len(np.unique(first)) > 1  # each run by itself


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_noise_is_what_the_model_quotes(engine, accountant):
    rows, K = engine.rows(), engine.study.n_unlearn_steps
    for epsilon in engine.study.epsilons:
        quote = engine.model.quote(
            rows, epsilon=epsilon, n_unlearn_steps=K, accountant=accountant, delta=None
        )
        found = [engine.calibrated(engine.law(), row, accountant, epsilon, K) for row in rows]
        np.testing.assert_allclose(found, quote.noise, rtol=1e-9)
        assert max(found) > 0


@pytest.mark.parametrize("T", [5, 12])
@pytest.mark.parametrize("name", ["depth", "digits"])
def test_noise_of_the_theorem_by_brute_force(name, request, T, targets_of):
    engine = request.getfixturevalue(name)
    study, X, Y, row = engine.study, engine.data.X, targets_of(engine), engine.rows()[-1]
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    start = np.zeros((X.shape[1], Y.shape[1]))
    segments = [(T, study.noise)]
    by_force = dense_noise(X, Y, [row], study.alpha, eta, segments, start, 1.0, 1 / len(X), 4)
    found = engine.calibrated(engine.law(T), row, "theorem", 1.0, 4)
    assert found == pytest.approx(by_force, rel=1e-7)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_law_is_that_of_a_model_fitted_so(engine, accountant):
    """Other T, other noise: what `law` makes of one fit is what a second fit would give."""
    kind = LangevinRidgeClassifier if engine.data.is_classification else LangevinRidge
    settings = {"alpha": engine.study.alpha, "n_steps": 7, "noise": 0.9, "fit_intercept": False}
    refitted = kind(**settings, random_state=0).fit(engine.data.X, engine.data.y)
    row = engine.rows()[1]
    quoted = refitted.quote([row], n_unlearn_steps=2, accountant=accountant).noise[0]
    found = engine.calibrated(engine.law(7, 0.9), row, accountant, 1.0, 2)
    assert found == pytest.approx(quoted, rel=1e-9)
    assert found != pytest.approx(engine.calibrated(engine.law(), row, accountant, 1.0, 2))


def test_summary_by_hand():
    found = summary(np.array([1.0, 2.0, 4.0]))
    assert found["mean"] == pytest.approx(7 / 3)
    assert found["sd"] == pytest.approx(np.sqrt((16 / 9 + 1 / 9 + 25 / 9) / 2))
    assert found["root_mean_square"] == pytest.approx(np.sqrt(7))
