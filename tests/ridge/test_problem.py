"""Statistics, eigenbasis and what deletions leave of them, against plain linear algebra."""

import numpy as np
import pytest

from pilu.ridge.problem import RidgeProblem
from pilu.ridge.rows import RowSource


def problem_of(X, Y, alpha=0.1):
    source = RowSource.observe(X, Y, fit_intercept=False)
    return RidgeProblem.fit(source, alpha, Y.shape[1])


def dense_a(problem):
    s = problem.spectrum
    p = s.n_parameters
    inside = s.basis @ np.diag(s.eigenvalues - s.alpha) @ s.basis.T
    return inside + s.alpha * np.eye(p)


@pytest.mark.parametrize("shape", [(30, 4), (5, 12), (6, 6)])
def test_eigenbasis_rebuilds_the_problem(shape, rng):
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    problem = problem_of(X, Y)
    A = X.T @ X + 0.1 * np.eye(shape[1])
    np.testing.assert_allclose(dense_a(problem), A, atol=1e-12 * np.linalg.norm(A))
    np.testing.assert_allclose(problem.spectrum.basis @ problem.spectrum.cross, X.T @ Y, atol=1e-11)
    assert problem.spectrum.has_complement == (shape[0] < shape[1])
    assert problem.spectrum.largest == pytest.approx(np.linalg.eigvalsh(A)[-1])


@pytest.mark.parametrize("shape", [(30, 4), (5, 12)])
def test_deleting_rows_equals_never_having_had_them(shape, rng):
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    rows = np.array([1, 3])
    left = np.setdiff1d(np.arange(shape[0]), rows)
    problem = problem_of(X, Y).without(rows, X[rows], Y[rows])
    fresh = problem_of(X[left], Y[left])
    np.testing.assert_allclose(dense_a(problem), dense_a(fresh), atol=1e-12)
    np.testing.assert_allclose(
        problem.spectrum.basis @ problem.spectrum.cross,
        fresh.spectrum.basis @ fresh.spectrum.cross,
        atol=1e-11,
    )
    assert problem.spectrum.basis.shape == fresh.spectrum.basis.shape  # no direction of x is kept


def test_an_outlier_does_not_take_the_digits_of_the_rest_with_it(rng):
    X, Y = rng.normal(size=(40, 5)), rng.normal(size=(40, 1))
    X[0] *= 1e8
    Y[1] *= 1e9
    for row in (0, 1):
        rows = np.array([row])
        problem = problem_of(X, Y).without(rows, X[rows], Y[rows])
        left = np.delete(np.arange(40), row)
        np.testing.assert_allclose(
            dense_a(problem), dense_a(problem_of(X[left], Y[left])), rtol=1e-10
        )
        np.testing.assert_allclose(
            problem.spectrum.basis @ problem.spectrum.cross, X[left].T @ Y[left], rtol=1e-7
        )
        assert problem.statistics_error <= 1e-12


def test_drift_over_many_deletions_is_bounded_as_stated(rng):
    X, Y = rng.normal(size=(600, 6)), rng.normal(size=(600, 1))
    problem = problem_of(X, Y)
    for i in range(500):
        problem = problem.without(np.array([i]), X[[i]], Y[[i]])
        assert problem.statistics_error <= 1e-12
    gram = X[500:].T @ X[500:]
    error = np.linalg.norm(problem.statistics.gram - gram) / np.linalg.norm(gram)
    assert error <= problem.statistics_error + 1e-15


@pytest.mark.parametrize("n_rows", [1, 3])
def test_smallest_retained_eigenvalue_is_a_tight_lower_bound(n_rows, rng):
    X, Y = rng.normal(size=(30, 4)) * [10, 3, 1, 0.1], rng.normal(size=(30, 1))
    problem = problem_of(X, Y)
    for start in range(0, 20, 5):
        rows = np.arange(start, start + n_rows)
        left = np.setdiff1d(np.arange(30), rows)
        exact = np.linalg.eigvalsh(X[left].T @ X[left] + 0.1 * np.eye(4))[0]
        bound = problem.spectrum.smallest_without(X[rows])
        assert bound <= exact
        assert bound == pytest.approx(exact, rel=1e-8)


def test_smallest_retained_eigenvalue_never_falls_below_alpha(rng):
    X, Y = np.eye(4)[[0, 1, 2, 3, 3]], np.ones((5, 1))
    problem = problem_of(X, Y)  # row 0 alone carries its direction
    assert problem.spectrum.smallest_without(X[[0]]) == pytest.approx(0.1)
    assert problem.spectrum.smallest_without(X[[0]]) >= 0.1
    wide = problem_of(rng.normal(size=(3, 8)), rng.normal(size=(3, 1)))
    assert wide.spectrum.smallest_without(np.ones((1, 8))) == 0.1
