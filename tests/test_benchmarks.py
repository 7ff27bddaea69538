"""The benchmark runs and leaves all its rows; what they say is not judged here."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import data, history, machine, page, references, work

ROOT = Path(__file__).parent.parent
SPIN = """
import sys, time
while time.process_time() < 0.5:
    pass
print("spun", flush=True)
sys.stdin.read()
"""


def run_of(out, *sizes):
    """The table and the record of a run."""
    command = [sys.executable, "-m", "benchmarks", "--sizes", *sizes]
    options = [
        "--repeats",
        "2",
        "--no-growth",
        "--exact-rows",
        "10",
        "--memory-seconds",
        "1",
        "--out",
        str(out),
    ]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "bench.json").read_text()) | {"out": out}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("bench"), "toy", "toy-cyclic")


@pytest.fixture(scope="module")
def longer_run(tmp_path_factory):
    """Of works that take longer even on toys: for slow tests."""
    return run_of(tmp_path_factory.mktemp("bench"), "toy-desk", "toy-softmax", "toy-refit")


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


def test_every_row_of_mini_batches_is_there(run):
    _, record = run
    assert [row["work"].strip() for row in record["sizes"]["toy-cyclic"]["rows"]] == [
        "fit",
        "quote one row, theorem",
        "quote 10 rows, theorem",
        "against the pass",
        "one deletion, theorem",
        "one deletion, exact",
        "rows read by the unlearning steps",
        "with the check of digests",
    ]


def test_ratios_of_mini_batches_follow_from_the_raw_times(run):
    _, record = run
    toy = record["sizes"]["toy-cyclic"]
    times, rows = toy["times"], {row["work"]: row for row in toy["rows"]}
    steps = toy["plan"]["literal_steps"]
    each = [
        f / (2 * a * 40 / steps + s)
        for f, a, s in zip(*(times[k] for k in ("fit", "Algorithm 1", "smoothness")), strict=True)
    ]
    assert rows["fit"]["ratio"] == pytest.approx(sum(each) / 2)
    (quote,), (before,), (after,) = (
        times[k] for k in ("theorem, together", "products before", "products after")
    )
    expected = quote / ((before + after) / 2 * 40 / steps)
    assert rows["quote 10 rows, theorem"]["ratio"] == pytest.approx(expected)


@pytest.mark.slow
def test_every_row_of_the_desk_is_there(longer_run):
    _, record = longer_run
    desk = record["sizes"]["toy-desk"]
    assert [row["work"].strip() for row in desk["rows"]] == [
        "fit of a table",
        "unlearn",
        "quotes of 50 people",
        "after the deletions",
        "pilu --help",
        "pilu ledger",
    ]
    times = desk["times"]
    each = [
        u / (e + b)
        for u, e, b in zip(*(times[k] for k in ("unlearn", "eigh", "same bytes")), strict=True)
    ]
    rows = {row["work"]: row for row in desk["rows"]}
    assert rows["unlearn"]["ratio"] == pytest.approx(sum(each) / 2)


@pytest.mark.slow
def test_every_row_of_softmax_is_there(longer_run):
    _, record = longer_run
    softmax = record["sizes"]["toy-softmax"]
    works = [row["work"].strip() for row in softmax["rows"]]
    assert works == [
        "quote all rows, runs included",
        "one deletion",
        "beyond its steps",
        "peak memory above X",
    ]
    times, rows = softmax["times"], {row["work"]: row for row in softmax["rows"]}
    (quote,), (before,), (after,) = (times[k] for k in ("quote", "runs before", "runs after"))
    assert rows[works[0]]["ratio"] == pytest.approx(quote / (10 * (before + after) / 2))


@pytest.mark.slow
def test_every_row_of_refits_is_there(longer_run):
    _, record = longer_run
    refit = record["sizes"]["toy-refit"]
    works = [row["work"].strip() for row in refit["rows"]]
    assert works == [
        "logistic, cold fit",
        "whole pipeline",
        "one person forgotten",
        "one per cent of the people",
        "softmax, cold fit",
        "one row forgotten",
        "one per cent of the rows",
        "ridge, scaler and alpha: one row",
        "alphas too close to tell",
        "cold fit",
        "exposure of all people, logistic",
        "against scikit-learn",
        "exposure of all rows, squares",
        "default noise",
    ]
    times, rows = refit["times"], {row["work"]: row for row in refit["rows"]}
    for title, name, reference in (
        ("exposure of all people, logistic", "exposure, people", "cold fit, pipeline"),
        ("exposure of all rows, squares", "exposure, squares", "X V and a product"),
    ):
        each = [e / r for e, r in zip(times[name], times[reference], strict=True)]
        assert rows[title]["ratio"] == pytest.approx(sum(each) / 2)


def test_unlearning_reads_its_batches_and_no_more(run):
    _, record = run
    counts = record["sizes"]["toy-cyclic"]["counts"]
    # 12 steps go round the 10 batches once and a bit, so the row is missing once or twice.
    assert counts["rows_of_steps"] in (12 * 10 - 1, 12 * 10 - 2)
    assert counts["rows_with_check"] == counts["rows_of_steps"] + 100 - 1


def test_the_pass_back_is_that_of_the_law():
    size = data.SIZES["toy-cyclic"]
    X, Y = data.make_data(size)
    model, row = work.fitted(size, X, Y), size.n - 1  # its batch has the last turn of all
    points = data.with_intercept(X)[[row]].T
    lengths = references.walk_back(
        data.with_intercept(X), points, size.b, model.step_size_, size.T - 1
    )
    law = model.fitted_.law
    (visits,) = (steps for _, steps in law.problem.by_batch(np.array([row]), size.T))
    _, variances = law.residual_laws(np.array([row]), len(visits))
    expected = lengths[:, 0] @ law.variances[: size.T - 1][::-1]
    assert variances[0, -1] == pytest.approx(expected)


def test_the_table_says_what_was_scaled(run):
    table, _ = run
    assert "Algorithm 1 is timed for 2 of its 25 steps and scaled up." in table
    assert "The exact quote is timed on 10 of 100 rows, listed, and scaled up." in table
    assert "pass back of 10 vectors: 5 of 40 steps." in table


def test_no_path_of_the_machine_is_recorded(run):
    _, record = run
    assert str(ROOT) not in json.dumps(record | {"out": None})
    assert sys.prefix not in json.dumps(record["machine"])


def test_a_run_states_its_machine_and_keeps_its_ratios(run):
    table, record = run
    described = record["machine"]
    first, *_ = table.splitlines()
    assert first.startswith(f"{described['cores']} cores")
    assert "BLAS: " in first
    assert f"numpy {np.__version__}" in first
    kept = history.read(record["out"] / history.NAME)
    rows = [
        (size, row["ratio"])
        for size in ("toy", "toy-cyclic")
        for row in record["sizes"][size]["rows"]
    ]
    assert [(line["size"], line["ratio"]) for line in kept] == rows
    (fit,) = (line for line in kept if (line["size"], line["line"]) == ("toy", "fit"))
    times = record["sizes"]["toy"]["times"]
    each = [
        f / (g + e) for f, g, e in zip(*(times[k] for k in ("fit", "X'X", "eigh")), strict=True)
    ]
    assert fit["spread"] == pytest.approx(sorted(each))
    assert fit["commit"] == described["commit"]


def line_of(least, largest, **others):
    spread = None if least is None else [least, largest]
    keys = {"machine": {"cores": 2}, "size": "toy", "plan": {}, "line": "fit", "quiet": True}
    return {**keys, "reference": "eigh", "remark": "", "spread": spread, **others}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (line_of(0.7, 0.9), "better"),
        (line_of(1.3, 1.5), "worse"),
        (line_of(0.9, 1.0), "within the spread"),
        (line_of(1.2, 1.3), "within the spread"),
        (line_of(None, None), "no spread"),
        (line_of(0.7, 0.9, quiet=False), "busy"),
        (line_of(0.7, 0.9, machine={"cores": 4}), "first"),
        (line_of(0.7, 0.9, plan={"literal_steps": 9}), "first"),
    ],
)
def test_a_run_is_compared_to_the_last_quiet_one_on_its_machine(line, said):
    earlier = [line_of(0.1, 0.2), line_of(1.0, 1.2), line_of(5.0, 6.0, quiet=False)]
    assert history.change(line, earlier) == said


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not say who is busy")
@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not say who is busy")
def test_own_programs_are_not_others():
    """Half a second of a child's is the family's, while it lives and when it has ended."""
    before = machine._ticks_of_family()
    half = 0.5 * os.sysconf("SC_CLK_TCK")
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=-1, stdout=-1) as child:
        child.stdout.readline()
        assert machine._ticks_of_family() - before >= 0.9 * half
        child.communicate(b"")
    assert machine._ticks_of_family() - before >= 0.9 * half


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not say who is busy")
def test_other_programs_are_noticed():
    """One that has left the family spins for half a second."""
    others, began = machine.Others(), time.monotonic()
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SPIN!r}])"
    command = [sys.executable, "-c", orphan]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=-1) as gone:
        assert gone.stdout.readline() == b"spun\n"
    assert others.cores() * (time.monotonic() - began) >= 0.45


def test_the_page_of_runs_follows_from_the_lines_that_are_kept():
    text = page.PAGE.read_text()
    assert text.partition(page.HEAD)[2] == page.runs(history.read(page.KEPT))


def test_only_quiet_lines_of_clean_commits_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "KEPT", tmp_path / "kept.jsonl")
    whole = {
        "machine": {"cores": 2, "processor": "P", "system": "S", "blas": ["B"]},
        **{"date": "2026-01-02T03:04:05+00:00", "ratio": 0.5, "at_most": 1.3},
    }
    lines = [
        line_of(0.4, 0.6, commit="abc", **whole),
        line_of(0.4, 0.6, commit="abc-dirty", **whole),
        line_of(0.4, 0.6, commit="abd", **{**whole, "quiet": False}),
    ]
    history.write(tmp_path / "history.jsonl", lines)
    assert page.keep(tmp_path / "history.jsonl") == 1
    assert page.keep(tmp_path / "history.jsonl") == 0
    shown = page.runs(history.read(page.KEPT))
    assert "| work | at most | abc, 2026-01-02 | change |" in shown
    assert "| fit | 1.3 | 0.5 (0.4 to 0.6) | first |" in shown
    assert "abd" not in shown


@pytest.mark.slow
def test_the_living_desk_is_timed(tmp_path):
    """Each of its commands is a process of its own, so that it takes half a minute."""
    command = [sys.executable, "-m", "benchmarks", "--sizes", "toy-living", "--repeats", "1"]
    done = subprocess.run(
        [*command, "--no-growth", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "bench.json").read_text())
    rows = {row["work"]: row for row in record["sizes"]["toy-living"]["rows"]}
    times = record["sizes"]["toy-living"]["times"]
    expected = times["one person"][0] / (times["reading"][0] + times["refit"][0])
    assert rows["one person forgotten"]["ratio"] == pytest.approx(expected)
    assert len(rows) == 8  # three works, and five commands on a log of 100 entries
