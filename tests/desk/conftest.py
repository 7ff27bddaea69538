"""A table of people in every format, and a store of it."""

import pytest

from data.conftest import COLUMNS, N, P, arrow_table, csv, npz, parquet, rows
from pilu.desk.langevin_desk import LangevinDesk

__all__ = ["COLUMNS", "N", "P", "arrow_table", "csv", "npz", "parquet", "rows"]


def rows_of(outcome):
    """Fit-time positions of all rows that were forgotten."""
    people = [receipt.person.record for receipt in outcome.receipts if receipt.person is not None]
    return tuple(sorted(row for person in people for row in person["rows"]))


@pytest.fixture
def desk(parquet, tmp_path):
    with LangevinDesk.create(tmp_path / "store", parquet, COLUMNS, n_steps=50, noise=0.01) as made:
        yield made
