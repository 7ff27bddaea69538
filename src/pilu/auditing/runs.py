"""Independent runs in several processes: each is kept as soon as it is done, so none is lost.

A study is a list of named runs. What a run returns is written to ``<folder>/<name>.npz`` before the
next one starts; a study that was killed goes on with the runs that have no file yet.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_integer
from pilu._progress import progress_bar

__all__ = ["load_run", "run_all"]

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[..., Arrays]

_MOST_DEATHS = 5  # of workers, until the study gives up


def run_all(
    run: Run,
    arguments: Mapping[str, tuple[Any, ...]],
    folder: Path,
    *,
    n_workers: int | None = None,
) -> int:
    """Carry out every run that `folder` does not have yet.

    A worker that dies takes its run with it; the run is started again.

    Parameters
    ----------
    run : function
        Takes a run's arguments, returns arrays by name. It must be importable by other processes.
    arguments : mapping
        From the name of each run to its arguments.
    folder : Path
    n_workers : int, optional
        Processes; one for each core by default.

    Returns
    -------
    started : int
        How many runs were not there before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workers = check_integer(
        "n_workers", os.cpu_count() if n_workers is None else n_workers, least=1
    )
    missing = [name for name in arguments if not _file(folder, name).exists()]
    with progress_bar(len(arguments), what="runs", unit="run") as bar:
        bar.update(len(arguments) - len(missing))
        left, deaths = missing, 0
        while left:
            try:
                _carry_out(run, {name: arguments[name] for name in left}, folder, workers, bar)
            except BrokenProcessPool:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise RuntimeError(
                        f"workers have died {deaths} times (out of memory?), last with {left[0]} "
                        "next in line. What is done is kept; run it with fewer workers."
                    ) from None
            left = [name for name in left if not _file(folder, name).exists()]
    return len(missing)


def load_run(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """What a run returned."""
    with np.load(_file(folder, name), allow_pickle=False) as kept:
        return {key: kept[key] for key in kept.files}


def _carry_out(
    run: Run, arguments: Mapping[str, tuple[Any, ...]], folder: Path, workers: int, bar: Any
) -> None:
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        pending: set[Future[None]] = {
            pool.submit(_one, run, given, _file(folder, name)) for name, given in arguments.items()
        }
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                bar.update()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one(run: Run, given: tuple[Any, ...], target: Path) -> None:
    arrays = run(*given)
    # A name that only a whole file gets: what a kill leaves behind is never taken for a result.
    partial = target.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    partial.replace(target)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"
