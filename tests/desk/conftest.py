"""A table of people in every format, and a store of it."""

import pytest

from data.conftest import COLUMNS, N, P, arrow_table, csv, npz, parquet, rows
from pilu.desk.desk import Desk

__all__ = ["COLUMNS", "N", "P", "arrow_table", "csv", "npz", "parquet", "rows"]


@pytest.fixture
def desk(parquet, tmp_path):
    with Desk.create(tmp_path / "store", parquet, COLUMNS, n_steps=50, noise=0.01) as made:
        yield made
