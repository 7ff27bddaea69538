"""Work shared with helper processes, in order, the calling process doing its part."""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from joblib.externals.loky import get_reusable_executor, wrap_non_picklable_objects
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "packed", "shared_out"]

Result = TypeVar("Result")

_QUEUED = 2  # pieces with each helper: one in work, and the next
_IDLE_SECONDS = 60  # after which a helper leaves
# Each helper is one core; a library that starts more threads only takes memory.
_ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def shared_out(
    work: Callable[..., Result], pieces: Iterable[tuple[Any, ...]], n_jobs: int
) -> Iterator[Result]:
    """work(*piece) for every piece, in order, by n_jobs processes of which this is one.

    What all pieces need is bound to the work: a helper receives it as it is now and keeps it.
    """
    helpers = n_jobs - 1
    if helpers < 1:
        yield from (work(*piece) for piece in pieces)
        return
    pool = get_reusable_executor(max_workers=helpers, timeout=_IDLE_SECONDS, env=_ONE_CORE)
    # Pieces are pickled by a thread of the pool's, which must not meet the work while it is done
    # here: laws remember what they have computed.
    sealed = pickle.dumps(wrap_non_picklable_objects(work, keep_wrapper=False))
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            if sum(not future.done() for future in waiting) < _QUEUED * helpers:
                waiting.append(pool.submit(_performed, sealed, piece))
            else:
                done: Future[Result] = Future()
                done.set_result(work(*piece))
                waiting.append(done)
            while waiting and waiting[0].done():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # after a failure or an interrupt nobody wants the rest
        for future in waiting:
            future.cancel()


def _performed(sealed: bytes, piece: tuple[Any, ...]) -> Any:
    return _opened(sealed)(*piece)


@lru_cache(maxsize=1)  # with what the work has learned from earlier pieces
def _opened(sealed: bytes) -> Callable[..., Any]:
    work: Callable[..., Any] = pickle.loads(sealed)
    return work


def packed(sizes: NDArray[np.intp], most: int) -> Iterator[tuple[slice, slice]]:
    """Put groups into packs of at most `most` rows, in their order; a larger group goes by itself.

    Yields, for every pack, which groups and which rows are in it.
    """
    ends, first = np.cumsum(sizes), 0
    while first < len(sizes):
        start = int(ends[first] - sizes[first])
        last = max(first + 1, int(np.searchsorted(ends, start + most, "right")))
        yield slice(first, last), slice(start, int(ends[last - 1]))
        first = last


def blas_threads(count: int | None) -> AbstractContextManager[Any]:
    """Limit BLAS to so many threads; None changes nothing."""
    if count is None:
        return nullcontext()
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=count, user_api="blas")
    return limits


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes milliseconds
