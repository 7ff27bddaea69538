"""What a receiver of callbacks calls: is this from the service, fresh, and new?

    signature = Ed25519( id "." timestamp "." body )      [Standard Webhooks]

The public key is the one that `pilu serve` shows. Bodies of OpenDSR come with these headers, too.
Needs ``pilu[client]``, for cryptography.
"""

import base64
import binascii
import json
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from pilu._extras import need
from pilu.exceptions import WrongArgument, WrongInput

Reason = Literal["malformed", "forged", "late", "early", "replayed"]
_ID = re.compile(r"[!-\-/-~]{1,128}")  # without ".", which separates what is signed
_SECONDS = re.compile(r"[0-9]{1,12}")
_MOST_SIGNATURES = 8


class Headers(Protocol):
    """Headers of any web framework: names and values, in any case."""

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of names and values."""


class CallbackRefused(WrongInput):
    """A callback must not be acted upon.

    `reason` is malformed, forged, late, early or replayed. Answer 400, and nothing is lost: the
    service sends again. Answer 200 to what is replayed, for it was taken before.
    """

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(reason, words)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])


class SeenIds:
    """Remembers the latest ids of callbacks, in memory; any thread may call it.

    A receiver of several processes, or one that must not forget at its end, keeps ids in a database
    with a unique index instead.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise WrongArgument("capacity", "an integer >= 1", capacity)
        self._capacity, self._ids = capacity, OrderedDict[str, None]()
        self._lock = threading.Lock()

    def __call__(self, number: str) -> bool:
        """Whether an id was seen before; from now on it was."""
        with self._lock:
            before = number in self._ids
            self._ids[number] = None
            if len(self._ids) > self._capacity:
                self._ids.popitem(last=False)
            return before

    def forget(self, number: str) -> None:
        """Take an id back: what it reported could not be dealt with, and will be sent again."""
        with self._lock:
            self._ids.pop(number, None)


def check_callback(
    headers: Headers,
    body: bytes,
    public_key: str,
    *,
    seen: Callable[[str], bool],
    tolerance: float = 300.0,
    now: float | None = None,
) -> dict[str, Any]:
    """What a callback says; one that is forged, altered, too old or sent again is refused.

    Parameters
    ----------
    headers : mapping
        Those of the call.
    body : bytes
        The body as it came, before anything reads it as JSON.
    public_key : str
        The key of the service: `whpk_` and base64.
    seen : callable
        Takes an id, remembers it, and returns whether it was there before: `SeenIds`, or an insert
        into a table of yours, in the transaction that deals with the callback.
    tolerance : float
        Seconds by which the clocks may differ, and for which a callback may travel.
    now : float, optional
        The time in seconds since 1970; by default, now.

    Raises
    ------
    CallbackRefused
    """
    key = _public_key(public_key)
    if not isinstance(body, bytes):
        raise WrongInput(f"body must be the bytes that came, got {type(body).__name__}.")
    if isinstance(tolerance, bool) or not 0 < tolerance < math.inf:
        raise WrongArgument("tolerance", "a finite number of seconds > 0", tolerance)
    time_now = time.time() if now is None else now
    if not math.isfinite(time_now):  # which no time would be far from
        raise WrongArgument("now", "a finite number of seconds", now)
    number, when, signatures = _signed_headers(headers)
    content = f"{number}.{when}.".encode("ascii") + body
    if not any(_verifies(key, signature, content) for signature in signatures):
        raise CallbackRefused("forged", "the callback was not signed, as it is, by the key.")
    _check_time(float(when) - time_now, tolerance)
    said = _json_of(body)
    if seen(number):
        raise CallbackRefused(
            "replayed", f"the callback {number} came before. Answer 200, and do nothing."
        )
    return said


def check_opendsr_callback(
    headers: Headers,
    body: bytes,
    certificate_pem: str | bytes,
    *,
    now: float | None = None,
) -> dict[str, Any]:
    """What a callback of OpenDSR says; one that its certificate did not sign is refused.

    OpenDSR signs neither a time nor an id, so this cannot notice what is sent again; for that, pass
    the same callback to `check_callback`, too. The certificate must be one that you trust, from
    `/opendsr/v2/certificate` over TLS: its issuer is not checked.

    Raises
    ------
    CallbackRefused
    """
    certificate = _certificate(certificate_pem)
    if not isinstance(body, bytes):
        raise WrongInput(f"body must be the bytes that came, got {type(body).__name__}.")
    when = datetime.now(UTC) if now is None else datetime.fromtimestamp(now, UTC)
    if not certificate.not_valid_before_utc <= when <= certificate.not_valid_after_utc:
        raise CallbackRefused("late", "the certificate is not valid now. Get a new one.")
    padding, hashes = _crypto("primitives.asymmetric.padding"), _crypto("primitives.hashes")
    given = _header(headers, "x-opendsr-signature")
    try:
        signature = base64.b64decode(given, validate=True)
        certificate.public_key().verify(signature, body, padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, _invalid()):  # of base64, or of the signature
        raise CallbackRefused(
            "forged", "the callback was not signed, as it is, by the key of the certificate."
        ) from None
    return _json_of(body)


def _signed_headers(headers: Headers) -> tuple[str, str, list[bytes]]:
    """The id, the time and the signatures of version 1a."""
    number, when = _header(headers, "webhook-id"), _header(headers, "webhook-timestamp")
    if _ID.fullmatch(number) is None or _SECONDS.fullmatch(when) is None:
        raise CallbackRefused("malformed", "webhook-id and webhook-timestamp cannot be read.")
    found = []
    for one in _header(headers, "webhook-signature").split(" ")[:_MOST_SIGNATURES]:
        version, _, text = one.partition(",")
        if version == "v1a":  # there may be others, of keys and versions to come
            try:
                found.append(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                continue
    return number, when, found


def _header(headers: Headers, name: str) -> str:
    found = [value for key, value in headers.items() if key.lower() == name]
    if len(found) != 1 or not isinstance(found[0], str):
        count = "none" if not found else f"{len(found)}"
        raise CallbackRefused("malformed", f"there must be one header {name}, got {count}.")
    return found[0]


def _verifies(key: Any, signature: bytes, content: bytes) -> bool:
    try:
        key.verify(signature, content)
    except _invalid():
        return False
    return True


def _check_time(ahead: float, tolerance: float) -> None:
    if ahead < -tolerance:
        raise CallbackRefused("late", f"the callback must be at most {tolerance:g} s old, got "
                              f"{-ahead:.0f} s. Check the clock.")  # fmt: skip
    if ahead > tolerance:
        raise CallbackRefused("early", f"the callback must be at most {tolerance:g} s ahead, got "
                              f"{ahead:.0f} s. Check the clock.")  # fmt: skip


def _json_of(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise CallbackRefused("malformed", "the body must be a JSON object.")
    return said


def _public_key(text: str) -> Any:
    ed25519 = _crypto("primitives.asymmetric.ed25519")
    try:
        if not text.startswith("whpk_"):
            raise ValueError
        raw = base64.b64decode(text.removeprefix("whpk_"), validate=True)
        return ed25519.Ed25519PublicKey.from_public_bytes(raw)
    except (ValueError, AttributeError):  # not shown: it may be a secret by mistake
        raise WrongInput(
            "public_key must be whpk_ and 32 bytes in base64, got something else. The service "
            "shows it."
        ) from None


def _certificate(pem: str | bytes) -> Any:
    x509 = need("cryptography.x509", for_="check_opendsr_callback", extra="client")
    rsa = _crypto("primitives.asymmetric.rsa")
    try:
        found = x509.load_pem_x509_certificate(pem.encode() if isinstance(pem, str) else pem)
        fine = isinstance(found.public_key(), rsa.RSAPublicKey)
    except (ValueError, TypeError):
        fine = False
    if not fine:
        raise WrongInput("certificate_pem must be an X.509 certificate of an RSA key, as PEM.")
    return found


def _invalid() -> Any:
    return need("cryptography.exceptions", for_="check_callback", extra="client").InvalidSignature


def _crypto(name: str) -> Any:
    return need(f"cryptography.hazmat.{name}", for_="checks of callbacks", extra="client")
