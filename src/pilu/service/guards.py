"""What every call passes: limits of size and time, security headers, a log line, measures."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException

from pilu.service.measures import Measures
from pilu.service.problems import problem

_log = logging.getLogger("pilu.service.calls")

# Scripts and styles come from the service alone; pictures in the page have style attributes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
SMALL_BODY = 65_536  # bytes that anybody may send: a larger body is parsed for some roles only
BODY_SECONDS = 20.0  # for a whole body to arrive
_DIGITS = 15  # of a length
ANSWER_SECONDS = 300.0  # for an answer
_CLOSE = {"Connection": "close"}  # the rest of the body is not read


# How many bytes a body may have, by the header with the token.
MaySend = Callable[[str], Awaitable[int]]


def _too_large(most: int) -> str:
    return f"the body must have at most {most:,} bytes for this token."


class Guards:
    """ASGI middleware."""

    def __init__(self, app: Any, *, may_send: MaySend, secure: bool, measures: Measures) -> None:
        self.app, self.may_send, self.measures = app, may_send, measures
        headers = {**_HEADERS}
        if secure:
            headers["strict-transport-security"] = "max-age=31536000"
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def guarded_send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"], *(one for one in self.headers if one[0] not in own)
                ]  # fmt: skip
            await send(message)

        try:
            await self._answered(scope, receive, guarded_send)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    async def _answered(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        declared, most = headers.get(b"content-length", b"0"), SMALL_BODY
        if not declared.isdigit() or len(declared) > _DIGITS:
            await self._refuse(scope, receive, send, 413, _too_large(most))
            return
        if int(declared) > SMALL_BODY or b"transfer-encoding" in headers:
            most = await self.may_send(headers.get(b"authorization", b"").decode("latin-1"))
        if int(declared) > most:
            await self._refuse(scope, receive, send, 413, _too_large(most))
            return
        so_far, begun = 0, False
        deadline: float | None = asyncio.get_running_loop().time() + BODY_SECONDS

        async def limited_receive() -> Any:
            nonlocal so_far, deadline
            if deadline is None:  # the body is there: what comes now is that the client leaves
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the body came too slowly.", _CLOSE) from None
            so_far += len(message.get("body", b""))
            if so_far > most:
                raise HTTPException(413, _too_large(most), _CLOSE)
            if not message.get("more_body", False):
                deadline = None
            return message

        async def noting_send(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.app(scope, limited_receive, noting_send)
        except TimeoutError:
            if not begun:
                await self._refuse(scope, receive, send, 503, "the call took too long.")

    async def _refuse(self, scope: Any, receive: Any, send: Any, status: int, words: str) -> None:
        answer = problem(status, words, headers=_CLOSE)
        await answer(scope, receive, send)

    def _note(self, scope: Any, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        caller = scope.get("pilu.token", "-")
        self.measures.note(scope["method"], route, status, seconds)
        if _log.isEnabledFor(logging.INFO):  # the template, not the path: ids stay out of the log
            _log.info(
                json.dumps(
                    {
                        "method": scope["method"],
                        "route": route,
                        "status": status,
                        "ms": round(1000 * seconds, 1),
                        "token": caller,
                    }
                )
            )
