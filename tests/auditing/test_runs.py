"""Studies that are stopped, killed and taken up again."""

import os
import signal
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


def fails(value):
    if value == 2:
        raise ValueError("no such value")
    return {"value": np.array(value)}


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


def named(values, *others):
    return {f"run-{value}": (value, *others) for value in values}


def test_every_run_is_kept(tmp_path, log):
    assert run_all(square, named(range(5), log), tmp_path / "runs", n_workers=2) == 5
    for value in range(5):
        found = load_run(tmp_path / "runs", f"run-{value}")
        assert found["square"] == value**2
        np.testing.assert_array_equal(found["pair"], np.arange(value))


def test_a_study_goes_on_where_it_was(tmp_path, log):
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
    # At most those that were under way with it were done twice.
    assert len(Path(log).read_text().split()) <= 8


def test_a_run_that_kills_every_worker_ends_the_study(tmp_path):
    with pytest.raises(RuntimeError, match=r"workers have died 6 times.*run-0"):
        run_all(always_killed, named([0]), tmp_path / "runs", n_workers=1)


def test_a_run_that_fails_says_so_and_others_are_kept(tmp_path):
    with pytest.raises(ValueError, match="no such value"):
        run_all(fails, named([1, 2]), tmp_path / "runs", n_workers=1)
    assert load_run(tmp_path / "runs", "run-1")["value"] == 1


def test_bad_number_of_workers(tmp_path):
    with pytest.raises(ValueError, match="n_workers must be an integer >= 1"):
        run_all(fails, named([1]), tmp_path / "runs", n_workers=0)
