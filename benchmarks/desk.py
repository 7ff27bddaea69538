"""The deletion desk: its commands against eigh, the disk, a bare import, and Algorithm 1."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan
from pilu.data.table import Columns
from pilu.desk.costs import quote_everyone
from pilu.desk.langevin_desk import LangevinDesk

COLUMNS = Columns(("y",), "row_id", "person")
ROWS_IN_A_GROUP = 4096


def people_quoted(size: Size) -> int:
    """A thousand; fewer where there are fewer rows."""
    return min(1000, size.n // 2)


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time the desk on a table in a temporary folder."""
    X, Y = make_data(size)
    rows = with_intercept(X)
    references.wake()
    with tempfile.TemporaryDirectory(prefix="pilu-bench-") as name:
        folder = Path(name)
        _write_table(X, Y, folder / "people.parquet")
        desk = watch.time(
            "fit",
            LangevinDesk.create,
            folder / "store",
            folder / "people.parquet",
            COLUMNS,
            n_steps=size.T,
            budget_epsilon=1e3,
            budget_delta=0.9,
        )
        with desk:
            step_size = desk.read().model.step_size_
            for _ in range(plan.long_repeats):
                _literal("Algorithm 1 before", plan, watch, rows, Y, step_size)
                watch.time("quotes", _quote, desk, size)
                _literal("Algorithm 1 after", plan, watch, rows, Y, step_size)
            G = references.gram(rows)
            for k in range(plan.repeats):
                references.time_eigh(watch, G)
                row = 7 * k
                watch.time("same bytes", _same_bytes, folder, row)
                watch.time("unlearn", desk.unlearn, f"p{row}", n_unlearn_steps=size.K)
                _start_up(watch, folder)
            watch.time("quotes after deletions", _quote, desk, size)


def _quote(desk: LangevinDesk, size: Size) -> None:
    quote_everyone(desk.read(), n_unlearn_steps=size.K, at_most=people_quoted(size))


def _write_table(X: Array, Y: Array, path: Path) -> None:
    columns: dict[str, Any] = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    columns["y"] = Y[:, 0]
    columns["row_id"] = [f"r{i}" for i in range(len(X))]
    columns["person"] = [f"p{i}" for i in range(len(X))]
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=ROWS_IN_A_GROUP)


def _same_bytes(folder: Path, row: int) -> None:
    """Read what a deletion reads, and write what it writes, down to the disk."""
    _read_row_group(folder / "people.parquet", row)
    store, to = folder / "store", folder / "copy"
    shutil.rmtree(to, ignore_errors=True)
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        content = path.read_bytes()
        new = to / path.relative_to(store)
        new.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())


def _read_row_group(table: Path, row: int) -> None:
    """The bytes of the group of rows that a row is in, as they lie in the file."""
    metadata = pyarrow.parquet.read_metadata(table)
    group = metadata.row_group(row // ROWS_IN_A_GROUP)
    columns = [group.column(k) for k in range(group.num_columns)]
    start = min(c.dictionary_page_offset or c.data_page_offset for c in columns)
    with table.open("rb") as file:
        file.seek(start)
        file.read(sum(c.total_compressed_size for c in columns))


def _start_up(watch: Stopwatch, folder: Path) -> None:
    """Whole processes, from their start to their end."""
    python, pilu = [sys.executable], [sys.executable, "-m", "pilu"]
    for name, command in (
        ("import numpy", [*python, "-c", "import numpy"]),
        ("pilu --help", [*pilu, "--help"]),
        ("pilu ledger", [*pilu, "ledger", str(folder / "store")]),
    ):
        watch.time(name, subprocess.run, command, check=True, capture_output=True)


def _literal(
    name: str, plan: Plan, watch: Stopwatch, rows: Array, Y: Array, step_size: float
) -> None:
    watch.time(name, references.algorithm_1, rows, np.asarray(Y), step_size, plan.literal_steps)
