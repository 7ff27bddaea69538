"""The application: what `pilu serve` gives to uvicorn."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import JSONResponse, Response

from pilu.client.messages import Health, Problem
from pilu.exceptions import PiluError
from pilu.service import outbox
from pilu.service.configuration import Configuration
from pilu.service.guards import Guards
from pilu.service.opendsr import opendsr_routes
from pilu.service.page_routes import page_routes
from pilu.service.problems import add_handlers
from pilu.service.request_routes import request_routes
from pilu.service.running import Allowed, Service
from pilu.service.scheduling import Scheduler
from pilu.service.server import log_to_stderr
from pilu.service.store_routes import store_routes
from pilu.service.tokens import Caller

VERSION = "1"
_PATIENCE = 6 * 3600.0  # seconds that a pass may take
_log = logging.getLogger("pilu.service")
_DESCRIPTION = """Make a trained model forget a person, and prove it.

All calls need a bearer token but `/health`, `/ready`, `/openapi.json`, `/v1/callback-key` and
`/opendsr/v2/certificate`; the page has sessions. Errors are problem documents (RFC 9457).
"""


def from_environment() -> Any:
    """The application of a process that `pilu serve` started."""
    log_to_stderr()  # a process of its own inherits no handlers
    configuration = Configuration.from_environment()
    return make_app(configuration, secure=configuration.secure)


def make_app(configuration: Configuration, *, secure: bool = False, work: bool = True) -> Any:
    """The application; with `work` it starts a worker when something is due."""
    service = Service(configuration)
    scheduler = Scheduler(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(scheduler.run()) if work else None
        yield
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        service.close()

    app = FastAPI(
        title="pilu",
        version=VERSION,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # both load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses={
            "4XX": {"model": Problem, "description": "A problem document."},
            "5XX": {"model": Problem, "description": "A problem document."},
        },
    )
    app.state.service = service
    plain = app.openapi
    app.openapi = lambda: _with_problems(plain())  # type: ignore[method-assign]
    add_handlers(app)
    for routes in (_own_routes(service, work=work), request_routes(service), store_routes(service)):
        app.include_router(routes)
    app.include_router(opendsr_routes(service))
    app.include_router(page_routes(service, secure=secure), include_in_schema=False)
    return Guards(app, may_send=service.may_send, secure=secure, measures=service.measures)


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the type that problem documents have."""
    for path in document["paths"].values():
        for operation in path.values():
            for status, described in operation["responses"].items():
                content = described.get("content", {})
                if status in ("4XX", "5XX") and "application/json" in content:
                    content["application/problem+json"] = content.pop("application/json")
    return document


def _own_routes(service: Service, *, work: bool) -> APIRouter:
    routes = APIRouter(tags=["service"])
    monitor = Annotated[Caller, Depends(Allowed(service, "auditor", "officer"))]

    def problems() -> list[str]:
        found = []
        try:
            with service.database.reading() as tx:
                outbox.callbacks_open(tx)
        except PiluError:
            found.append("the database does not answer")
        if work and time.monotonic() - service.looked > _PATIENCE:
            found.append("nobody looks for work")
        for name in service.stores.names():
            try:
                service.stores.open(name).log()
            except PiluError:
                found.append(f"the store {name} cannot be read")
        return found

    @routes.get("/health", response_model=Health)
    async def health() -> Response:
        """Whether the process is alive; needs no token and touches nothing."""
        return JSONResponse({"status": "ok", "problems": []})

    @routes.get("/ready", response_model=Health, responses={503: {"model": Health}})
    async def ready() -> Response:
        """Whether database and stores answer; needs no token and names nothing."""
        found = await service.in_thread(problems)
        for one in found:
            _log.error("not ready: %s", one)
        shown = sorted({one if "store" not in one else "a store cannot be read" for one in found})
        status = "degraded" if found else "ok"
        return JSONResponse({"status": status, "problems": shown}, 503 if found else 200)

    @routes.get("/v1/callback-key", response_class=Response,
                responses={200: {"content": {"text/plain": {}}}})  # fmt: skip
    async def callback_key() -> Response:
        """The public key that signs callbacks, as Standard Webhooks writes it; needs no token."""
        from pilu.service.callbacks import public_key

        text = await service.in_thread(public_key, service.configuration)
        return Response(text, media_type="text/plain")

    @routes.get("/metrics", response_class=Response,
                responses={200: {"content": {"text/plain": {}}}})  # fmt: skip
    async def metrics(caller: monitor) -> Response:
        """Measures for Prometheus; needs the token of an auditor or an officer."""
        text = await service.in_thread(service.measures.text, service.database, service.stores)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


def openapi() -> dict[str, Any]:
    """The OpenAPI document, which does not depend on how the service is started."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        guarded = make_app(Configuration(Path(folder)), work=False)
        document: dict[str, Any] = guarded.app.openapi()
        guarded.app.state.service.close()
    return document
