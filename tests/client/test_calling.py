"""Calls over bad connections, to wrong hosts, and without the packages of the extra."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from pilu.client import Client, NoAnswer, ServiceError
from pilu.exceptions import WrongArgument, WrongInput

STORE = "customers"
HTTPS = "https://forget.example.org"


class Losing(httpx.BaseTransport):
    """Loses the answers to the first calls, after the service has dealt with them."""

    def __init__(self, n):
        self.left, self.inner, self.keys = n, httpx.HTTPTransport(), []

    def handle_request(self, request):
        answer = self.inner.handle_request(request)
        answer.read()
        self.keys.append(request.headers.get("Idempotency-Key"))
        if self.left:
            self.left -= 1
            raise httpx.ReadError("the connection was lost")
        return answer

    def close(self):
        self.inner.close()


def answering(*answers, address=HTTPS, **options):
    """A client to which some answers come, one after the other; its calls and its waits."""
    calls, left = [], list(answers)

    def answer(request):
        calls.append(request)
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    client = Client(address, "pilu_x_y", transport=httpx.MockTransport(answer), **options)
    waits = []
    client._caller.sleep = waits.append
    return client, calls, waits


def fine(content=None):
    return httpx.Response(
        200, json={"status": "ok", "problems": []} if content is None else content
    )


def refusing(status, **headers):
    content = {"title": "No", "status": status, "detail": "not now."}
    return httpx.Response(status, json=content, headers=headers)


# Repeated calls


def test_a_request_whose_answer_was_lost_is_made_once(served, officer):
    losing, before = Losing(2), list(officer.requests(STORE))
    client = served.client(transport=losing)
    client._caller.sleep = lambda _: None
    made = client.forget(STORE, "person 1")
    assert [one.id for one in officer.requests(STORE)] == [made.id, *(one.id for one in before)]
    assert len(losing.keys) == 3
    assert len(set(losing.keys)) == 1
    assert client.forget(STORE, "person 2").id != made.id
    assert losing.keys[-1] != losing.keys[0]


def test_a_cancelling_and_a_revoking_whose_answers_were_lost_were_done(served, officer):
    made, token = officer.forget(STORE, "person 1"), officer.add_token("a test", "auditor")
    client = served.client(transport=Losing(1))
    client._caller.sleep = lambda _: None
    assert client.cancel(made.id).status == "cancelled"
    client._caller.http._transport.left = 1
    client.revoke_token(token.id)


def test_after_the_last_try_the_error_has_the_key_that_makes_it_once(served, officer):
    client, before = served.client(transport=Losing(4)), list(officer.requests(STORE))
    client._caller.sleep = lambda _: None
    with pytest.raises(NoAnswer, match="It may have been made nevertheless") as lost:
        client.forget(STORE, "person 1")
    assert repr(lost.value.key) in str(lost.value)
    made, *others = officer.requests(STORE)
    assert others == before
    assert client.forget(STORE, "person 1", key=lost.value.key).id == made.id

    client._caller.http._transport.left = 4
    with pytest.raises(NoAnswer) as lost:
        client.forget_many(STORE, ["person 2"], key="the batch")
    assert lost.value.key == "the batch"


def test_a_token_is_made_by_one_call_only(served, officer):
    losing = Losing(1)
    client = served.client(transport=losing)
    with pytest.raises(NoAnswer, match=r"does not answer \(ReadError: the connection was lost\)"):
        client.add_token("once", "auditor")
    assert [one.name for one in officer.tokens()].count("once") == 1
    client, calls, _ = answering(refusing(503))
    with pytest.raises(ServiceError):
        client.add_token("once", "auditor")
    assert len(calls) == 1


def test_a_token_that_calls_too_fast_waits_as_long_as_it_is_told(served):
    client, waits = served.client(per_second=1.0), []
    sleep = client._caller.sleep
    client._caller.sleep = lambda seconds: waits.append(seconds) or sleep(seconds)
    for _ in range(3):
        client.stores()
    assert len(waits) == 1
    assert 1.0 <= waits[0] <= 2.0


def test_how_long_a_client_waits():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    client, calls, waits = answering(
        refusing(503, **{"Retry-After": "7"}), refusing(429, **{"Retry-After": soon}),
        refusing(502, **{"Retry-After": "soon"}), fine({"stores": []}),
    )  # fmt: skip
    assert client.stores() == []
    assert len(calls) == 4
    assert waits[0] == 7.0
    assert 18.0 < waits[1] <= 20.0
    assert waits[2] == pytest.approx(1.0, rel=0.21)

    client, calls, waits = answering(*[refusing(503)] * 5)
    with pytest.raises(ServiceError, match=r"the service failed \(503\): not now."):
        client.stores()
    assert (len(calls), len(waits)) == (4, 3)

    for answer in (refusing(503, **{"Retry-After": "9" * 400}), refusing(500), refusing(409)):
        client, calls, waits = answering(answer)
        with pytest.raises(ServiceError):
            client.stores()
        assert (len(calls), waits) == (1, [])


def test_a_slow_answer_is_not_asked_for_again():
    client, calls, _ = answering(httpx.ReadTimeout("slow"))
    with pytest.raises(NoAnswer, match="ReadTimeout: slow"):
        client.quote(STORE, ["person 1"])
    assert len(calls) == 1


def test_waiting_outlasts_a_service_that_is_started_again():
    state = {"id": "r", "store": STORE, "type": "erasure", "received": "2026-01-01T00:00:00Z",
             "due": None, "expected": None, "ended": None}  # fmt: skip
    down = [httpx.ConnectError("refused")] * 4
    client, calls, _ = answering(
        *down, fine({**state, "status": "running"}), *[refusing(502)] * 4,
        fine({**state, "status": "failed"}),
    )  # fmt: skip
    assert client.wait("r", timeout=60.0).status == "failed"
    assert len(calls) == 10
    client, _, _ = answering(*down)
    with pytest.raises(NoAnswer):
        client.wait("r", timeout=0.0)
    client, _, _ = answering(refusing(404))
    with pytest.raises(ServiceError):
        client.wait("r", timeout=60.0)


# Hosts


def test_the_token_crosses_no_network_in_the_clear():
    for address in ("http://forget.example.org", "http://127.0.0.1.example.org", "http://0.0.0.0"):
        with pytest.raises(WrongInput, match=r"address must be https://.*insecure=True"):
            Client(address, "pilu_x_y")
        Client(address, "pilu_x_y", insecure=True).close()
    for address in (HTTPS, "http://localhost:8080", "http://[::1]:80/", "http://127.3.2.1"):
        Client(address, "pilu_x_y").close()
    with pytest.raises(WrongInput, match="no user or password") as told:
        Client("https://me:secret@example.org", "pilu_x_y")
    assert "secret" not in str(told.value)
    for address in (
        "",
        "example.org",
        "ftp://example.org",
        "https://x?y=1",
        "https://x:port",
        None,
    ):
        with pytest.raises(WrongArgument, match="address must be a URL"):
            Client(address, "pilu_x_y")


def test_a_proxy_of_the_environment_gets_no_token_in_the_clear(monkeypatch, served):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert served.client().stores()


def test_no_redirect_is_followed():
    for to in ("https://elsewhere.example.org/v1/stores", f"{HTTPS}/v2/stores"):
        client, calls, _ = answering(httpx.Response(307, headers={"Location": to}))
        with pytest.raises(ServiceError, match=r"\(307\): it redirects to https.*Pass the address"):
            client.stores()
        assert len(calls) == 1


def test_what_is_sent():
    client, calls, _ = answering(fine(), httpx.Response(200, text="a letter"), fine({"stores": []}))
    client.health()
    assert client.letter("r") == "a letter"
    assert str(calls[0].url) == f"{HTTPS}/ready"
    assert calls[0].headers["Authorization"] == "Bearer pilu_x_y"
    assert str(calls[1].url) == f"{HTTPS}/v1/requests/r/letter?format=html"
    assert "pilu_x_y" not in repr(client) + repr(vars(client))
    client, calls, _ = answering(fine({"stores": []}), address=f"{HTTPS}/behind/a/proxy")
    client.stores()
    assert str(calls[0].url) == f"{HTTPS}/behind/a/proxy/v1/stores"


def test_wrong_options_are_refused():
    for token in ("", "a b", "a\nb", "é", None):
        with pytest.raises(WrongInput, match="token must be the text"):
            Client(HTTPS, token)
    for timeout in (0, -1, float("nan"), float("inf"), True):
        with pytest.raises(WrongArgument, match="timeout must be a finite number"):
            Client(HTTPS, "pilu_x_y", timeout=timeout)


def test_answers_of_something_else_are_errors():
    client, _, _ = answering(httpx.Response(200, text="<html>Log in to the hotel</html>"))
    with pytest.raises(ServiceError, match="must be one of `pilu serve`, got another"):
        client.stores()
    client, _, _ = answering(httpx.Response(404, text="<html>not here</html>"))
    with pytest.raises(ServiceError, match=r"the service refuses \(404\): Not Found"):
        client.stores()
    client, _, _ = answering(httpx.Response(599))
    with pytest.raises(ServiceError, match=r"the service failed \(599\): Unknown status"):
        client.stores()


# The extra

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split():
            raise ImportError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Absent())
import pilu.client
for name in ("Client", "ServiceError"):
    try:
        getattr(pilu.client, name)
    except ImportError as error:
        print(error)
pilu.client.check_callback
"""


@pytest.mark.parametrize("absent", ["httpx", "pydantic", "httpx pydantic"])
def test_what_is_missing_is_named_at_the_first_use(absent):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, absent],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    said = f'needs {absent.split()[0]}. Install it with: pip install "pilu[client]"'
    assert run.stdout.splitlines() == [
        f"pilu.client.{n} {said}" for n in ("Client", "ServiceError")
    ]
