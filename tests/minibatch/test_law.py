"""Laws of mini-batch chains against step-by-step dense propagation."""

import numpy as np
import pytest

from conftest import with_ones
from oracles.minibatch import cyclic_laws
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import RowSource
from pilu.exceptions import RowsChanged
from pilu.minibatch.flows import covariance_after, flow_of
from pilu.minibatch.law import MinibatchLaw
from pilu.minibatch.problem import MinibatchProblem

ALPHA = 0.3
SEGMENTS = [(23, 0.2), (9, 0.0), (14, 0.05)]
GONE = [2, 3, 11]


def cyclic(X, Y, b, segments=SEGMENTS, gone=(), *, fit_intercept=True, start=None):
    """The law, and the oracle's means and covariances."""
    source = RowSource.of(X, Y, fit_intercept=fit_intercept)
    problem = MinibatchProblem.fit(source, ALPHA, Y.shape[1], b)
    eta = 0.9 / problem.largest
    rows = np.array(gone, dtype=np.intp)
    problem = problem.without(rows, X[rows], Y[rows])
    whole = with_ones(X) if fit_intercept else X
    start = np.zeros((whole.shape[1], Y.shape[1])) if start is None else start
    law = MinibatchLaw(problem, eta, Schedule(tuple(Segment(*s) for s in segments)), start)
    return law, whole, cyclic_laws(whole, Y, ALPHA, eta, b, segments, start, gone)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("b", [1, 4, 7, 29, 30])
@pytest.mark.parametrize("gone", [(), GONE])
@pytest.mark.parametrize("way", ["backwards", "forwards"])
def test_residual_laws(b, gone, way, small, monkeypatch):
    X, Y = small
    law, whole, (means, covariances) = cyclic(X, Y, b, gone=gone)
    if way == "forwards":
        monkeypatch.setattr(MinibatchLaw, "_variances_backwards", None)
        monkeypatch.setattr("pilu.minibatch.law._FORWARDS_FROM", 0.0)
    rows = np.array([0, 4, 13, 14, 29])
    seen = []
    for members, steps in law.problem.by_batch(rows, 46):
        us, vs = law.residual_laws(rows[members], len(steps))
        for i, row in enumerate(rows[members]):
            seen.append(row)
            assert list(steps) == [k for k in range(46) if k % (-(-30 // b)) == row // b]
            for c, k in enumerate(steps):
                u, v = whole[row] @ means[k] - Y[row], whole[row] @ covariances[k] @ whole[row]
                np.testing.assert_allclose(us[i, :, c], u, rtol=1e-9, atol=1e-11)
                assert vs[i, c] == pytest.approx(v, rel=1e-9, abs=1e-300)
    assert sorted(seen) == list(rows)
    np.testing.assert_allclose(law.means.norms, [np.linalg.norm(m) for m in means[:-1]], rtol=1e-10)
    np.testing.assert_allclose(law.means.final, means[-1], rtol=1e-9, atol=1e-12)


def test_both_ways_agree_on_digits(digits):
    X, y = digits
    law, *_ = cyclic(X, y[:, None].astype(float), 64, [(300, 0.1), (40, 0.03)])
    rows = np.array([0, 63, 64, 900, 1791, 1792, 1796])
    backwards = law._variances_backwards(
        law.problem.batch_of(rows), law.problem.source.take(rows)[0]
    )
    forwards = law._all_variances()[0][:, rows].T
    np.testing.assert_allclose(backwards, forwards, rtol=1e-9)


@pytest.mark.parametrize("steps", [128, 300])
def test_whole_cycles_at_once_agree_with_steps(steps, digits):
    X, y = digits
    law, whole, _ = cyclic(X, y[:, None].astype(float), 64, [(steps, 0.1)], GONE)
    rows = np.array([0, 63, 64, 900, 1791, 1792, 1796])
    batches = law.problem.batch_of(rows)
    steps_taken = law._variances_backwards(batches, whole[rows])
    cycles = law._variances_by_cycles(batches, whole[rows])
    visited = steps_taken > 0  # where the last cycle ended before the batch, nobody asks
    np.testing.assert_allclose(cycles[visited], steps_taken[visited], rtol=1e-9)
    assert visited[:, 1:-1].all()
    assert law._is_cheaper_by_cycles(100)
    assert not cyclic(X, y[:, None] * 1.0, 64, [(steps, 0.1), (1, 0.1)])[0]._is_cheaper_by_cycles(9)


@pytest.mark.parametrize("gone", [(), GONE])
def test_a_start_and_no_intercept(gone, small, rng):
    X, Y = small
    start = rng.normal(size=(4, 2))
    law, whole, (means, _) = cyclic(X, Y, 7, gone=gone, fit_intercept=False, start=start)
    np.testing.assert_allclose(law.means.final, means[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(law.residual_means(np.array([8]), 41), whole[[8]] @ means[41] - Y[8])


@pytest.mark.parametrize("b", [4, 30])
def test_covariances_of_a_group(b, small):
    X, Y = small
    law, whole, (_, covariances) = cyclic(X, Y, b)
    rows = np.array([4, 5, 7])
    found = law.residual_covariances(4 // b, whole[rows])
    for V, k in zip(found, range(4 // b, 46, -(-30 // b)), strict=True):
        np.testing.assert_allclose(V, whole[rows] @ covariances[k] @ whole[rows].T, rtol=1e-9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("b", [1, 4, 7, 30])
@pytest.mark.parametrize("gone", [(), GONE, range(8)])  # the last leaves batches without rows
def test_covariance_after_all_steps(b, gone, small):
    X, Y = small
    law, _, (_, covariances) = cyclic(X, Y, b, [(83, 0.2), (9, 0.0), (14, 0.05)], gone=gone)
    found, scale = covariance_after(law.problem, law.step_size, law.schedule)
    assert scale >= np.linalg.norm(found, 2)
    np.testing.assert_allclose(found, covariances[-1], rtol=1e-10, atol=1e-15)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("first", [0, 3, 7])
@pytest.mark.parametrize("steps", [1, 5, 8, 16, 17, 31, 64])
def test_flows_of_any_number_of_steps(first, steps, small):
    X, Y = small
    law, whole, _ = cyclic(X, Y, 4)
    flow = flow_of(law.problem, law.step_size, first, steps)
    matrix, spread = np.eye(5), np.zeros((5, 5))
    for k in range(first, first + steps):
        x = whole[k % 8 * 4 : k % 8 * 4 + 4]
        A = np.eye(5) - law.step_size * (x.T @ x + ALPHA * np.eye(5))
        matrix, spread = A @ matrix, A @ spread @ A.T + 2 * law.step_size * np.eye(5)
    np.testing.assert_allclose(flow.matrix, matrix, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(flow.spread, spread, rtol=1e-11)


def test_the_largest_curvature_is_that_of_the_largest_batch(rng):
    for shape, b in (((30, 4), 7), ((30, 12), 7), ((9, 3), 1)):
        X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 1))
        problem = MinibatchProblem.fit(RowSource.of(X, Y, fit_intercept=True), 0.1, 1, b)
        parts = [with_ones(X)[i : i + b] for i in range(0, shape[0], b)]
        largest = max(np.linalg.norm(x, 2) ** 2 for x in parts) + 0.1
        assert problem.largest == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("rows", [[], [1], [8, 9]])
def test_the_smallest_curvature_without_rows(rows, rng):
    X, Y = rng.normal(size=(31, 3)), rng.normal(size=(31, 1))
    gone = np.array(rows, dtype=np.intp)
    for b in (8, 31, 5):  # with 8 the last batch has 7 rows, with 5 a single one
        problem = MinibatchProblem.fit(RowSource.of(X, Y, fit_intercept=True), 0.1, 1, b)
        left = [
            with_ones(X)[[r for r in range(i, min(i + b, 31)) if r not in rows]]
            for i in range(0, 31, b)
        ]
        least = min(np.linalg.eigvalsh(x.T @ x)[0] if len(x) > 3 else 0.0 for x in left)
        found = problem.smallest_without(gone)
        assert 0.1 <= found <= 0.1 + max(least, 0.0)
        assert found == pytest.approx(0.1 + max(least, 0.0), rel=1e-9)


def test_changed_rows_are_noticed_before_the_first_step(small):
    X, Y = small[0].copy(), small[1]
    law, *_ = cyclic(X, Y, 7)
    X[17, 2] += 1e-9
    with pytest.raises(RowsChanged, match="position 17"):
        law.prepare_after_learning()
    with pytest.raises(RowsChanged, match="position 17"):
        law.prepare_variances(np.array([0]))
    with pytest.raises(RowsChanged, match="position 17"):
        covariance_after(law.problem, law.step_size, law.schedule)
