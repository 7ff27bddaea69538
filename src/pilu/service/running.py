"""What a process of the service holds, and who may call it."""

import asyncio
import hmac
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from pilu.exceptions import WrongInput
from pilu.service.configuration import ENVIRONMENT, Configuration
from pilu.service.database import Database, open_database
from pilu.service.guards import SMALL_BODY
from pilu.service.measures import Measures
from pilu.service.predictors import Predictors
from pilu.service.problems import Refused
from pilu.service.stores import Stores
from pilu.service.tokens import Caller, caller_of, caller_of_session

T = TypeVar("T")
COOKIE = "pilu_session"
_BURST = 2.0  # seconds' worth of calls that a token may make at once
_JOBS = 2  # quotes and reports at a time


class Service:
    """The database, the stores, and what the process remembers."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.own.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.configuration = configuration
        self.database: Database = open_database(configuration.where)
        self.stores, self.measures = Stores(configuration.stores), Measures()
        self.limits = Limits(configuration.processes)
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="pilu")
        self.predictors = Predictors()
        self._jobs = asyncio.Semaphore(_JOBS)
        self.looked = time.monotonic()  # when the scheduler has last looked for work

    def close(self) -> None:
        """Close what is open."""
        self._threads.shutdown(wait=True)
        self.predictors.close()
        self.database.close()

    async def in_thread(self, call: Callable[..., T], *given: Any) -> T:
        """Call something that waits for a disk or a server."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *given)

    async def quickly(self, call: Callable[..., T], *given: Any) -> T:
        """Read from the database: at once if it is a local file, or in a thread."""
        if self.database.is_local:
            return call(*given)
        return await self.in_thread(call, *given)

    async def may_send(self, authorization: str) -> int:
        """How many bytes a body may have: many for those who may send rows."""
        kind, _, text = authorization.partition(" ")
        caller = None
        if kind.lower() == "bearer":
            caller = await self.quickly(caller_of, self.database, text.strip())
        rows = caller is not None and caller.role in ("officer", "predictor")
        return self.configuration.max_body if rows else SMALL_BODY

    async def job(self, task: Mapping[str, Any]) -> Any:
        """Do something heavy in a process of its own: see `service.job`."""
        async with self._jobs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "pilu.service.job",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, ENVIRONMENT: self.configuration.to_environment()},
            )  # fmt: skip
            try:
                output, _ = await process.communicate(json.dumps(task).encode())
            except BaseException:
                if process.returncode is None:
                    process.kill()
                raise
        if process.returncode != 0:
            raise RuntimeError(f"a job ended with {process.returncode}")
        answer = json.loads(output)
        if "refused" in answer:
            raise WrongInput(answer["refused"])
        return answer["done"]


class Limits:
    """How fast each token may call: a bucket of tokens, refilled at its rate.

    Every process of the service has a share of the rate.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._left: dict[str, tuple[float, float]] = {}  # calls left, at a time

    def check(self, caller: Caller) -> None:
        """Count a call; refuse it if the token calls too fast."""
        rate, now = caller.per_second / self._processes, time.monotonic()
        most = max(rate * _BURST, 1.0)
        left, then = self._left.get(caller.token, (most, now))
        left = min(most, left + (now - then) * rate)
        self._left[caller.token] = max(left - 1.0, 0.0) if left >= 1.0 else left, now
        if left < 1.0:
            wait = (1.0 - left) / rate
            raise Refused(
                429,
                f"the token must make at most {caller.per_second:g} calls a second.",
                headers={"Retry-After": str(int(wait) + 1)},
            )


class Allowed(HTTPBearer):
    """Who calls, by a bearer token, if the role is among some."""

    def __init__(self, service: Service, *roles: str) -> None:
        super().__init__(auto_error=False, scheme_name="token",
                         description="A token made by `pilu token add`.")  # fmt: skip
        self.service, self.roles = service, frozenset(roles)

    async def __call__(self, request: Request) -> Caller:  # type: ignore[override]
        """The caller, or an answer of 401, 403 or 429."""
        given: HTTPAuthorizationCredentials | None = await super().__call__(request)
        if given is None:
            raise _unknown("a token is needed: send it as `Authorization: Bearer TOKEN`.")
        caller = await self.service.quickly(caller_of, self.service.database, given.credentials)
        if caller is None:
            raise _unknown("the token must be one that is known, valid and not revoked.")
        request.scope["pilu.token"] = caller.token
        self.service.limits.check(caller)
        if caller.role not in self.roles:
            raise Refused(403, f"a token of the role {caller.role} may not do this.")
        return caller


def _unknown(words: str) -> Refused:
    return Refused(401, words, headers={"WWW-Authenticate": 'Bearer realm="pilu"'})


async def visitor(service: Service, request: Request) -> Caller | None:
    """Who has logged in to the page; None if nobody has."""
    text = request.cookies.get(COOKIE)
    if text is None:
        return None
    caller = await service.quickly(caller_of_session, service.database, text)
    if caller is not None:
        request.scope["pilu.token"] = caller.token
        service.limits.check(caller)
    return caller


def is_own_origin(request: Request) -> bool:
    """Whether a form comes from the service's own page."""
    origin = request.headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:  # it is no address
        return False


def check_form(request: Request, caller: Caller, form_key: str) -> None:
    """Refuse a form that another site has sent."""
    if not is_own_origin(request) or not hmac.compare_digest(
        form_key.encode(), caller.form_key.encode()
    ):
        raise Refused(403, "the form is not from this session. Load the page again.")
