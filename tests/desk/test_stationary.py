"""A store of a model that learned at stationarity, and warnings of the desk and its commands."""

import subprocess
import sys
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from desk.conftest import COLUMNS
from pilu import verify
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.exceptions import TotalBudgetWarning


def test_a_store_keeps_that_learning_was_at_stationarity(parquet, tmp_path):
    receipts = []
    with LangevinDesk.create(tmp_path / "store", parquet, COLUMNS, n_steps=None, alpha=0.1) as desk:
        first = desk.unlearn(
            "person number 3", deliver=receipts.extend, n_unlearn_steps=2
        ).certificate
    with Desk.open(tmp_path / "store") as desk:
        second = desk.unlearn(
            "person number 4", deliver=receipts.extend, n_unlearn_steps=2
        ).certificate
        assert second.schedule == ((None, 0.01), (2, first.noise), (2, second.noise))
        checks = check_store(desk, table=parquet)
        assert checks["state_follows_from_the_log"]
        assert verify(second)["fields_consistent"]
        found = check_receipt(receipts[-1], desk, table=parquet)
        assert found["inputs_checked_against_data"]
        assert desk.redraw().certificate.schedule == ((None, 0.01),)


def spend(desk):
    for person in range(12):
        desk.unlearn(f"person number {person}", epsilon=0.2, delta=0.03, n_unlearn_steps=1)


def test_desk_warns_like_the_estimators(parquet, tmp_path):
    settings = {"budget_epsilon": 100.0, "budget_delta": 0.9}
    with pytest.warns(ConvergenceWarning, match="n_steps=1:"):
        desk = LangevinDesk.create(tmp_path / "store", parquet, COLUMNS, n_steps=1, **settings)
    with desk, warnings.catch_warnings():
        warnings.simplefilter("error", TotalBudgetWarning)
        with pytest.raises(TotalBudgetWarning, match="redraw"):
            spend(desk)
        assert desk.unlearn("person number 15", method="redraw").certificate.total_delta == 0.0


def test_a_command_warns_in_one_line(parquet, tmp_path):
    line = f"fit {parquet} --target y --id row_id --subject person --method langevin"
    line = f"{line} --learning-steps 1 --out"
    done = subprocess.run(
        [sys.executable, "-m", "pilu", *line.split(), tmp_path / "store"],
        capture_output=True,
        text=True,
        check=True,
    )
    (said,) = done.stderr.splitlines()
    assert said.startswith("pilu: warning: learning has not converged after n_steps=1:")
