"""Independent runs in several processes: each is kept as soon as it is done, so none is lost.

A study is a list of named runs. What a run returns is written to ``<folder>/<name>.npz`` before the
next one starts; a study that was killed goes on with the runs that have no file yet.
"""

import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_integer, complaint
from pilu._progress import progress_bar
from pilu.exceptions import WrongInput

__all__ = ["load_run", "run_all"]

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[..., Arrays]

_MOST_DEATHS = 3  # of workers by one run, until it is given up


def run_all(
    run: Run,
    arguments: Mapping[str, tuple[Any, ...]],
    folder: Path | str,
    *,
    n_workers: int | None = None,
) -> int:
    """Carry out every run that `folder` does not have yet.

    A worker that dies takes its run with it; the run is started again, the others go on. Runs that
    fail are told once all others are done. Ctrl-C ends the study after the runs under way.

    Parameters
    ----------
    run : function
        Takes a run's arguments, returns arrays by name. Other processes must be able to import it.
    arguments : mapping
        From the name of each run to its arguments.
    folder : path
    n_workers : int, optional
        Processes; one for each core by default.

    Returns
    -------
    started : int
        How many runs were not there before.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    workers = check_integer(
        "n_workers", os.cpu_count() if n_workers is None else n_workers, least=1
    )
    for name in arguments:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise complaint("arguments", "named by letters, digits, '_', '-' and '.'", name)
    missing = [name for name in arguments if not _file(folder, name).exists()]
    queue: SimpleQueue[str] = SimpleQueue()
    for name in missing:
        queue.put(name)
    failures: dict[str, BaseException] = {}
    stop = threading.Event()
    with progress_bar(len(arguments), what="runs", unit="run") as bar:
        bar.update(len(arguments) - len(missing))

        def work() -> None:
            worker = _Worker()
            try:
                while not stop.is_set():
                    name = queue.get_nowait()
                    try:
                        worker.carry_out(run, arguments[name], _file(folder, name))
                    except Exception as error:  # told at the end, by name
                        failures[name] = error
                    bar.update()
            except Empty:
                pass
            finally:
                worker.close()

        with ThreadPoolExecutor(min(workers, max(len(missing), 1))) as threads:
            try:
                for done in as_completed([threads.submit(work) for _ in range(workers)]):
                    done.result()
            finally:
                stop.set()
    if failures:
        name, error = next(iter(failures.items()))
        raise RuntimeError(
            f"{len(failures)} run(s) have failed, {name} first: {error!r}. The others are kept; "
            "what is missing is tried again by the next call."
        ) from error
    return len(missing)


def load_run(folder: Path | str, name: str) -> dict[str, NDArray[Any]]:
    """What a run returned."""
    with np.load(_file(Path(folder), name), allow_pickle=False) as kept:
        return {key: kept[key] for key in kept.files}


class _Worker:
    """A process of its own, replaced when it dies: no other run suffers from it."""

    def __init__(self) -> None:
        self._pool = self._open()

    def carry_out(self, run: Run, given: tuple[Any, ...], target: Path) -> None:
        """One run, started again where the process dies over it."""
        for _ in range(_MOST_DEATHS):
            try:
                return self._pool.submit(_one, run, given, target).result()
            except BrokenProcessPool:
                self.close()
                self._pool = self._open()
        raise RuntimeError(
            f"its process has died {_MOST_DEATHS} times; it may be out of memory, or the function "
            "cannot be imported by another process"
        )

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _open() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Whoever kills the study must not be left with its workers."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _one(run: Run, given: tuple[Any, ...], target: Path) -> None:
    arrays = {name: np.asarray(value) for name, value in run(*given).items()}
    if "file" in arrays or any(value.dtype.hasobject for value in arrays.values()):
        raise WrongInput("a run must return arrays of numbers or text, none of them named 'file'.")
    # A name that only a whole file gets: what a kill leaves behind is never taken for a result.
    partial = target.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    partial.replace(target)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"
