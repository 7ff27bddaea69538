"""A store of sixty rows of thirty people."""

import pytest

from desk.refit.tables import make_rows, write
from pilu.desk.desk import Desk

COLUMNS = {"target": "y", "subject": "person", "id": "row", "ignore": ["weight"]}


@pytest.fixture
def rows():
    return make_rows(60)


@pytest.fixture
def table(rows, tmp_path):
    return write(rows, tmp_path / "people.csv")


@pytest.fixture
def desk(table, tmp_path):
    with Desk.fit(tmp_path / "store", table, **COLUMNS) as made:
        yield made
