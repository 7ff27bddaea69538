"""Dask collections against the same rows in memory; workers that die; schedulers that go away."""

import os
import pickle
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
import scipy.sparse

from data.partitions.conftest import COLUMNS, N
from pilu import LangevinRidge, LangevinRidgeClassifier
from pilu.exceptions import ClusterLost, RowsChanged

SETTINGS = {"n_steps": 40, "noise": 0.01, "random_state": 0}
QUOTE = {"n_unlearn_steps": 2}


def as_arrays(rows, chunk=70):
    return da.from_array(rows[0], chunks=(chunk, 4)), da.from_array(rows[1], chunks=chunk)


def as_frames(frame, n=5):
    whole = dd.from_pandas(frame, npartitions=n, sort=False)
    return whole[COLUMNS], whole["y"]


@pytest.fixture
def model(rows):
    return LangevinRidge(**SETTINGS).fit(*rows)


def statistics(model):
    return model.fitted_.chain.problem.statistics


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_a_fit_is_that_of_the_rows_in_memory(kind, rows, frame, model):
    given = as_arrays(rows) if kind == "arrays" else as_frames(frame)
    found = LangevinRidge(**SETTINGS).fit(*given)
    for name in ("gram", "cross"):
        here, there = getattr(statistics(found), name), getattr(statistics(model), name)
        assert np.linalg.norm(here - there) <= 1e-12 * np.linalg.norm(there)
    np.testing.assert_allclose(found.coef_, model.coef_, rtol=1e-9)  # one seed, one draw
    new = rows[0] if kind == "arrays" else frame[COLUMNS]
    np.testing.assert_allclose(found.predict(new), model.predict(rows[0]), rtol=1e-9)


@pytest.mark.parametrize("kind", ["arrays", "frames"])
@pytest.mark.parametrize("accountant", ["exact", "theorem"])
def test_quotes_are_a_lazy_frame_with_the_index_of_the_fit(kind, accountant, rows, frame, model):
    given = as_arrays(rows) if kind == "arrays" else as_frames(frame)
    found = LangevinRidge(**SETTINGS).fit(*given)
    lazy = found.quote(accountant=accountant, **QUOTE)
    assert isinstance(lazy, dd.DataFrame)
    quoted, expected = lazy.compute(), model.quote(accountant=accountant, **QUOTE)
    assert (expected.noise > 0).sum() > N / 4
    np.testing.assert_allclose(quoted["noise"], expected.noise, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(quoted["epsilon"], expected.epsilon, rtol=1e-8)
    assert list(quoted.index) == list(frame.index if kind == "frames" else range(N))


def test_forgetting_by_the_index(frame, rows, model):
    found = LangevinRidge(**SETTINGS).fit(*as_frames(frame))
    certificate = found.unlearn(ids=["row 7", "row 200"], **QUOTE)
    expected = model.unlearn([7, 200], **QUOTE)
    assert certificate.rows == (7, 200)
    assert certificate.noise == pytest.approx(expected.noise, rel=1e-8)
    left = found.quote(**QUOTE).compute()
    assert len(left) == N - 2
    assert "row 7" not in left.index
    np.testing.assert_allclose(left["noise"], model.quote(**QUOTE).noise, rtol=1e-7, atol=1e-12)


def test_only_the_partitions_of_the_rows_are_read(rows):
    read = []

    def watched(block, number):
        read.append(number)
        return block

    parts = [dask.delayed(rows[0][k : k + 60]) for k in range(0, N, 60)]
    blocks = [
        da.from_delayed(dask.delayed(watched)(part, k), (60, rows[0].shape[1]), float)
        for k, part in enumerate(parts)
    ]
    X, y = da.concatenate(blocks), da.from_array(rows[1], chunks=60)
    with dask.config.set(scheduler="synchronous"):
        found = LangevinRidge(**SETTINGS).fit(X, y)
        assert sorted(read) == [0, 1, 2, 3]
        read.clear()
        found.unlearn([65, 100], **QUOTE)
    assert set(read) == {1}


def test_classes(rows):
    labels = np.where(rows[1] > 0, "up", "down")
    X, y = as_arrays((rows[0], labels))
    found = LangevinRidgeClassifier(**SETTINGS).fit(X, y)
    expected = LangevinRidgeClassifier(**SETTINGS).fit(rows[0], labels)
    np.testing.assert_array_equal(found.classes_, ["down", "up"])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    noise = found.quote(**QUOTE).compute()["noise"]
    np.testing.assert_allclose(noise, expected.quote(**QUOTE).noise, rtol=1e-8, atol=1e-12)
    with pytest.raises(ValueError, match="at least 2 classes"):
        LangevinRidgeClassifier().fit(X, da.from_array(np.full(N, "up"), chunks=70))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_small_floats_are_added_up_as_doubles(rows, kind):
    """Against exact sums of the rounded numbers: the error is that of doubles."""
    X = rows[0].astype(kind)
    found = LangevinRidge(**SETTINGS).fit(*as_arrays((X, rows[1])))
    exact = X.astype(np.longdouble)
    exact = np.hstack([exact, np.ones((N, 1))])
    gram = exact.T @ exact
    error = np.linalg.norm((statistics(found).gram - gram).astype(float))
    assert error <= 1e-14 * np.linalg.norm(gram.astype(float))


def test_several_outputs_and_more_columns_than_rows():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(12, 20)), rng.normal(size=(12, 3))
    found = LangevinRidge(**SETTINGS).fit(
        da.from_array(X, chunks=5), da.from_array(Y, chunks=(5, 3))
    )
    expected = LangevinRidge(**SETTINGS).fit(X, Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    noise = found.quote(**QUOTE).compute()["noise"]
    np.testing.assert_allclose(noise, expected.quote(**QUOTE).noise, rtol=1e-8, atol=1e-12)


def test_rows_are_attached_again(rows, frame):
    X, y = as_frames(frame)
    found = pickle.loads(pickle.dumps(LangevinRidge(**SETTINGS).fit(X, y)))
    found.attach(X, y)
    assert found.unlearn(ids="row 3", **QUOTE).rows == (3,)
    other = X.assign(f0=X["f0"] + 1.0)
    found.attach(other, y)
    with pytest.raises(RowsChanged, match="are not those that the model was fitted on"):
        found.unlearn(ids="row 4", **QUOTE)
    with pytest.raises(RowsChanged):
        found.quote(**QUOTE).compute()
    with pytest.raises(ValueError, match="must have all 240 rows of the fit"):
        found.attach(X.partitions[:2], y.partitions[:2])


def test_a_file_that_is_not_there_is_no_lost_cluster(rows):
    def missing(block):
        raise FileNotFoundError(2, "No such file", "part-3.parquet")

    X, y = as_arrays(rows)
    with pytest.raises(FileNotFoundError, match=r"part-3\.parquet"):
        LangevinRidge(**SETTINGS).fit(X.map_blocks(missing, dtype=float), y)


def test_wrong_collections(rows, frame):
    X, y = as_arrays(rows)
    frames = as_frames(frame)[0]
    wrong = rows[0].copy()
    wrong[100, 2] = np.nan
    sparse = X.map_blocks(scipy.sparse.csr_matrix)
    text = frames.assign(f0="a")
    kinds = frames.assign(f1=frames["f1"].map(str, meta=("f1", "object")).astype("category"))
    for given, complaint in (
        ((X, rows[1]), "must both be dask collections"),
        ((X, da.from_array(rows[1], chunks=30)), "must have the same partitions, got 4 and 8"),
        ((da.from_array(wrong, chunks=70), y), "X must be finite"),
        ((sparse, y), "must be dense, got sparse partitions"),
        ((text, as_frames(frame)[1]), "got column 'f0' of type"),
        ((kinds, as_frames(frame)[1]), "got column 'f1' of type category"),
        ((X, da.from_array(np.full(N, "a"), chunks=70)), "y must be numeric"),
        ((X * 1e60, y), "largest magnitude"),
    ):
        with pytest.raises(ValueError, match=complaint):
            LangevinRidge(**SETTINGS).fit(*given)
    with pytest.raises(ValueError, match="batch_size must be None"):
        LangevinRidge(batch_size=10).fit(X, y)


# A cluster of two processes


def slow(block, seconds=0.4):
    time.sleep(seconds)
    return block


def kill_a_worker(cluster, after):
    """SIGKILL, in the middle of the work."""

    def strike():
        time.sleep(after)
        os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


def test_a_cluster(client, frame, model):
    found = LangevinRidge(**SETTINGS).fit(*as_frames(frame))
    np.testing.assert_allclose(found.coef_, model.coef_, rtol=1e-9)
    noise = found.quote(**QUOTE).compute()["noise"]
    np.testing.assert_allclose(noise, model.quote(**QUOTE).noise, rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that is gone
def test_a_worker_that_dies_in_the_middle(mortal, rows, model):
    from distributed import Client

    X, y = as_arrays(rows, chunk=30)
    with Client(mortal) as client:
        client.wait_for_workers(2)
        thread = kill_a_worker(mortal, after=0.6)
        found = LangevinRidge(**SETTINGS).fit(X.map_blocks(slow), y)
        thread.join()
        np.testing.assert_allclose(found.coef_, model.coef_, rtol=1e-9)
        client.wait_for_workers(2)
        thread = kill_a_worker(mortal, after=0.6)
        noise = found.quote(**QUOTE).compute()["noise"]
        thread.join()
    np.testing.assert_allclose(noise, model.quote(**QUOTE).noise, rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # of distributed, about the scheduler that is gone
@pytest.mark.slow  # a minute on a busy machine
def test_a_scheduler_that_goes_away(rows, doomed):
    from distributed import Client

    where, scheduler = doomed
    X, y = as_arrays(rows, chunk=30)
    found = LangevinRidge(**SETTINGS)
    soon = {"distributed.comm.timeouts.connect": "2s", "distributed.comm.retry.count": 0}
    with dask.config.set(soon):
        while not where.exists():
            time.sleep(0.1)
        client = Client(scheduler_file=str(where), timeout="20s")
        try:
            client.wait_for_workers(1)
            timer = threading.Timer(1.0, scheduler.kill)
            timer.start()
            with pytest.raises(ClusterLost, match="dask cluster"):
                found.fit(X.map_blocks(slow, seconds=1.0), y)
            timer.join()
        finally:
            client.close(timeout=1)
    assert not hasattr(found, "coef_")
