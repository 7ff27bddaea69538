"""Requests from the outside: made, carried out, answered with a receipt that verifies."""

import json
from datetime import date, timedelta

import pyarrow.parquet
import pytest

from desk.refit.tables import make_rows
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.receipt import Receipt

REQUESTS = "/v1/stores/people/requests"


def ask(call, role="officer", **content):
    headers = content.pop("headers", {})
    return call(role, "POST", REQUESTS, json={"type": "erasure", **content}, headers=headers)


def state(call, made, role="officer"):
    return call(role, "GET", f"/v1/requests/{made.json()['id']}").json()


def jsonable(rows):
    return json.loads(json.dumps(rows, default=str))


def test_a_person_is_forgotten_and_the_receipt_verifies(serving, call):
    made = ask(call, subject="person 3", now=True)
    assert made.status_code == 201
    assert made.headers["location"] == f"/v1/requests/{made.json()['id']}"
    assert made.json()["status"] == "waiting"
    assert not made.json()["has_receipt"]
    serving.run()
    ended = state(call, made)
    assert (ended["status"], ended["outcome"], ended["has_receipt"]) == (
        "completed",
        "forgotten",
        True,
    )
    text = call("officer", "GET", f"/v1/requests/{made.json()['id']}/receipt").text
    receipt = Receipt.from_json(text)
    with serving.desk() as desk:
        assert check_receipt(receipt, desk)["in_the_log_of_the_store"]
        assert receipt.person.name == desk.keyed("person 3").hex()
        assert desk.keyed("person 3") not in desk.rows_of_people()
        assert len(desk.rows_of_people()) == 29
        check_store(desk)


def test_requests_wait_for_the_night_and_are_one_change(serving, call):
    made = [ask(call, subject=f"person {k}") for k in (1, 2, 5)]
    assert not serving.run().ended
    assert {state(call, one)["status"] for one in made} == {"waiting"}
    assert call("officer", "POST", "/v1/stores/people/run").json() == {"n_due": 3}
    assert serving.run().ended == 3
    ended = [state(call, one) for one in made]
    assert {one["status"] for one in ended} == {"completed"}
    assert len({one["entry"] for one in ended}) == 1
    with serving.desk() as desk:
        kinds = [entry.kind for entry in desk.log().entries]
    assert kinds.count("unlearn") == 1


def test_one_that_is_due_takes_all_erasures_along(serving, call):
    """They are one refit: nobody is made to wait for the next one."""
    waiting = ask(call, subject="person 1")
    ask(call, subject="person 2", now=True)
    assert serving.run().ended == 2
    assert state(call, waiting)["outcome"] == "forgotten"


def test_a_due_date_before_the_night_is_kept(serving, call):
    made = ask(call, subject="person 1", due=date.today().isoformat())
    serving.run()
    assert state(call, made)["status"] == "completed"


def test_the_same_key_makes_one_request(serving, call):
    key = {"Idempotency-Key": "one"}
    first = ask(call, subject="person 1", headers=key)
    again = ask(call, subject="person 1", headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = ask(call, subject="person 2", headers=key)
    assert other.status_code == 422
    assert "idempotency key" in other.json()["detail"]
    # Another token has keys of its own.
    assert ask(call, "requester", subject="person 2", headers=key).status_code == 201
    listed = call("officer", "GET", REQUESTS).json()["requests"]
    assert len(listed) == 2


def test_a_key_holds_after_the_end(serving, call):
    """A client that repeats itself the next day is told what became of its request."""
    key = {"Idempotency-Key": "one"}
    first = ask(call, subject="person 1", now=True, headers=key)
    serving.run()
    again = ask(call, subject="person 1", now=True, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.json()["outcome"] == "forgotten"


def test_two_requests_for_a_person_have_one_receipt(serving, call):
    made = [ask(call, subject="person 1", now=True) for _ in range(2)]
    serving.run()
    ids = [one.json()["id"] for one in made]
    texts = {call("officer", "GET", f"/v1/requests/{k}/receipt").text for k in ids}
    assert len(texts) == 1
    assert "pilu.receipt" in texts.pop()


def test_officers_are_told_at_once_of_people_who_are_not_there(serving, call):
    unknown = ask(call, subject="nobody")
    assert unknown.status_code == 422
    assert "must be a person of the model" in unknown.json()["detail"]
    ask(call, subject="person 1", now=True)
    serving.run()
    assert ask(call, subject="person 1").status_code == 409


def test_cancelled_requests_are_not_carried_out(serving, call):
    made = ask(call, subject="person 1")
    gone = call("officer", "DELETE", f"/v1/requests/{made.json()['id']}")
    assert gone.json()["status"] == "cancelled"
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    with serving.desk() as desk:
        assert desk.keyed("person 1") in desk.rows_of_people()
    again = call("officer", "DELETE", f"/v1/requests/{made.json()['id']}")
    assert again.status_code == 409


@pytest.mark.parametrize(("subject", "there"), [("person 1", True), ("nobody", False)])
def test_access_is_answered_for_officers(serving, call, subject, there):
    made = call("requester", "POST", REQUESTS, json={"type": "access", "subject": subject})
    number = made.json()["id"]
    assert call("officer", "GET", f"/v1/requests/{number}/answer").status_code == 404
    serving.run()
    assert call("requester", "GET", f"/v1/requests/{number}/answer").status_code == 403
    answer = call("officer", "GET", f"/v1/requests/{number}/answer").json()
    assert (answer["in_the_model"], answer["n_rows"]) == (there, 2 * there)


def test_rows_come_and_are_corrected(serving, call):
    new = jsonable(make_rows(4, first=60))
    added = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": new, "now": True})
    assert added.status_code == 201, added.text
    old = jsonable(make_rows(60))[7] | {"income": 9.5}
    changed = call(
        "officer", "POST", REQUESTS, json={"type": "rectification", "rows": [old], "now": True}
    )
    serving.run()
    assert state(call, added)["outcome"] == "learned"
    assert state(call, changed)["outcome"] == "corrected"
    with serving.desk() as desk:
        assert desk.keyed("person 31") in desk.rows_of_people()
        assert desk.verify()["files_whole"]
        assert desk.compare().is_empty
        entries = [entry.record for entry in desk.log().entries]
    references = {one["kind"]: one["reference"] for one in entries if "reference" in one}
    assert references == {"add": added.json()["id"], "correct": changed.json()["id"]}


def test_rows_of_a_forgotten_person_leave_the_files_of_the_service(serving, call):
    new = jsonable(make_rows(4, first=60))
    call("officer", "POST", REQUESTS, json={"type": "addition", "rows": new, "now": True})
    serving.run()
    ask(call, subject="person 30", now=True)
    serving.run()
    files = list(serving.configuration.own.glob("rows/*/*.parquet"))
    assert len(files) == 1
    assert pyarrow.parquet.read_table(files[0])["person"].to_pylist() == ["person 31"] * 2
    with serving.desk() as desk:
        assert desk.compare().is_empty
    for k in (31, 2, 4):  # nobody is left in the file
        ask(call, subject=f"person {k}", now=True)
        serving.run()
    assert not files[0].exists()
    with serving.desk() as desk:
        assert len(desk.rows_of_people()) == 28
        assert len(desk.tables()) == 1
        assert desk.compare().is_empty


def test_rows_that_cannot_be_read_are_refused_with_all_problems(serving, call):
    first, second = jsonable(make_rows(2, first=60))
    first["age"], second["age"], first["since"] = "old", 3, "yesterday"
    refused = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": [first, second]})
    assert refused.status_code == 422
    said = " ".join(one["detail"] for one in refused.json()["errors"])
    assert "'age'" in said
    assert "'since'" in said
    assert not list(serving.configuration.own.glob("rows/*/*"))


def test_rows_with_an_id_that_is_known_fail_for_good(serving, call):
    rows = jsonable(make_rows(2))
    made = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": rows, "now": True})
    serving.run()
    ended = state(call, made)
    assert ended["status"] == "failed"
    assert "ids that the model knows" in ended["problem"]


def test_what_cannot_be_done_waits_and_says_why(serving, call, fitted):
    """The table is gone: nothing is lost, and the next attempt comes by itself."""
    table = fitted / "people.csv"
    hidden = table.rename(table.with_suffix(".hidden"))
    try:
        made = ask(call, subject="person 1", now=True)
        assert serving.run().put_back == 1
        waits = state(call, made)
        assert waits["status"] == "waiting"
        assert "people.csv" in waits["problem"]
        assert waits["expected"] > waits["received"]
    finally:
        hidden.rename(table)
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    assert state(call, made)["outcome"] == "forgotten"


def test_actions_are_in_the_log_once_and_without_names(serving, call):
    for k in (1, 2):
        ask(call, subject=f"person {k}", now=True)
    call("officer", "POST", "/v1/stores/people/access", json={"subject": "person 9"})
    serving.run()
    serving.run()
    with serving.desk() as desk:
        entries = [entry.record for entry in desk.log().entries if entry.kind == "audit"]
    counts = {}
    for entry in entries:
        for one in entry["actions"]:
            counts[one["action"]] = counts.get(one["action"], 0) + one["n"]
    assert counts == {"made a request: erasure": 2, "looked a person up": 1}
    assert "person" not in json.dumps([e["actions"] for e in entries]).replace("a person up", "")


def test_a_page_of_requests_follows_another(serving, call):
    made = [ask(call, subject=f"person {k}").json()["id"] for k in range(5)]
    seen, after = [], None
    while True:
        params = {"most": 2} | ({"after": after} if after else {})
        page = call("auditor", "GET", REQUESTS, params=params).json()
        seen += [one["id"] for one in page["requests"]]
        after = page["next"]
        if after is None:
            break
    assert seen == made[::-1]
    page = call("auditor", "GET", REQUESTS, params={"status": "completed"}).json()
    assert page["requests"] == []


def test_a_due_date_that_has_passed_is_refused(call):
    past = (date.today() - timedelta(days=1)).isoformat()
    refused = ask(call, subject="person 1", due=past)
    assert refused.status_code == 422
    assert "today or later" in refused.json()["detail"]
