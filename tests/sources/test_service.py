"""The service with its queue in a real PostgreSQL: the same as with a file."""

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from types import SimpleNamespace

import httpx
import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.exceptions import DatabaseFailed
from pilu.service import leases, queue
from pilu.service.asgi import make_app
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.queue import Asked, KeyUsedBefore
from pilu.service.tokens import ROLES, add_token, caller_of
from service.passes import a_pass
from service.reports import check_reports, reports_of
from sources.conftest import SECONDS, owner, programs, run

pytestmark = pytest.mark.sources

PASSWORD = "pass word"


def driver():
    """psycopg, which only `make test-sources` installs."""
    return import_module("psycopg")


@pytest.fixture
def url(socket):
    """The address of a new database."""
    name = f"service{time.time_ns()}"
    address = f"postgresql://anna:pass%20word@/{{}}?host={socket}"
    with closing(driver().connect(address.format("postgres"), autocommit=True)) as server:
        server.execute(f"CREATE DATABASE {name}")
    return address.format(name)


@pytest.fixture
def database(url):
    made = open_database(url)
    yield made
    made.close()


@pytest.fixture
def stores(tmp_path):
    folder = tmp_path / "stores"
    table = write(make_rows(60), tmp_path / "people.csv")
    Desk.fit(folder / "people", table, **COLUMNS).close()
    return folder


@pytest.fixture
def serving(stores, url):
    configuration = Configuration(stores, url, answers_every=0)
    app = make_app(configuration, work=False)
    database = app.app.state.service.database
    with database.writing() as tx:
        tokens = {role: add_token(tx, role, role, per_second=1e6)[1] for role in ROLES}
    yield SimpleNamespace(
        app=app, configuration=configuration, database=database, tokens=tokens,
        desk=lambda: Desk.open(stores / "people"),
    )  # fmt: skip
    app.app.state.service.close()


def call(serving, role, method, path, **more):
    async def calling():
        transport = httpx.ASGITransport(serving.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here.test") as client:
            headers = {"Authorization": f"Bearer {serving.tokens[role]}", **more.pop("headers", {})}
            return await client.request(method, path, headers=headers, **more)

    return asyncio.run(calling())


REQUESTS = "/v1/stores/people/requests"


def in_forks(n, act):
    """The exit codes of processes that do something at the same time."""
    gate, children = os.pipe(), []
    for number in range(n):
        child = os.fork()
        if child == 0:
            try:
                os.close(gate[1])
                os.read(gate[0], 1)
                act(number)
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
        children.append(child)
    os.close(gate[0])
    os.close(gate[1])
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


# The database by itself


def test_eight_processes_make_the_tables_at_once(url):
    def open_it(_):
        with closing(open_database(url)) as database, database.reading() as tx:
            assert tx.number("SELECT COUNT(*) FROM requests") == 0

    assert in_forks(8, open_it) == [0] * 8
    with driver().connect(url) as server:
        assert server.execute("SELECT number FROM version").fetchall() == [(1,)]


def test_another_version_is_refused_in_words(url):
    open_database(url).close()
    with driver().connect(url) as server:
        server.execute("UPDATE version SET number = 99")
    with pytest.raises(DatabaseFailed, match=r"must be of version 1, got 99\. Use the version of"):
        open_database(url)


def test_a_block_takes_effect_or_nothing_does(database):
    def fail():
        with database.writing() as tx:
            add_token(tx, "somebody", "officer")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with database.reading() as tx:
        assert tx.number("SELECT COUNT(*) FROM tokens") == 0


def test_of_many_who_try_at_once_one_gets_the_lease(database):
    def take(holder, name, seconds):
        with database.writing() as tx:
            return leases.take_lease(tx, name, str(holder), seconds)

    with ThreadPoolExecutor(16) as pool:
        for k in range(10):
            got = list(pool.map(lambda i, k=k: take(i, f"lease {k}", 60), range(16)))
            assert sum(got) == 1
            got = list(pool.map(lambda i, k=k: take(i, f"gone {k}", -1), range(3)))
            assert got == [True] * 3  # each had expired when the next one came


def test_repeated_requests_from_several_processes_are_made_once(url, tmp_path):
    n_keys, n_processes = 50, 6
    with closing(open_database(url)) as database, database.writing() as tx:
        _, text = add_token(tx, "officer", "officer")

    def make_all(number):
        with closing(open_database(url)) as database:
            caller, found = caller_of(database, text), {}
            keys = list(range(n_keys))
            random.Random(number).shuffle(keys)

            def make(key):
                asked = Asked("people", "erasure", time.time(), subject=f"{key:032x}",
                              idempotency_key=f"key {key}", fingerprint=f"{key}",
                              callbacks=[("https://a.test/", "pilu")])  # fmt: skip
                with database.writing() as tx:
                    made, fresh = queue.make_request(tx, asked, caller)
                return key, [made["id"], fresh]

            with ThreadPoolExecutor(8) as pool:
                found = dict(pool.map(make, keys))
            (tmp_path / f"{number}.json").write_text(json.dumps(found))

    assert in_forks(n_processes, make_all) == [0] * n_processes
    said = [json.loads((tmp_path / f"{k}.json").read_text()) for k in range(n_processes)]
    for key in map(str, range(n_keys)):
        assert len({one[key][0] for one in said}) == 1
        assert sum(one[key][1] for one in said) == 1
    with driver().connect(url) as server:
        for table in ("requests", "idempotency", "callbacks", "audit"):
            count = server.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            assert count == (n_keys,), table
    with closing(open_database(url)) as database:
        other = Asked("people", "erasure", 0.0, idempotency_key="key 1", fingerprint="other")
        caller = caller_of(database, text)
        with pytest.raises(KeyUsedBefore), database.writing() as tx:
            queue.make_request(tx, other, caller)


# The service


def test_requests_from_beginning_to_end(serving):
    body = {"type": "erasure", "subject": "person 3"}
    headers = {"Idempotency-Key": "one"}
    made = call(serving, "officer", "POST", REQUESTS, json=body, headers=headers)
    again = call(serving, "officer", "POST", REQUESTS, json=body, headers=headers)
    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json()["id"] == again.json()["id"]
    other = {"type": "erasure", "subject": "person 5"}
    changed = call(serving, "officer", "POST", REQUESTS, json=other, headers=headers)
    assert changed.status_code == 422
    unwanted = call(serving, "requester", "POST", REQUESTS, json=other).json()
    gone = call(serving, "requester", "DELETE", f"/v1/requests/{unwanted['id']}")
    assert gone.json()["status"] == "cancelled"
    access = call(serving, "officer", "POST", REQUESTS,
                  json={"type": "access", "subject": "person 7"}).json()  # fmt: skip
    assert call(serving, "officer", "POST", "/v1/stores/people/run").json()["n_due"] == 2
    worked = a_pass(serving.configuration)
    assert (worked.ended, worked.put_back, worked.busy) == (2, 0, [])
    state = call(serving, "officer", "GET", f"/v1/requests/{made.json()['id']}").json()
    assert (state["status"], state["outcome"]) == ("completed", "forgotten")
    answer = call(serving, "officer", "GET", f"/v1/requests/{access['id']}/answer").json()
    assert (answer["in_the_model"], answer["n_rows"]) == (True, 2)
    receipt = call(serving, "auditor", "GET", f"/v1/requests/{made.json()['id']}/receipt")
    with serving.desk() as desk:
        assert check_receipt(Receipt.from_json(receipt.text), desk)["in_the_log_of_the_store"]
        check_store(desk)
    listed = call(serving, "auditor", "GET", REQUESTS, params={"most": 2}).json()
    assert [one["id"] for one in listed["requests"]] == [access["id"], unwanted["id"]]
    listed = call(serving, "auditor", "GET", REQUESTS, params={"after": listed["next"]}).json()
    assert [one["id"] for one in listed["requests"]] == [made.json()["id"]]


def test_nothing_that_is_read_fails(serving):
    """Each address of the API that needs no id, and the measures."""
    paths = [path for path, found in serving.app.app.openapi()["paths"].items() if "get" in found]
    seen = 0
    for path in (path.replace("{store}", "people") for path in paths):
        if "{" not in path:
            found = call(serving, "officer", "GET", path)
            assert found.status_code < 500, (path, found.text)
            seen += found.is_success
    assert seen >= 7


def test_people_are_kept_by_their_keyed_hashes_alone(serving, url):
    for person in ("person 3", "nobody at all"):
        call(serving, "requester", "POST", REQUESTS, json={"type": "erasure", "subject": person})
    a_pass(serving.configuration)
    with driver().connect(url) as server:
        tables = server.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        assert len(tables) >= 10
        text = "".join(
            str(server.execute(f"SELECT * FROM {name}").fetchall()) for (name,) in tables
        )
    assert "person 3" not in text
    assert "nobody at all" not in text
    assert "made a request: erasure" in text


def pg_ctl(socket, *command):
    run(owner(), programs() / "pg_ctl", *command, "-w", "-t", SECONDS, "-D", socket / "data",
        "-l", socket / "log")  # fmt: skip


def test_the_server_is_restarted(serving, socket, caplog):
    """Connections are made again; while there is no server, callers are told to come later."""
    body = {"type": "erasure", "subject": "person 3"}
    assert call(serving, "requester", "POST", REQUESTS, json=body).status_code == 201
    pg_ctl(socket, "restart", "-m", "fast")
    for _ in range(5):
        assert call(serving, "requester", "POST", REQUESTS, json=body).status_code == 201
    options = (socket / "data" / "postmaster.opts").read_text()
    assert "listen_addresses=" in options
    run(owner(), programs() / "pg_ctl", "stop", "-w", "-m", "fast", "-D", socket / "data")
    try:
        refused = call(serving, "requester", "POST", REQUESTS, json=body)
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) > 0
        assert "postgresql" not in refused.text
        assert call(serving, "officer", "GET", "/health").status_code == 200
        ready = call(serving, "officer", "GET", "/ready")
        assert (ready.status_code, ready.json()["problems"]) == (
            503,
            ["the database does not answer"],
        )
        with pytest.raises(DatabaseFailed):
            a_pass(serving.configuration)
    finally:
        pg_ctl(socket, "start", "-o", f"-F -c listen_addresses='' -k {socket}")
    until = time.monotonic() + 60
    while call(serving, "requester", "POST", REQUESTS, json=body).status_code != 201:
        assert time.monotonic() < until
    worked = a_pass(serving.configuration)
    assert worked.put_back == 0
    with serving.database.reading() as tx:
        found = tx.all("SELECT status, COUNT(*) AS n FROM requests GROUP BY status")
    assert [row["status"] for row in found] == ["waiting"]  # for the night, and none was lost
    assert found[0]["n"] >= 7
    assert "pass%20word" not in caplog.text + refused.text
    assert PASSWORD not in caplog.text + refused.text


ADDRESSES = {
    "wrong password": "postgresql://anna:se-cret@/postgres?host={socket}",
    "not percent-encoded": "postgresql://anna:se-cret%zz@/postgres?host={socket}",
    "with a space": "postgresql://anna:x se-cret@/postgres?host={socket}",
    "among the options": "postgresql:///postgres?host={socket}&user=anna&password=x@se-cret",
    "no such server": "postgresql://anna:se-cret@/postgres?host={socket}/nowhere",
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_message_and_no_log_has_the_password(name, socket, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DatabaseFailed) as caught:
        open_database(ADDRESSES[name].format(socket=socket))
    output = capfd.readouterr()
    for text in (str(caught.value), caplog.text, output.out, output.err):
        assert "se-cret" not in text
    # It names the address, or says how one is written if this is none.
    assert "postgresql://" in str(caught.value)


def test_why_there_is_no_connection_is_said(socket):
    with pytest.raises(DatabaseFailed, match="password authentication failed"):
        open_database(ADDRESSES["wrong password"].format(socket=socket))


# Workers that are killed


def test_a_worker_is_killed_at_twenty_places(tmp_path, url):
    total, *killed = reports_of("killing.py", tmp_path, 20, url)
    assert {"before run", "after all", "before commit", "after commit"} <= set(total["kinds"])
    assert len(killed) == 20
    assert sum(report["killed"] for report in killed) >= 18
    assert Counter(report["last"].split()[-1] for report in killed)["commit"] >= 2
    check_reports(killed)
