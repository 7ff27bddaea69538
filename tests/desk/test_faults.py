"""Full disks, read-only folders, failing writes, interrupts: nothing is lost, nothing is half."""

import errno
import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from desk.faulting import command, into
from pilu.data.table import Columns
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.exceptions import DoneWithTrouble
from pilu.store import arrays, store

N = 40
PERSON = "number3"
CHECKED = ("epsilon_recomputed", "person_is_among_those_of_the_entry", "in_the_log_of_the_store")


@pytest.fixture
def folder(tmp_path):
    """A table of people and a store of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": X.sum(axis=1) + rng.normal(size=N)}
    table["person"] = [f"number{i}" for i in range(N)]
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "people.parquet")
    columns = Columns(("y",), None, "person")
    LangevinDesk.create(
        tmp_path / "store", tmp_path / "people.parquet", columns, n_steps=50, noise=0.05
    ).close()
    return tmp_path


@pytest.fixture
def reports(folder):
    """Reports of tests/desk/faulting.py."""

    def run(what, number=0):
        script = Path(__file__).parent / "faulting.py"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        paths = os.pathsep.join([str(script.parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(script), what, str(folder), str(number)],
            env=os.environ | threads | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def contents(path):
    return {
        str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")
    }


def what_is_gone(path):
    """Forgotten rows of a store that must be whole, true to its table, and of one generation."""
    with Desk.open(path) as desk:
        check_store(desk, table=path.parent / "people.parquet")
        snapshot = desk.read()
    found = sorted(p.name for p in path.iterdir())
    assert found == [f"arrays-{snapshot.state['generation']}", "key", "ledger.sqlite"]
    return np.flatnonzero(~snapshot.model.fitted_.source.live).tolist()


def is_one_clear_line(output):
    return len(output.strip().splitlines()) == 1 and "Traceback" not in output


def unlearning(folder):
    """What `command` says of it, on the copy."""
    return command("unlearn", folder / "copy", folder)


def undelivered(folder):
    with Desk.open(folder / "copy") as desk:
        return desk.undelivered()


def delivered(folder):
    """Receipts that wait are handed over, and true."""
    assert command("receipts", folder / "copy", folder)["code"] == 0
    with Desk.open(folder / "copy") as desk:
        assert desk.undelivered() == []
        receipt = Receipt.from_json((folder / "receipt.json").read_text())
        return all(check_receipt(receipt, desk)[name] for name in CHECKED)


def fresh(folder):
    """A copy of the store as it was made, and no receipt."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    for receipt in folder.glob("*receipt*"):
        receipt.unlink()
    shutil.copytree(folder / "store", folder / "copy")


# The disk


def test_a_full_disk(reports):
    """Files may not grow past a limit; the command says what it could not write."""
    found = reports("full", 4)
    refused = [report for report in found if report.get("code") != 0]
    assert len(refused) >= 5
    assert len(found) > len(refused)  # the largest limit is none
    for report in refused:
        assert report.get("code") == 2, report
        assert is_one_clear_line(report["output"]), report
        assert any(name in report["output"] for name in ("arrays-1", "ledger.sqlite")), report
        assert (report["same"], report["receipt"]) == (True, False), report
        assert (report["found"]["entries"], report["found"]["gone"]) == (1, []), report
    for report in found:
        if report.get("code") == 0:
            assert (report["receipt"], report["found"]["gone"]) == (True, [3]), report
        else:
            assert report["again"]["code"] == 0, report
        assert (report["then"]["gone"], report["then"]["undelivered"]) == ([3], []), report
        assert report["then"]["names"] == ["arrays-1", "key", "ledger.sqlite"], report


@pytest.mark.parametrize("n_places", [16, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_at_any_write(reports, n_places):
    """Of arrays, of SQLite, of the receipt: the store is as before or as after, and says which."""
    after = {"unlearn": ["fit", "unlearn"], "request": ["fit", "request"]}
    after["release"] = ["fit", "release"]
    seen = {name: set() for name in after}
    for report in reports("no_space", n_places):
        if "total" in report:
            assert report["total"] >= 5, report
            continue
        name, found = report["command"], report["found"]
        assert "raised" not in report, report
        assert "raised" not in found, report
        assert (report["code"] == 0) or is_one_clear_line(report["output"]), report
        assert found["whole"], report
        done = found["kinds"] == after[name]
        assert done or found["kinds"] == ["fit"], report
        seen[name].add(report["code"])
        assert report["code"] in ((0, 4) if done else (2,)), report
        assert found["gone"] == ([3] if done and name == "unlearn" else []), report
        generation = int(done and name == "unlearn")
        assert found["names"] == [f"arrays-{generation}", "key", "ledger.sqlite"], report
        if name == "unlearn":  # nobody's receipt is lost, and nobody has one too early
            assert done == ("receipt.json" in report["made"] or found["undelivered"] == [1]), report
        if "model.json" in report["made"]:  # no release is missing from the log
            assert done, report
        assert report["then"]["code"] == 0, report  # what was not done, or not handed over
        if name == "unlearn":
            assert "receipt.json" in report["made_then"], report
    assert all(2 in codes for codes in seen.values())
    assert seen["unlearn"] == seen["release"] == {2, 4}


@pytest.mark.parametrize("from_then_on", [False, True])
def test_an_error_of_the_disk_in_any_fsync(folder, monkeypatch, from_then_on):
    """Before the turn all is as before, after it as after; which, the code says."""
    sync, codes = os.fsync, []
    for place in range(1, 100):
        fresh(folder)
        before, count = contents(folder / "copy"), 0

        def failing(handle, place=place):
            nonlocal count
            count += 1
            if count == place or (from_then_on and count > place):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(handle)

        monkeypatch.setattr(os, "fsync", failing)
        said = unlearning(folder)
        monkeypatch.setattr(os, "fsync", sync)
        codes.append(said["code"])
        if said["code"] == 0:
            break
        assert is_one_clear_line(said["output"]), said
        assert not (folder / "receipt.json").exists()
        if said["code"] == 2:
            assert contents(folder / "copy") == before
        else:
            assert what_is_gone(folder / "copy") == [3]
            assert undelivered(folder) == [1]
            assert delivered(folder)
    assert codes == sorted(codes, key=[2, 4, 0].index)  # wrong, done but not delivered, done
    assert {2, 4, 0} == set(codes)
    assert len(codes) > 10


def test_a_receipt_that_cannot_be_written(folder, monkeypatch):
    """It is named, nothing of it is left, and it is there once there is room."""

    def failing(handle):
        if "receipt.json" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fresh(folder)
    monkeypatch.setattr(os, "fsync", failing)
    said = unlearning(folder)
    monkeypatch.undo()
    assert (said["code"], is_one_clear_line(said["output"])) == (4, True)
    assert "No space left" in said["output"]
    assert "receipt.json" in said["output"]
    assert what_is_gone(folder / "copy") == [3]
    assert not list(folder.glob("*receipt*"))
    assert delivered(folder)


def test_who_may_only_read(reports):
    """Reading commands work, also beside what a killed process left; writing ones say why not."""
    found = reports("read_only")
    assert len(found) == 36
    for report in found:
        assert report["same"], report
        assert "raised" not in report, report
        if report["way"] == "key" and report["command"] != "ledger":
            assert report["code"] == 2, report
            assert "key cannot be read: Permission denied" in report["output"]
        elif report["reads"]:
            assert report["code"] == 0, report
        elif report["way"] != "key":
            assert report["code"] == 2, report
            words = ("cannot be written", "Permission denied")
            assert any(word in report["output"] for word in words), report
            assert "/copy/" in report["output"], report
        if report["code"]:
            assert is_one_clear_line(report["output"]), report
            assert report["made"] == [], report


@pytest.mark.parametrize("how", ["gone", "empty", "cut"])
def test_a_file_that_is_gone_or_cut_and_comes_back(folder, how):
    """Every command that needs it names it, nothing is written, and nothing was lost."""
    fresh(folder)
    store = folder / "copy"
    for name, content in contents(store).items():
        if content is None:
            continue
        (store / name).unlink()
        if how != "gone":
            (store / name).write_bytes(b"" if how == "empty" else content[: len(content) // 2])
        before = contents(store)
        for what in ("unlearn", "verify"):
            said = command(what, store, folder)
            assert said["code"] == 2, (name, said)
            assert is_one_clear_line(said["output"]), said
            assert Path(name).name in said["output"]
            assert contents(store) == before, (name, what)
            assert not list(folder.glob("*receipt*"))
        (store / name).write_bytes(content)
    assert what_is_gone(store) == []


# Interrupts


def raising(where, after):
    """A function that is interrupted before or after it has done its work."""

    def interrupted(*given, **options):
        found = where(*given, **options) if after else None
        raise KeyboardInterrupt
        return found

    return interrupted


class Connection:
    """A database whose COMMIT is interrupted, before it is done or after."""

    def __init__(self, database, after):
        self._database, self._after, self._rung = database, after, False

    def __getattr__(self, name):
        return getattr(self._database, name)

    def execute(self, statement, *given):
        rings = statement == "COMMIT" and self._database.total_changes and not self._rung
        self._rung |= bool(rings)
        if rings and not self._after:
            raise KeyboardInterrupt
        found = self._database.execute(statement, *given)
        if rings:
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("where", ["write_arrays", "deliver", "COMMIT", "drop_others"])
def test_an_interrupt_leaves_it_as_before_or_as_after(folder, monkeypatch, where, after):
    fresh(folder)
    before, deliver = contents(folder / "copy"), None
    with Desk.open(folder / "copy") as desk:
        if where == "write_arrays":
            monkeypatch.setattr(store, where, raising(arrays.write_arrays, after))
        elif where == "deliver":
            deliver = raising(lambda receipt: None, after)
        elif where == "COMMIT":
            ledger = desk.store.ledger
            monkeypatch.setattr(ledger, "_database", Connection(ledger._database, after))
        else:
            calls = []

            def dropping(*given):
                calls.append(given)
                if len(calls) != 2:  # the first clears up before, the second at the end
                    return arrays.drop_others(*given)
                return raising(arrays.drop_others, after)(*given)

            monkeypatch.setattr(store, where, dropping)
        with pytest.raises((DoneWithTrouble, KeyboardInterrupt)) as raised:
            desk.unlearn(PERSON, n_unlearn_steps=1, deliver=deliver)
        monkeypatch.undo()
    is_done = where in ("drop_others", "deliver") or (where == "COMMIT" and after)
    assert raised.type is (DoneWithTrouble if is_done else KeyboardInterrupt)
    if not is_done:
        assert {k: v for k, v in contents(folder / "copy").items() if "arrays-1" not in k} == before
    assert what_is_gone(folder / "copy") == ([3] if is_done else [])
    assert undelivered(folder) == ([1] if is_done else [])
    assert not is_done or delivered(folder)


def test_an_impatient_user_still_gets_the_receipt(folder, monkeypatch):
    """Interrupted at the very end, and once more while that is cleared up."""
    fresh(folder)
    calls = []

    def dropping(*given):
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return arrays.drop_others(*given)

    monkeypatch.setattr(store, "drop_others", dropping)
    with pytest.raises((DoneWithTrouble, KeyboardInterrupt)), Desk.open(folder / "copy") as desk:
        desk.unlearn(PERSON, n_unlearn_steps=1, deliver=into(folder))
    monkeypatch.undo()
    assert what_is_gone(folder / "copy") == [3]
    assert delivered(folder)


class Lines:
    """A tracer: counts the lines of the desk that are run, and interrupts at the n-th."""

    def __init__(self, place):
        self.place, self.run = place, []

    def __call__(self, frame, event, argument):
        name = frame.f_code.co_filename
        inside = "/pilu/desk/" in name or "/pilu/store/" in name
        return self._line if inside else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.run.append((Path(frame.f_code.co_filename).name, frame.f_lineno))
            if len(self.run) == self.place:
                raise KeyboardInterrupt
        return self._line


def interrupted(folder, place):
    """The lines that were run, whether it is done, and whether the receipt is there or waits."""
    fresh(folder)
    lines, before = Lines(place), sys.gettrace()
    sys.settrace(lines)
    try:
        with Desk.open(folder / "copy") as desk:
            desk.unlearn(PERSON, n_unlearn_steps=1, deliver=into(folder))
    except (KeyboardInterrupt, DoneWithTrouble):
        pass
    finally:
        sys.settrace(before)
    receipts, waiting = list(folder.glob("*receipt*")), undelivered(folder)
    for receipt in receipts:
        if waiting and not receipt.read_text():
            continue  # interrupted before it was written, and before it could be removed
        Receipt.from_json(receipt.read_text()).verify()
    done = what_is_gone(folder / "copy") == [3]
    assert not waiting or delivered(folder)
    return lines.run, done, bool(receipts or waiting)


def places(run, n_places):
    """Some of all lines, and all near the two ends: old files dropped, the receipt written."""
    dropped = max(k for k, (name, _) in enumerate(run) if name == "arrays.py")
    written = max(k for k, (name, _) in enumerate(run) if name == "disk.py")
    near = {*range(dropped - 5, dropped + 18), *range(written - 6, written + 12)}
    return sorted({*near, *(1 + k * (len(run) - 1) // n_places for k in range(n_places))})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files left open
@pytest.mark.parametrize("n_places", [15, pytest.param(5000, marks=pytest.mark.slow)])
def test_interrupted_at_any_line_the_receipt_is_there_or_waits_if_it_is_done(folder, n_places):
    gc.disable()  # else a file that was left open is noticed at any time
    interrupted(folder, -1)  # what is imported runs its lines but once
    run, done, _ = interrupted(folder, -1)
    assert done
    outcomes, wrong = set(), []
    for place in places(run, n_places):
        lines, done, receipt = interrupted(folder, place)
        outcomes.add(done)
        if done != receipt:
            wrong.append((lines[place - 1], done, receipt))
    gc.enable()
    gc.collect()
    assert not wrong
    assert outcomes == {True, False}


# Others, and the end


def test_several_at_the_same_time(reports, folder):
    """All in turn, or some told to wait; nobody's deletion is lost."""
    *people, found = reports("together", 4)
    done = [report["person"] for report in people if report.get("code") == 0]
    assert done
    for report in people:
        assert report["receipt"] == (report["person"] in done), report
        if report["person"] not in done:
            assert "in use by another process" in report["output"], report
    assert found["gone"] == done
    assert found["entries"] == 1 + len(done)
    assert found["whole"]
    assert found["names"] == [f"arrays-{len(done)}", "key", "ledger.sqlite"]


@pytest.mark.parametrize("n_places", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_killed_while_it_is_made(reports, n_places):
    """No store, or a whole one; what is left beside it gives way to the next."""
    total, *killed = reports("killed_while_made", n_places)
    assert total["total"] > 200
    assert len(killed) == min(n_places, total["total"])
    assert sum(report.get("killed") == 9 for report in killed) >= 0.9 * len(killed)
    whole = []
    for report in killed:
        found = report["found"]
        whole.append("raised" not in found)
        if whole[-1]:
            assert (found["whole"], found["entries"], found["gone"]) == (True, 1, []), report
            assert found["names"] == ["arrays-0", "key", "ledger.sqlite"], report
        else:
            assert "must be a store, got" in found["words"], report
        assert report["parts"] in ([], [".new.part"]), report
        if "again" in report:
            refused = "must be a new or empty folder" in report["again"].get("words", "")
            assert refused == whole[-1], report
            assert report["then"]["whole"], report
            assert report["parts_then"] == ["new"], report
    assert {True, False} == set(whole)
    assert sum("again" in report for report in killed) > n_places / 2
