"""The page for data protection officers: forms and links, which need no script.

Names of people travel in bodies only: addresses end in histories and logs. A form of a session
carries its key, and what cannot be undone is asked again in words.
"""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote as quoted

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import ValidationError

from pilu.client.messages import Erasure, Name, NewToken, Role
from pilu.service import page_views as views
from pilu.service import queue, tokens
from pilu.service.actions import note_now
from pilu.service.asking import ask, find_request
from pilu.service.database import Found
from pilu.service.page_errors import HEADERS, NotLoggedIn, PageRoute
from pilu.service.problems import Refused
from pilu.service.request_routes import RequestId, StoreName, letter_of_request, receipt_of
from pilu.service.running import COOKIE, Service, check_form, visitor
from pilu.service.store_routes import end_token, make_token, presence, token_record
from pilu.service.tokens import Caller
from pilu.store.log import proof_of_growth
from pilu.store.merkle import Head

_MAY_LOG_IN = ("officer", "auditor")
_OWN_PATH = re.compile(r"/(stores|requests|tokens)[A-Za-z0-9/._-]*")
_NOBODY = Caller("-", "", "", 1.0)
# The report is a page of its own, with its style in it.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
_SAID = {
    "run": "You asked to carry out now what waits.",
    "cancelled": "The request was cancelled.",
    "revoked": "The token was revoked, and its sessions have ended.",
}

_FormKey = Annotated[str, Form(max_length=200)]
_Said = Annotated[str | None, Query(max_length=20)]
_Line = Annotated[str, Form(max_length=200)]
_Then = Annotated[str | None, Query(max_length=200)]


def page_routes(service: Service, *, secure: bool) -> APIRouter:
    """Routes of the page."""
    routes = APIRouter(route_class=PageRoute)
    database = service.database

    async def logged_in(request: Request) -> Caller:
        caller = await visitor(service, request)
        if caller is None or caller.role not in _MAY_LOG_IN:
            path = request.url.path
            back = request.method == "GET" and _OWN_PATH.fullmatch(path)
            raise NotLoggedIn(path if back else None)
        request.state.caller = caller
        return caller

    async def officer_only(caller: Annotated[Caller, Depends(logged_in)]) -> Caller:
        if caller.role != "officer":
            raise Refused(403, "only an officer may do this. You are logged in as an auditor.")
        return caller

    looking = Annotated[Caller, Depends(logged_in)]
    officer = Annotated[Caller, Depends(officer_only)]

    async def posted(request: Request, caller: officer, form_key: _FormKey = "") -> Caller:
        check_form(request, caller, form_key)
        return caller

    posting = Annotated[Caller, Depends(posted)]

    find = partial(find_request, service)

    # Logging in

    @routes.get("/")
    async def begin(caller: looking) -> Response:
        return _to("/stores")

    @routes.get("/login")
    async def login_form(request: Request, then: _Then = None) -> Response:
        if await visitor(service, request) is not None:
            return _to(_own(then))
        return _page("login.html", None, then=_own(then), problem=None)

    @routes.post("/login")
    async def log_in(
        request: Request,
        token: Annotated[str, Form(max_length=500)] = "",
        then: Annotated[str, Form(max_length=200)] = "",
    ) -> Response:
        check_form(request, _NOBODY, "")  # there is no session yet: the origin alone is checked

        def start() -> tuple[Caller | None, str]:
            caller = tokens.caller_of(database, token.strip())
            if caller is None or caller.role not in _MAY_LOG_IN:
                return caller, ""
            with database.writing() as tx:
                return caller, tokens.start_session(tx, caller)

        caller, session = await service.in_thread(start)
        if not session:
            status, problem = 401, "This token is not known, has expired, or was revoked."
            if caller is not None:
                status = 403
                problem = (
                    f"This token is one of a {caller.role}. Only officers and auditors can log in "
                    "here."
                )
            return _page("login.html", None, status, then=_own(then), problem=problem)
        answer = _to(_own(then))
        answer.set_cookie(
            COOKIE, session, max_age=int(tokens.SESSION), path="/", secure=secure,
            httponly=True, samesite="strict",
        )  # fmt: skip
        return answer

    @routes.post("/logout")
    async def log_out(request: Request, caller: looking, form_key: _FormKey = "") -> Response:
        check_form(request, caller, form_key)

        def end() -> None:
            with database.writing() as tx:
                tokens.end_session(tx, caller)

        await service.in_thread(end)
        answer = _to("/login")
        answer.delete_cookie(COOKIE, path="/", secure=secure, httponly=True, samesite="strict")
        return answer

    # Stores

    @routes.get("/stores")
    async def show_stores(caller: looking) -> Response:
        found = await service.in_thread(views.views_of_stores, service)
        return _page("stores.html", caller, stores=found)

    @routes.get("/stores/{store}")
    async def show_store(
        store: StoreName,
        caller: looking,
        since: Annotated[str | None, Query(max_length=200)] = None,
        said: _Said = None,
    ) -> Response:
        found = await service.in_thread(views.view_of_store, service, store, since)
        return _page("store.html", caller, s=found, said=_SAID.get(said or ""))

    @routes.get("/stores/{store}/requests")
    async def show_requests(
        store: StoreName,
        caller: looking,
        after: Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")] = None,
    ) -> Response:
        service.stores.path(store)

        def read() -> tuple[list[Found], str | None]:
            with database.reading() as tx:
                return queue.list_requests(tx, store, status=None, after=after, most=100)

        found, following = await service.in_thread(read)
        shown = [views.view_of_request(one) for one in found]
        return _page(
            "requests.html", caller, name=store, requests=shown, following=following, after=after
        )

    @routes.get("/stores/{store}/proof")
    async def read_proof(
        store: StoreName, caller: looking, since: Annotated[str, Query(max_length=200)]
    ) -> Response:
        log = (await service.in_thread(service.stores.open, store)).log()
        proof = await service.in_thread(proof_of_growth, log, Head.parse(since))
        return JSONResponse(proof, headers=_as_file(f"{store}-proof.json"))

    @routes.get("/stores/{store}/report")
    async def show_report(store: StoreName, caller: looking) -> Response:
        text = await service.job({"what": "report", "store": str(service.stores.path(store))})
        return HTMLResponse(text, headers={"Content-Security-Policy": _REPORT_POLICY})

    @routes.get("/stores/{store}/run")
    async def confirm_run(store: StoreName, caller: officer) -> Response:
        found = await service.in_thread(views.view_of_store, service, store, None)
        return _page("run.html", caller, s=found)

    @routes.post("/stores/{store}/run")
    async def run(store: StoreName, caller: posting) -> Response:
        service.stores.path(store)

        def hurry() -> None:
            with database.writing() as tx:
                queue.hurry(tx, store, caller)

        await service.in_thread(hurry)
        return _to(f"/stores/{store}?said=run")

    # People

    @routes.get("/stores/{store}/person")
    @routes.get("/stores/{store}/quote")
    @routes.get("/stores/{store}/forget")
    async def start_again(store: StoreName, caller: officer) -> Response:
        service.stores.path(store)
        return _to(f"/stores/{store}")

    async def person_page(
        template: str, store: str, subject: str, caller: Caller, **given: Any
    ) -> Response:
        there, about = await service.in_thread(_look_up, service, store, subject, caller)
        now = datetime.now(UTC).timestamp()
        return _page(
            template, caller, name=store, subject=subject, there=there, **given,
            about=[views.view_of_request(one) for one in about],
            night=service.configuration.next_night(now), key=queue.new_id(),
        )  # fmt: skip

    @routes.post("/stores/{store}/person")
    async def find_person(
        store: StoreName, subject: Annotated[Name, Form()], caller: posting
    ) -> Response:
        return await person_page("person.html", store, subject, caller, quote=None)

    @routes.post("/stores/{store}/quote")
    async def quote(
        store: StoreName, subject: Annotated[Name, Form()], caller: posting
    ) -> Response:
        path = str(service.stores.path(store))
        await service.in_thread(note_now, database, caller, "asked for a quote", store)
        found = await service.job({"what": "quote", "store": path, "subjects": [subject]})
        words = await service.in_thread(views.words_of_quote, found)
        return await person_page("person.html", store, subject, caller, quote=words)

    @routes.post("/stores/{store}/forget")
    async def confirm_forget(
        store: StoreName, subject: Annotated[Name, Form()], caller: posting
    ) -> Response:
        return await person_page("forget.html", store, subject, caller)

    @routes.post("/stores/{store}/requests")
    async def forget(
        store: StoreName,
        subject: Annotated[Name, Form()],
        caller: posting,
        key: Annotated[str, Form(min_length=8, max_length=64)],
        when: Annotated[Literal["now", "tonight"], Form()],
    ) -> Response:
        new = Erasure(subject=subject, now=when == "now")

        def make() -> Found:
            return ask(service, store, new, caller, idempotency_key=f"page {key}")[0]

        return _to(f"/requests/{(await service.in_thread(make))['id']}")

    # Requests

    @routes.get("/requests/{request}")
    async def show_request(request: RequestId, caller: looking) -> Response:
        found = await service.quickly(find, request, caller)
        view = views.view_of_request(found)
        answer = views.words_of_answer(found["answer"]) if caller.role == "officer" else None
        if answer is not None:
            await service.in_thread(
                note_now, database, caller, "read an answer", found["store"], request
            )
        return _page("request.html", caller, r=view, words=views.words_of_state(view), told=answer)

    @routes.get("/requests/{request}/receipt")
    async def read_receipt(request: RequestId, caller: looking) -> Response:
        def read() -> str:
            return receipt_of(service, find(request, caller), caller)

        text = await service.in_thread(read)
        headers = _as_file(f"receipt-{request[:8]}.json")
        return Response(text, media_type="application/json", headers=headers)

    @routes.post("/requests/{request}/letter")
    async def read_letter(
        request: RequestId,
        caller: posting,
        format: Annotated[Literal["html", "txt"], Form()] = "html",
        name: _Line = "",
        company: _Line = "",
        contact: Annotated[str, Form(max_length=500)] = "",
    ) -> Response:
        given = {"name": name, "company": company, "contact": contact}
        given = {field: value for field, value in given.items() if value.strip()}
        text = await letter_of_request(service, find, request, caller, format, given)
        kind = "text/html" if format == "html" else "text/plain"
        headers = _as_file(f"letter-{request[:8]}.{format}")
        return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)

    @routes.get("/requests/{request}/cancel")
    async def confirm_cancel(request: RequestId, caller: officer) -> Response:
        found = await service.quickly(find, request, caller)
        return _page("cancel.html", caller, r=views.view_of_request(found))

    @routes.post("/requests/{request}/cancel")
    async def cancel(request: RequestId, caller: posting) -> Response:
        def end() -> str:
            found = find(request, caller)
            with database.writing() as tx:
                if not queue.cancel_request(tx, found, caller):
                    raise Refused(409, "the request cannot be cancelled any more.")
            return str(found["store"])

        return _to(f"/stores/{await service.in_thread(end)}?said=cancelled")

    # Users and tokens

    def listed() -> list[dict[str, Any]]:
        with database.reading() as tx:
            found = tokens.list_tokens(tx)
        now = datetime.now(UTC).timestamp()
        return [{**dict(one), "is_old": one["expires"] <= now} for one in found]

    async def tokens_page(caller: Caller, status: int = 200, **more: Any) -> Response:
        given = {"said": None, "made": None, "problem": None, **more}
        found = await service.in_thread(listed)
        return _page("tokens.html", caller, status, tokens=found, **given)

    @routes.get("/tokens")
    async def show_tokens(caller: officer, said: _Said = None) -> Response:
        return await tokens_page(caller, said=_SAID.get(said or ""))

    @routes.post("/tokens")
    async def add_token(
        caller: posting,
        name: _Line,
        role: Annotated[Role, Form()],
        days: Annotated[int, Form()] = 365,
    ) -> Response:
        try:
            new = NewToken(name=name, role=role, days=days)
        except ValidationError:
            words = "A token needs a name of at most 100 characters, and 1 to 3,650 days."
            return await tokens_page(caller, 422, problem=words)
        found, text = await service.in_thread(make_token, service, new, caller)
        return await tokens_page(caller, 201, made={"token": text, **token_record(found)})

    def token_of(number: str) -> dict[str, Any]:
        one = next((one for one in listed() if one["id"] == number), None)
        if one is None or one["revoked"] is not None:
            raise Refused(404, "there is no such token, or it was revoked before.")
        return one

    @routes.get("/tokens/{number}/revoke")
    async def confirm_revoke(number: RequestId, caller: officer) -> Response:
        return _page("revoke.html", caller, t=await service.in_thread(token_of, number))

    @routes.post("/tokens/{number}/revoke")
    async def revoke(number: RequestId, caller: posting) -> Response:
        await service.in_thread(end_token, service, number, caller)
        return _to("/login" if number == caller.token else "/tokens?said=revoked")

    # Files

    @routes.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in views.STATIC:
            raise Refused(404, "there is no such file.")
        headers = {"Content-Type": views.STATIC[name], "Cache-Control": _FOR_EVER}
        return Response(views.static_file(name), headers=headers)

    return routes


def _page(template: str, caller: Caller | None, status: int = 200, **given: Any) -> Response:
    return HTMLResponse(views.render(template, caller=caller, **given), status, headers=HEADERS)


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, headers=HEADERS)


def _own(path: str | None) -> str:
    """Where to go after the login: a path of the page, whatever was asked for."""
    return path if path and _OWN_PATH.fullmatch(path) else "/stores"


def _as_file(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quoted(name, safe='')}"}


def _look_up(service: Service, store: str, subject: str, caller: Caller) -> tuple[Any, list[Found]]:
    """Whether a person is in the model, and the requests about them."""
    there = presence(service, store, subject, caller)
    hashed = queue.hash_name(subject, service.stores.open(store).key)
    with service.database.reading() as tx:
        return there, queue.requests_about(tx, store, hashed)
