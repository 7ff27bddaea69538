"""The competitors' tables, DP-GD and the Newton step, against their definitions taken literally."""

import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.linear.compute import dp_gd, dp_gd_tuned, newton
from experiments.linear.engine import ACCOUNTANTS, Engine
from scipy.stats import norm

from oracles import competitors
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.accounting import gaussian_noise, renyi_noise
from pilu.baselines import DPGD, NewtonStep, Task


def kind_of(engine):
    return LangevinRidgeClassifier if engine.data.is_classification else LangevinRidge


def step_size_of(engine):
    return 1 / (np.linalg.norm(engine.data.X, 2) ** 2 + engine.study.alpha)


def middle_row(engine):
    rows = engine.rows()
    return rows[len(rows) // 2]


# DP-GD


def clipped_descent(engine, Y, C, row, noises=None):
    """T clipped steps on all rows, then K without one, row by row."""
    study, X = engine.study, engine.data.X
    T, K = study.n_steps, study.n_unlearn_steps
    shape = X.shape[1], Y.shape[1]
    noises = np.zeros((T + K, *shape)) if noises is None else noises
    settings = (study.alpha, step_size_of(engine), C)
    learned = competitors.dp_gd(X, Y, *settings, np.zeros(shape), noises[:T])
    left = [j for j in range(len(X)) if j != row]
    return competitors.dp_gd(X[left], Y[left], *settings, learned, noises[T:])


@pytest.mark.parametrize("quantile", [0.2, 0.75, 1.0])
def test_a_walk_without_noise_is_clipped_descent(engine, quantile, targets_of):
    Y, row = targets_of(engine), middle_row(engine)
    C = float(np.quantile(engine.gradient_norms, quantile))
    found = dp_gd.walk(engine, C, np.zeros(2), row, np.random.default_rng(0))
    literal = clipped_descent(engine, Y, C, row)
    for run in np.split(found, 2, axis=1):
        np.testing.assert_allclose(run, literal, rtol=2e-4, atol=2e-5 * np.abs(literal).max())


def test_the_forgotten_row_has_no_say_in_the_last_steps(depth):
    """From zero its gradient is clipped all the same: then only later steps see its target."""
    row, y = middle_row(depth), depth.data.y.copy()
    y[row] += 100.0
    found = {}
    for T, K in ((1, 6), (7, 0)):
        study = replace(depth.study, n_steps=T, n_unlearn_steps=K)
        found[T] = [
            dp_gd.walk(Engine(study, given), 3.0, np.zeros(1), row, np.random.default_rng(0))
            for given in (depth.data, depth.data._replace(y=y))
        ]
    np.testing.assert_array_equal(*found[1])
    assert (found[7][0] != found[7][1]).any()


def test_a_walk_adds_its_noise_to_the_gradient(depth, law_gap):
    """theta <- theta - eta (gradient + N(0, sigma^2 I)): in law as DP-GD of `pilu.baselines`."""
    study, many = replace(depth.study, n_steps=3, n_unlearn_steps=2), 600
    engine, row = Engine(study, depth.data), middle_row(depth)
    task = Task.of(
        LangevinRidge(
            alpha=study.alpha, n_steps=3, noise=study.noise, fit_intercept=False, random_state=0
        ),
        engine.data.X,
        engine.data.y,
        epsilon=2.0,
        n_unlearn_steps=2,
    )
    C, theirs = 1.5, []
    for seed in range(many):
        task.model.random_state = seed
        answer = DPGD(C).fit(task).answer(row)
        theirs.append(answer.theta[:, 0])
    sigma = C * gaussian_noise(2.0, engine.delta, 5)
    assert answer.noise == pytest.approx(sigma)
    rng = np.random.default_rng(31)
    ours = dp_gd.walk(engine, C, np.full(5 * many, sigma), row, rng).T.astype(np.float64)
    assert max(law_gap(ours, np.array(theirs))) < 5
    louder = dp_gd.walk(engine, C, np.full(5 * many, 1.2 * sigma), row, rng).T.astype(np.float64)
    assert law_gap(louder, np.array(theirs))[1] > 5


def test_runs_of_dp_gd_have_the_scores_of_their_noise(digits, monkeypatch, scores_of):
    """In parts of a few columns each, in the order in which the deviations are given."""
    monkeypatch.setattr(dp_gd, "WIDEST", 7)  # two runs of three columns at a time
    sigmas, seen, walk = np.array([0.0, 1.0, 0.0, 2.0, 0.0]), [], dp_gd.walk

    def watched(engine, C, some, *others):
        seen.append(some)
        return walk(engine, C, some, *others)

    monkeypatch.setattr(dp_gd, "walk", watched)
    scores = dp_gd.clipped_runs(digits, 2.0, sigmas, 3)
    assert [len(some) for some in seen] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(seen), sigmas)
    plain = walk(digits, 2.0, np.zeros(1), 3, np.random.default_rng(0))
    np.testing.assert_allclose(scores[[0, 2, 4]], scores_of(digits, plain[None])[0])
    again = dp_gd.clipped_runs(digits, 2.0, sigmas, 3)
    np.testing.assert_array_equal(scores, again)


@pytest.mark.parametrize("name", ["depth", "digits"])
def test_the_curve_of_dp_gd(name, request):
    engine = request.getfixturevalue(name)
    study, table = engine.study, dp_gd.compute(engine)["dp_gd"]
    lines = list(table[["accounting", "epsilon"]].itertuples(index=False, name=None))
    assert lines == [(kind, e) for kind in ("renyi", "gdp") for e in study.epsilons]
    n, delta = study.n_steps + study.n_unlearn_steps, 1 / len(engine.data.X)
    threshold = np.sort(engine.gradient_norms)
    below = np.mean(threshold <= table["clipping"].iloc[0])
    assert below == pytest.approx(0.75, abs=1 / len(threshold))
    assert table["clipping"].nunique() == 1
    for line in table.itertuples():
        z = line.noise / line.clipping
        if line.accounting == "gdp":
            assert z == pytest.approx(gaussian_noise(line.epsilon, delta, n), rel=1e-12)
            mu = math.sqrt(n) / z
            tail = norm.cdf(-line.epsilon / mu + mu / 2)
            tail -= math.exp(line.epsilon) * norm.cdf(-line.epsilon / mu - mu / 2)
            assert tail == pytest.approx(delta, rel=1e-6)
        else:
            assert z == pytest.approx(renyi_noise(line.epsilon, delta, n), rel=1e-12)
            # The least of n a / 2z^2 + log(1/delta) / (a - 1) over all a > 1, not over a grid:
            spent = n / (2 * z**2) + math.sqrt(2 * n * math.log(1 / delta)) / z
            assert spent == pytest.approx(line.epsilon, rel=1e-3)
    noise = table.pivot(index="epsilon", columns="accounting", values="noise")
    assert (noise["renyi"] > noise["gdp"]).all()
    assert (np.diff(noise["gdp"]) < 0).all()


def test_more_noise_is_worse(depth):
    study = replace(depth.study, n_runs=200, epsilons=(0.05, 50.0))
    table = dp_gd.compute(Engine(study, depth.data))["dp_gd"]
    scores = table.pivot(index="epsilon", columns="accounting", values="mean")
    assert (scores.loc[0.05] > 2 * scores.loc[50.0]).all()
    assert (scores["renyi"] > scores["gdp"]).all()


# The Newton step


@pytest.mark.parametrize("seed", [0, 4])
def test_residuals_are_those_of_literal_steps(engine, seed, targets_of):
    """T gradient steps on L_b, the Newton step for a row, and the gradient that is left."""
    study = replace(engine.study, seed=seed)
    X, Y, eta = engine.data.X, targets_of(engine), step_size_of(engine)
    table = newton.residual_table(Engine(study, engine.data))
    assert list(table["learning_steps"]) == list(study.newton_steps)
    b = study.newton_noise * np.random.default_rng([seed, 9]).standard_normal(
        (X.shape[1], Y.shape[1])
    )
    for line in table.itertuples():
        for row in engine.rows():
            for term, found in ((0 * b, line.no_perturbation), (b, line.perturbed)):
                theta = competitors.descend(
                    X, Y, study.alpha, eta, line.learning_steps, linear=term
                )
                theta = competitors.newton_removal(X, Y, study.alpha, [row], theta)
                left = competitors.retained_gradient(X, Y, study.alpha, [row], theta, term)
                assert np.linalg.norm(left) == pytest.approx(found, rel=1e-6, abs=1e-9)


def test_perturbations_have_the_deviation_that_is_said(wide, targets_of):
    """E |M^T (B - b)|^2 = |M^T B|^2 + sigma^2 d |M^T|^2, over many seeds."""
    study, X, Y = wide.study, wide.data.X, targets_of(wide)
    engines = [Engine(replace(study, seed=seed), wide.data) for seed in range(300)]
    found = np.array([newton.residual_table(engine)["perturbed"] for engine in engines]) ** 2
    p = X.shape[1]
    M = np.eye(p) - step_size_of(wide) * (X.T @ X + study.alpha * np.eye(p))
    for T, squares in zip(study.newton_steps, found.T, strict=True):
        power = np.linalg.matrix_power(M, T)
        aim = np.sum((power @ X.T @ Y) ** 2) + 0.1**2 * Y.shape[1] * np.sum(power**2)
        assert abs(squares.mean() - aim) < 5 * squares.std() / math.sqrt(len(squares))
        plain = np.sum((power @ X.T @ Y) ** 2)
        assert T < 40 or abs(squares.mean() - plain) > 5 * squares.std() / math.sqrt(300)


@pytest.fixture
def newton_tables(engine):
    return newton.compute(engine)


def test_epsilons_of_pilu_are_certified_by_a_model_learned_so(engine, newton_tables):
    """K = 1, and one noise for learning and unlearning."""
    study, table = engine.study, newton_tables["newton"]
    settings = {"alpha": study.alpha, "noise": 0.1, "fit_intercept": False, "random_state": 0}
    some = table[table["method"].isin(ACCOUNTANTS)]
    assert len(some) == 2 * 3 * len(study.newton_steps)
    for T in study.newton_steps:
        model = kind_of(engine)(n_steps=T, **settings).fit(engine.data.X, engine.data.y)
        for line in some[some["learning_steps"] == T].itertuples():
            certified = model.certified_epsilon(
                int(line.row), noise=0.1, n_unlearn_steps=1, accountant=line.method
            )
            assert line.epsilon == pytest.approx(certified, rel=1e-9)
    assert some.set_index(["method", "row", "learning_steps"]).index.is_unique


def test_epsilons_of_the_newton_step(engine, newton_tables):
    """residual / sigma sqrt(2 log(1.5/delta)) as in the paper; and what can be proved."""
    study, table = engine.study, newton_tables["newton"].set_index("method")
    residuals = newton_tables["residuals"]["perturbed"].to_numpy()
    by_hand = residuals / 0.1 * math.sqrt(2 * math.log(1.5 * len(engine.data.X)))
    np.testing.assert_allclose(table.loc["newton", "epsilon"], by_hand, rtol=1e-12)
    assert table.loc["newton", "row"].isna().all()
    model = kind_of(engine)(alpha=study.alpha, fit_intercept=False, random_state=0)
    for T, proved in table.loc["newton, proved", ["learning_steps", "epsilon"]].to_numpy():
        task = Task.of(model.set_params(n_steps=int(T)), engine.data.X, engine.data.y, epsilon=1.0)
        answer = NewtonStep(0.1, converged=False).fit(task).answer(engine.rows()[0])
        assert proved == pytest.approx(answer.epsilon, rel=1e-6)


def test_what_is_proved_of_the_newton_step_is_true_and_what_the_paper_says_is_not(
    depth, targets_of
):
    """The least epsilon there is, for two columns and few steps, lies between them."""
    study, columns = replace(depth.study, newton_steps=(5,)), [1, 3]
    X, X_test = (np.ascontiguousarray(part[:, columns]) for part in depth.data[:3:2])
    engine = Engine(study, depth.data._replace(X=X, X_test=X_test))
    table = newton.compute(engine)["newton"].set_index("method")["epsilon"]
    problem = (X, targets_of(engine), study.alpha, step_size_of(engine))
    least = competitors.newton_epsilon(*problem, 5, 0.1, engine.delta)
    assert table["newton"] < least < table["newton, proved"] < 1.5 * least


# DP-GD, tuned


def test_runs_may_differ_in_threshold_and_step_size(depth, targets_of):
    """Each column is clipped descent by its own threshold and step, written out."""
    Y, row = targets_of(depth), middle_row(depth)
    C, factors = np.array([0.5, 3.0]), np.array([2.0, 0.25])
    found = dp_gd.walk(depth, C, np.zeros(2), row, np.random.default_rng(0), factors)
    study, X = depth.study, depth.data.X
    for k in range(2):
        given = study.alpha, factors[k] * step_size_of(depth), C[k]
        zeros = np.zeros((X.shape[1], 1))
        noises = np.zeros((study.n_steps, *zeros.shape)), np.zeros((4, *zeros.shape))
        learned = competitors.dp_gd(X, Y, *given, zeros, noises[0])
        left = np.arange(len(X)) != row
        literal = competitors.dp_gd(X[left], Y[left], *given, learned, noises[1])
        scale = np.abs(literal).max()
        np.testing.assert_allclose(found[:, [k]], literal, rtol=2e-4, atol=2e-5 * scale)


def test_the_step_size_scales_the_noise(depth):
    """theta <- theta - f eta (gradient + noise): from zero targets, only the noise is left."""
    engine = Engine(replace(depth.study, n_steps=1, n_unlearn_steps=0), depth.data)
    rng, many = np.random.default_rng(3), 3000
    C, factors = np.full(2 * many, 1e-9), np.repeat([1.0, 4.0], many)
    theta = dp_gd.walk(engine, C, np.full(2 * many, 2.0), 0, rng, factors).astype(float)
    deviations = theta[:, :many].std(), theta[:, many:].std()
    eta = step_size_of(depth)
    assert deviations[0] == pytest.approx(2 * eta, rel=0.05)
    assert deviations[1] == pytest.approx(8 * eta, rel=0.05)


@pytest.mark.parametrize("name", ["depth", "digits"])
def test_tuned_dp_gd_takes_the_best_of_its_grid(name, request, monkeypatch):
    engine = request.getfixturevalue(name)
    seen = {}

    def runs(engine, C, sigmas, forgotten, factors, stream):
        """A score that is known: best at C = 4 times the usual and steps 16 times as long."""
        seen[stream] = np.stack([C, sigmas, factors])
        error = np.abs(np.log(C / (4 * usual))) + np.abs(np.log(factors / 16))
        return -error if engine.data.is_classification else error

    usual = float(np.quantile(engine.gradient_norms, 0.75))
    monkeypatch.setattr(dp_gd_tuned, "clipped_runs", runs)
    table = dp_gd_tuned.compute(engine)["dp_gd_tuned"]
    assert table["clipping"].tolist() == pytest.approx([4 * usual] * len(table))
    assert (table["step_factor"] == 16).all()
    assert len(seen[10][0]) == 2 * len(engine.study.epsilons) * 5 * 4
    assert len(seen[11][0]) == len(table) * dp_gd_tuned.TUNED_RUNS
    steps = engine.study.n_steps + engine.study.n_unlearn_steps
    for line in table.itertuples():
        noise = {"renyi": renyi_noise, "gdp": gaussian_noise}[line.accounting]
        assert line.noise == pytest.approx(4 * usual * noise(line.epsilon, engine.delta, steps))
