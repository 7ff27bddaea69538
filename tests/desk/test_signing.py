"""Signatures against the published test vector of DSSE, OpenSSL-made keys, and forgeries."""

import base64
import json
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from desk.conftest import COLUMNS
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import _encoded, check_signature, make_keys, sign_statement, statement_of
from pilu.exceptions import CertificateMismatch, DoneWithTrouble


@pytest.fixture
def receipt(parquet, tmp_path):
    found = []
    with LangevinDesk.create(tmp_path / "signed", parquet, COLUMNS, n_steps=50, noise=0.01) as desk:
        desk.unlearn("person number 3", n_unlearn_steps=1, deliver=found.extend)
    return found[0]


@pytest.fixture
def keys(tmp_path):
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    make_keys(private, public)
    return private, public


def test_the_encoding_of_the_specification():
    """The example of the DSSE protocol: type http://example.com/HelloWorld, body hello world."""
    found = _encoded("http://example.com/HelloWorld", b"hello world")
    assert found == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_signed_and_checked(receipt, keys):
    signed = Receipt.from_json(receipt.signed(sign_statement(receipt, keys[0])).to_json())
    check_signature(signed, keys[1])
    assert signed.verify()["in_the_log_of_its_head"]
    with pytest.raises(CertificateMismatch, match="is not signed"):
        check_signature(receipt, keys[1])


def test_a_key_that_is_no_key_is_refused_before_the_work(parquet, tmp_path, keys):
    with LangevinDesk.create(tmp_path / "s", parquet, COLUMNS, n_steps=50, noise=0.01) as desk:
        for sign in (keys[1], tmp_path / "nothing.pem"):
            with pytest.raises(ValueError, match="must be a private key"):
                desk.unlearn("person number 3", n_unlearn_steps=1, sign=sign)
        assert desk.log().head.size == 1


def test_a_key_that_is_lost_on_the_way(parquet, tmp_path, keys, monkeypatch):
    """The change is done by then: its receipts wait, and are signed later."""
    private, public = keys
    with LangevinDesk.create(tmp_path / "s", parquet, COLUMNS, n_steps=50, noise=0.01) as desk:
        save, content = desk.store.ledger.append, private.read_bytes()

        def losing(*given, **options):
            private.unlink()
            return save(*given, **options)

        with monkeypatch.context() as patched:
            patched.setattr(desk.store.ledger, "append", losing)
            with pytest.raises(DoneWithTrouble, match="must be a private key: No such file"):
                desk.unlearn("person number 3", n_unlearn_steps=1, sign=private)
        assert desk.undelivered() == [1]
        private.write_bytes(content)
        (receipt,) = desk.deliver_again(1, lambda receipts: None, private).receipts
    check_signature(receipt, public)


def test_one_signature_for_all_people_of_an_entry(parquet, tmp_path, keys):
    with LangevinDesk.create(tmp_path / "s", parquet, COLUMNS, n_steps=50, noise=0.01) as desk:
        names = [f"person number {k}" for k in (3, 5, 9)]
        receipts = desk.unlearn(names, n_unlearn_steps=1, sign=keys[0]).receipts
    assert len({json.dumps(receipt.signature) for receipt in receipts}) == 1
    for receipt in receipts:
        check_signature(Receipt.from_json(receipt.to_json()), keys[1])


def test_the_evidence_is_not_in_the_signed_statement(receipt, keys):
    envelope = sign_statement(receipt, keys[0])
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["predicate"]["entry"]["certificate"]["evidence"] is None
    assert "directions" not in json.dumps(statement)


def test_anybody_can_check_it_without_pilu(receipt, keys):
    """By the two specifications alone."""
    envelope = sign_statement(receipt, keys[0])
    body = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(body)).encode(), body])
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    load_pem_public_key(keys[1].read_bytes()).verify(signature, signed)
    statement = json.loads(body)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digest = statement["subject"][0]["digest"]["hmac-sha256"]
    assert digest == receipt.certificate.parameters_sha256
    signed_entry = statement["predicate"]["entry"]
    assert signed_entry["certificate"]["epsilon"] == receipt.certificate.epsilon
    assert statement["predicate"]["place"] == 1


def test_the_private_key_is_its_owners(keys):
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    with pytest.raises(ValueError, match="a key is never replaced"):
        make_keys(*keys)


def test_every_flipped_bit_is_noticed(receipt, keys):
    envelope = sign_statement(receipt, keys[0])
    body = bytearray(base64.b64decode(envelope["payload"]))
    for place in range(0, len(body), 97):
        body[place] ^= 4
        forged = envelope | {"payload": base64.b64encode(body).decode()}
        with pytest.raises(CertificateMismatch, match="no signature of the envelope"):
            check_signature(receipt.signed(forged), keys[1])
        body[place] ^= 4


def test_another_key(receipt, keys, tmp_path):
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub")
    with pytest.raises(CertificateMismatch, match=r"by the key in .*other\.pub"):
        check_signature(receipt.signed(sign_statement(receipt, keys[0])), tmp_path / "other.pub")


def signed(statement, key_path):
    """A well-signed envelope of any statement."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(key_path.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    body, kind = json.dumps(statement).encode(), "application/vnd.in-toto+json"
    signature = key.sign(_encoded(kind, body))
    return {
        "payloadType": kind,
        "payload": base64.b64encode(body).decode(),
        "signatures": [{"keyid": "", "sig": base64.b64encode(signature).decode()}],
    }


def test_a_signature_of_something_else(receipt, keys):
    good = statement_of(receipt)
    check_signature(receipt.signed(signed(good, keys[0])), keys[1])
    subject = [{"name": "parameters", "digest": {"hmac-sha256": "0" * 64}}]
    place = good["predicate"] | {"place": 2}
    for other in (
        good | {"subject": subject},
        good | {"predicateType": "urn:other"},
        good | {"predicate": place},
        [],
    ):
        with pytest.raises(CertificateMismatch, match="for another receipt"):
            check_signature(receipt.signed(signed(other, keys[0])), keys[1])


@pytest.mark.parametrize(
    "envelope", [{}, [], "", {"payloadType": 1, "payload": "!", "signatures": []}]
)
def test_no_envelope(receipt, envelope, keys):
    with pytest.raises(CertificateMismatch, match="not a DSSE envelope"):
        check_signature(receipt.signed(envelope), keys[1])


def test_no_key(receipt, tmp_path, keys):
    with pytest.raises(ValueError, match="must be a private key: No such file"):
        sign_statement(receipt, tmp_path / "nothing.pem")
    with pytest.raises(ValueError, match="must be a private key as PEM"):
        sign_statement(receipt, keys[1])
    with pytest.raises(ValueError, match="must be a public key as PEM"):
        check_signature(receipt.signed(sign_statement(receipt, keys[0])), keys[0])
