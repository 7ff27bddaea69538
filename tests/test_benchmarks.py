"""The benchmark runs and leaves all its rows; what they say is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import data, references, work

ROOT = Path(__file__).parent.parent


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
    return done.stdout, json.loads((out / "bench.json").read_text())


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
    assert str(ROOT) not in json.dumps(record)
    assert sys.prefix not in json.dumps(record["machine"])


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
