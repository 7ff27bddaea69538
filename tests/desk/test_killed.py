"""Killed at any place a deletion writes, the store is as before or as after, never both."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest


@pytest.fixture(params=[24, pytest.param(300, marks=pytest.mark.slow)])
def n_places(request):
    return request.param


@pytest.fixture
def reports(desk, tmp_path, n_places):
    desk.close()
    script = Path(__file__).parent / "killing.py"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(n_places)],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_killed_at_every_place(reports, n_places):
    total, *killed = reports
    assert total["total"] >= 200
    assert len(killed) == min(n_places, total["total"])
    # SIGKILL; what a run does differs by an instruction or two, so that the last may be missed
    assert sum(report["code"] == -9 for report in killed) >= 0.9 * len(killed)
    kinds = Counter()
    for report in killed:
        as_before = (report["entries"], report["generation"], report["knows"]) == (1, 0, True)
        as_after = (report["entries"], report["generation"], report["knows"]) == (
            2,
            1,
            "AlreadyForgotten",
        )
        assert as_before != as_after, report
        # the rubbish is gone as soon as somebody opens the store, and it works
        assert report["folders"] == [f"arrays-{report['generation']}"], report
        assert report["then"] == [21, 22, 23]
        assert report["files"] == ["key", "ledger.sqlite"]
        kinds["before" if as_before else "after"] += 1
    assert kinds["before"] > 0
    assert kinds["after"] > 0
