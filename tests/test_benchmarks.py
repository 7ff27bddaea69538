"""The benchmark runs and leaves all its rows; what they say is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "benchmarks", "--sizes", "toy", "--repeats", "2"]
    options = ["--no-growth", "--exact-rows", "10", "--memory-seconds", "1", "--out", str(out)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "bench.json").read_text())


def test_every_row_is_there(run):
    _, record = run
    assert record["finished"]
    works = [row["work"].strip() for row in record["sizes"]["toy"]["rows"]]
    expected = [
        "fit",
        "quote all rows, theorem",
        "quote all rows, exact",
        "one deletion, exact",
        "the first after a fit",
        "10 deletions in a row",
        "the worst",
    ]
    if Path("/proc/self/smaps_rollup").exists():
        expected.append("peak memory")
    assert works == expected


def test_ratios_follow_from_the_raw_times(run):
    _, record = run
    toy = record["sizes"]["toy"]
    times, rows = toy["times"], {row["work"]: row for row in toy["rows"]}
    each = [
        f / (g + e) for f, g, e in zip(*(times[k] for k in ("fit", "X'X", "eigh")), strict=True)
    ]
    assert rows["fit"]["ratio"] == pytest.approx(sum(each) / 2)  # the median of two
    steps = toy["plan"]["literal_steps"]
    each = [
        d / (a * 25 / steps)
        for d, a in zip(times["one deletion"], times["Algorithm 1"], strict=True)
    ]
    assert rows["one deletion, exact"]["ratio"] == pytest.approx(sum(each) / 2)


def test_the_table_says_what_was_scaled(run):
    table, _ = run
    assert "Algorithm 1 is timed for 2 of its 25 steps and scaled up." in table
    assert "The exact quote is timed on 10 of 100 rows, listed, and scaled up." in table


def test_no_path_of_the_machine_is_recorded(run):
    _, record = run
    assert str(ROOT) not in json.dumps(record)
    assert sys.prefix not in json.dumps(record["machine"])
