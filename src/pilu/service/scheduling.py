"""Start a worker in a process of its own when something is due, and let the others answer calls."""

import asyncio
import contextlib
import logging
import os
import sys
import time

from pilu.service import actions, due, leases, outbox
from pilu.service.configuration import ENVIRONMENT
from pilu.service.leases import lease_of, pause_of
from pilu.service.running import Service

_EVERY = 2.0  # seconds between looks
_log = logging.getLogger("pilu.service")


class Scheduler:
    """Looks for work every few seconds; every night it works in all stores."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._everywhere_at = time.time()  # once at the start, to finish what was left

    async def run(self) -> None:
        """Look and work until the task is cancelled."""
        sending: asyncio.Task[None] | None = None
        dropping: asyncio.Task[None] | None = None
        try:
            while True:
                try:
                    if sending is None or sending.done():
                        sending = asyncio.create_task(self._send())
                    if dropping is None or dropping.done():
                        dropping = asyncio.create_task(self.service.predictors.drop_old())
                    everywhere = time.time() >= self._everywhere_at
                    if everywhere or await self.service.in_thread(self._is_due):
                        self._everywhere_at = self.service.configuration.next_night(time.time())
                        await self._work(*(["--everywhere"] if everywhere else []))
                    self.service.looked = time.monotonic()
                except Exception:  # the database, or a process, cannot be had: they may come back
                    _log.exception("nothing could be looked for")
                await asyncio.sleep(_EVERY)
        finally:
            for task in (sending, dropping):
                if task is not None:
                    task.cancel()

    async def _send(self) -> None:
        """Send callbacks that are due, whatever a worker is at."""
        try:
            if await self.service.in_thread(self._is_callback_due):
                await self._work("--callbacks")
        except Exception:
            _log.exception("callbacks could not be sent")

    def _is_callback_due(self) -> bool:
        with self.service.database.reading() as tx:
            return outbox.callbacks_due(tx, time.time()) and not leases.is_leased(tx, "callbacks")

    def _is_due(self) -> bool:
        now = time.time()
        with self.service.database.reading() as tx:
            names = {*due.stores_with_work(tx, now), *actions.stores_with_actions(tx, now - 30.0)}
            names &= set(self.service.stores.names())  # others wait until their store is back
            return any(
                not leases.is_leased(tx, lease_of(name))
                and not leases.is_leased(tx, pause_of(name))
                for name in names
            )

    async def _work(self, *words: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pilu.service.work", *words,
            env={**os.environ, ENVIRONMENT: self.service.configuration.to_environment()},
            stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code = await process.wait()
        except asyncio.CancelledError:  # the service stops: let the change end, or be as before
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            raise
        if code != 0:
            _log.error("the worker ended with %d", code)
            await asyncio.sleep(10 * _EVERY)
