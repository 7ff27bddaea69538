"""Signed certificates: an in-toto statement in a DSSE envelope, by Ed25519 (``pilu[desk]``).

    signature = Ed25519( "DSSEv1" SP len(type) SP type SP len(body) SP body )      [DSSE, v1.0.2]

The statement's subject is the parameters' sha256, its predicate the certificate without evidence.
Keys are the user's, in PEM files outside of the store.
"""

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pilu._extras import need
from pilu.certify.certificate import Certificate
from pilu.exceptions import CertificateMismatch

__all__ = ["check_signature", "make_keys", "sign", "statement_of"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:pilu:certificate:1"


def make_keys(private: Path, public: Path) -> None:
    """A new pair of keys, as PEM; the private one is readable by its owner only."""
    serialization, ed25519 = _cryptography()
    for path in (private, public):
        if path.exists():
            raise ValueError(f"{path} must not be there already: a key is never replaced.")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def statement_of(certificate: Certificate) -> dict[str, Any]:
    """The certificate as an in-toto statement about the parameters."""
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": "parameters", "digest": {"sha256": certificate.parameters_sha256}},
        ],
        "predicateType": PREDICATE,
        "predicate": json.loads(certificate.without_evidence().to_json()),
    }


def sign(certificate: Certificate, private: Path) -> dict[str, Any]:
    """A DSSE envelope of the certificate."""
    key = _load(private, private_key=True)
    body = json.dumps(statement_of(certificate), sort_keys=True, separators=(",", ":")).encode()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(body).decode(),
        "signatures": [
            {
                "keyid": _key_id(key.public_key()),
                "sig": base64.b64encode(key.sign(_encoded(PAYLOAD_TYPE, body))).decode(),
            }
        ],
    }


def check_signature(envelope: Any, public: Path) -> Certificate:
    """The certificate in an envelope that the key has signed; anything else raises."""
    key = _load(public, private_key=False)
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
            break
        except invalid:
            continue
    else:
        raise CertificateMismatch(f"no signature of the envelope is by the key in {public}.")
    return _certificate_in(body)


def _certificate_in(body: bytes) -> Certificate:
    try:
        statement = json.loads(body)
        if statement["_type"] != STATEMENT or statement["predicateType"] != PREDICATE:
            raise CertificateMismatch("the signed statement is not about a certificate of pilu.")
        certificate = Certificate.from_json(json.dumps(statement["predicate"]))
        digest = statement["subject"][0]["digest"]["sha256"]
    except (KeyError, TypeError, IndexError, ValueError):
        raise CertificateMismatch("the signed statement is not an in-toto statement.") from None
    if digest != certificate.parameters_sha256:
        raise CertificateMismatch("the signed statement is about other parameters.")
    return certificate


def _encoded(kind: str, body: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def _key_id(public: Any) -> str:
    serialization, _ = _cryptography()
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()


def _load(path: Path, *, private_key: bool) -> Any:
    serialization, ed25519 = _cryptography()
    kind = "private" if private_key else "public"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} must be a {kind} key: {error.strerror}.") from None
    try:
        key = (
            serialization.load_pem_private_key(content, password=None)
            if private_key
            else serialization.load_pem_public_key(content)
        )
    except (ValueError, TypeError):
        raise ValueError(f"{path} must be a {kind} key as PEM, without a password.") from None
    wanted = ed25519.Ed25519PrivateKey if private_key else ed25519.Ed25519PublicKey
    if not isinstance(key, wanted):
        raise ValueError(f"{path} must be an Ed25519 key, got another kind.")
    return key


def _cryptography() -> tuple[Any, Any]:
    where = "cryptography.hazmat.primitives"
    return tuple(
        need(f"{where}.{name}", for_="signatures", extra="desk")
        for name in ("serialization", "asymmetric.ed25519")
    )
