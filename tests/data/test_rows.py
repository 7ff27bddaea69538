"""Rows are read in float64 blocks, known by digests, and never pickled."""

import copy
import pickle

import numpy as np
import pytest

from pilu.data import rows as rows_module
from pilu.data.rows import RowSource
from pilu.exceptions import RowsChanged, RowsNotAttached


def observe(X, Y):
    source = RowSource.of(X, Y, fit_intercept=True)
    list(source.features(first=True))  # digests are made in the first pass
    return source


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_blocks_are_float64_with_ones(dtype, rng, monkeypatch):
    monkeypatch.setattr(rows_module, "_BLOCK_BYTES", 8 * 4 * 7)  # seven rows a block at most
    X = rng.integers(-9, 9, size=(30, 3)).astype(dtype)
    source = observe(X, np.ones((30, 1)))
    blocks = list(source.blocks())
    assert [len(x) for x, _ in blocks] == [6] * 5
    whole = np.concatenate([x for x, _ in blocks])
    assert whole.dtype == np.float64
    np.testing.assert_array_equal(whole, np.hstack([X, np.ones((30, 1))]))


def test_forgotten_rows_are_not_read_and_lose_their_digest(small):
    X, Y = small[0].copy(), small[1]
    source = observe(X, Y).without(np.array([3, 7]))
    X[[3, 7]] = np.nan  # the owner has deleted them
    positions = np.concatenate([rows for rows, _, _ in source.numbered_blocks()])
    assert set(range(30)) - set(positions) == {3, 7}
    assert not source.digests[[3, 7]].any()
    assert source.digests[4].any()


def test_a_changed_row_is_noticed(small):
    X, Y = small[0].copy(), small[1].copy()
    source = observe(X, Y)
    X[5, 2] = np.nextafter(X[5, 2], 1e9)
    source.take(np.array([4, 6]))
    with pytest.raises(RowsChanged, match="position 5"):
        source.take(np.array([4, 5, 6]))
    X, Y = small[0], small[1].copy()
    source = observe(X, Y)
    Y[2, 0] += 1e-9
    with pytest.raises(RowsChanged, match="position 2"):
        list(source.numbered_blocks())


def test_pickle_holds_no_row(small):
    X, Y = small
    blob = pickle.dumps(observe(X, Y))
    assert X[11].tobytes() not in blob
    assert Y[11].tobytes() not in blob
    loaded = pickle.loads(blob)
    with pytest.raises(RowsNotAttached, match="attach"):
        list(loaded.blocks())
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.take(np.array([1]))


def test_attach_takes_all_rows_or_the_remaining_ones(small):
    X, Y = small
    source = observe(X, Y).without(np.array([0, 9]))
    loaded = pickle.loads(pickle.dumps(source))
    left = np.setdiff1d(np.arange(30), [0, 9])
    for x, y in ((X, Y), (X[left], Y[left])):
        attached = loaded.attach(x, y)
        np.testing.assert_array_equal(attached.take(np.array([10, 29]))[0][:, :4], X[[10, 29]])
        assert sum(len(b) for b, _ in attached.blocks()) == 28
    with pytest.raises(RowsChanged):
        loaded.attach(X[::-1], Y[::-1])
    with pytest.raises(ValueError, match="all 30 rows of the fit or the 28 not forgotten"):
        loaded.attach(X[:12], Y[:12])


def test_digests_are_keyed_and_ignore_the_sign_of_zero():
    X = np.array([[0.0, 1.0], [2.0, 3.0]])
    source = observe(X, np.zeros((2, 1)))
    assert (source.digests != observe(X, np.zeros((2, 1))).digests).any()
    source.attach(np.array([[-0.0, 1.0], [2.0, 3.0]]), np.zeros((2, 1)))


def test_deepcopy_shares_the_rows(small):
    source = observe(*small)
    assert copy.deepcopy(source).rows.X is source.rows.X
