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
from pilu.deletion.costs import price_everybody
from pilu.deletion.desk import Desk
from pilu.deletion.tables import Columns

COLUMNS = Columns(("y",), "row_id", "person")


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
            "fit", Desk.create, folder / "store", folder / "people.parquet", COLUMNS, n_steps=size.T
        )
        with desk:
            G = references.gram(rows)
            for k in range(plan.repeats):
                references.time_eigh(watch, G)
                watch.time("same bytes", _copy_durably, folder / "store", folder / "copy")
                watch.time("unlearn", desk.unlearn, f"p{7 * k}", n_unlearn_steps=size.K)
                _start_up(watch, folder)
            step_size = desk.store.read().model.step_size_
            for _ in range(plan.long_repeats):
                _literal("Algorithm 1 before", plan, watch, rows, Y, step_size)
                watch.time(
                    "quotes",
                    price_everybody,
                    desk.store,
                    n_unlearn_steps=size.K,
                    at_most=people_quoted(size),
                )
                _literal("Algorithm 1 after", plan, watch, rows, Y, step_size)


def _write_table(X: Array, Y: Array, path: Path) -> None:
    columns: dict[str, Any] = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    columns["y"] = Y[:, 0]
    columns["row_id"] = [f"r{i}" for i in range(len(X))]
    columns["person"] = [f"p{i}" for i in range(len(X))]
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=4096)


def _copy_durably(store: Path, to: Path) -> None:
    """Read every byte of the store and write it again, down to the disk."""
    shutil.rmtree(to, ignore_errors=True)
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        content = path.read_bytes()
        new = to / path.relative_to(store)
        new.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())


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
