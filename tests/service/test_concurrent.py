"""Many requests at once to a real server, with workers that compete and die: each is done once."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import httpx
import pytest

from desk.refit.tables import make_rows, write
from pilu.data.names import hash_of
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.tokens import add_token
from service import processes
from service.conftest import soon

_CONNECTIONS = 50
_SECONDS = 240.0
# A worker that looks for work all the time, and dies after its first change.
_DOOMED = """
import os, signal, sys, time
from pathlib import Path
from pilu.service import worker
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
worker._StoreWork._keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
configuration = Configuration(Path(sys.argv[1]))
database = open_database(configuration.where)
print("ready", flush=True)
while True:
    worker.Worker(configuration, database).run()
    time.sleep(0.05)
"""


@pytest.fixture(params=[60, pytest.param(1_000, marks=pytest.mark.slow)])
def n_requests(request):
    return request.param


@pytest.fixture
def served(tmp_path, n_requests):
    """A server over a store of some more people than there are requests."""
    stores = tmp_path / "stores"
    n_people = n_requests + 100
    table = write(make_rows(n_people, rows_each=1), tmp_path / "people.csv")
    Desk.fit(stores / "people", table, target="y", subject="person", id="row",
             ignore=["weight", "said"]).close()  # fmt: skip
    configuration = Configuration(stores)
    configuration.own.mkdir()
    database = open_database(configuration.where)
    with database.writing() as tx:
        tokens = {
            role: add_token(tx, role, role, per_second=1e6)[1] for role in ("officer", "requester")
        }
    database.close()
    with processes.served(stores, "--answers-every", 0, "--callback-host", "127.0.0.1") as port:
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{port}", port=port, tokens=tokens, stores=stores,
            where=configuration.where, people=[f"person {k}" for k in range(n_people)],
            log=tmp_path / "serve.log",
        )  # fmt: skip


class Calls:
    """What a client does, at most so much of it at a time."""

    def __init__(self, served):
        self.served, self.made = served, {}
        self._gate = asyncio.Semaphore(_CONNECTIONS)

    def headers(self, role, key=None):
        found = {"Authorization": f"Bearer {self.served.tokens[role]}"}
        return found if key is None else {**found, "Idempotency-Key": key}

    async def erase(self, client, number):
        """Ask for one person; often twice, and sometimes without waiting for the answer."""
        person = self.served.people[number]
        role = ("officer", "requester")[number % 2]
        headers, body = self.headers(role, f"key {number}"), {"type": "erasure", "subject": person}
        if number % 25 == 7:
            await self.drop(headers, json.dumps(body).encode())
        async with self._gate:
            if number % 10 == 3:  # both at once
                pair = [self.post(client, body, headers), self.post(client, body, headers)]
                answers = await asyncio.gather(*pair)
                assert sorted(one.status_code for one in answers) == [200, 201]
            else:
                answers = [await self.post(client, body, headers)]
                assert answers[0].status_code in (200, 201)
        (self.made[person],) = {one.json()["id"] for one in answers}

    async def post(self, client, body, headers):
        return await client.post("/v1/stores/people/requests", json=body, headers=headers)

    async def drop(self, headers, body):
        """Send a request, and go before there is an answer."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.served.port)
        lines = ["POST /v1/stores/people/requests HTTP/1.1", "Host: 127.0.0.1",
                 "Content-Type: application/json", f"Content-Length: {len(body)}",
                 *(f"{name}: {value}" for name, value in headers.items()), "", ""]  # fmt: skip
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()
        writer.transport.abort()

    async def in_two_waves(self, n):
        """The second half comes while workers do the first."""
        async with httpx.AsyncClient(
            base_url=self.served.address, timeout=120.0, trust_env=False
        ) as client:
            for wave in (range(n // 2), range(n // 2, n)):
                await asyncio.gather(*(self.erase(client, number) for number in wave))
                started = await client.post(
                    "/v1/stores/people/run", headers=self.headers("officer")
                )
                assert started.status_code == 202


def ask(where, statement):
    with closing(sqlite3.connect(where, timeout=60)) as database, database:
        return database.execute(statement).fetchall()


def ends_of(served):
    """How many requests have which status, as an officer is told."""
    headers = {"Authorization": f"Bearer {served.tokens['officer']}"}
    found, after = [], {}
    while after is not None:
        page = httpx.get(
            f"{served.address}/v1/stores/people/requests", params={"most": 1_000, **after},
            headers=headers, trust_env=False, timeout=60,
        ).json()  # fmt: skip
        found += page["requests"]
        after = None if page["next"] is None else {"after": page["next"]}
    return found


def test_every_request_ends_in_exactly_one_receipt(served, n_requests):
    doomed = subprocess.Popen(
        [sys.executable, "-c", _DOOMED, served.stores], stdout=subprocess.PIPE
    )
    doomed.stdout.readline()
    # The server's own worker has looked around once, so that the doomed one is the next.
    soon(lambda: ask(served.where, "SELECT 1 FROM pictures"), 60)
    soon(lambda: not ask(served.where, "SELECT 1 FROM leases"), 60)
    calls = Calls(served)
    try:
        asyncio.run(calls.in_two_waves(n_requests))
        work = [sys.executable, "-m", "pilu", "work", "--stores", served.stores]
        other = subprocess.run(work, capture_output=True, text=True, check=True)
        assert "Ended: " in other.stdout
        soon(lambda: doomed.poll() is not None, _SECONDS)
        assert doomed.returncode == -signal.SIGKILL
    finally:
        doomed.kill()
        doomed.communicate()
    ask(served.where, "UPDATE leases SET until = 0")  # a minute passes
    soon(lambda: _is_done(served), _SECONDS)

    requests = ends_of(served)
    assert len(requests) == len(calls.made) == n_requests
    assert {one["id"] for one in requests} == set(calls.made.values())
    kinds = Counter((one["status"], one["outcome"], one["has_receipt"]) for one in requests)
    assert kinds == {("completed", "forgotten", True): n_requests}
    check_receipts_and_store(served, calls, n_requests)
    assert "Traceback" not in served.log.read_text()


def _is_done(served):
    ((n_open,),) = ask(
        served.where, "SELECT COUNT(*) FROM requests WHERE status IN ('waiting', 'running')"
    )
    return n_open == 0


def check_receipts_and_store(served, calls, n_requests):
    store = served.stores / "people"
    key = (store / "key").read_bytes()
    hashed = {name: hash_of(name, key).hex() for name in served.people}
    erased = {hashed[name] for name in served.people[:n_requests]}
    rows = ask(
        served.where,
        "SELECT requests.id, requests.subject, receipts.person, receipts.body FROM requests"
        " JOIN receipts ON receipts.id = requests.receipt",
    )
    assert {number: subject for number, subject, *_ in rows} == {
        number: hashed[name] for name, number in calls.made.items()
    }
    assert len(rows) == n_requests
    ((n_receipts,),) = ask(served.where, "SELECT COUNT(*) FROM receipts")
    assert n_receipts == n_requests
    with Desk.open(store) as desk:
        for k, (_, subject, person, body) in enumerate(rows):
            receipt = Receipt.from_json(body)
            assert receipt.person.name == person == subject
            checks = receipt.verify()
            assert checks["person_is_among_those_of_the_entry"]
            if k % 10 == 0:
                assert check_receipt(receipt, desk)["in_the_log_of_the_store"]
        assert {name.hex() for name in desk.rows_of_people()} == set(hashed.values()) - erased
        assert {name.hex() for name in desk.forgotten().names} == erased
        assert desk.undelivered() == []
        check_store(desk)
    people = [json.loads(body)["subject"] for (body,) in
              ask(store / "ledger.sqlite", "SELECT body FROM people")]  # fmt: skip
    assert Counter(people) == dict.fromkeys(erased, 1)
