"""Killed at any place, a refit store is as before or as after, and no receipt is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from desk.refit.tables import make_rows, write
from pilu.desk.desk import Desk

SAME = ("kinds", "n_rows", "n_gone", "n_waiting", "n_sources", "releases")


@pytest.fixture(params=[16, pytest.param(300, marks=pytest.mark.slow)])
def reports(request, tmp_path):
    rows, unused = make_rows(24), {"said", "city", "weight", "income"}
    table = write(rows, tmp_path / "people.csv", unused)
    write(make_rows(6, first=100), tmp_path / "more.csv", unused)
    write(rows[4:], tmp_path / "fewer.csv", unused)
    Desk.fit(tmp_path / "store", table, target="y", subject="person", id="row").close()
    script = str(Path(__file__).parent / "killing.py")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), str(request.param)],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_killed_at_every_place(reports):
    kinds = {report["kind"]: report for report in reports if "total" in report}
    assert set(kinds) == {"unlearn", "add", "sync", "request", "release"}
    outcomes, killed = set(), 0
    for report in reports:
        if "total" in report:
            continue
        kind, killed = report["kind"], killed + (report["code"] == -9)
        before, after = (kinds[kind][when] for when in ("before", "after"))
        state = [report[name] for name in SAME]
        was_before, was_after = (state == [r[name] for name in SAME] for r in (before, after))
        assert was_before != was_after, report
        assert report["verified"]
        outcomes.add((kind, was_after))
        (arrays,) = (name for name in report["files"] if name.startswith("arrays-"))
        assert set(report["files"]) == {arrays, "key", "ledger.sqlite"}
        if was_before:
            assert report["undelivered"] == []
            assert "receipt 0" not in report["out"]
            assert "model.json" not in report["out"]
        if was_after and kind == "unlearn":  # the receipts are out, or still to be had
            assert report["undelivered"] or {"receipt 0", "receipt 1"} <= set(report["out"])
            assert report["delivered_again"] == [True, True] * bool(report["undelivered"])
        if report["undelivered"]:
            assert "were not delivered yet: `pilu receipts" in report["recovered"]
        if was_after and kind == "release":  # the file is there whole, perhaps under another name
            assert {"model.json", ".model.json.part"} & set(report["out"])
    assert killed >= 0.9 * (len(reports) - 5)
    assert {(kind, False) for kind in kinds} <= outcomes
    assert ("unlearn", True) in outcomes
