"""Callbacks as the service sends them, and as somebody else might."""

import base64
import json
import shutil
import subprocess
import time
import uuid

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pilu.client import CallbackRefused, SeenIds, check_callback, check_opendsr_callback
from pilu.exceptions import WrongArgument, WrongInput
from pilu.service.callbacks import public_key

STORE = "customers"

# RFC 8032, section 7.1, test 2.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
KEY = f"whpk_{base64.b64encode(PUBLIC).decode()}"
NOW = 1_700_000_000.0
# By OpenSSL 3.0.19: openssl pkeyutl -sign -rawin of 'n1.1700000000.{"a": 1}'
BY_OPENSSL = (
    "v1a,MwCOG9yu+EAJmZqoLXgIJwCG5xAL8qY7mWyxnY6+KZCqunnBJa6vlsmIrJqKlsqTL0F3+JtcpPriPfFa1ZBTDQ=="
)


def sent(body=b'{"a": 1}', number="n1", when="1700000000", secret=SECRET):
    """Headers of a callback that a test signs by itself."""
    content = b".".join((number.encode(), when.encode(), body))
    signature = Ed25519PrivateKey.from_private_bytes(secret).sign(content)
    return {
        "webhook-id": number,
        "webhook-timestamp": when,
        "webhook-signature": "v1a," + base64.b64encode(signature).decode(),
    }


def check(headers, body=b'{"a": 1}', **options):
    given = {"seen": lambda _: False, "now": NOW} | options
    return check_callback(headers, body, KEY, **given)


def refused(headers, body=b'{"a": 1}', **options):
    with pytest.raises(CallbackRefused) as error:
        check(headers, body, **options)
    assert str(error.value)
    return error.value.reason


def test_a_callback_of_the_service_from_end_to_end(served, officer, receiver):
    made = officer.forget(STORE, "person 3", callback=receiver.url, now=True)
    served.work()
    ((headers, body),) = receiver.came
    key, seen = public_key(served.configuration), SeenIds()
    said = check_callback(headers, body, key, seen=seen)
    assert said.pop("ended")
    assert said == {
        "type": "request.ended", "id": made.id, "store": STORE, "request_type": "erasure",
        "status": "completed",
    }  # fmt: skip

    def reason(headers, body, key=key, **options):
        with pytest.raises(CallbackRefused) as error:
            check_callback(headers, body, key, **{"seen": SeenIds(), **options})
        return error.value.reason

    assert reason(headers, body, seen=seen) == "replayed"
    assert reason(headers, body.replace(b"completed", b"cancelled")) == "forged"
    assert reason(headers, body, KEY) == "forged"
    assert reason({**headers, "webhook-id": str(uuid.uuid4())}, body) == "forged"
    assert reason({**headers, "webhook-timestamp": str(int(time.time()) + 1)}, body) == "forged"
    assert reason(headers, body, now=time.time() + 400) == "late"
    assert reason(headers, body, now=time.time() - 400) == "early"


def test_a_callback_of_opendsr_from_end_to_end(served, receiver, tmp_path):
    client = served.client("requester")
    wanted = {
        "regulation": "gdpr", "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": "access", "submitted_time": "2026-11-15T12:00:00Z",
        "subject_identities": [{"identity_type": "controller_customer_id",
                                "identity_value": "person 1", "identity_format": "raw"}],
        "status_callback_urls": [receiver.url],
    }  # fmt: skip
    path = f"/opendsr/v2/{STORE}/requests"
    client._caller.http.post(path, json=wanted).raise_for_status()
    certificate = httpx.get(f"{served.address}/opendsr/v2/certificate", trust_env=False).text
    served.work()
    ((headers, body),) = receiver.came
    said = check_opendsr_callback(headers, body, certificate)
    assert (said["subject_request_id"], said["request_status"]) == (
        wanted["subject_request_id"], "completed",
    )  # fmt: skip
    assert check_opendsr_callback(dict(headers), body, certificate.encode()) == said
    key = public_key(served.configuration)
    assert check_callback(headers, body, key, seen=SeenIds()) == said  # it has both signatures
    if shutil.which("openssl"):
        assert verified_by_openssl(tmp_path, certificate, headers["X-OpenDSR-Signature"], body)

    def reason(headers, body, **options):
        with pytest.raises(CallbackRefused) as error:
            check_opendsr_callback(headers, body, certificate, **options)
        return error.value.reason

    assert reason(headers, body.replace(b"completed", b"cancelled")) == "forged"
    assert reason({**headers, "X-OpenDSR-Signature": "!"}, body) == "forged"
    assert reason({}, body) == "malformed"
    assert reason(headers, body, now=time.time() + 20 * 365 * 86_400) == "late"
    for wrong in ("", "no PEM", certificate.replace("CERTIFICATE", "PRIVATE KEY")):
        with pytest.raises(WrongInput, match=r"certificate_pem must be an X\.509 certificate"):
            check_opendsr_callback(headers, body, wrong)


def verified_by_openssl(folder, certificate, signature, body):
    (folder / "c.pem").write_text(certificate)
    (folder / "s").write_bytes(base64.b64decode(signature))
    (folder / "b").write_bytes(body)
    shown = subprocess.run(
        ["openssl", "x509", "-in", "c.pem", "-pubkey", "-noout"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    (folder / "k.pem").write_bytes(shown.stdout)
    run = subprocess.run(
        ["openssl", "dgst", "-sha256", "-verify", "k.pem", "-signature", "s", "b"],
        cwd=folder, check=False, capture_output=True,
    )  # fmt: skip
    return run.returncode == 0


def test_what_is_signed_is_what_the_standard_says():
    secret = Ed25519PrivateKey.from_private_bytes(SECRET)
    assert secret.public_key().public_bytes_raw() == PUBLIC
    assert check({**sent(), "webhook-signature": BY_OPENSSL}) == {"a": 1}
    assert check(sent()) == {"a": 1}
    assert check({name.title(): value for name, value in sent().items()}) == {"a": 1}
    # Of several signatures one is enough, as while a key is replaced.
    others = "v1,c2hhcmVk v1a,!! v1a,AAAA " + sent()["webhook-signature"]
    assert check({**sent(), "webhook-signature": others}) == {"a": 1}
    assert refused({**sent(), "webhook-signature": "v1a,AAAA " * 50 + others}) == "forged"


def test_what_is_forged_or_malformed_is_refused():
    assert refused(sent(secret=bytes(32))) == "forged"
    assert refused(sent(), b'{"a": 2}') == "forged"
    right = sent()["webhook-signature"]
    for wrong in (
        "", "v1a", "v1a,", "v1," + right[4:], right[:-4], right.replace("v1a,", "v1a,A"),
        right[4:], "v1a," + base64.b64encode(bytes(64)).decode(),
    ):  # fmt: skip
        assert refused({**sent(), "webhook-signature": wrong}) == "forged"
    for name in sent():
        assert refused({k: v for k, v in sent().items() if k != name}) == "malformed"
        assert refused({**sent(), name.upper(): sent()[name]}) == "malformed"  # twice
    for number in ("", "a.b", "a b", "a\n", "a" * 129):
        assert refused(sent(number=number)) == "malformed"
    for when in ("", "1.7e9", "-1", " 1700000000", "1700000000\n", "9" * 13, "NaN"):
        assert refused(sent(when=when)) == "malformed"
    for body in (b"", b"[]", b"\xff", b'"a"', b"[" * 100_000):
        assert refused(sent(body), body) == "malformed"


def test_the_parts_of_what_is_signed_cannot_be_moved():
    # "n1.1700000000.{...}" as the id "n1.17...", or with a time that is part of the body.
    body = b"1700000000.{}"
    headers = sent(body, when="1")
    moved = {**headers, "webhook-id": "n1.1", "webhook-timestamp": "1700000000"}
    assert refused(moved, b"{}") == "malformed"


def test_the_time_in_which_a_callback_is_taken():
    for away, reason in ((-301, "early"), (301, "late")):
        assert refused(sent(), now=NOW + away) == reason
        assert check(sent(), now=NOW + away, tolerance=400)
    assert check(sent(), now=NOW + 300)
    assert check(sent(), now=NOW - 300)
    for name in ("now", "tolerance"):
        with pytest.raises(WrongArgument, match=f"{name} must be a finite number"):
            check(sent(), **{name: float("nan")})


def test_only_what_is_genuine_and_in_time_is_remembered():
    seen = SeenIds()
    refused(sent(secret=bytes(32)), seen=seen)
    refused(sent(), now=NOW + 1_000, seen=seen)
    refused(sent(b"[]"), b"[]", seen=seen)
    assert check(sent(), seen=seen)
    assert refused(sent(), seen=seen) == "replayed"
    assert refused(sent(when="1700000001"), seen=seen) == "replayed"  # a repeated attempt
    assert check(sent(number="n2"), seen=seen)
    seen.forget("n1")  # it could not be dealt with
    assert check(sent(), seen=seen)


def test_the_oldest_ids_go_first():
    seen = SeenIds(2)
    assert [seen(one) for one in "abaca"] == [False, False, True, False, False]
    for capacity in (0, 1.5, True):
        with pytest.raises(WrongArgument, match="capacity must be an integer >= 1"):
            SeenIds(capacity)


def test_wrong_keys_and_bodies_are_errors_of_the_receiver():
    for key in ("", KEY[5:], KEY[:-4], "whsk_" + KEY[5:], None, KEY + "\n"):
        with pytest.raises(WrongInput, match="public_key must be whpk_ and 32 bytes") as error:
            check_callback(sent(), b"{}", key, seen=SeenIds())
        assert not isinstance(error.value, CallbackRefused)
        assert KEY[5:] not in str(error.value)
    with pytest.raises(WrongInput, match="body must be the bytes that came, got str"):
        check(sent(), json.dumps({"a": 1}))
