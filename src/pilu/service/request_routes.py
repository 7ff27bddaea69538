"""The API: requests and what comes of them."""

import json
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.responses import Response

from pilu.client.messages import (
    Access,
    Addition,
    Erasure,
    Message,
    NewRequest,
    Presence,
    Rectification,
    RequestDetails,
    Requests,
    RequestState,
    Status,
)
from pilu.service import queue
from pilu.service.actions import note_action
from pilu.service.asking import ask, find_request, state_of
from pilu.service.database import Found
from pilu.service.problems import Refused
from pilu.service.running import Allowed, Service
from pilu.service.tokens import Caller

StoreName = Annotated[str, Path(description="The name of the store.", max_length=64)]
RequestId = Annotated[str, Path(description="The id of the request.", max_length=64)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A text of your own: the same request under the same key is made once.",
    ),
]


def answer(message: Message, status: int = 200, **headers: str) -> Response:
    """A message as an answer; it is valid already, so it is not checked again."""
    return Response(
        message.model_dump_json(), status, media_type="application/json", headers=headers
    )


def request_routes(service: Service) -> APIRouter:
    """Routes of requests."""
    routes = APIRouter(tags=["requests"])
    database = service.database
    asking = Annotated[Caller, Depends(Allowed(service, "requester", "officer"))]
    looking = Annotated[Caller, Depends(Allowed(service, "requester", "officer", "auditor"))]
    checking = Annotated[Caller, Depends(Allowed(service, "officer", "auditor"))]
    officer = Annotated[Caller, Depends(Allowed(service, "officer"))]

    find = partial(find_request, service)

    @routes.post(
        "/v1/stores/{store}/requests",
        status_code=201,
        response_model=RequestDetails | RequestState,
        responses={200: {"description": "It was made before under the same key."}},
    )
    async def make_request(
        store: StoreName, new: NewRequest, caller: asking, key: Key = None
    ) -> Response:
        """Ask to forget a person, whether a person is there, or to correct or add rows.

        A requester gets the same answer for people who are in the model and people who are not.
        """

        def make() -> tuple[Found, bool]:
            assert isinstance(new, Erasure | Access | Rectification | Addition)
            return ask(service, store, new, caller, idempotency_key=key)

        found, fresh = await service.in_thread(make)
        return answer(
            state_of(found, to_requester=caller.role == "requester"),
            201 if fresh else 200,
            Location=f"/v1/requests/{found['id']}",
        )

    @routes.get("/v1/stores/{store}/requests", response_model=Requests)
    async def list_requests(
        store: StoreName,
        caller: checking,
        status: Annotated[Status | None, Query(description="Only those.")] = None,
        after: Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")] = None,
        most: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> Response:
        """Requests of a store, the newest first."""
        service.stores.path(store)

        def read() -> tuple[list[Found], str | None]:
            with database.reading() as tx:
                return queue.list_requests(tx, store, status=status, after=after, most=most)

        found, following = await service.in_thread(read)
        shown = [state_of(one, to_requester=False) for one in found]
        return answer(Requests.model_validate({"requests": shown, "next": following}))

    @routes.get("/v1/requests/{request}", response_model=RequestDetails | RequestState)
    async def read_request(request: RequestId, caller: looking) -> Response:
        """How far a request is."""
        found = await service.quickly(find, request, caller)
        return answer(state_of(found, to_requester=caller.role == "requester"))

    @routes.delete("/v1/requests/{request}", response_model=RequestDetails | RequestState)
    async def cancel_request(request: RequestId, caller: asking) -> Response:
        """Cancel a request that waits."""

        def cancel() -> Found:
            found = find(request, caller)
            with database.writing() as tx:
                done = queue.cancel_request(tx, found, caller)
            if not done:
                raise Refused(409, "the request cannot be cancelled any more.")
            return find(request, caller)

        found = await service.in_thread(cancel)
        return answer(state_of(found, to_requester=caller.role == "requester"))

    @routes.get(
        "/v1/requests/{request}/receipt",
        response_class=Response,
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def read_receipt(request: RequestId, caller: checking) -> Response:
        """The receipt of a request, for `pilu verify`."""

        def read() -> str:
            return receipt_of(service, find(request, caller), caller)

        text = await service.in_thread(read)
        return Response(text, media_type="application/json")

    @routes.get(
        "/v1/requests/{request}/letter",
        response_class=Response,
        responses={200: {"content": {"text/html": {}, "text/plain": {}}}},
    )
    async def read_letter(
        request: RequestId,
        caller: officer,
        format: Literal["html", "txt"] = "html",
        name: Annotated[str | None, Query(max_length=200)] = None,
        company: Annotated[str | None, Query(max_length=200)] = None,
        contact: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Response:
        """A letter to the person of a request, in plain words."""
        details = {"name": name, "company": company, "contact": contact}
        given = {key: value for key, value in details.items() if value}
        text = await letter_of_request(service, find, request, caller, format, given)
        return Response(text, media_type="text/html" if format == "html" else "text/plain")

    @routes.get("/v1/requests/{request}/answer", response_model=Presence)
    async def read_answer(request: RequestId, caller: officer) -> Response:
        """The answer to a request for access."""

        def read() -> Found:
            found = find(request, caller)
            with database.writing() as tx:
                note_action(tx, caller, "read an answer", [found["store"]], found["id"])
            return found

        found = await service.in_thread(read)
        if found["answer"] is None:
            raise Refused(404, "the request has no answer: it is of another type, or still waits.")
        return answer(Presence(waiting=False, **json.loads(found["answer"])))

    return routes


def receipt_of(service: Service, found: Found, caller: Caller) -> str:
    """The receipt of a request; that it was handed over goes into the log."""
    if found["receipt"] is None:
        raise Refused(404, "the request has no receipt: it still waits, or changed nothing.")
    with service.database.writing() as tx:
        text = queue.receipt_of(tx, found["receipt"])
        note_action(tx, caller, "read a receipt", [found["store"]], found["id"])
    if text is None:
        raise Refused(410, "the receipt was deleted: receipts are kept for a limited time.")
    return text


async def letter_of_request(
    service: Service, find: Any, request: str, caller: Caller, format: str, details: dict[str, str]
) -> str:
    """The letter of a request."""

    def read() -> tuple[str, str]:
        found = find(request, caller)
        if found["type"] != "erasure":
            raise Refused(404, "the request has no letter: it is not an erasure.")
        return str(service.stores.path(found["store"])), receipt_of(service, found, caller)

    store, receipt = await service.in_thread(read)
    task = {"what": "letter", "store": store, "receipt": receipt, "format": format}
    text: str = await service.job({**task, "details": details})
    return text
