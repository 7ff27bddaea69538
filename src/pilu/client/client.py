"""The calls of a service, typed (``pilu[client]``).

Requests are made under an idempotency key, so one whose answer was lost is repeated, and made once.
"""

import hashlib
import hmac
import math
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Self

import httpx
from pydantic import TypeAdapter

from pilu.client import messages as m
from pilu.client.calling import Caller, NoAnswer, ServiceError, message, read
from pilu.client.outgoing import Rows, listed
from pilu.exceptions import PiluError, WrongArgument, WrongInput

if TYPE_CHECKING:
    from pilu.desk.receipt import Receipt

_TOGETHER = 2_000  # rows of one call for predictions
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_State = m.RequestDetails | m.RequestState
_STATE: TypeAdapter[_State] = TypeAdapter(_State)


class NotEnded(PiluError, TimeoutError):
    """A request has not ended in the time; `state` is the last that is known of it."""

    def __init__(self, state: _State, timeout: float) -> None:
        super().__init__(state, timeout)
        self.state, self.timeout = state, timeout

    def __str__(self) -> str:
        state, said = self.state, ""
        if isinstance(state, m.RequestDetails) and state.problem:
            said = f" So far: {state.problem}"
        when = "." if state.expected is None else f", expected at {state.expected.isoformat()}."
        return (
            f"request {state.id} must have ended within {self.timeout:g} s, got "
            f"{state.status!r}{when}{said} It goes on by itself: call wait again later."
        )


class SomeRefused(PiluError):
    """Of many requests some were refused; the others are made.

    `made` has their states and `refused` has the errors, both by the names of the people.
    """

    def __init__(self, made: Mapping[str, _State], refused: Mapping[str, ServiceError]) -> None:
        super().__init__(made, refused)
        self.made, self.refused = dict(made), dict(refused)

    def __str__(self) -> str:
        n, first = len(self.refused), next(iter(self.refused.values()))
        return (
            f"{n} of {n + len(self.made)} requests were refused, the others are made. "
            f"The first that was: {first}"
        )


class Client:
    """Calls a service of `pilu serve`.

    Any thread may use it. A call raises `ServiceError` if the service refuses or fails, and
    `NoAnswer` if it cannot be reached.

    Parameters
    ----------
    address : str
        Of the service, as https://forget.example.org.
    token : str
        One that `pilu token add` made.
    timeout : float
        Seconds that the service may take for an answer.
    transport : httpx.BaseTransport, optional
        How calls travel, for proxies and certificates of your own.
    insecure : bool
        Allow http to other hosts than this one. The token crosses the network in the clear.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        insecure: bool = False,
    ) -> None:
        self._caller = Caller(
            address, token, timeout=timeout, transport=transport, insecure=insecure
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._caller.address!r})"

    def close(self) -> None:
        """Close the connections."""
        self._caller.http.close()

    # Requests. All take the last day on which they must be done (`due`), where to report the end
    # (`callback`), whether to do them now (`now`, for officers), and an idempotency key (`key`):
    # the same request under the same key is made once. By default the key is random, and guards
    # against lost connections only; pass one to guard against crashes of your own program, too.

    def forget(
        self, store: str, subject: str, *, due: date | None = None, callback: str | None = None,
        now: bool = False, key: str | None = None,
    ) -> _State:  # fmt: skip
        """Ask to forget a person."""
        return self._ask(
            store, m.Erasure, key, subject=subject, due=due, callback=callback, now=now
        )

    def ask_for_access(
        self, store: str, subject: str, *, due: date | None = None, callback: str | None = None,
        key: str | None = None,
    ) -> _State:  # fmt: skip
        """Ask whether a person is in the model; `answer` reads it."""
        return self._ask(store, m.Access, key, subject=subject, due=due, callback=callback)

    def correct(
        self, store: str, rows: Rows, *, due: date | None = None, callback: str | None = None,
        now: bool = False, key: str | None = None,
    ) -> _State:  # fmt: skip
        """Ask to replace rows by those of the same ids."""
        return self._ask(
            store, m.Rectification, key, rows=listed(rows), due=due, callback=callback, now=now
        )

    def add(
        self, store: str, rows: Rows, *, due: date | None = None, callback: str | None = None,
        now: bool = False, key: str | None = None,
    ) -> _State:  # fmt: skip
        """Ask to learn new rows."""
        return self._ask(
            store, m.Addition, key, rows=listed(rows), due=due, callback=callback, now=now
        )

    def forget_many(
        self, store: str, subjects: Iterable[str], *, key: str, due: date | None = None,
        callback: str | None = None, now: bool = False,
    ) -> dict[str, _State]:  # fmt: skip
        """Ask to forget people, by a request for each; returns the requests by the names.

        The key is of the whole batch, such as "list of May 2": after a crash the same call with the
        same key makes what is missing, and nothing twice. Raises `SomeRefused` at the end if people
        were refused; any other error ends the call at once.
        """
        _check_key(key)
        made: dict[str, _State] = {}
        refused: dict[str, ServiceError] = {}
        for subject in _names(subjects):
            of_one = hmac.digest(key.encode(), f"{store}\0{subject}".encode(), hashlib.sha256).hex()
            try:
                made[subject] = self.forget(
                    store, subject, due=due, callback=callback, now=now, key=of_one
                )
            except ServiceError as error:
                if error.status not in (409, 422):
                    error.key = key
                    raise
                refused[subject] = error
            except NoAnswer as error:
                error.key = key
                raise
        if refused:
            raise SomeRefused(made, refused)
        return made

    def state(self, request_id: str) -> _State:
        """How far a request is."""
        return read(_STATE, self._caller.call("GET", _request(request_id)))

    def wait(self, request_id: str, *, timeout: float, every: float = 1.0) -> _State:
        """Wait until a request has ended: completed, failed or cancelled, as its status says.

        Asks every so many seconds. After `timeout` seconds `NotEnded` is raised. A requester learns
        of the end at a round time only, as `expected` says.
        """
        _check_seconds("timeout", timeout, least=0.0)
        _check_seconds("every", every, least=0.01)
        deadline = time.monotonic() + timeout
        while True:
            left, state = deadline - time.monotonic(), None
            try:
                state = self.state(request_id)
            except (NoAnswer, ServiceError) as error:  # it may be started again meanwhile
                passing = isinstance(error, NoAnswer) or error.status in (429, 502, 503)
                if left <= 0 or not passing:
                    raise
            if state is not None and state.status not in ("waiting", "running"):
                return state
            if state is not None and left <= 0:
                raise NotEnded(state, timeout)
            self._caller.sleep(max(0.0, min(every, left)))

    def cancel(self, request_id: str) -> _State:
        """Cancel a request that waits. One that is cancelled already stays so."""
        try:
            return read(_STATE, self._caller.call("DELETE", _request(request_id)))
        except ServiceError as error:
            if error.status == 409:  # the answer to a first try may have been lost
                state = self.state(request_id)
                if state.status == "cancelled":
                    return state
            raise

    def receipt(self, request_id: str) -> "Receipt":
        """The receipt of a request; its `verify` recomputes what it states."""
        from pilu.desk.receipt import Receipt

        return Receipt.from_json(self.receipt_text(request_id))

    def receipt_text(self, request_id: str) -> str:
        """The receipt as a file for `pilu verify`."""
        return self._caller.call("GET", f"{_request(request_id)}/receipt").text

    def letter(
        self, request_id: str, format: Literal["html", "txt"] = "html", *, name: str | None = None,
        company: str | None = None, contact: str | None = None,
    ) -> str:  # fmt: skip
        """A letter to the person of a request, in plain words."""
        query = {"format": format, "name": name, "company": company, "contact": contact}
        return self._caller.call("GET", f"{_request(request_id)}/letter", query=query).text

    def answer(self, request_id: str) -> m.Presence:
        """The answer to a request for access."""
        return read(m.Presence, self._caller.call("GET", f"{_request(request_id)}/answer"))

    def requests(self, store: str, status: m.Status | None = None) -> Iterator[m.RequestDetails]:
        """Requests of a store, the newest first; pages are read as they are needed."""
        path, after = f"{_store(store)}/requests", None
        while True:
            query = {"status": status, "after": after}
            page = read(m.Requests, self._caller.call("GET", path, query=query))
            yield from page.requests
            after = page.next
            if after is None:
                return

    # Stores

    def stores(self) -> list[m.StoreState]:
        """All stores."""
        return read(m.Stores, self._caller.call("GET", "/v1/stores")).stores

    def store(self, name: str) -> m.StoreState:
        """A store: its size, its log, who waits."""
        return read(m.StoreState, self._caller.call("GET", _store(name)))

    def quote(self, store: str, subjects: Iterable[str]) -> m.Quote:
        """A dry run: what forgetting people would cost and change."""
        people = message(m.People, subjects=_names(subjects))
        return read(m.Quote, self._post(store, "quote", people))

    def find(self, store: str, subject: str) -> m.Presence:
        """Whether a person is in the model. That somebody asked goes into the log."""
        return read(m.Presence, self._post(store, "access", message(m.Person, subject=subject)))

    def run(self, store: str) -> m.Started:
        """Carry out now what waits for the night."""
        return read(m.Started, self._post(store, "run"))

    def ledger(self, store: str, since: str | None = None, last: int = 50) -> m.LedgerPage:
        """The head and the last entries of the log; whether it has only grown since a head."""
        query = {"since": since, "last": last}
        return read(m.LedgerPage, self._caller.call("GET", f"{_store(store)}/ledger", query=query))

    def proof(
        self, store: str, *, since: str | None = None, entry: int | None = None
    ) -> dict[str, Any]:
        """A proof for `pilu verify`: that the log grew from a head, or that it has an entry."""
        if (since is None) == (entry is None):
            raise WrongInput("exactly one of since and entry must be given.")
        query = {"since": since, "entry": entry}
        path = f"{_store(store)}/ledger/proof"
        return read(dict[str, Any], self._caller.call("GET", path, query=query))

    def predict(self, store: str, rows: Rows, probabilities: bool = False) -> m.Predictions:
        """Predictions for rows without the target, by the model as it is now.

        Many rows travel in several calls, so a change of the model may come in between.
        """
        given, values, shares = listed(rows), list[Any](), list[dict[str, float]]()
        for start in range(0, len(given) or 1, _TOGETHER):
            some = given[start : start + _TOGETHER]
            sent = message(m.RowsToPredict, rows=some, probabilities=probabilities)
            page = read(m.Predictions, self._post(store, "predict", sent))
            values += page.predictions
            shares += page.probabilities or []
        return m.Predictions(predictions=values, probabilities=shares if probabilities else None)

    # Tokens, and the service itself

    def tokens(self) -> list[m.TokenState]:
        """All tokens, without their texts."""
        return read(m.Tokens, self._caller.call("GET", "/v1/tokens")).tokens

    def add_token(
        self, name: str, role: m.Role, *, days: int = 365, per_second: float = 100.0
    ) -> m.TokenMade:
        """Make a token; its text is shown this once.

        The call is not repeated. After `NoAnswer`, look into `tokens` for one to be revoked.
        """
        new = message(m.NewToken, name=name, role=role, days=days, per_second=per_second)
        return read(m.TokenMade, self._caller.call("POST", "/v1/tokens", send=new, repeat=False))

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token. One that is revoked already stays so."""
        try:
            self._caller.call("DELETE", f"/v1/tokens/{_part('token_id', token_id)}")
        except ServiceError as error:
            if error.status == 404:  # the answer to a first try may have been lost
                found = [one for one in self.tokens() if one.id == token_id]
                if found and found[0].revoked is not None:
                    return
            raise

    def health(self) -> m.Health:
        """Whether the service, its database and its stores answer, and what does not."""
        return read(m.Health, self._caller.call("GET", "/ready", also=(503,)))

    def _ask(self, store: str, kind: type[m.Message], key: str | None, **fields: Any) -> _State:
        _check_key(key)
        new, key = message(kind, **fields), key or str(uuid.uuid4())
        try:
            answer = self._caller.call("POST", f"{_store(store)}/requests", send=new, key=key)
        except (NoAnswer, ServiceError) as error:
            if isinstance(error, NoAnswer) or error.status >= 500:
                error.key = key
            raise
        return read(_STATE, answer)

    def _post(self, store: str, what: str, send: m.Message | None = None) -> httpx.Response:
        # These change nothing, or leave the same after a second time.
        return self._caller.call("POST", f"{_store(store)}/{what}", send=send)


# Addresses and arguments


def _store(name: str) -> str:
    return f"/v1/stores/{_part('store', name)}"


def _request(number: str) -> str:
    return f"/v1/requests/{_part('request_id', number)}"


def _part(name: str, value: str) -> str:
    """A part of a path; what could lead to another path is refused."""
    if not isinstance(value, str) or _PART.fullmatch(value) is None:
        raise WrongArgument(name, "1 to 64 letters, digits, '.', '_' and '-'", value)
    return value


def _names(subjects: Iterable[str]) -> list[str]:
    return [subjects] if isinstance(subjects, str) else list(dict.fromkeys(subjects))


def _check_key(key: str | None) -> None:
    if key is None:
        return
    fine = isinstance(key, str) and 1 <= len(key) <= 255 and key == key.strip()
    if not (fine and all(" " <= one <= "~" for one in key)):
        raise WrongArgument("key", "1 to 255 printable characters of ASCII", key)


def _check_seconds(name: str, value: float, *, least: float) -> None:
    if isinstance(value, bool) or not least <= value < math.inf:
        raise WrongArgument(name, f"a finite number of seconds >= {least:g}", value)
