"""Everybody's price is what a quote of that person says."""

import numpy as np
import pytest

from desk.conftest import COLUMNS, N
from pilu.data import table as table_module
from pilu.desk import costs
from pilu.desk.costs import quote_everyone
from pilu.desk.langevin_desk import LangevinDesk

PEOPLE = [f"person number {i}" for i in range(N // 3)]


@pytest.fixture
def priced(desk):
    desk.unlearn("person number 3", n_unlearn_steps=1)
    return quote_everyone(desk.read(), n_unlearn_steps=1)


def test_everybody_as_each_of_them(desk, priced):
    left = [person for person in PEOPLE if person != "person number 3"]
    each = desk.quote(left, n_unlearn_steps=1)
    assert priced.names == left
    np.testing.assert_array_equal(priced.noise, each.noise)
    assert priced.rows.tolist() == [3] * len(left)
    assert priced.n_subjects == len(left)


def test_rows_are_read_a_few_at_a_time(desk, priced, monkeypatch):
    monkeypatch.setattr(table_module, "BATCH_BYTES", 400)
    monkeypatch.setattr(costs, "_WORTH_PROCESSES", 4)  # and by several processes
    again = quote_everyone(desk.read(), n_unlearn_steps=1)
    np.testing.assert_array_equal(again.noise, priced.noise)


def test_a_sample(desk, priced):
    some = quote_everyone(desk.read(), n_unlearn_steps=1, at_most=5)
    assert len(some.names) == 5
    assert some.n_subjects == len(PEOPLE) - 1
    known = dict(zip(priced.names, priced.noise, strict=True))
    assert [known[name] for name in some.names] == some.noise.tolist()


def test_groups_of_different_sizes(arrow_table, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    where = arrow_table.column_names.index("person")
    names = ["one", *["two"] * 2, *["many"] * 20, *["scattered", "rest"] * 18, "one more"]
    path = tmp_path / "sizes.parquet"
    pyarrow.parquet.write_table(arrow_table.set_column(where, "person", pa.array(names)), path)
    with LangevinDesk.create(tmp_path / "s", path, COLUMNS, n_steps=50, noise=0.01) as desk:
        found = quote_everyone(desk.read(), n_unlearn_steps=1)
        each = desk.quote(found.names, n_unlearn_steps=1)
    assert dict(zip(found.names, found.rows.tolist(), strict=True)) == {
        "one": 1, "two": 2, "many": 20, "scattered": 18, "rest": 18, "one more": 1,
    }  # fmt: skip
    np.testing.assert_array_equal(found.noise, each.noise)
