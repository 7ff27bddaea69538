"""What careless and hostile clients send: a problem document of 4xx, and nothing is changed."""

import asyncio
import json
import socket
import time

import httpx
import pytest

from pilu.service import guards, protocol, tokens
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from service.processes import served

REQUESTS = "/v1/stores/people/requests"


def check_problem(answer, status):
    """A problem document as RFC 9457 has it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["status"] == status
    assert said["title"]
    assert said["detail"]
    assert "Traceback" not in answer.text
    return said


def counts(serving):
    with serving.database.reading() as tx:
        found = {
            name: tx.number(f"SELECT COUNT(*) FROM {name}")
            for name in ("requests", "callbacks", "tokens", "receipts")
        }
        # That an officer has tried a name is noted.
        made = "SELECT COUNT(*) FROM audit WHERE action != 'looked a person up'"
        return {**found, "audit": tx.number(made)}


@pytest.fixture
def unchanged(serving):
    """Nothing is queued or logged, and no file was written."""
    before = counts(serving)
    with serving.desk() as desk:
        head = desk.log().head
    yield
    assert counts(serving) == before
    assert not list(serving.configuration.own.glob("rows/*/*"))
    with serving.desk() as desk:
        assert desk.log().head == head


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe{}", 400),
        (b'{"type": "erasure", "subject": "person 1"', 400),
        (b"[]", 422),
        (b"null", 422),
        (b"{}", 422),
        (b'{"type": "forget", "subject": "person 1"}', 422),
        (b'{"type": "erasure"}', 422),
        (b'{"type": "erasure", "subject": 1}', 422),
        (b'{"type": "erasure", "subject": ""}', 422),
        (b'{"type": "erasure", "subject": ["person 1"]}', 422),
        (b'{"type": "erasure", "subject": "a\\u0000b"}', 422),
        (b'{"type": "erasure", "subject": "person 1", "dew": "2030-01-01"}', 422),
        (b'{"type": "erasure", "subject": "person 1", "due": "tomorrow"}', 422),
        (b'{"type": "erasure", "subject": "person 1", "due": "2020-01-01"}', 422),
        (b'{"type": "erasure", "subject": "person 1", "callback": "javascript:alert(1)"}', 422),
        (b'{"type": "erasure", "subject": "person 1", "callback": "https://a.example/"}', 422),
        (b'{"type": "addition", "rows": []}', 422),
        (b'{"type": "addition", "rows": [{"age": {"a": 1}}]}', 422),
        (b'{"type": "addition", "rows": [{"age": NaN}]}', 422),
        (b'{"type": "addition", "rows": [{"age": 1e999}]}', 422),
        (b'{"type": "rectification", "rows": [{"row": "row 1"}]}', 422),
        (b"[" * 100_000, 400),
        (b'{"type": "erasure", "subject": "' + b"x" * 501 + b'"}', 422),
        (b'{"type": "erasure", "subject": "nobody"}', 422),
    ],
)
def test_bodies(call, body, status):
    answer = call(
        "officer", "POST", REQUESTS, content=body, headers={"Content-Type": "application/json"}
    )
    check_problem(answer, status)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "name",
    ["..", "../people", "%2e%2e%2fpeople", "people%00", ".service", "peopl", "people/", "a" * 65,
     "PEOPLE", "people%2f..%2fpeople", "%2Fetc", "link"],
)  # fmt: skip
def test_names_of_stores_are_never_paths(serving, call, name):
    (serving.configuration.stores / "link").symlink_to(serving.configuration.stores / "people")
    for method, path in (("GET", "/v1/stores/{}"), ("GET", "/v1/stores/{}/ledger")):
        answer = call("officer", method, path.format(name))
        assert answer.status_code in (404, 422), (name, answer.status_code)
        check_problem(answer, answer.status_code)
    made = {"type": "erasure", "subject": "person 1"}
    answer = call("officer", "POST", f"/v1/stores/{name}/requests", json=made)
    assert answer.status_code in (404, 405, 422)
    (serving.configuration.stores / "link").unlink()


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", REQUESTS, 405),
        ("GET", "/v1/requests/%00", 404),
        ("GET", "/v1/requests/' OR 1=1 --", 404),
        ("DELETE", "/v1/requests/..", 404),
        ("DELETE", "/v1/tokens/' OR '1'='1", 404),
        ("GET", "/v1/stores/people/ledger?since=1:zz", 422),
        ("GET", "/v1/stores/people/ledger?since=1:" + "0" * 64, 409),
        ("GET", "/v1/stores/people/ledger?last=0", 422),
        ("GET", "/v1/stores/people/ledger/proof", 422),
        ("GET", "/v1/stores/people/ledger/proof?entry=99", 404),
        ("GET", f"{REQUESTS}?status=all", 422),
        ("GET", f"{REQUESTS}?most=100000", 422),
        ("GET", f"{REQUESTS}?after=nothing", 422),
        ("GET", "/v1/requests/x/letter?format=pdf", 422),
    ],
)
def test_paths_and_queries(call, method, path, status):
    check_problem(call("officer", method, path), status)


@pytest.mark.usefixtures("unchanged")
def test_all_problems_are_listed_at_once_and_values_are_not_repeated(call):
    made = {"type": "erasure", "subject": 17, "due": "SECRET-1", "callback": "SECRET-2"}
    said = check_problem(call("officer", "POST", REQUESTS, json=made), 422)
    assert len(said["errors"]) == 3
    assert {one["pointer"].split("/")[-1] for one in said["errors"]} == {
        "subject",
        "due",
        "callback",
    }
    assert "SECRET-1" not in json.dumps(said)


@pytest.mark.usefixtures("unchanged")
def test_rows_to_predict(serving):
    good = {"age": 30, "income": 1, "since": "2020-01-02", "city": "Chur", "said": "a"}
    wrong = {
        "no column": {"age": 30},
        "age": good | {"age": "old"},
        "since": good | {"since": "soon"},
    }
    answers = predict_together(serving, list(wrong.values()))
    for answer, words in zip(answers, wrong, strict=True):
        assert words in json.dumps(check_problem(answer, 422))


def predict_together(serving, rows):
    """Predictions of single rows that come at the same time."""

    async def together():
        transport = httpx.ASGITransport(serving.app)
        headers = {"Authorization": f"Bearer {serving.tokens['predictor']}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://a.test") as client:
            path = "/v1/stores/people/predict"
            calls = (client.post(path, headers=headers, json={"rows": [row]}) for row in rows)
            return await asyncio.gather(*calls)

    return asyncio.run(together())


def test_one_wrong_row_does_not_disturb_the_others(serving):
    """Calls that come together are predicted together."""
    good = {"age": 30, "income": 1.5, "since": "2020-01-02", "city": "Chur", "said": "good"}
    bad = good | {"age": "old"}
    rows = [bad if k % 3 == 0 else good | {"age": 20 + k} for k in range(12)]
    answers = predict_together(serving, rows)
    assert [one.status_code for one in answers] == [422 if k % 3 == 0 else 200 for k in range(12)]
    with serving.desk() as desk:
        predict = desk.predictor()
    for k, one in enumerate(answers):
        if k % 3:
            assert one.json()["predictions"] == predict([good | {"age": 20 + k}], False)[0]


def test_headers_that_protect(call):
    answer = call("officer", "GET", "/v1/stores")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert (
        "unsafe-inline" not in answer.headers["content-security-policy"].split("style-src-attr")[0]
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


# A real server: what an application in this process never sees


@pytest.fixture(scope="module")
def running(fitted, tmp_path_factory):
    from service.conftest import copy_store

    stores = tmp_path_factory.mktemp("running") / "stores"
    copy_store(fitted / "store", stores / "people")
    configuration = Configuration(stores)
    configuration.own.mkdir(mode=0o700)
    database = open_database(configuration.where)
    with database.writing() as tx:
        token = tokens.add_token(tx, "officer", "officer", per_second=1e6)[1]
    database.close()
    with served(stores) as port:
        yield port, token, stores


def test_a_body_of_100_megabytes_is_refused(running):
    port, token, _ = running
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}{REQUESTS}"

    def chunks():
        for _ in range(100):
            yield b"x" * 1_000_000

    head = f"POST {REQUESTS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{head}Content-Length: 100000000\r\n\r\n".encode())
        received, closed = read_until_closed(connection, 5)
    assert received.startswith(b"HTTP/1.1 413 ")
    assert closed  # nobody waits for the rest
    try:  # without saying how long it is
        answer = httpx.post(url, headers=headers, content=chunks())
        check_problem(answer, 413)
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        pass  # it was cut off while it sent
    assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def read_until_closed(connection, seconds):
    connection.settimeout(seconds)
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except TimeoutError:
        return received, False
    except ConnectionError:
        pass
    return received, True


@pytest.mark.slow
def test_slow_clients_are_cut_off(running):
    """A head that never ends, and a body that never ends."""
    port, token, _ = running
    head = f"POST {REQUESTS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
    body = head + "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    for sent, most in ((head, protocol.HEADER_SECONDS), (body, guards.BODY_SECONDS)):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            started = time.monotonic()
            connection.sendall(sent.encode())
            received, closed = read_until_closed(connection, most + 10)
            assert closed
            assert most - 1 < time.monotonic() - started < most + 8
            assert received == b"" or b" 408 " in received.splitlines()[0]


def test_many_slow_clients_do_not_keep_others_waiting(running):
    port, token, _ = running
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    try:
        for one in slow:
            one.sendall(b"GET /v1/stores HTTP/1.1\r\nHost:")
        started = time.monotonic()
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"http://127.0.0.1:{port}/v1/stores", headers=headers).status_code == 200
        assert time.monotonic() - started < 3
    finally:
        for one in slow:
            one.close()


@pytest.mark.parametrize(
    "sent",
    [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
     b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n"],
)  # fmt: skip
def test_what_is_not_http(running, sent):
    port, _, _ = running
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent + b"\r\n")
        received, _ = read_until_closed(connection, 2)
    first = received.split(b"\r\n")[0]
    assert first == b"" or first.split(b" ")[1][:1] == b"4"
    assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def test_no_secret_and_no_name_is_in_the_log(running):
    port, token, stores = running
    headers = {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{port}"
    made = {"type": "erasure", "subject": "person 1"}
    answer = httpx.post(f"{url}{REQUESTS}", json=made, headers=headers).json()
    httpx.get(f"{url}/v1/requests/{answer['id']}", headers=headers)
    httpx.post(f"{url}/login", data={"token": token})
    httpx.post(f"{url}{REQUESTS}", json=made | {"subject": "nobody at all"}, headers=headers)
    text = (stores.parent / "serve.log").read_text()
    assert '"route": "/v1/requests/{request}"' in text
    for secret in (token, token.split("_")[2], "person 1", "nobody", answer["id"]):
        assert secret not in text
