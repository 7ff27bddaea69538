"""Both solvers against dense propagation: the same mean, covariance and marginals."""

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from oracles.dense import dense_laws
from pilu.chains.chain import SeededGaussian, SystemGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectral import decay, drift, spread

RUNS = 3000
SOLVERS = ("spectral", "gradient")


def walked(problem, solver, *arguments):
    return problem.with_solver(solver).walk(*arguments)


@pytest.mark.parametrize("k", [0, 1, 2, 7, 400])
@pytest.mark.parametrize("a", [0.0, 1e-14, 1e-6, 0.3, 0.5, 0.7, 1.0, 1.6])
def test_closed_forms_equal_their_sums(a, k):
    eta = 1.0 if a <= 1 else 0.9
    powers = (1 - eta * a) ** np.arange(k)
    array = np.array(a)
    assert decay(array, eta, k) == pytest.approx((1 - eta * a) ** k, rel=1e-10, abs=1e-300)
    assert drift(array, eta, k) == pytest.approx(eta * powers.sum(), rel=1e-12)
    assert spread(array, eta, k) == pytest.approx(2 * eta * (powers**2).sum(), rel=1e-12)


@pytest.mark.parametrize("t", [1.5, 1.9, 1.99999, 2 - 1e-9])
@pytest.mark.parametrize("k", [1, 10, 1001])
def test_sums_stay_accurate_up_to_the_edge_of_contraction(t, k):
    with mp.workdps(40):
        base = 1 - mpf(t)
        total = 2 * sum((base**2) ** j for j in range(k))
    assert spread(np.array(t), 1.0, k) == pytest.approx(float(total), rel=1e-13)


@pytest.fixture(params=["tall", "wide", "with rows taken out"])
def problem(request, rng, monkeypatch):
    shape = (3, 5) if request.param == "wide" else (12, 3)
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    source = RowSource.of(X, Y, fit_intercept=False)
    ridge = RidgeProblem.fit(source, 0.2, 2)
    if request.param != "with rows taken out":
        return X, Y, ridge
    monkeypatch.setattr("pilu.ridge.problem._COLUMNS_FOR_EACH", 1)  # as if three were many
    for row in (2, 5):
        ridge = ridge.without(np.array([row]), X[[row]], Y[[row]])
    assert not ridge.corrected_spectrum.is_diagonal
    left = np.delete(np.arange(12), [2, 5])
    return X[left], Y[left], ridge


def largest(X):
    return np.linalg.norm(X, 2) ** 2 + 0.2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("solver", ["spectral", "gradient"])
@pytest.mark.parametrize("step_share", [1.0, 1.7])  # of 1/L: beyond it, modes change sign
def test_solver_draws_from_the_dense_law(solver, step_share, problem, rng):
    X, Y, ridge = problem
    step_size, start = step_share / largest(X), rng.normal(size=(X.shape[1], 2))
    segment = Segment(9, 0.4)
    gaussian = SystemGaussian() if solver == "spectral" else SeededGaussian(3, 0)
    draws = np.array(
        [walked(ridge, solver, start, step_size, segment, 0, gaussian) for _ in range(RUNS)]
    )
    means, covariances = dense_laws(X, Y, 0.2, step_size, [segment], start)
    mean, cov = means[-1], covariances[-1]
    sd = np.sqrt(np.diag(cov))[:, None]
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(RUNS)).all()
    for t in range(2):
        sample = np.cov(draws[:, :, t].T)
        error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / RUNS)
        assert (np.abs(sample - cov) < 5 * error).all()
        for j in range(X.shape[1]):
            standard = (draws[:, j, t] - mean[j, t]) / sd[j, 0]
            assert stats.kstest(standard, "norm").pvalue > 1e-5
    across = np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]
    assert abs(across) < 5 / np.sqrt(RUNS)


def test_without_noise_both_solvers_agree_exactly(problem, rng):
    X, _, ridge = problem
    start, segment = rng.normal(size=(X.shape[1], 2)), Segment(25, 0.0)
    step_size = 1.0 / largest(X)
    spectral, gradient = (
        walked(ridge, s, start, step_size, segment, 0, SystemGaussian()) for s in SOLVERS
    )
    np.testing.assert_allclose(spectral, gradient, rtol=1e-11, atol=1e-12)
