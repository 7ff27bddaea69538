"""Start a worker in a process of its own when something is due, and let the others answer calls."""

import asyncio
import contextlib
import logging
import os
import sys
import time

from pilu.exceptions import PiluError
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
        while True:
            everywhere = time.time() >= self._everywhere_at
            try:
                if everywhere or await self.service.in_thread(self._is_due):
                    self._everywhere_at = self.service.configuration.next_night(time.time())
                    await self._work(everywhere)
                await self.service.predictors.drop_old()
            except PiluError as error:  # the database is away: it may come back
                _log.error("%s", error)
            await asyncio.sleep(_EVERY)

    def _is_due(self) -> bool:
        now = time.time()
        with self.service.database.reading() as tx:
            names = {*due.stores_with_work(tx, now), *actions.stores_with_actions(tx, now - 30.0)}
            names &= set(self.service.stores.names())  # others wait until their store is back
            stores = any(
                not leases.is_leased(tx, lease_of(name))
                and not leases.is_leased(tx, pause_of(name))
                for name in names
            )
            return stores or (
                outbox.callbacks_due(tx, now) and not leases.is_leased(tx, "callbacks")
            )

    async def _work(self, everywhere: bool) -> None:
        words = ["--everywhere"] if everywhere else []
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
