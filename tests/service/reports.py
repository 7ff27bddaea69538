"""Run `killing.py` or `stalling.py`, and read what they print."""

import json
import os
import subprocess
import sys
from pathlib import Path

_LOOKED_AT = (
    "requests", "receipts", "log", "actions", "callbacks", "leases", "rows", "bytes", "desk",
)  # fmt: skip


def reports_of(script, folder, n_places, *database):
    """What a script prints: first about the whole pass, then about each place."""
    tests = Path(__file__).parents[1]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-W", "error", tests / "service" / script, folder, str(n_places),
         *database],
        env=os.environ | threads | {"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_reports(reports):
    """Refuse them with all that is not as it must be."""
    wrong = []
    for report in reports:
        found = {name: report[name] for name in _LOOKED_AT if report[name] is not True}
        found |= {name: report[name] for name in ("put_back", "left_running") if report[name]}
        if not report["respected"]:
            found["respected"] = "a worker went where another held the lease"
        if found:
            wrong.append(f"{report['place']}, {report['last']}: {found}")
    assert not wrong, "\n".join(wrong)
