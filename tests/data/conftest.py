"""A table of people in every format."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from pilu.data.table import Columns

COLUMNS = Columns(("y",), "row_id", "person")
N, P = 60, 4


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, X @ rng.normal(size=P) + rng.normal(size=N)


@pytest.fixture(scope="session")
def arrow_table(rows):
    X, y = rows
    return pa.table(
        {
            **{f"f{k}": X[:, k] for k in range(P)},
            "y": y,
            "row_id": [f"row number {i}" for i in range(N)],
            "person": [f"person number {i // 3}" for i in range(N)],
        }
    )


@pytest.fixture
def parquet(arrow_table, tmp_path):
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(arrow_table, path, row_group_size=7)
    return path


@pytest.fixture
def csv(arrow_table, tmp_path):
    path = tmp_path / "people.csv"
    pyarrow.csv.write_csv(arrow_table, path)
    return path


@pytest.fixture
def npz(rows, tmp_path):
    path = tmp_path / "people.npz"
    X, y = rows
    names = np.array([f"row number {i}" for i in range(N)])
    people = np.array([f"person number {i // 3}" for i in range(N)])
    np.savez(path, X=X, y=y, row_id=names, person=people)
    return path
