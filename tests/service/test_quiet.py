"""A requester cannot tell a person who is in the model from one who is not."""

import re
import time
from dataclasses import replace
from statistics import median

import pytest

from pilu.service.work import work

REQUESTS = "/v1/stores/people/requests"
KNOWN, UNKNOWN, GONE = "person 3", "person 333", "person 5"


@pytest.fixture
def configuration(configuration):
    return replace(configuration, answers_every=3600)


@pytest.fixture
def gone(serving, call):
    """Somebody was forgotten before."""
    made = {"type": "erasure", "subject": GONE, "now": True}
    assert call("officer", "POST", REQUESTS, json=made).status_code == 201
    serving.run()


def ask(call, subject, **more):
    made = {"type": "erasure", "subject": subject, **more}
    return call("requester", "POST", REQUESTS, json=made)


def shape(answer):
    """An answer without its id and its times."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", answer.text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    headers = {k: v for k, v in answer.headers.items() if k not in ("location", "content-length")}
    return answer.status_code, text, headers


def test_all_answers_are_alike_until_the_end(serving, call, gone, monkeypatch):
    made = {who: ask(call, who) for who in (KNOWN, UNKNOWN, GONE)}
    assert len({str(shape(one)) for one in made.values()}) == 1
    paths = {who: f"/v1/requests/{one.json()['id']}" for who, one in made.items()}

    def seen():
        return {str(shape(call("requester", "GET", path))) for path in paths.values()}

    call("officer", "POST", "/v1/stores/people/run")
    assert len(seen()) == 1
    serving.run()
    assert len(seen()) == 1
    assert "waiting" in seen().pop()  # not yet told
    for path in paths.values():
        assert call("requester", "GET", f"{path}/receipt").status_code == 403
        assert call("officer", "GET", path).json()["status"] == "completed"
        assert call("requester", "DELETE", path).status_code == 409
    later = time.time() + 7200
    import pilu.service.asking as asking

    class Clock(asking.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(later, tz)

    monkeypatch.setattr(asking, "datetime", Clock)
    ended = [call("requester", "GET", path).json() for path in paths.values()]
    assert {one["status"] for one in ended} == {"completed"}
    (when,) = {one["ended"] for one in ended}  # the same round time for all
    assert re.search(r"T\d\d:00:00(\.0+)?Z", when)


def test_the_end_is_told_at_the_same_time_whatever_the_work_took(serving, call):
    """One alone who is unknown costs no refit; the time of its end does not show that."""
    first, second = ask(call, KNOWN), ask(call, UNKNOWN)
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    with serving.database.reading() as tx:
        rows = [
            tx.one("SELECT told_at, told_every, ended FROM requests WHERE id = ?", one.json()["id"])
            for one in (first, second)
        ]
    for row in rows:
        assert row["told_at"] % 3600 == 0
        assert 3600 < row["told_at"] - row["ended"] <= 7200  # a whole hour for the work


def test_the_time_to_answer_is_alike(serving, call):
    """The same path for all: nothing is looked up. Medians over interleaved calls."""
    for who in (KNOWN, UNKNOWN):
        ask(call, who)
    spent = {KNOWN: [], UNKNOWN: []}
    for _ in range(60):
        for who, times in spent.items():
            started = time.perf_counter()
            ask(call, who)
            times.append(time.perf_counter() - started)
    known, unknown = (median(times) for times in spent.values())
    assert 0.7 < known / unknown < 1.4


def test_nothing_about_the_model_is_read(serving, call, monkeypatch):
    """What cannot be read cannot be told: the model and its names are away."""
    from pilu.service.stores import OpenStore

    def never(self):
        raise AssertionError("a requester's call read the model")

    monkeypatch.setattr(OpenStore, "known", never)
    monkeypatch.setattr(OpenStore, "desk", never)
    assert ask(call, KNOWN).status_code == ask(call, UNKNOWN).status_code == 201


def test_cancelling_is_alike(serving, call, gone):
    made = [ask(call, who) for who in (KNOWN, UNKNOWN, GONE)]
    answers = [call("requester", "DELETE", f"/v1/requests/{one.json()['id']}") for one in made]
    assert len({str(shape(one)) for one in answers}) == 1


def test_opendsr_is_alike(serving, call, gone):
    def asking(who, number):
        return call(
            "requester",
            "POST",
            "/opendsr/v2/people/requests",
            json={
                "regulation": "gdpr",
                "subject_request_id": f"7ba47123-cfd2-4f11-a2aa-7f9bd1e40de{number}",
                "subject_request_type": "erasure",
                "submitted_time": "2027-01-01T00:00:00Z",
                "subject_identities": [
                    {
                        "identity_type": "controller_customer_id",
                        "identity_value": who,
                        "identity_format": "raw",
                    }
                ],
            },
        )

    answers = [asking(who, k) for k, who in enumerate((KNOWN, UNKNOWN, GONE))]
    assert {one.status_code for one in answers} == {201}
    work(serving.configuration, everywhere=True)
    states = [
        call("requester", "GET", f"/opendsr/v2/people/requests/{one.json()['subject_request_id']}")
        for one in answers
    ]
    assert {one.json()["request_status"] for one in states} == {"pending"}
    assert {tuple(sorted(one.json())) for one in states} == {tuple(sorted(states[0].json()))}


def test_wrong_tables_keep_all_waiting(serving, call, fitted):
    """Without the check, somebody unknown would come to an end while others wait."""
    table = fitted / "people.csv"
    hidden = table.rename(table.with_suffix(".hidden"))
    try:
        for who in (UNKNOWN, KNOWN):  # one after the other: each a pass of its own
            made = ask(call, who)
            call("officer", "POST", "/v1/stores/people/run")
            serving.run()
            status = call("officer", "GET", f"/v1/requests/{made.json()['id']}").json()["status"]
            assert status == "waiting"
    finally:
        hidden.rename(table)
