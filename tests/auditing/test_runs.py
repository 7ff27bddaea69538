"""Studies that are interrupted, killed and resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pilu.auditing import load_run, run_all


def square(value, log):
    with open(log, "a") as file:
        file.write(f"{value}\n")
    return {"square": np.array(value**2), "pair": np.arange(value)}


def killed_once(value, log):
    """A run that takes its worker down the first time."""
    mark = Path(log).with_name(f"tried-{value}")
    if value == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(value, log)


def always_killed(value):
    os.kill(os.getpid(), signal.SIGKILL)


def objects(value):
    return {"value": np.array([object()])}


def slow(value):
    time.sleep(0.3)
    return {"value": np.array(value)}


def fails(value):
    if value == 2:
        raise ValueError("no such value")
    return {"value": np.array(value)}


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


def named(values, *others):
    return {f"run-{value}": (value, *others) for value in values}


def test_every_run_is_saved(tmp_path, log):
    assert run_all(square, named(range(5), log), tmp_path / "runs", n_workers=2) == 5
    for value in range(5):
        saved = load_run(tmp_path / "runs", f"run-{value}")
        assert saved["square"] == value**2
        np.testing.assert_array_equal(saved["pair"], np.arange(value))


def test_a_study_resumes_with_the_missing_runs(tmp_path, log):
    run_all(square, named([0, 1], log), tmp_path / "runs", n_workers=1)
    assert run_all(square, named(range(4), log), tmp_path / "runs", n_workers=1) == 2
    assert Path(log).read_text().split() == ["0", "1", "2", "3"]


def test_half_a_file_is_no_result(tmp_path, log):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "run-1.1234.tmp").write_bytes(b"half")
    assert run_all(square, named([1], log), folder, n_workers=1) == 1
    assert load_run(folder, "run-1")["square"] == 1


def test_a_killed_worker_loses_its_run_only(tmp_path, log):
    assert run_all(killed_once, named(range(6), log), tmp_path / "runs", n_workers=2) == 6
    assert load_run(tmp_path / "runs", "run-3")["square"] == 9
    assert sorted(Path(log).read_text().split()) == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.slow
def test_a_run_that_kills_every_worker_ends_the_study(tmp_path):
    with pytest.raises(RuntimeError, match=r"run-0 first.*process has died 3 times"):
        run_all(always_killed, named([0]), tmp_path / "runs", n_workers=1)


def test_a_run_that_fails_is_reported_and_the_others_are_saved(tmp_path):
    with pytest.raises(RuntimeError, match=r"1 run\(s\) have failed, run-2 first.*no such value"):
        run_all(fails, named([1, 2, 3]), str(tmp_path / "runs"), n_workers=1)
    assert load_run(tmp_path / "runs", "run-1")["value"] == 1
    assert load_run(tmp_path / "runs", "run-3")["value"] == 3


def test_what_a_run_may_not_return(tmp_path):
    with pytest.raises(RuntimeError, match="arrays of numbers or text"):
        run_all(objects, named([1]), tmp_path / "runs", n_workers=1)


@pytest.mark.parametrize("name", ["a/b", "../away", "", ".hidden"])
def test_names_that_are_no_file_names(tmp_path, name):
    with pytest.raises(ValueError, match="arguments must be named by letters"):
        run_all(fails, {name: (1,)}, tmp_path / "runs")
    assert not list(tmp_path.glob("*.npz"))


STUDY = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs without it
sys.path.insert(0, {here!r})
from test_runs import slow
from pilu.auditing import run_all
if __name__ == "__main__":
    try:
        run_all(slow, {{f"run-{{k}}": (k,) for k in range(40)}}, {folder!r}, n_workers=2)
    except KeyboardInterrupt:
        print("interrupted")
        time.sleep(60)
"""


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_no_worker_outlives_an_interrupt_or_a_kill(tmp_path, how):
    """Whether the interrupt is caught or the study is killed, no further run is saved."""
    script = tmp_path / "study.py"
    folder = str(tmp_path / "runs")
    script.write_text(STUDY.format(here=str(Path(__file__).parent), folder=folder))
    study = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(list(Path(folder).glob("*.npz"))) >= 2)
        study.send_signal(how)
        wait_until(lambda: not running(study.pid) or how == signal.SIGINT)
        time.sleep(2.0)
        done = len(list(Path(folder).glob("*.npz")))
        time.sleep(2.0)
        assert len(list(Path(folder).glob("*.npz"))) == done < 40
    finally:
        study.kill()
        study.wait()


def running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return False


def wait_until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def test_bad_number_of_workers(tmp_path):
    with pytest.raises(ValueError, match="n_workers must be an integer >= 1"):
        run_all(fails, named([1]), tmp_path / "runs", n_workers=0)
