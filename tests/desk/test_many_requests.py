"""One request after the other: how the log grows, and how many more the budget allows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from pilu.data.table import Columns
from pilu.desk.checking import check_store
from pilu.desk.langevin_desk import LangevinDesk
from pilu.exceptions import BudgetSpent

PEOPLE = 90


@pytest.fixture
def fitted(tmp_path):
    """A store of people with two rows each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * PEOPLE, 2))
    columns = {"a": X[:, 0], "b": X[:, 1], "y": X.sum(axis=1) + rng.normal(size=2 * PEOPLE)}
    columns["person"] = [f"p{k // 2}" for k in range(2 * PEOPLE)]
    path, opened = tmp_path / "t.parquet", []
    pyarrow.parquet.write_table(pa.table(columns), path)

    def make(**budget):
        named = Columns(("y",), None, "person")
        opened.append(
            LangevinDesk.create(tmp_path / "s", path, named, n_steps=50, noise=0.1, **budget)
        )
        return opened[0]

    yield make
    for desk in opened:
        desk.close()


def test_an_entry_is_as_long_as_the_others(fitted, tmp_path):
    """Sixty in a row: certificates repeat all earlier ones, and the log does not."""
    desk = fitted(budget_epsilon=1e4, budget_delta=0.9)
    receipts = []
    for k in range(60):
        asked = {"epsilon": 0.05, "delta": 1e-5, "n_unlearn_steps": 1}
        desk.unlearn(f"p{k}", **asked, deliver=receipts.extend)
    entries = desk.log().entries[1:]
    assert [entry.kind for entry in entries] == ["unlearn"] * 60
    sizes = [len(entry.body) for entry in entries]
    # numbers have more or fewer digits; each certificate before it would be 64 and more
    assert max(sizes[-20:]) <= max(sizes[:20]) + 48
    assert max(sizes) - min(sizes) <= 160
    lengths = [len(receipt.certificate.to_json()) for receipt in receipts]
    assert lengths[-1] > lengths[0] + 59 * 64  # what the log would have without that
    checks = check_store(desk, since=receipts[0].head, table=tmp_path / "t.parquet")
    assert all(checks.values())
    last = receipts[-1].certificate
    assert len(last.conditional_on) == 59
    assert last.conditional_on[-1] == receipts[-2].certificate.sha256
    assert receipts[-1].verify()["epsilon_recomputed"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("asked", "budget"),
    [
        ({"epsilon": 1.0, "delta": 1e-3}, {"budget_epsilon": 4.5, "budget_delta": 0.5}),
        ({"epsilon": 1.0, "delta": 1e-3}, {"budget_epsilon": 50.0, "budget_delta": 0.1}),
        ({"epsilon": 0.3, "delta": 1e-4}, {"budget_epsilon": 3.0, "budget_delta": 0.5}),
        ({"epsilon": 0.1, "delta": 1e-4}, {"budget_epsilon": 1.0, "budget_delta": 0.5}),
        ({"epsilon": 0.7, "delta": 1e-4}, {"budget_epsilon": 4.9, "budget_delta": 0.5}),
        ({"epsilon": 0.1, "delta": 1e-6}, {"budget_epsilon": 50.0, "budget_delta": 2e-5}),
        ({"epsilon": 2.0, "delta": 1e-5}, {"budget_epsilon": 10.0, "budget_delta": 0.02}),
        ({"epsilon": 1.0, "delta": 1e-3}, {"budget_epsilon": 1.0, "budget_delta": 1e-3}),
        # so many steps that hardly any noise is needed
        ({"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 80}, {"budget_epsilon": 3.5}),
    ],
)
@pytest.mark.parametrize("n_before", [1, 3])
def test_as_many_more_as_are_announced_are_answered(fitted, asked, budget, n_before):
    asked = {"n_unlearn_steps": 1, **asked}
    desk = fitted(**budget)
    assert desk.more_like_the_last() is None
    people = iter(f"p{k}" for k in range(PEOPLE - 1))
    for _ in range(n_before):
        try:
            desk.unlearn(next(people), **asked)
        except BudgetSpent:
            break
    announced = desk.more_like_the_last()
    assert announced >= 1 or 2 * asked["epsilon"] > budget["budget_epsilon"] or n_before == 3
    for _ in range(min(announced, PEOPLE - n_before - 1)):
        certificate = desk.unlearn(next(people), **asked).certificate
        assert certificate.total_epsilon <= budget["budget_epsilon"]


def test_after_a_redraw_nothing_is_announced(fitted):
    desk = fitted()
    desk.unlearn("p3", n_unlearn_steps=1)
    assert desk.more_like_the_last() >= 1
    desk.redraw()
    assert desk.more_like_the_last() is None
