"""What travels over HTTP, typed: shared by the service and its client (``pilu[client]``).

All times are RFC 3339 in UTC.
"""

import math
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    UrlConstraints,
    WithJsonSchema,
)

Role = Literal["requester", "officer", "auditor", "predictor"]
Kind = Literal["erasure", "access", "rectification", "addition"]
Status = Literal["waiting", "running", "completed", "failed", "cancelled"]
_COLUMNS, _TEXT = 1_000, 10_000  # the most of a row, and characters of a cell


def _check_row(row: dict[str, Any]) -> dict[str, Any]:
    """Refuse a row at its first problem: a body of nothing else would have millions."""
    if not 0 < len(row) <= _COLUMNS:
        raise ValueError(f"a row must have 1 to {_COLUMNS:,} columns")
    for name, value in row.items():
        kind = type(value)
        if kind is float and not math.isfinite(value):
            raise ValueError("a number must be finite: leave the cell null")
        if kind is int and not -(2**63) <= value < 2**63:
            raise ValueError("a whole number must have at most 64 bits")
        if kind is str and not _is_text(value):
            raise ValueError(f"a text must be of Unicode, of at most {_TEXT:,} characters")
        if kind not in (str, int, float, bool, type(None)) or not _is_text(name):
            raise ValueError("a cell must be a text, a number, true, false or null")
    return row


def _is_text(text: str) -> bool:
    return len(text) <= _TEXT and not any("\ud800" <= c <= "\udfff" or c == "\x00" for c in text)


_CELL = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}
Row = Annotated[
    dict[str, Any],
    AfterValidator(_check_row),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": _COLUMNS,
            "additionalProperties": _CELL,
        }
    ),
]

# NUL cannot be kept by PostgreSQL; no name of a person has one.
Url = Annotated[AnyHttpUrl, UrlConstraints(max_length=2_048)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00]+$")]
Rows = Annotated[list[Row], Field(min_length=1, max_length=10_000)]


class Message(BaseModel):
    """Base of all messages. A client passes over what a later service adds to its answers."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Sent(Message):
    """Base of what a client sends: a misspelled name is refused, never passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# What a client sends


class _NewRequest(Sent):
    due: date | None = Field(default=None, description="The last day to do it. It is done earlier.")
    callback: Url | None = Field(
        default=None,
        description="Where to report the end; its host must be allowed by the service.",
    )
    now: bool = Field(
        default=False, description="Do it now, not in the coming night. For officers."
    )


class Erasure(_NewRequest):
    """Forget a person: all rows of theirs."""

    type: Literal["erasure"] = "erasure"
    subject: Name = Field(description="The person, as the table names them.")


class Access(_NewRequest):
    """Ask whether a person is in the model; an officer reads the answer."""

    type: Literal["access"] = "access"
    subject: Name = Field(description="The person, as the table names them.")


class Rectification(_NewRequest):
    """Replace rows by corrected ones of the same ids. For officers."""

    type: Literal["rectification"] = "rectification"
    rows: Rows = Field(description="Whole rows, with all columns of the fit.")


class Addition(_NewRequest):
    """Learn new rows. For officers. Rows of people who were forgotten are refused."""

    type: Literal["addition"] = "addition"
    rows: Rows = Field(description="Whole rows, with all columns of the fit.")


NewRequest = Annotated[Erasure | Access | Rectification | Addition, Field(discriminator="type")]


class People(Sent):
    """Some people."""

    subjects: Annotated[list[Name], Field(min_length=1, max_length=10_000)]


class Person(Sent):
    """One person."""

    subject: Name


class RowsToPredict(Sent):
    """Rows without the target."""

    rows: Rows
    probabilities: bool = Field(default=False, description="Also the probability of each class.")


class NewToken(Sent):
    """A token to be made."""

    name: Annotated[
        str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")
    ]
    role: Role
    days: Annotated[int, Field(ge=1, le=3650)] = 365
    per_second: Annotated[float, Field(ge=0.001, le=1e6)] = 100.0


# What the service answers


class RequestState(Message):
    """A request, without the person."""

    id: str
    store: str
    type: Kind
    status: Status
    received: datetime
    due: date | None
    expected: datetime | None = Field(
        description="When whoever asked will know of its end, at best; none once it has."
    )
    ended: datetime | None


class RequestDetails(RequestState):
    """What an officer or an auditor sees of a request besides."""

    outcome: str | None = Field(
        description="forgotten, not in the model, forgotten before, learned, corrected, "
        "answered, refused."
    )
    entry: int | None = Field(description="The entry of the log that did it.")
    has_receipt: bool
    problem: str | None = Field(description="Why it failed, or could not be done so far.")
    attempts: int
    by: str = Field(description="The id of the token that made it.")


class Requests(Message):
    """A page of requests, the newest first."""

    requests: list[RequestDetails]
    next: str | None = Field(description="Pass it as `after` for the next page.")


class Presence(Message):
    """Whether a person is in the model."""

    in_the_model: bool
    n_rows: int
    forgotten: bool
    waiting: bool = Field(description="Whether an erasure of theirs is waiting.")


class Quote(Message):
    """What forgetting people would change; nothing was."""

    n_people: int
    n_rows: int
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    how: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    seconds: float


class StoreState(Message):
    """A store."""

    name: str
    method: Literal["refit", "langevin"]
    n_rows: int
    n_people_forgotten: int
    n_waiting: int
    n_overdue: int
    entries: int
    head: str = Field(description="The size and the hash of the log; note it down.")
    last_change: datetime


class Stores(Message):
    """All stores."""

    stores: list[StoreState]


class LedgerPage(Message):
    """Entries of the log, oldest first."""

    head: str
    entries: list[dict[str, Any]]
    grown: bool | None = Field(description="Whether the log has only grown since the head given.")


class Predictions(Message):
    """Predictions in the order of the rows."""

    predictions: list[Any]
    probabilities: list[dict[str, float]] | None = None


class Started(Message):
    """How many requests are now due."""

    n_due: int


class TokenState(Message):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    made: datetime
    expires: datetime
    revoked: datetime | None
    per_second: float


class TokenMade(TokenState):
    """A new token; its text is shown this once."""

    token: str


class Tokens(Message):
    """All tokens."""

    tokens: list[TokenState]


class Health(Message):
    """How the service is."""

    status: Literal["ok", "degraded"]
    problems: list[str]


class Problem(BaseModel):
    """An error as RFC 9457 has it."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None
    errors: list[dict[str, Any]] | None = Field(
        default=None, description="Problems of the input, the first 20."
    )
