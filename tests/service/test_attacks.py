"""Attacks on the promises of the service: what an adversary did, and what must come of it."""

import asyncio
import shutil
import socket
import threading
import time
from datetime import date

import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows
from pilu.desk.desk import Desk
from pilu.service import due, queue, tokens
from pilu.service.callbacks import Sender
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.scheduling import Scheduler
from pilu.service.work import work

REQUESTS = "/v1/stores/people/requests"


def new_row(number, person, **more):
    row = dict(make_rows(1)[0], row=f"new {number}", person=person, **more)
    return row | {"since": row["since"].isoformat()}


def details(call, made):
    return call("officer", "GET", f"/v1/requests/{made.json()['id']}").json()


# Nobody who asked to be forgotten is learned


@pytest.mark.parametrize("when", ["together", "the erasure before"])
def test_an_erasure_after_an_addition_of_the_same_person(serving, call, when):
    added = {"type": "addition", "rows": [new_row(1, "Zoe")]}
    assert call("officer", "POST", REQUESTS, json=added).status_code == 201
    due_today = {} if when == "together" else {"due": date.today().isoformat()}
    erasure = {"type": "erasure", "subject": "Zoe", **due_today}
    made = call("requester", "POST", REQUESTS, json=erasure)
    if when != "together":
        serving.run()
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    assert details(call, made)["status"] == "completed"
    with serving.desk() as desk:
        assert desk.keyed("Zoe") not in desk.rows_of_people()


def test_others_in_an_addition_are_learned_all_the_same(serving, call):
    rows = [new_row(1, "person 3"), new_row(2, "Otto")]
    added = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": rows})
    erasure = {"type": "erasure", "subject": "person 3", "due": date.today().isoformat()}
    call("requester", "POST", REQUESTS, json=erasure)
    serving.run()
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    with serving.desk() as desk:
        there = desk.rows_of_people()
        assert desk.keyed("person 3") not in there
        # Either the others are learned, or the officer is told in words that all were refused.
        problem = details(call, added)["problem"]
        assert desk.keyed("Otto") in there or "forgotten" in problem


def test_a_request_outlives_a_new_store_of_the_same_name(serving, call, fitted):
    made = call("requester", "POST", REQUESTS, json={"type": "erasure", "subject": "person 3"})
    store = serving.configuration.stores / "people"
    shutil.rmtree(store)
    with Desk.fit(store, fitted / "people.csv", **COLUMNS):
        pass
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    told = details(call, made)
    with serving.desk() as desk:
        there = desk.keyed("person 3") in desk.rows_of_people()
    assert not (there and told["status"] == "completed"), told["outcome"]


def test_a_file_that_a_killed_process_left_half_written_stops_nobody(serving, call):
    rows = serving.configuration.own / "rows" / "people"
    rows.mkdir(parents=True)
    (rows / ".1234.parquet.part.parquet").write_bytes(b"PAR1 cut")
    erasure = {"type": "erasure", "subject": "person 3", "due": date.today().isoformat()}
    made = call("requester", "POST", REQUESTS, json=erasure)
    serving.run()
    assert details(call, made)["outcome"] == "forgotten"


# A requester cannot tell who is in the model


def test_the_time_of_a_refit_does_not_move_what_is_told(folder, monkeypatch):
    """Ask just before the hour: nobody ends before it, and a refit after it."""
    configuration = Configuration(folder, answers_every=3600)
    database = open_database(configuration.where)
    with database.writing() as tx:
        _, text = tokens.add_token(tx, "requester", "requester")
    caller = tokens.caller_of(database, text)
    hour = (time.time() // 3600 + 1) * 3600
    told = []
    for seconds in (0.5, 30.0):  # nobody is found in a moment, a refit takes longer
        monkeypatch.setattr(time, "time", lambda: hour - 2.0)
        asked = queue.Asked("people", "erasure", hour - 2.0, "00", told_every=3600.0)
        with database.writing() as tx:
            found, _ = queue.make_request(tx, asked, caller)
            (taken,) = due.take_due(tx, "people", hour - 2.0)
            monkeypatch.setattr(time, "time", lambda seconds=seconds: hour - 2.0 + seconds)
            due.end_request(tx, taken, "forgotten")
            told.append(due.request_of(tx, found["id"])["told_at"])
    database.close()
    assert told[0] == told[1]


def test_cancelling_tells_nothing_about_what_the_worker_does(folder):
    """A probe that can be cancelled after its time has come: the worker is busy with a refit."""
    configuration = Configuration(folder, answers_every=3600)
    database = open_database(configuration.where)
    with database.writing() as tx:
        _, text = tokens.add_token(tx, "requester", "requester")
    caller = tokens.caller_of(database, text)
    answers = []
    for is_taken in (False, True):
        past = time.time() - 60.0
        asked = queue.Asked("people", "access", past, "00", told_every=3600.0)
        with database.writing() as tx:
            found, _ = queue.make_request(tx, asked, caller)
            if is_taken:
                due.take_due(tx, "people", time.time())
            answers.append(queue.cancel_request(tx, found, caller))
    database.close()
    assert answers[0] == answers[1]


# Erasures are carried out, whatever others do


def test_the_scheduler_outlives_what_is_not_an_error_of_pilu(serving, monkeypatch):
    """A thousand connections take all file descriptors: no process can be started for a while."""
    scheduler, tried = Scheduler(serving.service), []

    async def no_process(*_):
        tried.append(1)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(scheduler, "_work", no_process)
    monkeypatch.setattr("pilu.service.scheduling._EVERY", 0.01)
    scheduler._everywhere_at = 0.0

    async def for_a_while():
        task = asyncio.create_task(scheduler.run())
        await asyncio.sleep(0.1)
        alive = not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return alive

    assert asyncio.run(for_a_while())
    assert tried


def test_a_receiver_that_never_finishes_its_head_does_not_hold_the_worker(folder, monkeypatch):
    monkeypatch.setattr("pilu.service.callbacks._TIMEOUT", 0.5)
    server = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def drip():
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            for _ in range(60):  # six seconds
                if done.wait(0.1):
                    return
                try:
                    connection.sendall(b"a")
                except OSError:
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    configuration = Configuration(folder, answers_every=0, callback_hosts=("127.0.0.1",))
    database = open_database(configuration.where)
    with database.writing() as tx:
        _, text = tokens.add_token(tx, "requester", "requester")
    caller = tokens.caller_of(database, text)
    url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    asked = queue.Asked("people", "access", 0.0, "00", callbacks=[(url, "pilu")])
    with database.writing() as tx:
        found, _ = queue.make_request(tx, asked, caller)
        due.end_request(tx, found, "answered")
    started = time.monotonic()
    Sender(configuration, database).run()
    took = time.monotonic() - started
    done.set()
    thread.join()
    server.close()
    database.close()
    assert took < 3.0


# What clients send is small, and stays so


def test_an_answer_does_not_list_all_problems_of_a_body_that_has_nothing_else(call):
    cells = {f"{i:x}": [] for i in range(2_000)}
    answer = call("requester", "POST", REQUESTS, json={"type": "addition", "rows": [cells]})
    assert answer.status_code in (403, 422)
    assert len(answer.content) < 100_000


def test_no_value_is_repeated(call):
    row = new_row(1, "Alice", age="a secret")
    answer = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": [row]})
    assert answer.status_code == 422
    assert "a secret" not in answer.text


@pytest.mark.parametrize("origin", ["http://[::1", "http://[zz]/"])
def test_an_origin_that_is_no_address(call, origin):
    answer = call(None, "POST", "/login", data={"token": "x"}, headers={"Origin": origin})
    assert answer.status_code == 403


def test_a_length_of_five_thousand_digits(call):
    headers = {"Content-Length": "0" * 5_000 + "1"}
    assert call(None, "POST", "/login", content=b"x", headers=headers).status_code in (400, 413)


def test_a_row_with_half_a_character(call):
    row = '{"row": "new 1", "person": "\\ud800"}'
    answer = call(
        "officer", "POST", REQUESTS, content=f'{{"type": "addition", "rows": [{row}]}}',
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.status_code == 422


def test_a_rate_near_zero(call):
    made = call(
        "officer", "POST", "/v1/tokens",
        json={"name": "slow", "role": "requester", "per_second": 1e-320},
    )  # fmt: skip
    if made.status_code == 422:
        return
    token = made.json()["token"]
    answers = [call(token, "GET", "/v1/requests/none").status_code for _ in range(2)]
    assert answers == [404, 429]


# The log says who looked


def test_an_officer_who_tries_names_is_noted(serving, call):
    """A request about somebody who is not there is refused: that is a look-up, too."""

    def noted():
        with serving.database.reading() as tx:
            return tx.number("SELECT COUNT(*) FROM audit")

    before = noted()
    answer = call("officer", "POST", REQUESTS, json={"type": "erasure", "subject": "nobody"})
    assert answer.status_code == 422
    assert noted() > before


def test_problems_name_no_file_of_the_machine(serving, call):
    rows = [new_row(77, "person 9")]
    made = call("officer", "POST", REQUESTS,
                json={"type": "rectification", "rows": rows, "now": True})  # fmt: skip
    work(serving.configuration)
    assert str(serving.configuration.stores) not in details(call, made)["problem"]
