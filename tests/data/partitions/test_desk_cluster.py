"""Stores fitted by a cluster, and within a stated memory."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from data.partitions.test_dask import kill_a_worker
from pilu.cli.app import app
from pilu.cli.options import bytes_of
from pilu.data import arrow_tables, table_rows
from pilu.data.graphs import connected
from pilu.data.table import Columns
from pilu.data.table_rows import batch_bytes_within
from pilu.desk.checking import check_store
from pilu.desk.langevin_desk import LangevinDesk
from pilu.exceptions import ClusterLost

COLUMNS = Columns(("y",), "row_id", "person")
SETTINGS = {"n_steps": 40, "noise": 0.01}


@pytest.fixture
def pattern(frame, tmp_path):
    """Three files of row groups of 20 rows."""
    (tmp_path / "data").mkdir()
    table = pa.Table.from_pandas(frame.reset_index(names="row_id"), preserve_index=False)
    people = pa.array([f"person {i // 4}" for i in range(len(frame))])
    table = table.append_column("person", people)
    for k in range(3):
        path = tmp_path / "data" / f"{k}.parquet"
        pyarrow.parquet.write_table(table.slice(80 * k, 80), path, row_group_size=20)
    return tmp_path / "data" / "*.parquet"


@pytest.fixture
def alone(pattern, tmp_path):
    with LangevinDesk.create(tmp_path / "alone", pattern, COLUMNS, **SETTINGS) as desk:
        yield desk


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(arrow_tables, "_PART_BYTES", 1)  # every row group by itself


@pytest.fixture
def slow_parts(monkeypatch):
    learn = table_rows._learn_part

    def slow(*given):  # goes to the workers by value
        time.sleep(1.0)
        return learn(*given)

    monkeypatch.setattr(table_rows, "_learn_part", slow)


def same(one, other):
    for name in ("gram", "cross"):
        here, there = (
            getattr(desk.read().model.fitted_.chain.problem.statistics, name)
            for desk in (one, other)
        )
        assert np.linalg.norm(here - there) <= 1e-12 * np.linalg.norm(there)
    people = ["person 3", "person 20", "person 59"]
    np.testing.assert_array_equal(
        one.quote(people, n_unlearn_steps=1).noise, other.quote(people, n_unlearn_steps=1).noise
    )


def test_a_store_fitted_by_a_cluster(cluster, alone, pattern, small_parts, tmp_path):
    where = cluster.scheduler_address
    with LangevinDesk.create(tmp_path / "c", pattern, COLUMNS, scheduler=where, **SETTINGS) as desk:
        same(desk, alone)
        (receipt,) = desk.unlearn("person 20", n_unlearn_steps=1).receipts
        assert receipt.person.record["rows"] == [80, 81, 82, 83]
        assert check_store(desk, table=pattern)["rows_and_statistics_are_those_of_the_table"]


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that is gone
def test_a_worker_that_dies(mortal, alone, pattern, small_parts, tmp_path):
    thread = kill_a_worker(mortal, after=0.3)
    where = mortal.scheduler_address
    with LangevinDesk.create(tmp_path / "c", pattern, COLUMNS, scheduler=where, **SETTINGS) as desk:
        thread.join()
        same(desk, alone)


@pytest.mark.slow
def test_no_such_scheduler(pattern, tmp_path):
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(ClusterLost, match="scheduler must be 'local' or the address"):
            LangevinDesk.create(tmp_path / "c", pattern, COLUMNS, scheduler=address, **SETTINGS)
        assert not (tmp_path / "c").exists()


def test_the_command_line(pattern, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = f"fit {pattern} --target y --id row_id --subject person --method langevin --out s --json"
    found = CliRunner().invoke(app, [*line.split(), "--scheduler", "local", "--memory", "1GB"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["n_rows"] == 240
    wrong = CliRunner().invoke(app, [*line.split(), "--memory", "many"])
    assert (wrong.exit_code, "a size such as 2GB" in wrong.output) == (2, True)


def test_memory_that_is_not_enough():
    with pytest.raises(ValueError, match=r"memory must be at least [\d,]+ MB for 2,000,000 rows"):
        batch_bytes_within(400 * 10**6, 2_000_000, 257)
    least = batch_bytes_within(2 * 10**9, 2_000_000, 257)
    assert 2**20 <= least <= 32 * 2**20
    assert batch_bytes_within(None, 10, 5) == 32 * 2**20


@pytest.mark.parametrize(
    ("text", "expected"), [("2GB", 2 * 10**9), ("500 mb", 5 * 10**8), ("1.5GB", 15 * 10**8)]
)
def test_sizes_as_people_write_them(text, expected):
    assert bytes_of(text) == expected


PROGRAM = """
import sys
from pathlib import Path
from pilu.desk.langevin_desk import LangevinDesk
from pilu.data.table import Columns
memory = int(sys.argv[2])
LangevinDesk.create(sys.argv[3], sys.argv[1], Columns(("y",), "row_id"), n_steps=10, memory=memory)
# not ru_maxrss: that begins with what the parent had
lines = Path("/proc/self/status").read_text().splitlines()
print(1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_a_fit_stays_within_its_memory(tmp_path):
    """A gigabyte of rows in four files, in 800 MB."""
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    n, p, files = 160_000, 200, 4
    for k in range(files):
        columns = {f"f{j}": rng.normal(size=n) for j in range(p)}
        columns |= {"y": rng.normal(size=n), "row_id": np.arange(k * n, (k + 1) * n)}
        path = tmp_path / "data" / f"{k}.parquet"
        pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=16_384)
    memory = 800 * 10**6
    assert files * n * p * 8 > memory
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data" / "*.parquet"), str(memory),
         str(tmp_path / "s")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(found.stdout) <= memory


@pytest.mark.filterwarnings("ignore")  # of distributed, about the scheduler that is gone
def test_a_scheduler_that_goes_away(pattern, small_parts, slow_parts, tmp_path, doomed):
    where, scheduler = doomed
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        while not where.exists():
            time.sleep(0.1)
        address = json.loads(where.read_text())["address"]
        timer = threading.Timer(2.0, scheduler.kill)
        timer.start()
        with pytest.raises(ClusterLost, match="dask cluster"):
            LangevinDesk.create(tmp_path / "c", pattern, COLUMNS, scheduler=address, **SETTINGS)
        timer.join()
    assert not (tmp_path / "c").exists()


def test_a_local_cluster_serves_nobody_else(alone):
    """Nothing of it listens where another machine could ask."""
    before = open_to_others()  # other tests' clusters
    with connected("local") as client:
        scheduler = client.cluster.scheduler
        assert all(address.startswith("tcp://127.0.0.1") for address in client.nthreads())
        assert scheduler.address.startswith("tcp://127.0.0.1")
        assert open_to_others() == before


def open_to_others():
    """Ports that this process listens on for any address, by /proc."""
    mine = {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}") or os.path.islink(f"/proc/self/fd/{fd}")
    }
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            listening, inode = state == "0A", rest[5]
            if listening and set(local.split(":")[0]) == {"0"} and f"socket:[{inode}]" in mine:
                found.append(local)
    return found


def test_fewer_rows_than_columns_are_not_for_a_cluster(alone, frame, tmp_path):
    wide = pa.table({f"f{k}": frame.iloc[:5, 0].to_numpy() + k for k in range(8)})
    table = wide.append_column("y", pa.array(np.arange(5.0)))
    pyarrow.parquet.write_table(
        table.append_column("who", pa.array(list("abcde"))), tmp_path / "wide.parquet"
    )
    with pytest.raises(ValueError, match="scheduler must be left out for fewer rows than columns"):
        LangevinDesk.create(
            tmp_path / "wide",
            tmp_path / "wide.parquet",
            Columns(("y",), None, "who"),
            scheduler="local",
        )
