"""Statistics, eigenbasis and what deletions leave of them, against plain linear algebra."""

import copy
import os
import pickle

import numpy as np
import pytest

from pilu.data.rows import RowSource
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.sensitivities import smallest_without


def problem_of(X, Y, alpha=0.1):
    source = RowSource.of(X, Y, fit_intercept=False)
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


@pytest.mark.parametrize("p", [6, 100])  # with a new eigenbasis each time, and every fourth time
def test_drift_over_many_deletions_is_bounded_as_stated(p, rng):
    X, Y = rng.normal(size=(700, p)), rng.normal(size=(700, 1))
    problem = problem_of(X, Y)
    for i in range(500):
        problem = problem.without(np.array([i]), X[[i]], Y[[i]])
        assert problem.statistics_error <= 1e-12
    gram, cross = X[500:].T @ X[500:], X[500:].T @ Y[500:]
    error = np.linalg.norm(problem.statistics.gram - gram) / np.linalg.norm(gram)
    assert error <= problem.statistics_error + 1e-15
    np.testing.assert_allclose(problem.statistics.cross, cross, atol=1e-12 * np.linalg.norm(cross))


def matrix_of(spectrum):
    inner = np.diag(spectrum.eigenvalues)
    if spectrum.removed is not None:
        inner = inner - spectrum.removed.T @ spectrum.removed
    return spectrum.basis @ inner @ spectrum.basis.T


def test_a_few_deletions_correct_the_eigenbasis_and_more_replace_it(rng):
    X, Y = rng.normal(size=(300, 100)), rng.normal(size=(300, 2))
    problem, corrected = problem_of(X, Y), []
    for i in range(10):
        problem = problem.without(np.array([i]), X[[i]], Y[[i]])
        spectrum = problem.corrected_spectrum
        corrected.append(not spectrum.is_diagonal)
        A = X[i + 1 :].T @ X[i + 1 :] + 0.1 * np.eye(100)
        np.testing.assert_allclose(matrix_of(spectrum), A, atol=1e-12 * np.linalg.norm(A))
        np.testing.assert_allclose(
            spectrum.basis @ spectrum.cross, X[i + 1 :].T @ Y[i + 1 :], atol=1e-11
        )
        M = rng.normal(size=(100, 3))
        np.testing.assert_allclose(spectrum.basis @ spectrum.times(spectrum.basis.T @ M), A @ M)
    assert corrected == [True, True, True, False] * 2 + [True, True]
    assert problem.spectrum.is_diagonal  # asking for it makes it so
    assert problem.corrected_spectrum is problem.spectrum


@pytest.mark.parametrize("way", ["pickle", "copy", "statistics", "consolidate"])
def test_nothing_is_left_of_the_rows_once_it_could_leave(way, rng):
    X, Y = rng.normal(size=(300, 100)), rng.normal(size=(300, 2))
    problem = problem_of(X, Y).without(np.array([7]), X[[7]], Y[[7]])
    held = (X[7], Y[7], problem.corrected_spectrum.removed[0])
    assert not problem.corrected_spectrum.is_diagonal
    if way == "pickle":
        blob = pickle.dumps(problem)
        assert not any(values.tobytes() in blob for values in held)
    elif way == "copy":
        assert copy.deepcopy(problem).corrected_spectrum.is_diagonal
    elif way == "statistics":
        assert problem.statistics is not None
    else:
        problem.consolidate()
    # not in this object either, and nothing that it refers to knows the row
    kept = [v for v in gc_reach(problem) if isinstance(v, np.ndarray) and v.dtype == float]
    for values in held:
        assert not any(values.tobytes() in v.tobytes() for v in kept if v is not X and v is not Y)


def gc_reach(problem):
    found, stack = {}, [problem]
    while stack:
        value = stack.pop()
        if id(value) in found or isinstance(value, type):
            continue
        found[id(value)] = value
        stack += list(getattr(value, "__dict__", {}).values())
        stack += list(value) if isinstance(value, tuple | list) else []
        stack += [value.base] if isinstance(value, np.ndarray) and value.base is not None else []
    return found.values()


@pytest.mark.parametrize("n_rows", [1, 3])
def test_smallest_retained_eigenvalue_is_a_tight_lower_bound(n_rows, rng):
    X, Y = rng.normal(size=(30, 4)) * [10, 3, 1, 0.1], rng.normal(size=(30, 1))
    problem = problem_of(X, Y)
    for start in range(0, 20, 5):
        rows = np.arange(start, start + n_rows)
        left = np.setdiff1d(np.arange(30), rows)
        exact = np.linalg.eigvalsh(X[left].T @ X[left] + 0.1 * np.eye(4))[0]
        bound = smallest_without(problem.spectrum, X[rows])
        assert bound <= exact
        assert bound == pytest.approx(exact, rel=1e-8)


def test_smallest_retained_eigenvalue_never_falls_below_alpha(rng):
    X, Y = np.eye(4)[[0, 1, 2, 3, 3]], np.ones((5, 1))
    problem = problem_of(X, Y)  # row 0 alone carries its direction
    assert smallest_without(problem.spectrum, X[[0]]) == pytest.approx(0.1)
    assert smallest_without(problem.spectrum, X[[0]]) >= 0.1
    wide = problem_of(rng.normal(size=(3, 8)), rng.normal(size=(3, 1)))
    assert smallest_without(wide.spectrum, np.ones((1, 8))) == 0.1


def test_more_columns_than_the_machine_can_square_are_refused_before_rows_are_read(monkeypatch):
    rows = RowSource.of(np.ones((60, 50)), np.ones((60, 1)), fit_intercept=False)

    def no_rows(*_, **__):
        raise AssertionError("rows were read")

    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 30}.get)
    monkeypatch.setattr(RowSource, "features", no_rows)
    with pytest.raises(
        ValueError, match=r"fewer columns, got 50: .* map that does not depend on the rows"
    ):
        RidgeProblem.fit(rows, 1.0, 1)
