"""Errors of the page: HTML in plain words, where the API has problem documents."""

import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from pilu.exceptions import PiluError
from pilu.service.page_views import render, sentence
from pilu.service.problems import Refused, problem_of

_log = logging.getLogger("pilu.service")
_TITLES = {
    401: "You are not logged in",
    403: "You may not do this",
    404: "There is no such page",
    409: "This cannot be done",
    410: "It is no longer there",
    413: "This is too large",
    422: "This cannot be done as asked",
    429: "Too many calls",
}
# Forms send an Origin only under a policy that lets the own site see addresses; they hold no names.
HEADERS = {"Referrer-Policy": "same-origin"}


class NotLoggedIn(Exception):
    """Nobody has logged in: the login page comes first."""

    def __init__(self, then: str | None) -> None:
        super().__init__()
        self.then = then


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, with errors as pages."""
        handle = super().get_route_handler()

        async def handle_in_words(request: Request) -> Response:
            try:
                return await handle(request)
            except NotLoggedIn as nobody:
                then = "" if nobody.then is None else f"?then={nobody.then}"
                return RedirectResponse(f"/login{then}", 303, headers=HEADERS)
            except Refused as error:
                return _page(request, error.status, error.detail, error.headers)
            except PiluError as error:
                answer = problem_of(error)
                words = json.loads(bytes(answer.body))["detail"]
                return _page(request, answer.status_code, words)
            except RequestValidationError:
                words = "a field of the form is missing, too long, or not what it must be."
                return _page(request, 422, words)
            except HTTPException as error:
                return _page(request, error.status_code, str(error.detail), error.headers)
            except Exception:
                _log.exception("a page failed")
                return _page(request, 500, "an error inside of the service; its log says more.")

        return handle_in_words


def _page(
    request: Request, status: int, words: str, headers: Mapping[str, str] | None = None
) -> Response:
    title = _TITLES.get(status, "The service cannot do this now")
    text = render(
        "error.html",
        caller=getattr(request.state, "caller", None),
        title=title,
        status=status,
        words=sentence(words),
    )
    return HTMLResponse(text, status, headers={**HEADERS, **(headers or {})})
