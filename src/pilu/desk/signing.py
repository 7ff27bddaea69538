"""Signed receipts: an in-toto statement in a DSSE envelope, by Ed25519 (``pilu[desk]``).

    signature = Ed25519( "DSSEv1" SP len(type) SP type SP len(body) SP body )      [DSSE, v1.0.2]

The statement's subject is the parameters, by their keyed hash. Its predicate is the receipt without
its evidence: the entry of the log, its place, and the head of the log. Keys belong to the user, in
PEM files outside the store.
"""

import base64
import binascii
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pilu._extras import need
from pilu.certify.certificate import UNBOUND_SCHEMA
from pilu.desk.receipt import Receipt
from pilu.exceptions import CertificateMismatch, WrongInput
from pilu.store.disk import write_new
from pilu.store.log import canonical

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:pilu:receipt:1"


def make_keys(private: Path, public: Path) -> None:
    """Write a new pair of keys as PEM; only the owner can read the private one."""
    serialization, ed25519 = _cryptography()
    for path in (private, public):
        if path.exists():
            raise WrongInput(f"{path} must be a new file: a key is never replaced.")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_new(private, secret)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def statement_of(receipt: Receipt) -> dict[str, Any]:
    """The receipt as an in-toto statement about the parameters."""
    certificate = receipt.certificate
    # Certificates of the first format and of refits name them by a hash without a key.
    plain = certificate.schema == UNBOUND_SCHEMA or certificate.method == "refit"
    digest = "sha256" if plain else "hmac-sha256"
    return {
        "_type": STATEMENT,
        "subject": [{"name": "parameters", "digest": {digest: certificate.parameters_sha256}}],
        "predicateType": PREDICATE,
        "predicate": receipt.statement,
    }


def sign_statement(receipt: Receipt, private: Path) -> dict[str, Any]:
    """A DSSE envelope of the receipt's statement: the same for all people of an entry.

    For what is in the log: `Desk` signs after the commit.
    """
    key = load_key(private, "private")
    body = canonical(statement_of(receipt))
    key_id = hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()
    signature = base64.b64encode(key.sign(_encoded(PAYLOAD_TYPE, body))).decode()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(body).decode(),
        "signatures": [{"keyid": key_id, "sig": signature}],
    }


def check_signature(receipt: Receipt, public: Path) -> None:
    """Refuse a receipt that was not signed, exactly as it is, by the key."""
    if receipt.signature is None:
        raise CertificateMismatch("the receipt is not signed.")
    body = _signed_by(receipt.signature, public)
    try:
        signed = json.loads(body)
    except ValueError:
        raise CertificateMismatch("the signed statement is not JSON.") from None
    if signed != statement_of(receipt):
        raise CertificateMismatch("the signature is for another receipt, not for this one.")


def _signed_by(envelope: Any, public: Path) -> bytes:
    """The body of an envelope that was signed by the key; anything else raises."""
    key = load_key(public, "public")
    invalid = need("cryptography.exceptions", for_="signatures", extra="desk").InvalidSignature
    try:
        kind, body = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in envelope["signatures"]]
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise CertificateMismatch("the envelope is not a DSSE envelope.") from None
    if kind != PAYLOAD_TYPE or not isinstance(kind, str):
        raise CertificateMismatch(f"the envelope must hold {PAYLOAD_TYPE}, got {kind!r}.")
    for signature in signatures:
        try:
            key.verify(signature, _encoded(kind, body))
            return body
        except invalid:
            continue
    raise CertificateMismatch(f"no signature of the envelope was made by the key in {public}.")


def _encoded(kind: str, body: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def load_key(path: str | Path, kind: Literal["private", "public"]) -> Any:
    """The Ed25519 key in a PEM file; anything else is refused."""
    serialization, ed25519 = _cryptography()
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise WrongInput(f"{path} must be a {kind} key: {error.strerror}.") from None
    try:
        if kind == "private":
            key = serialization.load_pem_private_key(content, password=None)
        else:
            key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError):
        raise WrongInput(f"{path} must be a {kind} key as PEM, without a password.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise WrongInput(f"{path} must be an Ed25519 key, got another kind.")
    return key


def _cryptography() -> tuple[Any, Any]:
    where = "cryptography.hazmat.primitives"
    return tuple(
        need(f"{where}.{name}", for_="signatures", extra="desk")
        for name in ("serialization", "asymmetric.ed25519")
    )
