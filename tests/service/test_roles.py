"""Who may do what: every endpoint, every role, by a table that was written by hand."""

import hashlib
import time

import pytest

from pilu.service import tokens
from pilu.service.database import open_database

S = "/v1/stores/people"
ASK, ALL, SEE, USE = "requester", "officer", "auditor", "predictor"
# Every call of the API, and who may make it; what else may be wrong with it does not matter here.
TABLE = [
    ("POST", f"{S}/requests", {ASK, ALL}),
    ("GET", f"{S}/requests", {ALL, SEE}),
    ("GET", "/v1/requests/x", {ASK, ALL, SEE}),
    ("DELETE", "/v1/requests/x", {ASK, ALL}),
    ("GET", "/v1/requests/x/receipt", {ALL, SEE}),
    ("GET", "/v1/requests/x/letter", {ALL}),
    ("GET", "/v1/requests/x/answer", {ALL}),
    ("GET", "/v1/stores", {ALL, SEE}),
    ("GET", S, {ALL, SEE}),
    ("POST", f"{S}/quote", {ALL}),
    ("POST", f"{S}/access", {ALL}),
    ("POST", f"{S}/run", {ALL}),
    ("GET", f"{S}/ledger", {ALL, SEE}),
    ("GET", f"{S}/ledger/proof", {ALL, SEE}),
    ("POST", f"{S}/predict", {ALL, USE}),
    ("GET", "/v1/tokens", {ALL}),
    ("POST", "/v1/tokens", {ALL}),
    ("DELETE", "/v1/tokens/x", {ALL}),
    ("GET", "/metrics", {ALL, SEE}),
    ("GET", "/opendsr/v2/people/discovery", {ASK, ALL}),
    ("POST", "/opendsr/v2/people/requests", {ASK, ALL}),
    ("GET", "/opendsr/v2/people/requests/7ba47123-cfd2-4f11-a2aa-7f9bd1e40de5", {ASK, ALL}),
    ("DELETE", "/opendsr/v2/people/requests/7ba47123-cfd2-4f11-a2aa-7f9bd1e40de5", {ASK, ALL}),
]
OPEN = {"/health", "/ready", "/v1/callback-key", "/opendsr/v2/certificate"}


@pytest.mark.parametrize(("method", "path", "allowed"), TABLE)
def test_only_some_roles_may_call(call, method, path, allowed):
    for role in tokens.ROLES:
        refused = call(role, method, path).status_code == 403
        assert refused == (role not in allowed), role
    for token in (None, "pilu_x_y", "nonsense"):
        answer = call(token, method, path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_table_has_every_endpoint(serving):
    document = serving.app.app.openapi()
    there = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path not in OPEN
    }
    assert len(there) == len(TABLE)
    for method, path in there:
        shape = [part if "{" not in part else None for part in path.split("/")]
        assert any(
            method == known
            and len(given.split("/")) == len(shape)
            and all(a in (None, b) for a, b in zip(shape, given.split("/"), strict=True))
            for known, given, _ in TABLE
        ), path


def test_open_endpoints_name_nothing(call):
    for path in OPEN:
        answer = call(None, "GET", path)
        assert answer.status_code == 200
        assert "people" not in answer.text


def test_tokens_are_kept_as_salted_hashes(serving):
    with serving.database.reading() as tx:
        rows = [dict(row) for row in tx.all("SELECT * FROM tokens")]
    for role, text in serving.tokens.items():
        _, number, secret = text.split("_")
        (row,) = [one for one in rows if one["id"] == number]
        assert row["role"] == role
        assert all(secret not in str(value) for value in row.values())
        assert row["hash"] == hashlib.sha256(f"{row['salt']}:{secret}".encode()).hexdigest()
    assert len({row["salt"] for row in rows}) == len(rows)
    held = b"".join(path.read_bytes() for path in serving.configuration.own.glob("service.sqlite*"))
    assert all(text.split("_")[2].encode() not in held for text in serving.tokens.values())


def test_a_token_ends(serving, call):
    with serving.database.writing() as tx:
        number, text = tokens.add_token(tx, "short", "auditor", days=1)
    assert call(text, "GET", "/v1/stores").status_code == 200
    with serving.database.writing() as tx:
        tx.run("UPDATE tokens SET expires = ? WHERE id = ?", time.time() - 1, number)
    assert call(text, "GET", "/v1/stores").status_code == 401


def test_a_token_is_revoked_at_once(serving, call):
    made = call("officer", "POST", "/v1/tokens", json={"name": "new", "role": "auditor"}).json()
    assert call(made["token"], "GET", "/v1/stores").status_code == 200
    assert call("officer", "DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert call(made["token"], "GET", "/v1/stores").status_code == 401
    assert call("officer", "DELETE", f"/v1/tokens/{made['id']}").status_code == 404
    listed = call("officer", "GET", "/v1/tokens").json()["tokens"]
    assert made["token"].split("_")[2] not in str(listed)
    serving.run()
    with serving.desk() as desk:
        said = str([entry.record for entry in desk.log().entries if entry.kind == "audit"])
    assert f"made the token {made['id']} (auditor)" in said
    assert f"revoked the token {made['id']}" in said


@pytest.mark.parametrize("change", [lambda t: t[:-1] + "0", lambda t: t.upper(), lambda t: t + "0"])
def test_a_forged_token_is_refused(serving, call, change):
    text = serving.tokens["officer"]
    forged = change(text)
    if forged == text:
        forged = text[:-1] + "1"
    assert call(forged, "GET", "/v1/stores").status_code == 401


def test_requesters_see_only_their_own(serving, call):
    with serving.database.writing() as tx:
        other = tokens.add_token(tx, "other", "requester")[1]
    made = call("requester", "POST", f"{S}/requests", json={"type": "erasure", "subject": "a"})
    path = f"/v1/requests/{made.json()['id']}"
    assert call("requester", "GET", path).status_code == 200
    assert call(other, "GET", path).status_code == 404
    assert call(other, "DELETE", path).status_code == 404
    absent = call(other, "GET", "/v1/requests/5c05c999-d265-40e2-9b39-26c287031311").json()
    assert call(other, "GET", path).json() == absent


def test_a_token_may_not_call_faster_than_its_rate(serving, call):
    with serving.database.writing() as tx:
        slow = tokens.add_token(tx, "slow", "auditor", per_second=1)[1]
    answers = [call(slow, "GET", "/v1/stores") for _ in range(5)]
    codes = [one.status_code for one in answers]
    assert codes[0] == 200
    assert codes[-1] == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert call("auditor", "GET", "/v1/stores").status_code == 200


def test_what_a_requester_may_not_ask_for(call):
    for content in (
        {"type": "erasure", "subject": "a", "now": True},
        {"type": "addition", "rows": [{"a": 1}]},
        {"type": "rectification", "rows": [{"a": 1}]},
    ):
        assert call("requester", "POST", f"{S}/requests", json=content).status_code == 403


def test_tokens_survive_a_restart(serving):
    again = open_database(serving.configuration.where)
    try:
        found = tokens.caller_of(again, serving.tokens["officer"])
    finally:
        again.close()
    assert (found.role, found.name) == ("officer", "officer")
