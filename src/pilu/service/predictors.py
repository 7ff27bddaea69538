"""Predictions of released models, in a process of their own.

One row takes scikit-learn milliseconds, a hundred rows hardly more. So calls that come in while the
model predicts wait, and are then answered by one call of the model. The model is never
in the process that answers calls.
"""

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

from pilu.exceptions import WrongInput
from pilu.service.stores import Stores

Rows = Sequence[Mapping[str, Any]]
Predicted = tuple[list[Any], list[dict[str, float]] | None]

_TOGETHER = 2_000  # rows in one call of the model
_IDLE = 600.0  # seconds without a prediction after which the process is ended


class _Call(NamedTuple):
    rows: Rows
    likely: bool  # also the probabilities of all classes


class Predictors:
    """Predictions of the models of all stores."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: dict[Path, list[tuple[_Call, asyncio.Future[Predicted]]]] = {}
        self._tasks: dict[Path, asyncio.Task[None]] = {}
        self._last = 0.0

    async def predict(self, store: Path, rows: Rows, *, likely: bool) -> Predicted:
        """Predictions for rows by the model that a store has now."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Predicted] = loop.create_future()
        self._waiting.setdefault(store, []).append((_Call(rows, likely), future))
        task = self._tasks.get(store)
        if task is None or task.done():
            self._tasks[store] = loop.create_task(self._answer_all(store))
        return await future

    async def _answer_all(self, store: Path) -> None:
        waiting = self._waiting[store]
        while waiting:
            some, n_rows = [waiting.pop(0)], 0
            while waiting and n_rows + len(waiting[0][0].rows) <= _TOGETHER:
                some.append(waiting.pop(0))
                n_rows += len(some[-1][0].rows)
            answers = await self._answers(store, [call for call, _ in some])
            for (_, future), found in zip(some, answers, strict=True):
                if future.done():  # the client went away
                    continue
                if isinstance(found, Exception):
                    future.set_exception(found)
                else:
                    future.set_result(found)

    async def _answers(self, store: Path, calls: list[_Call]) -> list[Predicted | Exception]:
        loop = asyncio.get_running_loop()
        self._last = time.monotonic()
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, spawn, initializer=end_with_parent)
        try:
            return await loop.run_in_executor(self._pool, answer_calls, store, calls)
        except BrokenProcessPool as error:  # it was killed: the next call starts another
            self._pool = None
            return [error] * len(calls)
        except Exception as error:  # the store cannot be read
            return [error] * len(calls)

    async def drop_old(self) -> None:
        """Drop parameters that were replaced, and the process if nobody needs it."""
        if self._pool is None:
            return
        if time.monotonic() - self._last > _IDLE:
            self.close()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._pool, drop_replaced)
        except BrokenProcessPool:
            self._pool = None

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


# In the process that predicts


def end_with_parent() -> None:
    """End this process when the one that started it is gone, however that came."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


_stores: dict[Path, Stores] = {}
_held: dict[Path, tuple[str, Any]] = {}  # the model of a store, and the certificate it has


def answer_calls(store: Path, calls: Sequence[_Call]) -> list[Predicted | Exception]:
    """An answer or an error for each call; no call changes the answer of another."""
    model = _model(store)
    groups: dict[Any, list[int]] = {}
    for place, call in enumerate(calls):
        # Rows with other types are other tables. A call of several rows is one of its own.
        types = tuple((name, type(value)) for name, value in call.rows[0].items())
        alone = place if len(call.rows) > 1 else None
        groups.setdefault((call.likely, types, alone), []).append(place)
    answers: dict[int, Predicted | Exception] = {}
    for (likely, *_), places in groups.items():
        answers |= _together(model, calls, places, likely)
    return [answers[place] for place in range(len(calls))]


def _together(
    model: Any, calls: Sequence[_Call], places: Sequence[int], likely: bool
) -> dict[int, Predicted | Exception]:
    """Answers by one call of the model, or one by one where not all rows can be read."""
    rows = [row for place in places for row in calls[place].rows]
    try:
        values, shares = model(rows, likely)
    except Exception as error:
        if len(places) == 1:
            return {places[0]: error}
        single = (_together(model, calls, [place], likely) for place in places)
        return {place: found for one in single for place, found in one.items()}
    answers: dict[int, Predicted | Exception] = {}
    start = 0
    for place in places:
        end = start + len(calls[place].rows)
        answers[place] = values[start:end], None if shares is None else shares[start:end]
        start = end
    return answers


def drop_replaced() -> None:
    """Drop parameters that were replaced since."""
    for store in list(_held):
        try:
            _model(store)
        except WrongInput:  # the store is not there any more
            _held.pop(store, None)


def _model(store: Path) -> Any:
    """The model that a store has now; it is loaded again when the store was changed."""
    if store.parent not in _stores:
        _stores[store.parent] = Stores(store.parent)
    opened = _stores[store.parent].open(store.name)
    certified = opened.log().certified
    head = "" if certified is None else str(certified.certificate_sha256)
    if store not in _held or _held[store][0] != head:
        _held.pop(store, None)  # the old parameters go first
        with opened.desk() as desk:
            _held[store] = head, desk.predictor()
    return _held[store][1]
