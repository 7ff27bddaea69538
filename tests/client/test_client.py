"""Every method against the real service."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

import pilu.client.client
from desk.refit.tables import frame, make_rows, plain_model
from pilu.client import NotEnded, ServiceError, SomeRefused
from pilu.client.messages import RequestDetails, RequestState
from pilu.desk.checking import check_receipt
from pilu.desk.desk import Desk
from pilu.exceptions import WrongArgument, WrongInput

STORE = "customers"
COLUMNS_OF_ROWS = ("row", "person", "age", "income", "since", "city", "said", "y")


def rows_of(rows, leave_out=()):
    """Rows as a user has them: dates as dates, nothing that the store does not know."""
    names = [name for name in COLUMNS_OF_ROWS if name not in leave_out]
    return [{name: row[name] for name in names} for row in rows]


def test_forgetting_from_the_request_to_the_letter(served, officer):
    due = date.today() + timedelta(days=30)
    made = officer.forget(STORE, "person 3", due=due)
    assert isinstance(made, RequestDetails)
    assert (made.type, made.status, made.due, made.has_receipt) == (
        "erasure",
        "waiting",
        due,
        False,
    )
    assert officer.state(made.id) == made
    assert officer.find(STORE, "person 3").waiting

    with pytest.raises(NotEnded, match=f"request {made.id} must have ended within 0.05 s, got 'wa"):
        officer.wait(made.id, timeout=0.05, every=0.01)
    assert officer.run(STORE).n_due >= 1
    assert served.work().ended >= 1
    ended = officer.wait(made.id, timeout=1.0)
    assert (ended.status, ended.outcome, ended.has_receipt) == ("completed", "forgotten", True)

    receipt = officer.receipt(made.id)
    with Desk.open(served.configuration.stores / STORE) as desk:
        checks = check_receipt(receipt, desk)
    assert checks["in_the_log_of_the_store"]
    assert checks["person_is_among_those_of_the_entry"]
    assert receipt.to_json() == officer.receipt_text(made.id)
    assert receipt.place == ended.entry

    found = officer.find(STORE, "person 3")
    assert (found.in_the_model, found.forgotten, found.n_rows) == (False, True, 0)
    letter = officer.letter(made.id, "txt", name="Ms Meier", company="Example AG")
    assert "Ms Meier" in letter


def test_access_and_an_answer(served, officer):
    asker = served.client("requester")
    made = asker.ask_for_access(STORE, "person 4")
    assert type(made) is RequestState  # a requester learns no more
    served.work()
    assert asker.wait(made.id, timeout=1.0).status == "completed"
    answer = officer.answer(made.id)
    assert (answer.in_the_model, answer.n_rows) == (True, 2)
    with pytest.raises(ServiceError, match="may not do this") as refused:
        asker.answer(made.id)
    assert refused.value.status == 403


def test_adding_and_correcting_rows(served, officer):
    new = rows_of(make_rows(2, first=100))
    added = officer.add(STORE, new, now=True)
    served.work()
    state = officer.wait(added.id, timeout=1.0)
    assert (state.status, state.outcome) == ("completed", "learned"), state.problem
    assert officer.find(STORE, "person 50").n_rows == 2

    new[0]["age"] += 1
    corrected = officer.correct(STORE, pd.DataFrame(new[:1]), now=True)
    served.work()
    state = officer.wait(corrected.id, timeout=1.0)
    assert (state.status, state.outcome) == ("completed", "corrected"), state.problem
    assert check_receipt(officer.receipt(corrected.id))["in_the_log_of_its_head"]


def test_predictions_are_those_of_the_model_from_rows_and_from_a_frame(fresh, monkeypatch):
    officer = fresh.client()
    rows = make_rows(60)
    others = make_rows(9, first=200)
    model = plain_model(words=True, target="class")
    model.fit(frame(rows), np.array([row["y"] for row in rows]))
    expected = model.predict(frame(others)).tolist()
    given = rows_of(others, ("row", "person", "y"))

    assert officer.predict(STORE, given).predictions == expected
    table = pd.DataFrame(given)
    assert table["income"].isna().any() or table["city"].isna().any()
    assert officer.predict(STORE, table).predictions == expected
    dated = table.assign(since=pd.to_datetime(table["since"]), age=table["age"].astype("Int64"))
    assert officer.predict(STORE, dated).predictions == expected
    numpy = [{**row, "age": np.int64(row["age"])} for row in given]
    said = fresh.client("predictor").predict(STORE, numpy, probabilities=True)
    shares = [[one[c] for c in ("no", "yes")] for one in said.probabilities]
    # The release has noise.
    np.testing.assert_allclose(shares, model.predict_proba(frame(others)), rtol=0, atol=0.003)

    monkeypatch.setattr(pilu.client.client, "_TOGETHER", 4)  # rows in one call
    assert officer.predict(STORE, given, probabilities=True) == said


def test_rows_that_cannot_be_sent_are_refused_before_they_are(officer):
    for rows, words in (
        ([{"age": float("inf")}], "column 'age' must have finite numbers, got inf"),
        ([{"age": 1j}], "column 'age' must have numbers, texts or dates, got complex"),
        (["age"], "rows must be dictionaries"),
        ([], "the call has a problem: rows: list should have at least 1 item"),
    ):
        with pytest.raises(WrongInput, match=words):
            officer.predict(STORE, rows)


def test_quotes_stores_ledger_and_proofs(fresh):
    officer = fresh.client()
    (store,) = officer.stores()
    assert store == officer.store(STORE)
    assert (store.method, store.n_rows, store.entries) == ("refit", 60, 1)
    quote = officer.quote(STORE, ["person 1", "person 2", "person 1"])
    assert (quote.n_people, quote.n_rows) == (2, 4)
    assert officer.store(STORE).head == store.head

    officer.forget(STORE, "person 1", now=True)
    fresh.work()
    auditor = fresh.client("auditor")
    page = auditor.ledger(STORE, since=store.head, last=1)
    assert page.grown
    assert len(page.entries) == 1
    assert auditor.ledger(STORE).grown is None
    grown, placed = auditor.proof(STORE, since=store.head), auditor.proof(STORE, entry=0)
    assert grown != placed
    for given in ({}, {"since": store.head, "entry": 0}):
        with pytest.raises(WrongInput, match="exactly one of since and entry"):
            auditor.proof(STORE, **given)
    with pytest.raises(ServiceError) as refused:
        auditor.ledger(STORE, since=store.head[:-1] + ("0" if store.head[-1] != "0" else "1"))
    assert refused.value.status == 409


def test_requests_come_in_pages_the_newest_first(officer):
    made = [officer.ask_for_access(STORE, f"person {i}").id for i in range(102)]
    officer.cancel(made[7])
    listed = [one.id for one in officer.requests(STORE)]
    assert listed[:102] == made[::-1]
    assert len(listed) == len(set(listed))
    assert next(officer.requests(STORE, "cancelled")).id == made[7]


def test_cancelling_twice_is_cancelling_once(served, officer):
    made = officer.forget(STORE, "person 10")
    assert officer.cancel(made.id).status == "cancelled"
    assert officer.cancel(made.id).status == "cancelled"
    done = officer.forget(STORE, "person 11", now=True)
    served.work()
    with pytest.raises(ServiceError, match="cannot be cancelled any more") as refused:
        officer.cancel(done.id)
    assert refused.value.status == 409


def test_many_people_under_one_key_are_asked_for_once(served, officer):
    asker = served.client("requester")
    people, before = [f"person {i}" for i in range(20, 26)], len(list(officer.requests(STORE)))
    first = asker.forget_many(STORE, people[:4], key="list of May 2")  # then it crashed
    again = asker.forget_many(STORE, [*people, people[0]], key="list of May 2")
    assert list(again) == people
    assert {name: again[name].id for name in people[:4]} == {n: s.id for n, s in first.items()}
    assert len(list(officer.requests(STORE))) == before + 6
    other = asker.forget_many(STORE, people[:1], key="list of June 2")
    assert other[people[0]].id != first[people[0]].id


def test_one_unknown_person_does_not_stop_the_others(officer):
    with pytest.raises(SomeRefused, match="1 of 3 requests were refused") as some:
        officer.forget_many(STORE, ["person 26", "nobody", "person 27"], key="a list")
    assert list(some.value.made) == ["person 26", "person 27"]
    assert some.value.refused["nobody"].status == 422
    assert "nobody" not in str(some.value)


def test_tokens_are_made_listed_and_revoked(served, officer):
    made = officer.add_token("a scheduler", "requester", days=7, per_second=5)
    assert (made.role, made.per_second) == ("requester", 5.0)
    assert made.token.startswith("pilu_")
    assert made.id in [one.id for one in officer.tokens()]
    officer.revoke_token(made.id)
    officer.revoke_token(made.id)  # as after a lost answer
    (found,) = [one for one in officer.tokens() if one.id == made.id]
    assert found.revoked is not None
    with pytest.raises(ServiceError, match="no such token"):
        officer.revoke_token("none")


def test_health_names_what_is_ill(fresh):
    officer = fresh.client()
    assert officer.health().status == "ok"
    (fresh.configuration.stores / STORE / "ledger.sqlite").write_bytes(b"not a database")
    health = officer.health()
    assert (health.status, health.problems) == ("degraded", ["a store cannot be read"])


def test_errors_are_typed_and_read_well(officer):
    with pytest.raises(ServiceError) as unknown:
        officer.forget(STORE, "nobody")
    assert unknown.value.status == unknown.value.problem.status == 422
    assert str(unknown.value) == (
        "the service refuses (422): subject must be a person of the model, got an unknown one."
    )
    with pytest.raises(ServiceError) as missing:
        officer.store("no-such-store")
    assert missing.value.status == 404
    with pytest.raises(ServiceError) as several:
        officer.ledger(STORE, last=0)
    assert several.value.errors[0]["pointer"] == "query/last"
    assert "\n- query/last: " in str(several.value)
    officer.ask_for_access(STORE, "person 1", key="k")
    with pytest.raises(ServiceError, match="one that came with other content"):
        officer.ask_for_access(STORE, "person 2", key="k")


def test_arguments_are_checked_before_anything_is_sent(officer):
    before = list(officer.requests(STORE))
    for name in ("", "..", "a/b", "a b", "a?b", "é"):
        with pytest.raises(WrongArgument, match="store must be 1 to 64 letters"):
            officer.store(name)
        with pytest.raises(WrongArgument, match="request_id must be"):
            officer.state(name)
    for key in ("", " a", "é", "a\nb", "a" * 256):
        with pytest.raises(WrongArgument, match="key must be 1 to 255 printable"):
            officer.forget(STORE, "person 1", key=key)
    with pytest.raises(WrongInput, match="the call has a problem: subject: string should") as told:
        officer.forget(STORE, "secret name" * 100)
    assert "secret name" not in str(told.value)
    with pytest.raises(WrongInput, match="callback: "):
        officer.forget(STORE, "person 1", callback="no URL")
    with pytest.raises(WrongArgument, match=r"timeout must be .* >= 0, got timeout=-1"):
        officer.wait("x", timeout=-1)
    assert list(officer.requests(STORE)) == before
