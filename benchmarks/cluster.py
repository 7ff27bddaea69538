"""Tables larger than one would like: files streamed by one process, and by a cluster of two."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from distributed import Client, LocalCluster

import pilu
from benchmarks import references
from benchmarks.data import Array, Size
from benchmarks.machine import own_peak
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan
from pilu.data.table import Columns
from pilu.desk.langevin_desk import LangevinDesk

COLUMNS = Columns(("y",), "row_id")
FILES = 8
ROWS_AT_A_TIME = 16_384


def rows_quoted(size: Size) -> int:
    """Rows of the quotes: all of a smaller problem with the same columns."""
    return min(512, size.n // 4)


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time fits of files in a temporary folder, and quotes."""
    references.wake()
    with tempfile.TemporaryDirectory(prefix="pilu-bench-") as name:
        folder = Path(name)
        watch.time("making the files", _write_files, size, folder / "data")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            client.run(_load)
            for _ in range(min(plan.repeats, 3)):
                watch.time("reading", _read, folder / "data")
                watch.time("products", _products, size)
                watch.time("streaming", _fit, size, folder, None)
                watch.time("cluster", _fit, size, folder, cluster.scheduler_address)
            peaks = client.run(own_peak)
            outcome.counts["worker_megabytes"] = max(peaks.values()) // 10**6
            _quotes(size, watch)


def _write_files(size: Size, folder: Path) -> None:
    folder.mkdir()
    rng, n = np.random.default_rng(0), size.n // FILES
    for k in range(FILES):
        columns: dict[str, Any] = {f"f{j}": rng.standard_normal(n) for j in range(size.p - 1)}
        columns["y"] = rng.standard_normal(n)
        columns["row_id"] = np.arange(k * n, (k + 1) * n)
        path = folder / f"{k}.parquet"
        pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=25_000)


def _read(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        for _ in file.iter_batches(batch_size=ROWS_AT_A_TIME):
            pass


def _products(size: Size) -> None:
    """X'X of as many rows, block by block, on a block that is in memory."""
    block = np.random.default_rng(1).standard_normal((ROWS_AT_A_TIME, size.p))
    for _ in range(size.n // ROWS_AT_A_TIME):
        references.gram(block)


def _fit(size: Size, folder: Path, scheduler: str | None) -> None:
    shutil.rmtree(folder / "store", ignore_errors=True)
    pattern = folder / "data" / "*.parquet"
    options: dict[str, Any] = {"n_steps": size.T, "scheduler": scheduler}
    LangevinDesk.create(folder / "store", pattern, COLUMNS, **options).close()


def _quotes(size: Size, watch: Stopwatch) -> None:
    X, y = _smaller(size)
    model = pilu.LangevinRidge(n_steps=size.T).fit(X, y)
    watch.time("quotes in memory", model.quote, n_unlearn_steps=size.K)
    rows = len(X) // 8
    lazy = pilu.LangevinRidge(n_steps=size.T).fit(
        dask.array.from_array(X, chunks=(rows, X.shape[1])), dask.array.from_array(y, chunks=rows)
    )
    frame: Any = lazy.quote(n_unlearn_steps=size.K)
    watch.time("quotes by dask", frame.compute)


def _smaller(size: Size) -> tuple[Array, Array]:
    rng, n = np.random.default_rng(2), rows_quoted(size)
    X = rng.standard_normal((n, size.p - 1))
    return X, X @ rng.standard_normal(size.p - 1) + rng.standard_normal(n)


def _load() -> None:
    """Libraries, so that no timing pays for it."""
    import pilu.data.table_rows  # noqa: F401
