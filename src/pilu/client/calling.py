"""One call to a service: sent over TLS or within the machine, repeated if that is safe, typed.

A call that may be made twice is repeated after a lost connection, and after 429, 502 and 503. No
redirect is followed: the token goes to the host that was named, and to no other.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from pilu.client.messages import Problem
from pilu.exceptions import PiluError, WrongArgument, WrongInput

TRIES = 4
LONGEST_WAIT = 60.0  # seconds; a service that asks for more gets no second try
_FIRST_WAIT = 0.25  # doubled each time
_LATER = (429, 502, 503)
# Not a slow answer: to ask for a long job again would make the service slower still.
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class ServiceError(PiluError):
    """The service refused a call, or failed.

    Attributes
    ----------
    problem : Problem
        What it answered (RFC 9457).
    status : int
        The status of HTTP.
    detail : str or None
        What is wrong and what to do, in a sentence.
    errors : list of dict
        All problems of the input, if there are several.
    key : str or None
        After a failure that leaves open whether a request was made: the key with which the same
        call makes it once.
    """

    key: str | None = None

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem, self.status, self.detail = problem, problem.status, problem.detail
        self.errors = list(problem.errors or [])

    def __str__(self) -> str:
        who = "the service failed" if self.status >= 500 else "the service refuses"
        lines = [f"{who} ({self.status}): {self.detail or self.problem.title}"]
        for one in self.errors:
            where = f"{one['pointer']}: " if one.get("pointer") else ""
            lines.append(f"- {where}{one.get('detail', one)}")
        return "\n".join(lines) + _may_be_made(self.key)


class NoAnswer(PiluError, ConnectionError):
    """The service could not be reached, or the connection was lost before its answer.

    `key` is as in `ServiceError`.
    """

    key: str | None = None

    def __str__(self) -> str:
        return super().__str__() + _may_be_made(self.key)


def _may_be_made(key: str | None) -> str:
    said = "It may have been made nevertheless: the same call with"
    return "" if key is None else f" {said} key={key!r} makes it once."


class Caller:
    """Makes calls with a token; arguments are those of `Client`."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        timeout: float,
        transport: httpx.BaseTransport | None,
        insecure: bool,
    ) -> None:
        url = _checked(address, insecure)
        # The value is not shown: it is a secret.
        if not (isinstance(token, str) and token and all("!" <= one <= "~" for one in token)):
            raise WrongInput(
                "token must be the text that `pilu token add` printed, got other text."
            )
        if isinstance(timeout, bool) or not 0 < timeout < float("inf"):
            raise WrongArgument("timeout", "a finite number of seconds > 0", timeout)
        self.address = str(url)
        self.sleep: Callable[[float], object] = time.sleep
        self.http = httpx.Client(
            base_url=url,
            timeout=timeout,
            transport=transport,
            follow_redirects=False,
            # Proxies of the environment see a tunnel of TLS; in the clear they would see the token.
            trust_env=url.scheme == "https",
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "User-Agent": "pilu-client",
            },
        )

    def call(
        self,
        method: str,
        path: str,
        *,
        send: BaseModel | None = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        repeat: bool = True,
        also: Collection[int] = (),
    ) -> httpx.Response:
        """An answer of 2xx, or of a status in `also`; anything else raises.

        A call that must not be made twice has `repeat=False`.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        content = None if send is None else send.model_dump_json().encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        given = {name: value for name, value in (query or {}).items() if value is not None}
        tries = TRIES if repeat else 1
        for left in reversed(range(tries)):
            wait = _FIRST_WAIT * 2.0 ** (tries - 1 - left) * random.uniform(0.8, 1.2)
            try:
                answer = self.http.request(
                    method, path, content=content, params=given, headers=headers
                )
            except httpx.RequestError as error:
                if not left or not isinstance(error, _LOST):
                    raise NoAnswer(self._lost(error)) from error
            else:
                if answer.is_success or answer.status_code in also:
                    return answer
                wait = max(wait, _retry_after(answer))
                if not left or answer.status_code not in _LATER or wait > LONGEST_WAIT:
                    raise ServiceError(_problem_of(answer))
            self.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _lost(self, error: httpx.RequestError) -> str:
        said = " ".join(str(error).split())
        words = type(error).__name__ + (f": {said}" if said else "")
        return f"{self.address} does not answer ({words}). Check the address, or try again later."


def message(kind: type[M], **fields: Any) -> M:
    """A message to be sent, or an error with all of its problems, but none of the values."""
    try:
        return kind(**fields)
    except ValidationError as error:
        found = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].lower()}"
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        shown = "; ".join(found[:10]) + ("; ..." if len(found) > 10 else "")
        count = "a problem" if len(found) == 1 else f"{len(found)} problems"
        raise WrongInput(f"the call has {count}: {shown}.") from None


def read(kind: type[T] | TypeAdapter[T], answer: httpx.Response) -> T:
    """An answer as a message."""
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    try:
        return adapter.validate_json(answer.content)
    except ValidationError:
        raise ServiceError(
            Problem(
                title="Unexpected answer",
                status=answer.status_code,
                detail="the answer must be one of `pilu serve`, got another. Check the address, "
                "and that service and client have the same version of pilu.",
            )
        ) from None


def _checked(address: str, insecure: bool) -> httpx.URL:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError) as error:
        raise WrongArgument(
            "address", "a URL such as https://forget.example.org", address
        ) from error
    if url.userinfo:  # which is not shown
        raise WrongInput("address must have no user or password. The token says who calls.")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise WrongArgument("address", "a URL such as https://forget.example.org", address)
    if url.scheme == "http" and not (insecure or _is_loopback(url.host)):
        raise WrongInput(
            f"address must be https://..., got {address}: the token would cross the network in the "
            "clear. Pass insecure=True if the network is safe."
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _retry_after(answer: httpx.Response) -> float:
    """Seconds that the service asks to wait; 0 if it does not say."""
    text = answer.headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text)
    with suppress(ValueError, TypeError):  # of no date, and of one without a time zone
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return 0.0


def _problem_of(answer: httpx.Response) -> Problem:
    """What an answer says; a proxy's page is an error, too."""
    status = answer.status_code
    with suppress(ValidationError):
        return Problem.model_validate_json(answer.content).model_copy(update={"status": status})
    titles = {one.value: one.phrase for one in HTTPStatus}
    detail = None
    if answer.has_redirect_location:
        to = answer.headers["Location"]
        detail = f"it redirects to {to}. Pass the address of the service itself."
    return Problem(title=titles.get(status, "Unknown status"), status=status, detail=detail)
