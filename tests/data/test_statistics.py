"""X'X and X'Y by several threads are those of one product."""

import os
import signal
import threading
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pilu.data import rows as rows_module
from pilu.data import statistics as statistics_module
from pilu.data.rows import RowSource
from pilu.data.statistics import Statistics


@pytest.mark.parametrize("block_rows", [1, 7, 64, 1000])
def test_every_row_is_counted_once_whatever_the_shares(block_rows, rng, monkeypatch):
    monkeypatch.setattr(statistics_module, "_WORTH_THREADS", 1)
    monkeypatch.setattr(rows_module, "_VIEW_BYTES", 8 * 5 * block_rows)
    # Integers: every order of summation gives the same float.
    X, Y = (rng.integers(-9, 9, size=(211, k)).astype(float) for k in (5, 2))
    source = RowSource.of(X, Y, fit_intercept=False)
    found = Statistics.collect(partial(source.features, first=True), 211, 5, 2, fit_intercept=False)
    np.testing.assert_array_equal(found.gram, X.T @ X)
    np.testing.assert_array_equal(found.cross, X.T @ Y)
    assert found.target_energy == np.sum(Y * Y)
    assert source.digests.any(axis=1).all()
    again = Statistics.collect(
        source.without(np.arange(3, 90)).features, 124, 5, 2, fit_intercept=False
    )
    left = np.delete(X, np.arange(3, 90), axis=0)
    np.testing.assert_array_equal(again.gram, left.T @ left)


def test_a_changed_row_is_noticed_in_any_thread(rng, monkeypatch):
    monkeypatch.setattr(statistics_module, "_WORTH_THREADS", 1)
    monkeypatch.setattr(rows_module, "_VIEW_BYTES", 8 * 3 * 10)
    X, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    source = RowSource.of(X, Y, fit_intercept=False)
    list(source.features(first=True))
    X[77] += 1
    with pytest.raises(rows_module.RowsChanged, match="position 77"):
        Statistics.collect(source.features, 100, 3, 1, fit_intercept=False)


@pytest.mark.parametrize("error", [OSError("the disk is gone"), KeyboardInterrupt()])
def test_an_error_in_one_thread_ends_the_others_soon(error, monkeypatch):
    monkeypatch.setattr(statistics_module, "_WORTH_THREADS", 1)
    blocks, lock, taken = iter(range(200)), threading.Lock(), []

    def read(share, shares):
        assert shares == 2
        while True:
            with lock:
                k = next(blocks, None)
            if k is None:
                return
            taken.append(k)
            if k == 20:
                raise error
            time.sleep(0.005)
            yield np.ones((3, 4)), np.ones((3, 1))

    with threadpool_limits(2, user_api="blas"), pytest.raises(type(error)):
        Statistics.collect(read, 600, 4, 1, fit_intercept=False)
    assert len(taken) < 30


def test_an_interrupt_while_threads_work_ends_them_soon(monkeypatch):
    monkeypatch.setattr(statistics_module, "_WORTH_THREADS", 1)
    taken = []

    def read(share, shares):
        for k in range(1000):
            taken.append(k)
            time.sleep(0.005)
            yield np.ones((3, 4)), np.ones((3, 1))

    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with threadpool_limits(2, user_api="blas"), pytest.raises(KeyboardInterrupt):
        Statistics.collect(read, 6000, 4, 1, fit_intercept=False)
    assert len(taken) < 1000


@pytest.mark.parametrize(
    ("n", "p"), [(384, 2), (10_000, 2), (200_000, 1), (5_000, 200), (5_000, 600)]
)
@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_rows_that_are_alike_err_by_no_more_than_stated(n, p, value):
    X, Y = np.full((n, p), value), np.full((n, 1), 0.3)
    found = Statistics.of_rows([(X, Y)], p, 1, fit_intercept=False)
    for entry, exact in (
        (found.gram[0, 0], n * Fraction(value) ** 2),
        (found.gram[0, -1], n * Fraction(value) ** 2),
        (found.cross[-1, 0], n * Fraction(value) * Fraction(0.3)),
    ):
        assert abs(Fraction(float(entry)) - exact) <= Fraction(found.error) * exact
    assert found.error < 1e-13
