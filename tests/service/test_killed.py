"""Killed anywhere, workers end every request once, and leave nothing of who is gone."""

import os
import signal
from collections import Counter
from types import SimpleNamespace

import pytest

from desk.refit.tables import make_rows
from pilu.client.messages import Addition
from pilu.service.asking import ask
from pilu.service.running import Service
from pilu.service.tokens import caller_of
from pilu.service.work import work
from service.reports import check_reports, reports_of
from service.waiting import as_json

KINDS = {
    "store's sqlite", "service's sqlite", "pwrite64", "fsync", "half a write", "the other half",
    "open", "os.rename", "os.remove", "take_lease", "give_back", "socket.connect",
}  # fmt: skip


@pytest.fixture(params=[10, pytest.param(200, marks=pytest.mark.slow)])
def n_places(request):
    return request.param


def test_killed_at_every_place(tmp_path, n_places):
    total, *killed = reports_of("killing.py", tmp_path, n_places)
    assert total["total"] >= 5_000
    assert set(total["kinds"]) >= KINDS
    assert len(killed) == n_places
    # What a pass does differs by an instruction or two, so that the last place may be missed.
    assert sum(report["killed"] for report in killed) >= 0.9 * len(killed)
    if n_places >= 2 * len(KINDS):
        assert set(Counter(report["last"] for report in killed)) >= KINDS
        # The kills are spread over the pass: some before anything ended, some after all had.
        ended = {sum(report["passes"]) for report in killed}
        assert {0, 12} <= ended
        assert len(ended) >= 4
    check_reports(killed)


# Web processes that are killed


@pytest.fixture
def officer(serving):
    return caller_of(serving.database, serving.tokens["officer"])


def add_rows(serving, officer, **more):
    """An addition of a new person; whether it is fresh."""
    rows = as_json(make_rows(2, first=500))
    return ask(serving.service, "people", Addition(rows=rows, now=True), officer, **more)


def killed_while_asking(serving, officer, place):
    """A web process that dies while rows come in; whether it did."""
    child = os.fork()
    if child == 0:
        _die_at(place)
        service = Service(serving.configuration)
        add_rows(SimpleNamespace(service=service), officer, idempotency_key="k")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _die_at(place):
    from pilu.service import queue

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    if place == "half a file":
        import pyarrow.parquet

        def half(table, where):
            where.write_bytes(b"PAR1 and then nothing")
            die()

        pyarrow.parquet.write_table = half
    elif place == "before its name":
        os.replace = die
    elif place == "before its request":
        queue.make_request = die
    else:
        queue.note_action = die


@pytest.mark.parametrize(
    "place", ["half a file", "before its name", "before its request", "within its request"]
)
def test_a_web_process_that_is_killed_while_rows_come_in(serving, officer, place):
    """It stops no worker, and the same rows can be sent again and are learned once."""
    assert killed_while_asking(serving, officer, place)
    assert serving.run().put_back == 0
    found, fresh = add_rows(serving, officer, idempotency_key="k")
    assert fresh
    again, fresh = add_rows(serving, officer, idempotency_key="k")
    assert (again["id"], fresh) == (found["id"], False)
    worked = serving.run()
    assert (worked.ended, worked.put_back) == (1, 0)
    with serving.desk() as desk:
        assert [entry.kind for entry in desk.log().entries].count("add") == 1
        assert len(desk.rows_of_people()[desk.keyed("person 250")]) == 2


def test_half_a_file_of_rows_is_removed_in_the_end(serving, officer):
    assert killed_while_asking(serving, officer, "half a file")
    folder = serving.configuration.own / "rows" / "people"
    (left,) = folder.iterdir()
    yesterday = left.stat().st_mtime - 86_400
    os.utime(left, (yesterday, yesterday))
    work(serving.configuration, everywhere=True)
    assert list(folder.iterdir()) == []
