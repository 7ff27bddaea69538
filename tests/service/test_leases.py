"""Two workers never do the same, and one that sleeps through its lease does no harm."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pilu.service import leases
from pilu.service import worker as worker_module
from pilu.service.database import open_database
from pilu.service.worker import Worker
from service.conftest import soon
from service.reports import check_reports, reports_of

NAME = "store people"


@pytest.fixture
def database(tmp_path):
    made = open_database(tmp_path / "service.sqlite")
    yield made
    made.close()


def take(database, holder, seconds, name=NAME):
    with database.writing() as tx:
        return leases.take_lease(tx, name, holder, seconds)


def held(database, name=NAME):
    with database.reading() as tx:
        return leases.is_leased(tx, name)


# Leases by themselves


def test_one_holds_a_lease(database):
    assert not held(database)
    assert take(database, "a", 60)
    assert held(database)
    assert not take(database, "b", 60)
    assert take(database, "b", 60, "store other")  # another one
    assert take(database, "a", 60)  # renewed
    with database.writing() as tx:
        leases.give_back(tx, NAME, "b")  # not theirs
    assert held(database)
    with database.writing() as tx:
        leases.give_back(tx, NAME, "a")
    assert not held(database)
    assert take(database, "b", 60)


def test_a_lease_that_expired_is_taken_over(database):
    assert take(database, "a", 0.05)
    soon(lambda: not held(database))
    assert take(database, "b", 60)
    assert not take(database, "a", 60)  # it woke up, and has it no more
    with database.writing() as tx:
        leases.give_back(tx, NAME, "a")
    assert held(database)
    assert not take(database, "c", 60)


def test_renewing_never_makes_a_lease_end_earlier_than_it_would_have(database):
    assert take(database, "a", 60)
    with database.reading() as tx:
        before = tx.number("SELECT until FROM leases")
    assert take(database, "a", 60)
    with database.reading() as tx:
        assert tx.number("SELECT until FROM leases") >= before


def test_of_many_who_try_at_once_one_gets_it(database):
    with ThreadPoolExecutor(16) as pool:
        for k in range(20):
            name = f"lease {k}"
            got = list(pool.map(lambda i, name=name: take(database, f"{i}", 60, name), range(16)))
            assert sum(got) == 1


# Workers


@pytest.fixture
def asked(call):
    """Three requests that are due."""
    body = {"type": "erasure", "now": True}
    numbers = []
    for k in (3, 5, 7):
        made = call("officer", "POST", "/v1/stores/people/requests",
                    json={**body, "subject": f"person {k}"})  # fmt: skip
        assert made.status_code == 201, made.text
        numbers.append(made.json()["id"])
    return numbers


def worker(serving):
    return Worker(serving.configuration, serving.database)


def a_worker_process(serving, gate, *, lease=60.0):
    """A worker that has its lease and waits at a gate; ends with the number of ended requests."""
    child = os.fork()
    if child == 0:
        try:
            os.close(gate[1])
            worker_module.LEASE = lease
            run = worker_module._StoreWork.run

            def waiting(work, **options):
                os.read(gate[0], 1)
                run(work, **options)

            worker_module._StoreWork.run = waiting
            database = open_database(serving.configuration.where)
            worked = Worker(serving.configuration, database).run(everywhere=True)
            os._exit(worked.ended)
        except BaseException:
            os._exit(99)
    os.close(gate[0])
    return child


def exit_code(child):
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def kinds(serving):
    with serving.desk() as desk:
        return [entry.kind for entry in desk.log().entries if entry.kind != "audit"]


def test_while_one_works_the_others_say_so_and_go(serving, asked):
    gate = os.pipe()
    child = a_worker_process(serving, gate)
    soon(lambda: held(serving.database))
    for _ in range(2):
        worked = worker(serving).run(everywhere=True)
        assert (worked.ended, worked.put_back, worked.busy) == (0, 0, ["people"])
    assert kinds(serving) == ["fit"]
    os.close(gate[1])
    assert exit_code(child) == 3
    assert kinds(serving) == ["fit", "unlearn"]
    worked = worker(serving).run(everywhere=True)
    assert (worked.ended, worked.busy) == (0, [])


def test_two_processes_of_the_command_at_once(serving, asked):
    command = [sys.executable, "-m", "pilu", "work", "--stores", serving.configuration.stores,
               "--everywhere", "--json"]  # fmt: skip
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    said = [json.loads(one.communicate()[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum(one["ended"] for one in said) == 3
    assert sum(one["put_back"] for one in said) == 0
    assert kinds(serving) == ["fit", "unlearn"]
    for number in asked:
        with serving.database.reading() as tx:
            found = tx.one("SELECT * FROM requests WHERE id = ?", number)
        assert (found["status"], found["outcome"]) == ("completed", "forgotten")


def test_a_worker_that_lives_keeps_its_lease(serving, asked):
    gate = os.pipe()
    child = a_worker_process(serving, gate, lease=2.0)
    soon(lambda: held(serving.database))

    def until():
        with serving.database.reading() as tx:
            return tx.number("SELECT until FROM leases")

    first = until()
    soon(lambda: until() > first + 2.5)  # it would have expired without being renewed
    assert time.time() > first
    assert worker(serving).run(everywhere=True).busy == ["people"]
    os.close(gate[1])
    assert exit_code(child) == 3


def test_a_worker_that_died_holds_its_lease_until_it_expires(serving, asked):
    gate = os.pipe()
    child = a_worker_process(serving, gate)
    soon(lambda: held(serving.database))
    os.kill(child, 9)
    assert exit_code(child) == -9
    assert worker(serving).run(everywhere=True).busy == ["people"]
    with serving.database.writing() as tx:
        tx.run("UPDATE leases SET until = ?", time.time() - 1)
    worked = worker(serving).run(everywhere=True)
    assert (worked.ended, worked.busy) == (3, [])
    os.close(gate[1])


def test_eight_processes_make_the_same_database_at_once(tmp_path):
    """The first commands of a new service may come together."""
    for k in range(5):
        where, gate = tmp_path / f"{k}.sqlite", os.pipe()
        children = []
        for _ in range(8):
            child = os.fork()
            if child == 0:
                try:
                    os.close(gate[1])
                    os.read(gate[0], 1)
                    open_database(where).close()
                    os._exit(0)
                except BaseException as error:
                    os.write(2, f"{error}\n".encode())
                    os._exit(1)
            children.append(child)
        os.close(gate[1])
        os.close(gate[0])
        assert [exit_code(child) for child in children] == [0] * 8


# Stopped for longer than its lease, at every place between two steps


@pytest.fixture(params=[6, pytest.param(1_000, marks=pytest.mark.slow)])
def n_places(request):
    return request.param


def test_a_worker_that_wakes_up_after_its_lease_does_no_harm(tmp_path, n_places):
    total, *stalled = reports_of("stalling.py", tmp_path, n_places)
    assert total["total"] >= 40
    assert len(stalled) >= min(n_places, 2 * total["total"])
    assert all(report["stopped"] for report in stalled)
    assert {report["other"] for report in stalled} == {0, -9}
    assert {report["code"] for report in stalled} == {0}
    check_reports(stalled)
