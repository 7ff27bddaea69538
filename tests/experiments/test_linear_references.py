"""What scores are compared with, one level for all rows, and leave-one-out, by dense matrices."""

import numpy as np
import pytest
from experiments.linear.compute import leave_one_out, references, uniform
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, root_mean_squared_error


def test_a_constant_is_scored_as_scikit_learn_does(engine):
    data, found = engine.data, references.compute(engine)["references"]
    kind, score = DummyRegressor(), root_mean_squared_error
    if data.is_classification:
        kind, score = DummyClassifier(strategy="most_frequent"), accuracy_score
    told = kind.fit(data.X, data.y).predict(data.X_test)
    assert found.set_index("name")["value"]["constant"] == pytest.approx(score(data.y_test, told))


def test_the_score_before_is_that_of_literal_runs(depth, take_steps, targets_of, scores_of):
    """sqrt(E RMSE^2) of T noisy steps on all rows."""
    study, X, Y = depth.study, depth.data.X, targets_of(depth)
    eta = 1 / (np.linalg.norm(X, 2) ** 2 + study.alpha)
    theta = np.zeros((4000, X.shape[1], 1))
    rng = np.random.default_rng(5)
    theta = take_steps(theta, X, Y, study.alpha, eta, study.noise, study.n_steps, rng)
    squares = scores_of(depth, theta) ** 2
    found = references.compute(depth)["references"].set_index("name")["value"]["before"]
    error = 5 * squares.std() / np.sqrt(len(squares))
    assert found**2 == pytest.approx(squares.mean(), abs=error)


def test_one_level_is_what_the_hardest_row_needs(depth):
    """Small enough that every row can be priced by itself."""
    table, every = uniform.compute(depth)["uniform"], list(range(len(depth.data.X)))
    law, K = depth.law(), depth.study.n_unlearn_steps
    for line in table.itertuples():
        noise = depth.calibrated(law, line.row, line.accountant, line.epsilon, K)
        assert line.noise == pytest.approx(noise, rel=1e-6)
    for name in ("theorem", "exact"):
        dearest = max(depth.calibrated(law, row, name, 1.0, K) for row in every)
        at_one = table[(table["accountant"] == name) & (table["epsilon"] == 1.0)]
        assert at_one["noise"].iloc[0] == pytest.approx(dearest, rel=1e-6)


@pytest.fixture
def made_of(targets_of):
    """The residual of a row by T literal gradient steps, or by solving, on the given rows."""

    def residual(engine, row, rows, n_steps):
        X, Y, alpha = engine.data.X[rows], targets_of(engine)[rows], engine.study.alpha
        theta = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ Y)
        if n_steps is not None:
            eta = 1 / (np.linalg.norm(engine.data.X, 2) ** 2 + alpha)
            theta = np.zeros_like(theta)
            for _ in range(n_steps):
                theta -= eta * (X.T @ (X @ theta - Y) + alpha * theta)
        return np.linalg.norm(engine.data.X[row] @ theta - targets_of(engine)[row])

    return residual


def test_leave_one_out_beside_models_without_the_row(engine, made_of):
    everything = np.arange(len(engine.data.X))
    for line in leave_one_out.compute(engine)["leave_one_out"].itertuples():
        others, T = np.delete(everything, line.row), engine.study.n_steps
        given = engine, line.row
        assert line.minimiser_residual == pytest.approx(made_of(*given, everything, None), rel=1e-6)
        assert line.minimiser_without == pytest.approx(made_of(*given, others, None), rel=1e-6)
        assert line.minimiser_error < 1e-7 * line.minimiser_without
        assert line.steps_residual == pytest.approx(made_of(*given, everything, T), rel=1e-6)
        assert line.steps_without == pytest.approx(made_of(*given, others, T), rel=1e-6)
        assert line.steps_formula == pytest.approx(line.steps_residual / (1 - line.leverage))
