"""Rows in memory and in dask collections, and a cluster of two processes."""

import subprocess
import sys

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

N, P = 240, 6
COLUMNS = [f"f{k}" for k in range(P)]


@pytest.fixture(autouse=True)
def threads_unless_a_cluster_is_asked_for(request):
    """A client that another test's dead cluster has left behind would be waited for without end."""
    if {"client", "cluster", "mortal", "doomed"} & set(request.fixturenames):
        yield
    else:
        with dask.config.set(scheduler="threads"):
            yield


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, X @ rng.normal(size=P) + rng.normal(size=N)


@pytest.fixture(scope="session")
def frame(rows):
    table = pd.DataFrame(rows[0], columns=COLUMNS, index=[f"row {i}" for i in range(N)])
    return table.assign(y=rows[1])


def two_processes():
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")


@pytest.fixture(scope="session")
def cluster():
    with two_processes() as made:
        yield made


@pytest.fixture
def mortal():
    """A cluster of its own for tests that kill workers: others would wait for those."""
    with two_processes() as made:
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        made.wait_for_workers(2)
        yield made


@pytest.fixture
def doomed(tmp_path):
    """A scheduler and a worker in processes of their own; the first to be killed."""
    where = tmp_path / "scheduler.json"
    run = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ours = ["--scheduler-file", str(where), "--no-dashboard"]
    scheduler = subprocess.Popen(
        [*run, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *ours],
        **quiet,
    )
    worker = subprocess.Popen(
        [*run, "distributed.cli.dask_worker", "--nworkers", "1", "--nthreads", "1", *ours], **quiet
    )
    yield where, scheduler
    for process in (worker, scheduler):
        process.kill()
        process.wait()
