"""What the page shows: the templates, and the data they are given, in words."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from pilu._digits import near, up
from pilu._extras import need
from pilu.exceptions import LedgerMismatch, PiluError
from pilu.report.entries import count, describe_entry
from pilu.service import queue, tokens
from pilu.service.asking import time_of
from pilu.service.database import Found
from pilu.service.running import Service
from pilu.service.store_pictures import pictures_of
from pilu.service.store_routes import state_of_store
from pilu.service.stores import OpenStore
from pilu.store.log import Log
from pilu.store.merkle import Head

STATIC = {
    "service.css": "text/css; charset=utf-8",
    "service.js": "text/javascript; charset=utf-8",
}
_LAST = 50  # entries of the log on the page
_ENDED = 20  # requests that have ended
_WAITING = 500  # requests that wait
_FULL = 20.0  # epsilon, beyond which a guess is right in all the digits that are shown

TYPES = {
    "erasure": "Forget a person",
    "access": "Is a person there?",
    "rectification": "Correct rows",
    "addition": "Learn rows",
}
_STATUS = {
    "waiting": "waits",
    "running": "is being carried out",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
_METHODS = {
    "refit": "Forgets by computing the model again",
    "langevin": "Forgets by training on with noise",
}


@cache
def static_file(name: str) -> bytes:
    """A file that the pages load."""
    return (files("pilu.service") / "static" / name).read_bytes()


def render(template: str, **given: Any) -> str:
    """A page; all values are escaped, except pictures."""
    text: str = _environment().get_template(template).render(**given)
    return text


@cache
def _environment() -> Any:
    jinja2 = need("jinja2", for_="the page", extra="serve")
    folder = files("pilu.service") / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"when": _when, "iso": _iso, "sentence": sentence}
    environment.globals |= {
        "count": count,
        "static": {name: f"/static/{name}?v={_version(name)}" for name in STATIC},
        "roles": tokens.ROLES,
        "types": TYPES,
    }
    return environment


def _version(name: str) -> str:
    """Part of the address of a file, so that browsers may keep it for ever."""
    return hashlib.sha256(static_file(name)).hexdigest()[:12]


def _when(seconds: float) -> str:
    """A time of the database, to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _iso(seconds: float) -> str:
    time = time_of(seconds)
    assert time is not None
    return time.isoformat(timespec="seconds")


def sentence(text: str) -> str:
    """Words that begin with a capital."""
    return text[:1].upper() + text[1:]


# Stores


def views_of_stores(service: Service) -> list[dict[str, Any]]:
    """All stores, also those that cannot be read."""
    return [_view_of(service, name) for name in service.stores.names()]


def _view_of(service: Service, name: str) -> dict[str, Any]:
    try:
        return {"name": name, "state": state_of_store(service, name)}
    except (PiluError, OSError):  # one store that is broken must not hide the others
        return {"name": name, "state": None}


def view_of_store(service: Service, name: str, since: str | None) -> dict[str, Any]:
    """All that the page of a store shows."""
    opened, state = service.stores.open(name), state_of_store(service, name)
    log = opened.log()
    with service.database.reading() as tx:
        waiting = queue.list_open(tx, name, most=_WAITING)
        ended = [
            one
            for status in ("completed", "failed", "cancelled")
            for one in queue.list_requests(tx, name, status=status, after=None, most=_ENDED)[0]
        ]
    ended = sorted(ended, key=lambda one: (one["ended"] or 0.0, one["number"]), reverse=True)
    elsewhere = _asked_elsewhere(opened, log)
    last = log.entries[-_LAST:]
    return {
        "name": name,
        "state": state,
        "method": _METHODS[state.method],
        "headline": _headline(state.n_waiting, state.n_overdue),
        "waiting": [view_of_request(one) for one in waiting],
        "ended": [view_of_request(one) for one in ended[:_ENDED]],
        "elsewhere": elsewhere,
        "is_busy": any(is_busy(one) for one in waiting),
        "night": service.configuration.nightly,
        "pictures": pictures_of(service.database, name),
        "entries": [_view_of_entry(entry.place, entry.record) for entry in reversed(last)],
        "since": since or "",
        "growth": None if not since else _growth(log, since),
    }


def _headline(n_waiting: int, n_overdue: int) -> str:
    if not n_waiting:
        return "Nobody waits."
    text = f"{count(n_waiting, 'request waits', 'requests wait')}."
    if not n_overdue:
        return f"{text} None is overdue."
    return f"{text} {n_overdue:,} {'is' if n_overdue == 1 else 'are'} overdue."


def _asked_elsewhere(opened: OpenStore, log: Log) -> str:
    """A sentence about people whom somebody queued by `pilu request`; empty if there are none."""
    if not any(entry.kind == "request" for entry in log.entries):
        return ""
    pending = opened.pending()
    if not pending:
        return ""
    due = min((one.due for one in pending if one.due), default=None)
    text = f"{count(len(pending), 'more person waits', 'more people wait')} who"
    text += " was" if len(pending) == 1 else " were"
    text += " queued at the command line, and will be forgotten in the coming night, or with the"
    text += " next person here."
    return text if due is None else f"{text} The earliest due date is {due}."


def _view_of_entry(place: int, record: Mapping[str, Any]) -> dict[str, Any]:
    time = datetime.fromisoformat(str(record["time"])).timestamp() if "time" in record else None
    return {"place": place, "time": time, "words": describe_entry(record)}


def _growth(log: Log, since: str) -> dict[str, Any]:
    """Whether the log has only grown since a head that somebody noted, in words."""
    try:
        noted = Head.parse(since)
    except LedgerMismatch:
        return {
            "yes": False,
            "words": "This is not a head. A head is a number, a colon and 64 characters, as shown "
            "above. Paste all of it.",
        }
    try:
        log.growth_from(noted)
    except LedgerMismatch:
        return {
            "yes": False,
            "words": "No. This log does not continue the one of that head. Either the head was "
            "copied wrongly, or it is of another store, or the log was changed or replaced. Find "
            "out which before you rely on it.",
        }
    more = len(log.entries) - noted.size
    grown = f"{count(more, 'entry', 'entries')} came after it" if more else "It is the present head"
    return {
        "yes": True,
        "words": "Yes. The log has only grown since that head: none of the "
        f"{count(noted.size, 'entry', 'entries')} that it covers was changed or dropped. {grown}.",
    }


# Requests


def is_busy(found: Found) -> bool:
    """Whether a request is about to end, so that its page should look again soon."""
    due = found["run_at"] <= datetime.now(UTC).timestamp()
    return bool(found["status"] == "running" or (found["status"] == "waiting" and due))


def view_of_request(found: Found) -> dict[str, Any]:
    """A request as the page shows it."""
    due, is_open = found["due"], found["status"] in queue.OPEN
    late = is_open and due is not None and date.fromisoformat(str(due)) < date.today()
    return {
        "id": found["id"],
        "store": found["store"],
        "type": found["type"],
        "what": TYPES[found["type"]],
        "status": found["status"],
        "state": _STATUS[found["status"]],
        "received": found["received"],
        "due": due,
        "overdue": late,
        "expected": found["run_at"] if is_open else None,
        "ended": found["ended"],
        "outcome": found["outcome"],
        "entry": found["entry"],
        "has_receipt": found["receipt"] is not None,
        "has_letter": found["receipt"] is not None and found["type"] == "erasure",
        "problem": found["problem"],
        "attempts": found["attempts"],
        "by": found["token"],
        "is_open": is_open,
        "is_busy": is_busy(found),
        "short": found["id"][:8],
    }


_ENDS = {
    "forgotten": "The person was forgotten. The model has none of their rows any more.",
    "not in the model": "The person is not in the model, so nothing was changed.",
    "forgotten before": "The person was forgotten earlier, so nothing was changed.",
    "learned": "The rows were learned.",
    "corrected": "The rows were corrected.",
    "answered": "The question was answered.",
}


def words_of_state(request: Mapping[str, Any]) -> str:
    """How far a request is, in a sentence or two."""
    status, problem = request["status"], request["problem"]
    if status == "running":
        return "It is being carried out now. This takes seconds, or minutes for a large table."
    if status == "waiting" and problem:
        return f"The last attempt failed. It is tried again at {_when(request['expected'])} UTC."
    if status == "waiting" and request["is_busy"]:
        return "It is about to be carried out."
    if status == "waiting":
        along = ", or earlier together with another erasure" if request["type"] == "erasure" else ""
        return f"It is carried out at {_when(request['expected'])} UTC{along}."
    if status == "failed":
        return "It failed, and is not tried again. Nothing was changed."
    if status == "cancelled":
        return "It was cancelled. Nothing was changed."
    return _ENDS.get(str(request["outcome"]), "It was carried out.")


def words_of_answer(text: str | None) -> str | None:
    """The answer to a request for access."""
    if text is None:
        return None
    answer = json.loads(text)
    words = ["The person is not in the model."]
    if answer["in_the_model"]:
        words = [f"The person is in the model, with {count(answer['n_rows'], 'row')}."]
    if answer["forgotten"]:
        words.append("The person was forgotten before.")
    return " ".join(words)


# Quotes


def words_of_quote(quote: Mapping[str, Any]) -> list[str]:
    """What forgetting somebody would change, in sentences."""
    words = []
    if quote["metric"] is not None and quote["after"] is not None:
        how = f" ({quote['how']})" if quote["how"] else ""
        before, after = near(quote["before"]), near(quote["after"])
        if before == after:
            words.append(f"The model's {quote['metric']}{how} would stay at {before}.")
        else:
            words.append(f"The model's {quote['metric']}{how} would go from {before} to {after}.")
    if quote["epsilon"] is not None:
        words += _words_of_promise(float(quote["epsilon"]), quote["delta"])
    words.append(f"This dry run took {_seconds(quote['seconds'])}. Forgetting takes about as long.")
    return words


def _words_of_promise(epsilon: float, delta: float | None) -> Sequence[str]:
    if not math.isfinite(epsilon):
        return ["No finite epsilon covers this person."]
    if delta is None:
        return [f"The certificate would cost epsilon = {up(epsilon)} of the store's budget."]
    promise = f"The certificate would promise epsilon = {up(epsilon)} and delta = {up(delta)}."
    if epsilon > _FULL:
        return [promise]
    from pilu.certify.guessing import guess_from_point, percent  # SciPy: for this alone

    right = percent(guess_from_point(epsilon, delta, both=True))
    return [
        promise,
        "In words: who sees only the new model, and must guess whether it came from here or from "
        f"somebody who never had the person, is right at most {right} % of the time. A coin is "
        "right 50 % of the time.",
    ]


def _seconds(seconds: float) -> str:
    return "less than a second" if seconds < 1 else count(round(seconds), "second")
