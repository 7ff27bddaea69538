"""Rows in memory and in dask collections, and a cluster of two processes."""

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

N, P = 240, 6
COLUMNS = [f"f{k}" for k in range(P)]


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, X @ rng.normal(size=P) + rng.normal(size=N)


@pytest.fixture(scope="session")
def frame(rows):
    table = pd.DataFrame(rows[0], columns=COLUMNS, index=[f"row {i}" for i in range(N)])
    return table.assign(y=rows[1])


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as made:
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        made.wait_for_workers(2)
        yield made
