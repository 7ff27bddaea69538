"""Ordered parallel work on worker processes; the calling process works too."""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from joblib.externals.loky import get_reusable_executor, wrap_non_picklable_objects
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

_QUEUED = 2  # pieces submitted per worker: the current one and the next
_IDLE_SECONDS = 60  # after which an idle worker exits
# A worker is one core: more BLAS threads would only take memory.
_ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def map_in_order(
    work: Callable[..., Result], pieces: Iterable[tuple[Any, ...]], n_jobs: int
) -> Iterator[Result]:
    """work(*piece) for every piece, in order, by n_jobs processes including this one.

    Bind shared data to `work`: each worker receives it once, as it is now, and keeps it.
    """
    workers = n_jobs - 1
    if workers < 1:
        yield from (work(*piece) for piece in pieces)
        return
    pool = get_reusable_executor(max_workers=workers, timeout=_IDLE_SECONDS, env=_ONE_CORE)
    # Pickled once, here. A thread of the pool pickles the pieces, and must not pickle `work` while
    # this process runs it: laws fill their caches.
    pickled = pickle.dumps(wrap_non_picklable_objects(work, keep_wrapper=False))
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            if sum(not future.done() for future in waiting) < _QUEUED * workers:
                waiting.append(pool.submit(_run, pickled, piece))
            else:
                done: Future[Result] = Future()
                done.set_result(work(*piece))
                waiting.append(done)
            while waiting and waiting[0].done():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # after a failure or an interrupt the rest is not needed
        for future in waiting:
            future.cancel()


def _run(pickled: bytes, piece: tuple[Any, ...]) -> Any:
    return _unpickled(pickled)(*piece)


@lru_cache(maxsize=1)  # keeps the caches that earlier pieces filled
def _unpickled(pickled: bytes) -> Callable[..., Any]:
    work: Callable[..., Any] = pickle.loads(pickled)
    return work


def pack(sizes: NDArray[np.intp], most: int) -> Iterator[tuple[slice, slice]]:
    """Pack consecutive groups into packs of at most `most` rows; a larger group is one pack.

    Yields the groups and the rows of every pack.
    """
    ends, first = np.cumsum(sizes), 0
    while first < len(sizes):
        start = int(ends[first] - sizes[first])
        last = max(first + 1, int(np.searchsorted(ends, start + most, "right")))
        yield slice(first, last), slice(start, int(ends[last - 1]))
        first = last


@cache  # finding the libraries takes milliseconds
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process; `blas().limit(limits=1)` takes them to one thread."""
    return ThreadpoolController().select(user_api="blas")
