"""Errors over HTTP: problem documents of RFC 9457, for every error there is."""

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from pilu.exceptions import (
    AlreadyForgotten,
    BudgetSpent,
    DatabaseFailed,
    LedgerMismatch,
    PiluError,
    RowsChanged,
    StoreDamaged,
    WrongInput,
    WrongTable,
)
from pilu.service.queue import KeyUsedBefore
from pilu.service.stores import NoSuchStore

_log = logging.getLogger("pilu.service")

# What pilu's own errors mean over HTTP; the first that fits.
_STATUS: Sequence[tuple[type[Exception], int]] = (
    (NoSuchStore, 404),
    (KeyUsedBefore, 422),
    (WrongInput, 422),
    (LedgerMismatch, 409),
    (AlreadyForgotten, 409),
    (BudgetSpent, 409),
    (RowsChanged, 409),
    (DatabaseFailed, 503),
    (StoreDamaged, 503),
    (PiluError, 500),
)
_LISTED, _POINTER = 20, 200  # problems that are listed, and characters of where each is
_EXAMPLE = re.compile(r",? such as .*? in row")
# Errors whose words may name files of the server: they go to the log of the service.
_SECRET = (DatabaseFailed, StoreDamaged)


class Refused(Exception):
    """An answer of 4xx or 5xx."""

    def __init__(
        self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers, more


def problem(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem document."""
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **more,
    }
    return JSONResponse(
        content, status, headers=dict(headers or {}), media_type="application/problem+json"
    )


def problem_of(error: Exception) -> JSONResponse:
    """The problem document of an error of pilu."""
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    if status >= 500:
        _log.error("%s: %s", type(error).__name__, error)
    if isinstance(error, _SECRET):
        return problem(status, "the service cannot do this now. Try again later.",
                       headers={"Retry-After": "30"})  # fmt: skip
    if isinstance(error, WrongTable):
        # Without examples: they are values of rows.
        errors = [{"detail": _EXAMPLE.sub(" in row", one)} for one in error.problems[:_LISTED]]
        return problem(status, str(error).splitlines()[0], errors=errors)
    return problem(status, str(error))


def add_handlers(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return problem(error.status, error.detail, headers=error.headers, **error.more)

    @app.exception_handler(PiluError)
    async def failed(_: Request, error: PiluError) -> Response:
        return problem_of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        malformed = any(one["type"] == "json_invalid" for one in found)
        # Not the values: they may be somebody's data, and end in somebody's log.
        errors = [
            {"detail": one["msg"], "pointer": "/".join(map(str, one["loc"]))[:_POINTER]}
            for one in found[:_LISTED]
        ]
        if malformed:
            return problem(400, "the body must be JSON.", errors=errors)
        count = f"{len(found)} problems" if len(found) > 1 else "a problem"
        return problem(422, f"the request has {count}.", errors=errors)

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        return problem(500, "an error inside of the service; its log says more.")
