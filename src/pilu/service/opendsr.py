"""OpenDSR, version 2: requests and callbacks as consent platforms send and expect them.

https://github.com/opengdpr/OpenDSR. Answers and callbacks are signed by the key of an X.509
certificate. The standard wants one of a known authority: pass `--certificate`. Without it the
service makes a certificate of its own at the first use, which is good for trials.
"""

import base64
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from pilu._extras import need
from pilu.client.messages import Access, Erasure, Name, Url
from pilu.exceptions import WrongInput
from pilu.service import queue
from pilu.service.asking import ask, expected_end, time_of, told_status
from pilu.service.configuration import Configuration
from pilu.service.database import Found
from pilu.service.own_keys import made_once
from pilu.service.problems import Refused
from pilu.service.request_routes import StoreName
from pilu.service.running import Allowed, Service
from pilu.service.tokens import Caller
from pilu.store.disk import write_new

VERSION = "2.0"
_STATUS = {"waiting": "pending", "running": "in_progress"}
_YEARS = 10


class Identity(BaseModel):
    """How a person is named."""

    identity_type: Literal["controller_customer_id"]
    identity_value: Name
    identity_format: Literal["raw"]


class SubjectRequest(BaseModel):
    """A request as OpenDSR has it; what it adds for others is passed over."""

    model_config = ConfigDict(extra="ignore")

    regulation: Literal["gdpr", "ccpa"]
    subject_request_id: UUID = Field(description="UUID version 4: the key of the request.")
    subject_request_type: Literal["erasure", "access"]
    submitted_time: datetime
    subject_identities: Annotated[list[Identity], Field(min_length=1, max_length=1)]
    api_version: Annotated[str, Field(max_length=20)] | None = None
    status_callback_urls: Annotated[list[Url], Field(max_length=10)] = []


class Discovery(BaseModel):
    """What the service can do."""

    api_version: str
    supported_identities: list[dict[str, str]]
    supported_subject_request_types: list[str]
    processor_certificate: str


class Received(BaseModel):
    """A request that was taken in."""

    controller_id: str
    expected_completion_time: datetime
    received_time: datetime
    encoded_request: str = Field(description="The body of the request in base64. Do not store it.")
    subject_request_id: UUID


class State(BaseModel):
    """How far a request is."""

    controller_id: str
    expected_completion_time: datetime
    subject_request_id: UUID
    request_status: Literal["pending", "in_progress", "completed", "cancelled"]
    api_version: str


class Cancelled(BaseModel):
    """A request that was cancelled."""

    controller_id: str
    received_time: datetime
    subject_request_id: UUID
    api_version: str


def opendsr_routes(service: Service) -> APIRouter:
    """Routes of OpenDSR."""
    routes = APIRouter(prefix="/opendsr/v2", tags=["OpenDSR"])
    configuration = service.configuration
    asking = Annotated[Caller, Depends(Allowed(service, "requester", "officer"))]

    def signed(content: dict[str, Any], status: int = 200) -> Response:
        answer = JSONResponse(content, status)
        answer.headers.update(signature(configuration, bytes(answer.body)))
        return answer

    def find(store: str, request: UUID, caller: Caller) -> Found:
        service.stores.path(store)
        with service.database.reading() as tx:
            found = queue.find_external(tx, store, str(request), caller)
        if found is None:
            raise Refused(404, "there is no such request, or it is not yours.")
        return found

    @routes.get(
        "/certificate",
        response_class=Response,
        responses={200: {"content": {"application/x-pem-file": {}}}},
    )
    async def read_certificate() -> Response:
        """The certificate whose key signs answers and callbacks."""
        text = await service.in_thread(lambda: certificate_files(configuration)[1].read_text())
        return Response(text, media_type="application/x-pem-file")

    @routes.get("/{store}/discovery", response_model=Discovery)
    async def discover(store: StoreName, caller: asking) -> Response:
        """What the service can do."""
        service.stores.path(store)
        identity = {"identity_type": "controller_customer_id", "identity_format": "raw"}
        content = {
            "api_version": VERSION,
            "supported_identities": [identity],
            "supported_subject_request_types": ["erasure", "access"],
            "processor_certificate": f"{configuration.address or ''}/opendsr/v2/certificate",
        }
        return await service.in_thread(signed, content)

    @routes.post("/{store}/requests", status_code=201, response_model=Received)
    async def make(
        store: StoreName, given: SubjectRequest, raw: Request, caller: asking
    ) -> Response:
        """Ask to forget a person, or whether a person is there."""
        body, number = await raw.body(), str(given.subject_request_id)
        subject = given.subject_identities[0].identity_value
        kind = Erasure if given.subject_request_type == "erasure" else Access
        urls = [(str(url), "opendsr") for url in given.status_callback_urls]

        def queued() -> Response:
            found, _ = ask(
                service, store, kind(subject=subject), caller,
                idempotency_key=f"opendsr:{store}:{number}", callbacks=urls, external=number,
            )  # fmt: skip
            content = {
                "controller_id": caller.token,
                "expected_completion_time": _rfc3339(expected_end(found)),
                "received_time": _rfc3339(found["received"]),
                "encoded_request": base64.b64encode(body).decode(),
                "subject_request_id": number,
            }
            return signed(content, 201)

        return await service.in_thread(queued)

    @routes.get("/{store}/requests/{request}", response_model=State)
    async def read(store: StoreName, request: UUID, caller: asking) -> Response:
        """How far a request is."""
        return await service.in_thread(
            lambda: signed(_state_of(configuration, find(store, request, caller)))
        )

    @routes.delete("/{store}/requests/{request}", status_code=202, response_model=Cancelled)
    async def cancel(store: StoreName, request: UUID, caller: asking) -> Response:
        """Cancel a request that waits."""

        def cancelled() -> Response:
            found = find(store, request, caller)
            with service.database.writing() as tx:
                done = queue.cancel_request(tx, found, caller)
            if not done:
                raise Refused(409, "the request cannot be cancelled any more.")
            now = datetime.now(UTC).timestamp()
            content = {
                "controller_id": caller.token,
                "received_time": _rfc3339(now),
                "subject_request_id": str(request),
                "api_version": VERSION,
            }
            return signed(content, 202)

        return await service.in_thread(cancelled)

    return routes


def callback_of(configuration: Configuration, row: Found) -> dict[str, Any]:
    """What a callback says."""
    return {**_state_of(configuration, row), "status_callback_url": row["url"]}


def _state_of(configuration: Configuration, found: Found) -> dict[str, Any]:
    status = told_status(found)
    # The receipt is for officers: a results_url that only some requests have would tell which
    # people were in the model.
    return {
        "controller_id": found["token"],
        "expected_completion_time": _rfc3339(expected_end(found)),
        "subject_request_id": found["external"],
        "request_status": _STATUS.get(status, status),
        "api_version": VERSION,
    }


def _rfc3339(seconds: float) -> str:
    found = time_of(float(int(seconds)))
    assert found is not None
    return found.isoformat().replace("+00:00", "Z")


# Signatures


def signature(configuration: Configuration, body: bytes) -> dict[str, str]:
    """The headers that sign a body: RSA with SHA-256 (PKCS #1 v1.5)."""
    padding = _crypto("primitives.asymmetric.padding")
    hashes = _crypto("primitives.hashes")
    private, _ = certificate_files(configuration)
    key = _load_rsa(private)
    made = key.sign(body, padding.PKCS1v15(), hashes.SHA256())
    return {
        "X-OpenDSR-Processor-Domain": domain_of(configuration),
        "X-OpenDSR-Signature": base64.b64encode(made).decode(),
    }


def domain_of(configuration: Configuration) -> str:
    """The host by which others know the service."""
    return urlsplit(configuration.address or "http://localhost").hostname or "localhost"


_keys: dict[tuple[Path, float], Any] = {}


def _load_rsa(path: Path) -> Any:
    stamp = (path, path.stat().st_mtime)
    if stamp not in _keys:
        serialization, rsa = (
            _crypto("primitives.serialization"),
            _crypto("primitives.asymmetric.rsa"),
        )
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError):
            raise WrongInput(f"{path} must be a private key as PEM, without a password.") from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise WrongInput(f"{path} must be an RSA key, which OpenDSR asks for.")
        _keys.clear()
        _keys[stamp] = key
    return _keys[stamp]


def certificate_files(configuration: Configuration) -> tuple[Path, Path]:
    """The private key and the certificate: those given, or made at the first use."""
    if configuration.certificate is not None and configuration.certificate_key is not None:
        return configuration.certificate_key, configuration.certificate
    own, domain = configuration.own, domain_of(configuration)
    return made_once(own / "opendsr.key", own / "opendsr.pem", partial(_make_certificate, domain))


def _make_certificate(domain: str, private: Path, public: Path) -> None:
    x509, hashes = _crypto("", "cryptography.x509"), _crypto("primitives.hashes")
    serialization, rsa = _crypto("primitives.serialization"), _crypto("primitives.asymmetric.rsa")
    key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, domain)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_new(private, secret)
    write_new(public, certificate.public_bytes(serialization.Encoding.PEM))


def _crypto(name: str, whole: str | None = None) -> Any:
    return need(whole or f"cryptography.hazmat.{name}", for_="OpenDSR", extra="serve")
