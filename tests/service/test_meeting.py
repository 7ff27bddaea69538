"""Requests that meet: for one person, in one pass, or beside a store that fails."""

import shutil

import pytest

from desk.refit.tables import make_rows
from pilu.client.messages import Addition, Erasure
from pilu.desk.refit_desk import RefitDesk
from pilu.service import queue
from pilu.service import worker as worker_module
from pilu.service.asking import ask
from pilu.service.tokens import caller_of
from service.waiting import as_json


@pytest.fixture
def who(serving):
    return {role: caller_of(serving.database, text) for role, text in serving.tokens.items()}


def found(serving, made):
    with serving.database.reading() as tx:
        return tx.one("SELECT * FROM requests WHERE id = ?", made["id"])


def night(serving):
    with serving.database.writing() as tx:
        tx.run("UPDATE requests SET run_at = 0")
    return serving.run()


def test_who_asks_to_be_forgotten_while_their_rows_wait_is_not_learned(serving, who):
    """The rows came first: they are refused, or they are learned and forgotten."""
    rows = as_json(make_rows(2, first=500))
    ask(serving.service, "people", Addition(rows=rows), who["officer"])
    erasure, _ = ask(serving.service, "people", Erasure(subject="person 250"), who["requester"])
    night(serving)
    assert found(serving, erasure)["status"] == "completed"
    night(serving)
    with serving.desk() as desk:
        assert desk.keyed("person 250") not in desk.rows_of_people()


def test_rows_that_come_after_an_erasure_of_nobody_are_learned(serving, who):
    """Who was not there was not forgotten: rows that come later are as those of anybody."""
    erasure, _ = ask(serving.service, "people", Erasure(subject="person 250"), who["requester"])
    night(serving)
    assert found(serving, erasure)["outcome"] == "not in the model"
    rows = as_json(make_rows(2, first=500))
    addition, _ = ask(serving.service, "people", Addition(rows=rows, now=True), who["officer"])
    night(serving)
    assert found(serving, addition)["outcome"] == "learned"


def test_a_store_that_fails_keeps_no_other_from_being_worked_on(serving, who, monkeypatch):
    """Not even by an error that nobody expected, such as one of the user's own pipeline."""
    stores = serving.configuration.stores
    shutil.copytree(stores / "people", stores / "zebra")
    made = {
        store: ask(serving.service, store, Erasure(subject="person 3", now=True), who["officer"])[0]
        for store in ("people", "zebra")
    }
    forget = RefitDesk._forget

    def failing(desk, *given, **options):
        if desk.folder.name == "people":
            raise ValueError("a pipeline of the user's own")
        return forget(desk, *given, **options)

    monkeypatch.setattr(RefitDesk, "_forget", failing)
    serving.run()
    assert found(serving, made["zebra"])["status"] == "completed"
    assert found(serving, made["people"])["status"] == "waiting"
    assert found(serving, made["people"])["problem"]
    monkeypatch.setattr(RefitDesk, "_forget", forget)
    night(serving)
    assert found(serving, made["people"])["outcome"] == "forgotten"


def test_what_was_done_cannot_be_cancelled(serving, who, monkeypatch):
    """The change is in the log, and its receipts wait to be handed over."""
    erasure, _ = ask(
        serving.service, "people", Erasure(subject="person 3", now=True), who["officer"]
    )

    def no_space(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(worker_module._StoreWork, "_keep", no_space)
        serving.run()
    with serving.desk() as desk:
        assert desk.undelivered() == [1]
    with serving.database.writing() as tx:
        assert not queue.cancel_request(tx, found(serving, erasure), who["officer"])
    night(serving)
    ended = found(serving, erasure)
    assert (ended["status"], ended["outcome"], ended["entry"]) == ("completed", "forgotten", 1)
    assert ended["receipt"] is not None
