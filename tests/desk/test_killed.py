"""Killed at any place a deletion writes, the store is as before or as after, never both."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import make_keys

PERSON, TABLE = "person number 3", "people.parquet"


@pytest.fixture(params=[16, pytest.param(300, marks=pytest.mark.slow)])
def n_places(request):
    return request.param


@pytest.fixture
def reports(desk, tmp_path, n_places):
    desk.close()
    make_keys(tmp_path / "private.pem", tmp_path / "public.pem")
    script = Path(__file__).parent / "killing.py"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(n_places)],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_killed_at_every_place(reports, n_places):
    total, *killed = reports
    assert total["total"] >= 200
    assert len(killed) == total["places"] >= min(n_places, total["total"])
    # SIGKILL; what a run does differs by an instruction or two, so that the last may be missed
    assert sum(report["code"] == -9 for report in killed) >= 0.9 * len(killed)
    kinds = Counter()
    for report in killed:
        as_before = (report["entries"], report["generation"], report["knows"]) == (1, 0, True)
        as_after = (report["entries"], report["generation"], report["knows"]) == (
            2,
            1,
            "AlreadyForgotten",
        )
        assert as_before != as_after, report
        # the rubbish is gone as soon as somebody opens the store, and it works
        assert report["folders"] == [f"arrays-{report['generation']}"], report
        assert report["then"] == [21, 22, 23]
        assert report["files"] == ["key", "ledger.sqlite"]
        # a signature is only obtained for what is in the log
        assert all(report["signed"].values()), report
        assert not (report["signed"] and as_before), report
        # the receipt is there, or waits and the next one is told so
        assert report["receipt"] == (True if as_after else None), report
        waits = report["undelivered"] == [1]
        assert waits or report["undelivered"] == [], report
        assert waits == ("entry 1 of the log were not delivered yet" in report["recovered"]), report
        assert not (waits and as_before), report
        kinds["before" if as_before else "after"] += 1
        kinds["waits"] += waits
        kinds["signed and waits"] += waits and "envelope.json" in report["signed"]
        kinds["written and waits"] += waits and "receipt.json" in report["signed"]
    assert {"before", "after", "waits"} <= set(+kinds)
    assert {"signed and waits", "written and waits"} <= set(+kinds)


def in_a_fork(folder, act):
    """A process that opens the store, does something to it, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            act(Desk.open(folder))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def bytes_of(number):
    return repr(number).encode()


def numbers_in(record):
    if isinstance(record, dict):
        return [n for part in record.values() for n in numbers_in(part)]
    if isinstance(record, list):
        return [n for part in record for n in numbers_in(part)]
    return [record] if isinstance(record, float) else []


def test_killed_between_commit_and_delivery(desk, tmp_path):
    """The next one is told so and hands over receipts; then nothing of their numbers is left."""
    desk.close()
    store = tmp_path / "store"
    in_a_fork(store, lambda opened: opened.unlearn([PERSON, "person number 5"], deliver=kill))
    ledger = store / "ledger.sqlite"
    (kept,) = sqlite3.connect(ledger).execute("SELECT body FROM outbox").fetchone()
    kept = json.loads(kept)
    evidence = json.loads(kept["certificate"])["evidence"]
    with Desk.open(store) as again:
        assert "`pilu receipts " in again.store.recovered
        assert "entry 1 of the log were not delivered yet" in again.store.recovered
        assert again.undelivered() == [1]
        assert check_store(again)
        log = b"".join(entry.body for entry in again.log().entries)
        state = json.dumps(again.store.read_state()).encode()
        secrets = [bytes_of(n) for n in numbers_in(evidence) + numbers_in(kept["exposures"])]
        secrets += [one["nonce"].encode() for one in kept["exposures"].values()]
        # the running total is kept for later totals, and the log has a few of the numbers
        secrets = [one for one in secrets if len(one) > 9 and one not in log + state]
        assert len(secrets) > 5
        assert all(one in ledger.read_bytes() for one in secrets)
        handed = []
        again.deliver_again(1, handed.extend)
        assert len(handed) == 2
        for receipt in handed:
            assert check_receipt(Receipt.from_json(receipt.to_json()), again, tmp_path / TABLE)
        assert again.undelivered() == []
        assert again.store.ledger._database.execute("SELECT count(*) FROM outbox").fetchone() == (
            0,
        )
    content = ledger.read_bytes()
    assert [one for one in secrets if one in content] == []
    assert sorted(path.name for path in store.iterdir()) == ["arrays-1", "key", "ledger.sqlite"]
    with Desk.open(store) as again:
        assert again.store.recovered == ""


# Journals that are left behind


def hot(store):
    """Killed while SQLite writes to the file itself: the journal has the pages as they were."""

    def act(desk):
        database = desk.store.ledger._database
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN IMMEDIATE")
        for k in range(200):
            database.execute("INSERT INTO entries VALUES (?, ?)", (100 + k, bytes(3000)))
        kill()

    in_a_fork(store, act)


def warm(store):
    """Killed before SQLite has written to the file itself."""

    def act(desk):
        desk.store.ledger._database.execute("BEGIN IMMEDIATE")
        desk.store.ledger.append({"kind": "request", "due": None})
        kill()

    in_a_fork(store, act)


def left(content):
    def make(store):
        journal = store / "ledger.sqlite-journal"
        if isinstance(content, int):  # of a whole journal
            hot(store)
            whole = journal.read_bytes()
            with Desk.open(store):
                pass
            assert not journal.exists()
            journal.write_bytes(bytes(28) + whole[28:content])
        else:
            journal.write_bytes(content)

    return make


@pytest.mark.parametrize(
    "make",
    [hot, warm, left(b""), left(bytes(512)), left(4000), left(b"no journal at all" * 100)],
    ids=["hot", "warm", "empty", "zeros", "finished", "junk"],
)
def test_a_journal_that_a_killed_process_left(desk, tmp_path, make):
    desk.unlearn(PERSON, n_unlearn_steps=1)
    head = desk.log().head
    desk.close()
    store = tmp_path / "store"
    journal = store / "ledger.sqlite-journal"
    make(store)
    assert journal.exists() or make is warm
    if make is hot:
        assert journal.read_bytes()[:8] == bytes.fromhex("d9d505f920a163d7")  # SQLite's own mark
        assert (store / "ledger.sqlite").stat().st_size > 500_000
    with Desk.open(store) as again:
        assert not journal.exists()
        assert all(check_store(again, since=head, table=tmp_path / TABLE).values())
        assert again.log().head == head
        assert again.unlearn("person number 7", n_unlearn_steps=1).place == 2
    assert sorted(path.name for path in store.iterdir()) == ["arrays-2", "key", "ledger.sqlite"]
