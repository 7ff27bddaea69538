"""Independent runs in several processes: each is saved as soon as it is done, so none is lost.

A study is a list of named runs. The arrays of a run are written to ``<folder>/<name>.npz`` before
the next run starts. A study that was killed resumes with the runs that have no file yet.
"""

import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_integer, complaint
from pilu._progress import progress_bar
from pilu.exceptions import WrongInput

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[..., Arrays]

_MOST_DEATHS = 3  # after so many dead workers, a run is given up


def run_all(
    run: Run,
    arguments: Mapping[str, tuple[Any, ...]],
    folder: Path | str,
    *,
    n_workers: int | None = None,
) -> int:
    """Carry out every run that `folder` does not have yet.

    If a worker dies, only its run is lost and started again. Runs that fail are reported after all
    others are done. Ctrl-C ends the study after the runs under way.

    Parameters
    ----------
    run : function
        From a run's arguments to arrays by name. Other processes must be able to import it.
    arguments : mapping
        From the name of each run to its arguments.
    folder : path
    n_workers : int, optional
        Processes; one for each core by default.

    Returns
    -------
    started : int
        How many runs were missing.
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
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for _ in range(workers):
        idle.put(_Worker())

    def carry_out(name: str) -> None:
        worker = idle.get()
        try:
            worker.carry_out(run, arguments[name], _file(folder, name))
        finally:
            idle.put(worker)

    failures: dict[str, BaseException] = {}
    with progress_bar(len(arguments), what="runs", unit="run") as bar:
        bar.update(len(arguments) - len(missing))
        threads = ThreadPoolExecutor(workers)
        try:
            names = {threads.submit(carry_out, name): name for name in missing}
            for done in as_completed(names):
                error = done.exception()
                if error is not None:  # reported at the end, by name
                    failures[names[done]] = error
                bar.update()
        finally:
            threads.shutdown(cancel_futures=True)
            for _ in range(workers):
                idle.get().close()
    if failures:
        name, error = next(iter(failures.items()))
        raise RuntimeError(
            f"{len(failures)} run(s) have failed, {name} first: {error!r}. The others are saved. "
            "Call again to retry the missing ones."
        ) from error
    return len(missing)


def load_run(folder: Path | str, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a run."""
    with np.load(_file(Path(folder), name), allow_pickle=False) as saved:
        return {key: saved[key] for key in saved.files}


def save_run(run: Run, arguments: tuple[Any, ...], path: Path) -> None:
    """Carry out one run in this process and write its arrays to a file."""
    arrays = {name: np.asarray(value) for name, value in run(*arguments).items()}
    if "file" in arrays or any(value.dtype.hasobject for value in arrays.values()):
        raise WrongInput("a run must return arrays of numbers or text, none of them named 'file'.")
    # Only a complete file gets the final name, so a kill never leaves half a result.
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    partial.replace(path)


class _Worker:
    """One process, replaced if it dies: the runs of other workers are not affected.

    In a pool of several processes, as joblib's, one death ends the runs of all of them.
    """

    def __init__(self) -> None:
        self._pool = self._open()

    def carry_out(self, run: Run, arguments: tuple[Any, ...], path: Path) -> None:
        """Carry out one run; start it again if the process dies."""
        for _ in range(_MOST_DEATHS):
            try:
                return self._pool.submit(save_run, run, arguments, path).result()
            except BrokenProcessPool:
                self.close()
                self._pool = self._open()
        raise RuntimeError(
            f"its process has died {_MOST_DEATHS} times. It may be out of memory, or the function "
            "cannot be imported by another process"
        )

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _open() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """If the study is killed, its workers end too."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"
