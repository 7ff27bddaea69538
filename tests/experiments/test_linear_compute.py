"""The tables of the linear figures: complete, and equal to what is computed by hand or by force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from experiments.linear.compute import (
    learning_steps,
    privacy_utility,
    rows,
    sensitivities,
    timing,
    unlearning_steps,
)
from experiments.linear.engine import ACCOUNTANTS, Engine

from oracles.dense import sensitivity_bounds
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.data.rows import Request
from pilu.datasets import load_motorcycle
from pilu.ridge.problem import RidgeProblem

MANY = 2000


def with_runs(engine, n_runs):
    return Engine(replace(engine.study, n_runs=n_runs), engine.data)


def model_of(engine, n_steps):
    kind = LangevinRidgeClassifier if engine.data.is_classification else LangevinRidge
    study = engine.study
    settings = {"alpha": study.alpha, "noise": study.noise, "fit_intercept": False}
    return kind(n_steps=n_steps, **settings, random_state=5).fit(engine.data.X, engine.data.y)


# Sensitivities along the learning trajectory


@pytest.mark.parametrize("name", ["depth", "digits", "wide"])
def test_trajectories_have_the_law_of_literal_ones(name, request, take_steps, targets_of):
    engine = with_runs(request.getfixturevalue(name), MANY)
    study, X, Y, chosen = engine.study, engine.data.X, targets_of(engine), engine.rows()
    asked, aims = X[chosen], Y[chosen]
    found = sensitivities.trajectories(engine, Request(asked, aims, np.arange(3)))
    assert found.shape == (MANY, 3, study.n_steps)
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    theta, rng = np.zeros((MANY, X.shape[1], Y.shape[1])), np.random.default_rng(21)
    settings = (X, Y, study.alpha, eta, study.noise)
    for k in range(study.n_steps):
        gradients = np.linalg.norm(asked @ theta - aims, axis=2) * np.linalg.norm(asked, axis=1)
        literal, drawn = eta * gradients, found[:, :, k]
        error = np.sqrt((literal.var(axis=0) + drawn.var(axis=0)) / MANY)
        assert (abs(literal.mean(axis=0) - drawn.mean(axis=0)) <= 5 * error + 1e-12).all()
        np.testing.assert_allclose(drawn.std(axis=0), literal.std(axis=0), rtol=0.15, atol=1e-12)
        theta = take_steps(theta, *settings, 1, rng)


def test_bounds_are_the_theorems(engine, targets_of):
    study, X, Y = engine.study, engine.data.X, targets_of(engine)
    table = sensitivities.compute(engine)["sensitivities"]
    assert list(table.columns) == ["row", "step", "bound", "run0", "run1", "run2", "run3"]
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    start, tail = np.zeros((X.shape[1], Y.shape[1])), 1 / (2 * len(X) * study.n_steps)
    for row in engine.rows():
        some = table[table["row"] == row]
        assert list(some["step"]) == list(range(study.n_steps))  # few enough to show them all
        segments = [(study.n_steps, study.noise)]
        by_force = sensitivity_bounds(X[row], Y[row], X, Y, study.alpha, eta, segments, start, tail)
        np.testing.assert_allclose(some["bound"], by_force, rtol=1e-7)
        at_first = eta * np.linalg.norm(X[row]) * np.linalg.norm(Y[row])
        np.testing.assert_allclose(some.iloc[0, 2:], at_first, rtol=1e-9)


def test_bounds_fail_as_seldom_as_they_should(engine):
    many = with_runs(engine, MANY)
    tables = sensitivities.compute(many)
    slack, table = engine.delta / 2, tables["sensitivities"]
    for row in many.rows():
        some = table[(table["row"] == row) & (table["step"] > 0)]
        shares = some.filter(like="run").div(some["bound"], axis=0)
        failed = (shares > 1).any(axis=0).mean()
        assert failed <= slack + 5 * np.sqrt(slack / MANY)
        margin = tables["margins"].set_index("row").loc[row]
        assert margin["largest_share"] == pytest.approx(shares.to_numpy().max())
        assert margin["exceeded"] == (shares > 1).to_numpy().sum()
        assert shares.to_numpy().max() > 0.5  # not idle either


def test_long_trajectories_are_thinned_from_the_first_step_to_the_last(depth):
    study = replace(depth.study, n_steps=1000, n_runs=2)
    table = sensitivities.compute(Engine(study, depth.data))["sensitivities"]
    steps = table[table["row"] == table["row"][0]]["step"].to_numpy()
    assert (steps[0], steps[-1]) == (0, 999)
    assert (np.diff(steps) > 0).all()
    assert 60 < len(steps) <= 120


# Sweeps


@pytest.fixture(scope="module")
def sweeps(depth, digits):
    """The three sweeps of both studies, with enough runs to see their expectation."""
    scripts = (privacy_utility, unlearning_steps, learning_steps)
    found = {}
    for name, engine in (("depth", depth), ("digits", digits)):
        many, tables = with_runs(engine, 300), {}
        for script in scripts:
            tables |= script.compute(many)
        found[name] = many, tables
    return found


@pytest.fixture(params=["depth", "digits"])
def sweep(request, sweeps):
    return sweeps[request.param]


def assert_complete(table, **axes):
    """Every combination once."""
    lines = list(table[list(axes)].itertuples(index=False, name=None))
    assert sorted(lines) == sorted(product(*axes.values()))


def test_privacy_utility_is_complete(sweep):
    engine, tables = sweep
    table, study = tables["privacy_utility"], engine.study
    assert list(dict.fromkeys(table["set"])) == list(study.row_sets)
    for kind in study.row_sets:
        assert_complete(
            table[table["set"] == kind],
            row=engine.rows(kind),
            accountant=ACCOUNTANTS,
            epsilon=study.epsilons,
        )
    assert (table["runs"] == 300).all()
    seconds = tables["sweep_seconds"].set_index("set")
    for kind, some in table.groupby("set"):
        assert seconds.loc[kind, "runs"] == some["runs"].sum()
    assert (seconds["seconds"] > 0).all()


def test_noise_falls_with_epsilon(sweep):
    _, tables = sweep
    table = tables["privacy_utility"]
    for (_, _, accountant), some in table.groupby(["set", "row", "accountant"]):
        change = np.diff(some.sort_values("epsilon")["noise"])
        assert (change <= 0).all()
        assert (change < 0).all() or accountant == "exact"
    assert (table[table["accountant"] == "exact"]["noise"] > 0).any()


def test_noises_of_the_sweep_are_quoted(sweep):
    engine, tables = sweep
    model, K = model_of(engine, engine.study.n_steps), engine.study.n_unlearn_steps
    for line in tables["privacy_utility"].itertuples():
        quote = model.quote(
            [line.row], epsilon=line.epsilon, n_unlearn_steps=K, accountant=line.accountant
        )
        assert line.noise == pytest.approx(quote.noise[0], rel=1e-9)


@pytest.mark.parametrize("name", ["privacy_utility", "unlearning_steps", "learning_steps"])
def test_runs_come_out_as_expected(sweep, name):
    engine, tables = sweep
    table = tables[name]
    seen = table["mean" if engine.data.is_classification else "root_mean_square"]
    # The error of a root of a mean square is that of the mean, as long as sd is well below it.
    # Accuracies come in steps: a few rare ones may be all that there is of a deviation.
    step = 1 / (300 * len(engine.data.X_test)) if engine.data.is_classification else 0.0
    error = table["sd"] / np.sqrt(300) + step
    assert (abs(seen - table["expected"]) < 5 * error).all()
    assert (table["root_mean_square"] >= table["mean"]).all()
    assert table["sd"].max() > 0.01


def test_unlearning_steps_are_complete(sweep):
    engine, tables = sweep
    table, study = tables["unlearning_steps"], engine.study
    assert_complete(
        table,
        row=engine.rows(),
        accountant=ACCOUNTANTS,
        learning_steps=[study.n_steps],
        unlearning_steps=study.unlearn_steps,
    )
    model = model_of(engine, study.n_steps)
    for line in table.itertuples():
        K = line.unlearning_steps
        quote = model.quote([line.row], n_unlearn_steps=K, accountant=line.accountant)
        assert line.noise == pytest.approx(quote.noise[0], rel=1e-9)


def test_learning_steps_are_complete_and_learn_so_long(sweep):
    engine, tables = sweep
    table, study = tables["learning_steps"], engine.study
    assert_complete(
        table,
        row=engine.rows(),
        accountant=ACCOUNTANTS,
        learning_steps=study.learn_steps,
        unlearning_steps=[study.n_unlearn_steps],
    )
    models = {T: model_of(engine, T) for T in study.learn_steps}
    for line in table.itertuples():
        quote = models[line.learning_steps].quote(
            [line.row], n_unlearn_steps=study.n_unlearn_steps, accountant=line.accountant
        )
        assert line.noise == pytest.approx(quote.noise[0], rel=1e-9)


def test_scores_after_other_horizons_are_those_of_literal_runs(sweep, run_algorithm, scores_of):
    engine, tables = sweep
    table = pd.concat([tables["unlearning_steps"], tables["learning_steps"]])
    for line in table[table["row"] == engine.rows()[-1]].itertuples():
        study = replace(
            engine.study, n_steps=line.learning_steps, n_unlearn_steps=line.unlearning_steps
        )
        theta = run_algorithm(Engine(study, engine.data), line.row, line.noise, MANY, seed=22)
        scores = scores_of(engine, theta)
        error = np.sqrt(scores.var() / MANY + line.sd**2 / 300)
        assert abs(scores.mean() - line.mean) < 5 * error + 1e-9


def test_no_two_places_of_the_sweeps_share_their_noise(depth, monkeypatch):
    seeds = []

    def run(self, law, row, segment, n_runs, seed):
        seeds.append(tuple(np.random.SeedSequence(seed).generate_state(1)))
        return np.arange(float(n_runs))

    monkeypatch.setattr(Engine, "run", run)
    tables = [s.compute(depth) for s in (privacy_utility, unlearning_steps, learning_steps)]
    assert len(seeds) == (3 + 2) * 2 * 3 + 3 * 2 * 3 + 3 * 2 * 2
    assert len(set(seeds)) == len(seeds)
    assert sum(len(table) for found in tables for table in found.values()) - 2 == len(seeds)


# Rows


def test_representatives_are_described_by_their_own_numbers(engine, targets_of):
    table = rows.representatives(engine)
    theta, Y = engine.model.fitted_.theta, targets_of(engine)
    assert len(table) == sum(len(some.quantiles) for some in engine.study.row_sets.values())
    for line in table.itertuples():
        x, y = engine.data.X[line.row], Y[line.row]
        assert line.feature_norm == pytest.approx(np.sqrt(x @ x))
        assert line.residual == pytest.approx(np.sqrt(np.sum((theta.T @ x - y) ** 2)))
        assert line.gradient_norm == pytest.approx(line.feature_norm * line.residual)
        assert line.true == engine.data.y[line.row]
        seen = theta.T @ x
        predicted = np.argmax(seen) if engine.data.is_classification else seen[0]
        assert line.predicted == pytest.approx(predicted)
    for kind, some in table.groupby("set"):
        assert list(some["row"]) == engine.rows(kind)
        assert some["gradient_norm"].is_monotonic_increasing


def test_a_depth_row_is_where_its_patch_is(depth):
    metres = load_motorcycle().depth[0]
    for line in rows.representatives(depth).itertuples():
        i, j = line.image_row - 25, line.image_column - 25
        assert line.true == pytest.approx(np.nanmedian(metres[i : i + 50, j : j + 50]))


@pytest.mark.parametrize("name", ["depth", "digits"])
def test_difficulty_is_the_noise_of_rows_at_random(name, request, monkeypatch):
    engine = request.getfixturevalue(name)
    monkeypatch.setattr(rows, "N_OTHERS", 15)
    table = rows.difficulty(engine)
    assert len(set(table["row"])) == 15
    assert table["row"].is_monotonic_increasing
    assert table["row"].between(0, len(engine.data.X) - 1).all()
    K = engine.study.n_unlearn_steps
    for line in table.itertuples():
        assert line.gradient_norm == engine.gradient_norms[line.row]
        for accountant in ACCOUNTANTS:
            noise = engine.calibrated(engine.law(), line.row, accountant, 1.0, K)
            assert getattr(line, accountant) == pytest.approx(noise, rel=1e-9)


def test_difficulty_takes_all_rows_where_they_are_few(wide):
    assert list(rows.difficulty(wide)["row"]) == list(range(12))


def test_pixels_are_those_of_the_representatives(digits):
    table = rows.pixels(digits)
    assert list(table["row"]) == digits.rows()
    for line, row in zip(table.drop(columns="row").to_numpy(), digits.rows(), strict=True):
        np.testing.assert_array_equal(line.reshape(28, 28), digits.data.pictures[row])


def test_the_map_has_every_patch_at_its_place(depth):
    found = rows.depth_map(depth).to_numpy()
    data, theta = depth.data, depth.model.fitted_.theta[:, 0]
    known = np.isfinite(load_motorcycle().depth[0, 25::50, 25::50])
    np.testing.assert_array_equal(np.isfinite(found), known)
    for x, i, j in zip(data.X, data.pictures.row, data.pictures.column, strict=True):
        assert found[i // 50, j // 50] == pytest.approx(x @ theta, abs=5.1e-4)
    left = found[:, 6:8][known[:, 6:8]]  # block 3 of two columns each
    np.testing.assert_allclose(left, data.X_test @ theta, atol=5.1e-4)


def test_the_literal_run_reads_all_rows_at_every_step(depth, monkeypatch):
    rows_read, gradient = [], RidgeProblem.gradient

    def counted(problem, theta, step):
        rows_read.append(int(problem.source.live.sum()))
        return gradient(problem, theta, step)

    monkeypatch.setattr(RidgeProblem, "gradient", counted)
    seconds = timing.compute(depth)["timing"]["seconds"]
    assert rows_read == 12 * [121] + 4 * [120]
    assert (seconds > 0).all()
