"""Callbacks: signed, delivered once they can be, never to a host that was not allowed."""

import base64
import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pilu.service import callbacks
from pilu.service.callbacks import Sender
from pilu.service.work import send

REQUESTS = "/v1/stores/people/requests"
NUMBER = "7ba47123-cfd2-4f11-a2aa-7f9bd1e40de5"


class Receiver(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.got = [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/here"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((dict(self.headers.items()), body))
        code = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def configuration(configuration):
    return replace(
        configuration, callback_hosts=("127.0.0.1",), address="https://forget.example.org"
    )


@pytest.fixture
def receiver():
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(call, url, **more):
    made = {"type": "erasure", "subject": "person 3", "now": True, "callback": url}
    return call("officer", "POST", REQUESTS, json=made | more)


def rows(serving):
    with serving.database.reading() as tx:
        return [dict(row) for row in tx.all("SELECT * FROM callbacks")]


def make_due(serving):
    with serving.database.writing() as tx:
        tx.run("UPDATE callbacks SET next = ? WHERE next IS NOT NULL", time.time() - 1)


def test_the_end_is_reported_and_signed(serving, call, receiver):
    made = ask(call, receiver.url).json()
    serving.run()
    ((headers, body),) = receiver.got
    said = json.loads(body)
    assert (said["id"], said["status"], said["store"]) == (made["id"], "completed", "people")
    assert "person" not in body.decode()
    # by hand, from the text of Standard Webhooks
    key = call(None, "GET", "/v1/callback-key").text
    assert key.startswith("whpk_")
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    version, _, signature = headers["webhook-signature"].partition(",")
    assert version == "v1a"
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    public.verify(base64.b64decode(signature), content)
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    serving.run()
    assert len(receiver.got) == 1


@pytest.mark.parametrize("code", [500, 404, 302])
def test_what_was_not_accepted_is_sent_again_with_its_id(serving, call, receiver, code):
    receiver.answers = [code]
    ask(call, receiver.url)
    serving.run()
    (row,) = rows(serving)
    assert (row["attempts"], row["delivered"]) == (1, None)
    assert row["problem"] == f"it answered {code}"
    assert 20 < row["next"] - time.time() < 40
    serving.run()
    assert len(receiver.got) == 1  # not yet
    make_due(serving)
    serving.run()
    first, second = (headers["webhook-id"] for headers, _ in receiver.got)
    assert first == second
    (row,) = rows(serving)
    assert row["delivered"] is not None


def test_waits_grow_and_end(serving, call, receiver):
    ask(call, receiver.url)
    receiver.answers = [503] * 100
    waits = []
    for _ in range(callbacks.ATTEMPTS + 2):
        serving.run()
        (row,) = rows(serving)
        waits.append(None if row["next"] is None else row["next"] - time.time())
        make_due(serving)
    assert len(receiver.got) == callbacks.ATTEMPTS
    assert waits[-1] is None
    grown = [one for one in waits if one is not None]
    for early, late in pairwise(grown[:9]):
        assert 1.2 < late / early < 3.1  # doubled, with up to 20 % of chance
    assert max(grown) <= 12 * 3600 * 1.2 + 1
    measures = call("auditor", "GET", "/metrics").text
    assert "pilu_callbacks_given_up 1.0" in measures


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example.org/",
        "http://forget.example.org/",
        "https://127.0.0.1.example.org/",
        "https://user:secret@127.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "file:///etc/passwd",
    ],
)
def test_other_hosts_are_refused_when_asked_and_when_sent(serving, call, url):
    assert ask(call, url).status_code == 422
    assert rows(serving) == []


def test_a_host_that_is_not_allowed_any_more_gets_nothing(serving, call, receiver):
    ask(call, receiver.url)
    stricter = replace(serving.configuration, callback_hosts=())
    serving.run()
    make_due(serving)
    receiver.got.clear()
    with serving.database.writing() as tx:
        tx.run("UPDATE callbacks SET next = ?, delivered = NULL", time.time() - 1)
    send(stricter)
    assert receiver.got == []
    assert "not allowed" in rows(serving)[0]["problem"]


def test_nobody_there_is_no_error(serving, call):
    ask(call, "http://127.0.0.1:9/")
    assert serving.run().ended == 1
    assert rows(serving)[0]["problem"] == "ConnectError"


def test_two_senders_send_once(serving, call, receiver):
    ask(call, receiver.url)
    serving.run()
    with serving.database.writing() as tx:
        tx.run("UPDATE callbacks SET next = ?, delivered = NULL", time.time() - 1)
    receiver.got.clear()
    senders = [Sender(serving.configuration, serving.database) for _ in range(4)]
    threads = [threading.Thread(target=one.run) for one in senders]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(receiver.got) == 1


def test_a_cancelled_request_is_reported(serving, call, receiver):
    made = ask(call, receiver.url, now=False).json()
    call("officer", "DELETE", f"/v1/requests/{made['id']}")
    serving.run()
    assert json.loads(receiver.got[0][1])["status"] == "cancelled"


def opendsr(call, receiver, role="requester", **more):
    content = {
        "regulation": "gdpr",
        "subject_request_id": NUMBER,
        "subject_request_type": "erasure",
        "submitted_time": "2027-01-01T00:00:00Z",
        "subject_identities": [
            {
                "identity_type": "controller_customer_id",
                "identity_value": "person 3",
                "identity_format": "raw",
            }
        ],
        "api_version": "2.0",
        "status_callback_urls": [receiver.url],
        "extensions": {"other.example.org": {"more": 1}},
    }
    return call(role, "POST", "/opendsr/v2/people/requests", json=content | more)


def check_signed(call, headers, body):
    """With the certificate alone, as a controller would."""
    found = {name.lower(): value for name, value in headers.items()}
    assert found["x-opendsr-processor-domain"] == "forget.example.org"
    pem = call(None, "GET", "/opendsr/v2/certificate").text
    public = x509.load_pem_x509_certificate(pem.encode()).public_key()
    signature = base64.b64decode(found["x-opendsr-signature"])
    public.verify(signature, body, padding.PKCS1v15(), hashes.SHA256())


def test_opendsr_from_request_to_callback(serving, call, receiver):
    made = opendsr(call, receiver)
    assert made.status_code == 201
    check_signed(call, made.headers, made.content)
    said = made.json()
    assert json.loads(base64.b64decode(said["encoded_request"]))["subject_request_id"] == NUMBER
    assert said["subject_request_id"] == NUMBER
    assert said["expected_completion_time"].endswith("Z")
    path = f"/opendsr/v2/people/requests/{NUMBER}"
    state = call("requester", "GET", path)
    check_signed(call, state.headers, state.content)
    assert state.json()["request_status"] == "pending"
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    ((headers, body),) = receiver.got
    check_signed(call, headers, body)
    callback = json.loads(body)
    assert callback["status_callback_url"] == receiver.url
    assert callback["request_status"] == "completed"
    assert callback["controller_id"] == said["controller_id"]
    assert call("requester", "GET", path).json()["request_status"] == "completed"


def test_opendsr_requests_are_made_once(serving, call, receiver):
    first, again = opendsr(call, receiver), opendsr(call, receiver)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["received_time"] == again.json()["received_time"]
    other = [
        {
            "identity_type": "controller_customer_id",
            "identity_value": "person 4",
            "identity_format": "raw",
        }
    ]
    assert opendsr(call, receiver, subject_identities=other).status_code == 422
    assert len(call("officer", "GET", REQUESTS).json()["requests"]) == 1


def test_opendsr_requests_are_cancelled_while_they_wait(serving, call, receiver):
    opendsr(call, receiver)
    path = f"/opendsr/v2/people/requests/{NUMBER}"
    gone = call("requester", "DELETE", path)
    assert gone.status_code == 202
    check_signed(call, gone.headers, gone.content)
    assert call("requester", "GET", path).json()["request_status"] == "cancelled"
    assert call("requester", "DELETE", path).status_code == 409


def test_opendsr_says_what_it_can(call):
    found = call("requester", "GET", "/opendsr/v2/people/discovery").json()
    assert found["supported_subject_request_types"] == ["erasure", "access"]
    assert found["processor_certificate"] == "https://forget.example.org/opendsr/v2/certificate"
    assert found["api_version"] == "2.0"


@pytest.mark.parametrize(
    "change",
    [
        {"regulation": "other"},
        {"subject_request_id": "1"},
        {"subject_request_type": "portability"},
        {"submitted_time": "yesterday"},
        {"subject_identities": []},
        {"subject_identities": [{"identity_type": "email", "identity_value": "a"}]},
        {"status_callback_urls": ["ftp://127.0.0.1/"]},
    ],
)
def test_opendsr_refuses_what_it_cannot(call, receiver, change):
    answer = opendsr(call, receiver, **change)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
