"""A request as it comes in, from the API, from OpenDSR or from the page: checked and queued."""

import contextlib
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from pilu.client.messages import (
    Access,
    Addition,
    Erasure,
    Rectification,
    RequestDetails,
    RequestState,
)
from pilu.service import queue
from pilu.service.actions import note_action
from pilu.service.database import Found
from pilu.service.due import told_time
from pilu.service.identifiers import fingerprint, hash_name, new_id
from pilu.service.problems import Refused
from pilu.service.queue import Asked
from pilu.service.row_files import rows_file, write_rows
from pilu.service.running import Service
from pilu.service.tokens import Caller
from pilu.store.store import key_check

New = Erasure | Access | Rectification | Addition
_FOR_OFFICERS = (Rectification, Addition)


def ask(
    service: Service,
    store: str,
    new: New,
    caller: Caller,
    *,
    idempotency_key: str | None = None,
    callbacks: Iterable[tuple[str, str]] = (),
    external: str | None = None,
) -> tuple[Found, bool]:
    """Queue a request; returns it, and False if the same one was made before under its key.

    For a requester, people who are in the model and people who are not take the same path: nothing
    is looked up.
    """
    opened, configuration = service.stores.open(store), service.configuration
    officer = caller.role == "officer"
    named = [*callbacks, *([(str(new.callback), "pilu")] if new.callback else [])]
    content = fingerprint(opened.key, [store, new.model_dump(mode="json"), named])
    if idempotency_key is not None:
        with service.database.reading() as tx:  # before checks, whose answers change with time
            before = queue.made_before(tx, caller, idempotency_key, content)
        if before is not None:
            return before, False
    _check(service, new, officer)
    for url, _ in named:
        if not configuration.allows_callback(url):
            raise Refused(
                422,
                "callback must be an https address at a host that the service allows "
                "(`pilu serve --callback-host`).",
            )
    subject = None
    if isinstance(new, Erasure | Access):
        subject = hash_name(new.subject, opened.key)
        if officer and isinstance(new, Erasure):
            _check_known(service, store, bytes.fromhex(subject), caller)
    now = datetime.now(UTC).timestamp()
    at_once = new.now or isinstance(new, Access)
    asked = Asked(
        store,
        new.type,
        now if at_once else configuration.run_at(now, new.due),
        subject,
        new.due,
        named,
        idempotency_key,
        content,
        external,
        new_id(),
        key_check(opened.key),
        0.0 if officer else float(configuration.answers_every),
    )
    path = rows_file(configuration, store, asked.id)
    if isinstance(new, Rectification | Addition):
        write_rows(path, new.rows, opened)
    fresh = False
    try:
        with service.database.writing() as tx:
            found, fresh = queue.make_request(tx, asked, caller)
    finally:
        if not fresh:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    return found, fresh


def _check(service: Service, new: New, officer: bool) -> None:
    if isinstance(new, _FOR_OFFICERS) and not officer:
        raise Refused(403, f"only an officer may ask for a {new.type}.")
    if new.now and not officer:
        raise Refused(403, "only an officer may ask that it is done now.")
    if new.due is not None and new.due < date.today():
        raise Refused(422, f"due must be today or later, got {new.due}.")


def _check_known(service: Service, store: str, name: bytes, caller: Caller) -> None:
    """Tell an officer at once about a person who is not in the model; that goes into the log."""
    known = service.stores.open(store).known()
    if name not in known.n_rows:
        with service.database.writing() as tx:
            note_action(tx, caller, "looked a person up", [store])
    if name in known.forgotten and name not in known.n_rows:
        raise Refused(409, "subject was forgotten already. Nothing was changed.")
    if name not in known.n_rows:
        raise Refused(422, "subject must be a person of the model, got an unknown one.")


def find_request(service: Service, number: str, caller: Caller) -> Found:
    """A request that the caller may see, or an answer of 404."""
    found = None
    if "\x00" not in number:  # which PostgreSQL takes for an error
        with service.database.reading() as tx:
            found = queue.find_request(tx, number, caller)
    if found is None:
        raise Refused(404, "there is no such request, or it is not yours.")
    return found


# Requests as answers


def state_of(found: Found, *, to_requester: bool) -> RequestState:
    """A request as a message. A requester learns of its end later, at a round time."""
    if not to_requester:
        return RequestDetails(
            **_common(found, str(found["status"]), found["ended"]),
            outcome=found["outcome"],
            entry=found["entry"],
            has_receipt=found["receipt"] is not None,
            problem=found["problem"],
            attempts=found["attempts"],
            by=found["token"],
        )
    return RequestState(**_common(found, told_status(found), _told_end(found)))


def told_status(found: Found) -> str:
    """The status that whoever made a request may know now."""
    status = str(found["status"])
    if found["told_every"]:
        return status if _told_end(found) is not None else "waiting"
    return status


def _told_end(found: Found) -> float | None:
    told = found["told_at"]
    return told if told is not None and told <= datetime.now(UTC).timestamp() else None


def _common(found: Found, status: str, ended: float | None) -> dict[str, Any]:
    is_open = status in queue.OPEN
    return {
        "id": found["id"],
        "store": found["store"],
        "type": found["type"],
        "status": status,
        "received": time_of(found["received"]),
        "due": found["due"],
        "expected": time_of(expected_end(found)) if is_open else None,
        "ended": None if is_open else time_of(ended),
    }


def expected_end(found: Found) -> float:
    """When whoever made a request will know that it has ended, at best."""
    return told_time(found["run_at"], found["told_every"])


def time_of(seconds: float | None) -> datetime | None:
    """A time of the database."""
    return None if seconds is None else datetime.fromtimestamp(round(seconds, 3), UTC)
