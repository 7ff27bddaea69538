"""The page by its answers alone: sessions, forms, who may do what, and what is written where."""

import asyncio
import html
import math
import re
import time

import httpx
import pytest

from desk.refit.tables import make_rows, write
from pilu.desk.desk import Desk
from pilu.service import tokens
from pilu.service.asgi import make_app
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.page_views import words_of_quote
from pilu.service.work import work

HOSTILE = "<script>alert(1)</script>"
COLUMNS = {"target": "y", "subject": "person", "id": "row", "ignore": ["weight"]}


class Visitor:
    """Somebody with a browser that runs no scripts and remembers every address."""

    def __init__(self, app, runner):
        self.runner, self.addresses = runner, []
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://pilu.test"
        )

    def get(self, path):
        return self._sent("GET", path)

    def post(self, path, headers=None, **form):
        return self._sent("POST", path, data=form, headers=headers)

    def submit(self, path, **form):
        """A form as the page has it, with the key of the session."""
        return self.post(path, form_key=self.key, **form)

    def log_in(self, token):
        answer = self.post("/login", token=token)
        assert (answer.status_code, answer.headers["location"]) == (303, "/stores")
        self.key = field(self.get("/stores"), "form_key")
        return answer

    def _sent(self, method, path, **what):
        answer = self.runner.run(self.client.request(method, path, **what))
        self.addresses += [str(answer.url), answer.headers.get("location", "")]
        return answer


def field(answer, name):
    return html.unescape(re.search(f'name="{name}" value="([^"]*)"', answer.text)[1])


def words(answer):
    """The text of a page, without tags."""
    text = re.sub(r"<[^>]+>", " ", answer.text.partition("<main")[2])
    return " ".join(html.unescape(text).split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a store, made once; `Configuration` of the service, and tokens by role."""
    folder = tmp_path_factory.mktemp("stores")
    rows = make_rows(60)
    for row in rows[:2]:
        row["person"] = HOSTILE
    table = write(rows, tmp_path_factory.mktemp("tables") / "people.csv")
    with Desk.fit(folder / "people", table, **COLUMNS):
        pass
    configuration = Configuration(folder, answers_every=0)
    configuration.own.mkdir()
    database = open_database(configuration.where)
    with database.writing() as tx:
        texts = {role: tokens.add_token(tx, f"the {role}", role)[1] for role in tokens.ROLES}
    database.close()
    return configuration, texts


@pytest.fixture(scope="module")
def app(made):
    app = make_app(made[0], work=False)
    yield app
    app.app.state.service.close()


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def visitor(app, runner):
    return Visitor(app, runner)


@pytest.fixture
def officer(visitor, made):
    visitor.log_in(made[1]["officer"])
    return visitor


@pytest.fixture
def auditor(visitor, made):
    visitor.log_in(made[1]["auditor"])
    return visitor


# Sessions


def test_nobody_sees_anything_without_a_login(visitor):
    for path in (
        "/",
        "/stores",
        "/stores/people",
        "/stores/people/report",
        "/tokens",
        "/requests/x",
    ):
        answer = visitor.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")
    assert visitor.get("/stores/people").headers["location"] == "/login?then=/stores/people"
    for path in ("/stores/people/person", "/stores/people/requests", "/tokens", "/logout"):
        assert visitor.post(path, subject="person 3").headers["location"] == "/login"


def test_the_cookie_is_for_this_site_alone(visitor, made, runner):
    cookie = visitor.log_in(made[1]["officer"]).headers["set-cookie"].lower()
    assert cookie.startswith("pilu_session=")
    for flag in ("httponly", "samesite=strict", "path=/", f"max-age={int(tokens.SESSION)}"):
        assert flag in cookie
    assert "secure" not in cookie
    assert made[1]["officer"] not in cookie

    app = make_app(made[0], secure=True, work=False)
    secure = Visitor(app, runner).post("/login", token=made[1]["officer"])
    assert "secure" in secure.headers["set-cookie"].lower()
    app.app.state.service.close()


def test_a_wrong_token_is_told_so_plainly(visitor, made):
    answer = visitor.post("/login", token="pilu_0_0")
    assert answer.status_code == 401
    assert "not known, has expired, or was revoked" in words(answer)
    assert "set-cookie" not in answer.headers
    for role in ("requester", "predictor"):
        answer = visitor.post("/login", token=made[1][role])
        assert answer.status_code == 403
        assert f"one of a {role}" in words(answer)
        assert "set-cookie" not in answer.headers


def test_the_login_leads_back_but_never_away(visitor, made):
    page = visitor.get("/login?then=/requests/abc")
    assert field(page, "then") == "/requests/abc"
    for evil in (
        "https://evil.test",
        "//evil.test",
        "/stores\\evil",
        "/login",
        "javascript:alert(1)",
    ):
        answer = visitor.post("/login", token=made[1]["officer"], then=evil)
        assert answer.headers["location"] == "/stores"
    answer = visitor.post("/login", {"origin": "https://evil.test"}, token=made[1]["officer"])
    assert answer.status_code == 403


def test_logging_out_ends_the_session_also_for_who_kept_the_cookie(officer):
    kept = dict(officer.client.cookies)
    assert officer.submit("/logout").headers["location"] == "/login"
    officer.client.cookies.update(kept)
    assert officer.get("/stores").status_code == 303


def test_a_session_expires(officer, app):
    assert officer.get("/stores").status_code == 200
    with app.app.state.service.database.writing() as tx:
        tx.run("UPDATE sessions SET expires = ?", time.time() - 1)
    assert officer.get("/stores").status_code == 303


def test_revoking_a_token_ends_its_sessions(officer, app):
    made = officer.submit("/tokens", name="Eve <b>", role="auditor", days="30")
    assert made.status_code == 201
    text = re.search(r"pilu_[0-9a-f]+_[0-9a-f]{64}", made.text)[0]
    number = text.split("_")[1]
    assert "Eve <b>" in words(made)
    assert text not in officer.get("/tokens").text
    eve = Visitor(app, officer.runner)
    eve.log_in(text)
    assert "Revoke the token of" in words(officer.get(f"/tokens/{number}/revoke"))
    answer = officer.submit(f"/tokens/{number}/revoke")
    assert answer.headers["location"] == "/tokens?said=revoked"
    assert eve.get("/stores").status_code == 303
    assert officer.submit(f"/tokens/{number}/revoke").status_code == 404


# Forms

POSTS = {
    "/stores/people/person": {"subject": "person 3"},
    "/stores/people/quote": {"subject": "person 3"},
    "/stores/people/forget": {"subject": "person 3"},
    "/stores/people/requests": {"subject": "person 3", "key": "12345678", "when": "now"},
    "/stores/people/run": {},
    "/requests/x/cancel": {},
    "/requests/x/letter": {},
    "/tokens": {"name": "Eve", "role": "officer", "days": "365"},
    "/tokens/x/revoke": {},
    "/logout": {},
}


@pytest.mark.parametrize("path", POSTS)
def test_every_form_needs_the_key_of_its_session(officer, app, path):
    before = counts(app)
    for key in ("", "wrong", "ü" * 22):
        answer = officer.post(path, form_key=key, **POSTS[path])
        assert answer.status_code == 403
        assert "not from this session" in words(answer)
    assert officer.post(path, **POSTS[path]).status_code == 403
    for origin in ("https://evil.test", "null", "http://pilu.test:81"):
        foreign = officer.post(path, {"origin": origin}, form_key=officer.key, **POSTS[path])
        assert foreign.status_code == 403
    assert counts(app) == before
    assert officer.get("/stores").status_code == 200


@pytest.mark.parametrize("path", sorted({*POSTS} - {"/logout"}))
def test_an_auditor_changes_nothing_and_sees_no_names(auditor, app, path):
    before = counts(app)
    answer = auditor.submit(path, **POSTS[path])
    assert answer.status_code == 403
    assert "only an officer" in words(answer).lower()
    assert counts(app) == before


def counts(app):
    with app.app.state.service.database.reading() as tx:
        return [
            tx.number(f"SELECT COUNT(*) FROM {name}") for name in ("requests", "tokens", "audit")
        ]


def test_an_auditor_reads_and_has_no_buttons_to_change_things(auditor):
    page = auditor.get("/stores/people")
    assert page.status_code == 200
    posts = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', page.text)
    assert posts == ["/logout"]
    for absent in ("/run", "/cancel", "/tokens", "Find a person"):
        assert absent not in page.text
    for path in ("/tokens", "/stores/people/run", "/stores/people/person"):
        assert auditor.get(path).status_code == 403


# People


def test_a_person_is_found_quoted_and_forgotten(officer, made, app, tmp_path):
    found = officer.submit("/stores/people/person", subject="person 5")
    assert "In the model, with 2 rows." in words(found)
    assert "Not in the model." in words(officer.submit("/stores/people/person", subject="Nobody"))
    quoted = officer.submit("/stores/people/quote", subject="person 5")
    assert quoted.status_code == 200
    assert re.search(r"would (go from|stay at) [0-9.]+", words(quoted))
    assert "epsilon = " in words(quoted)
    asked = officer.submit("/stores/people/forget", subject="person 5")
    assert "Forget all 2 rows of person 5 ?" in words(asked)
    assert "This cannot be undone." in words(asked)
    form = {"subject": "person 5", "key": field(asked, "key"), "when": "now"}
    answers = [officer.submit("/stores/people/requests", **form) for _ in range(2)]
    (address,) = {answer.headers["location"] for answer in answers}  # sent twice, made once
    assert "about to be carried out" in words(officer.get(address))
    assert 'data-busy="yes"' in officer.get(address).text
    assert work(made[0]).ended == 1
    done = officer.get(address)
    assert "The person was forgotten." in words(done)
    assert 'data-busy="no"' in done.text
    receipt = officer.get(f"{address}/receipt")
    assert receipt.headers["content-disposition"].startswith("attachment; filename")
    assert receipt.json()["schema"].startswith("pilu.receipt")
    letter = officer.submit(f"{address}/letter", name=HOSTILE, format="html")
    assert letter.headers["content-disposition"].startswith("attachment; filename")
    assert html.escape(HOSTILE) in letter.text
    assert HOSTILE not in letter.text
    again = officer.submit("/stores/people/person", subject="person 5")
    assert "Forgotten. The model has no row of this person." in words(again)
    store = officer.get("/stores/people")
    assert f'{address}/receipt"' in store.text
    assert 'role="img"' in store.text
    assert not [url for url in officer.addresses if "person%205" in url or "person 5" in url]
    assert "person 5" not in "".join(
        officer.get(path).text for path in ("/stores", "/stores/people", address)
    )


def test_a_quote_of_a_chain_is_told_by_its_budget():
    quote = {"metric": None, "before": None, "after": None, "how": None, "seconds": 75.2}
    told = " ".join(words_of_quote({**quote, "epsilon": 0.25, "delta": None}))
    assert "cost epsilon = 0.25 of the store's budget" in told
    assert "took 75 seconds" in told
    assert "No finite epsilon" in words_of_quote({**quote, "epsilon": math.inf, "delta": None})[0]
    promise = words_of_quote({**quote, "epsilon": 1.0, "delta": 0.0})[1]
    assert "right at most 73.2 % of the time" in promise  # 1 / (1 + 1 / e), rounded up


def test_a_hostile_name_is_text(officer):
    for page in ("person", "forget"):
        answer = officer.submit(f"/stores/people/{page}", subject=HOSTILE)
        assert answer.status_code == 200
        assert HOSTILE not in answer.text
        assert html.escape(HOSTILE) in answer.text
    form = {"subject": HOSTILE, "key": "a key of ours", "when": "tonight"}
    address = officer.submit("/stores/people/requests", **form).headers["location"]
    assert "script" not in address
    assert "Waits It is carried out at 20" in words(officer.get(address))
    waits = officer.submit("/stores/people/person", subject=HOSTILE)
    assert "waits already" in words(waits)
    assert address in waits.text
    assert "Cancel this request?" in words(officer.get(f"{address}/cancel"))
    assert officer.submit(f"{address}/cancel").status_code == 303
    assert "cancelled" in words(officer.get(address))
    assert officer.submit(f"{address}/cancel").status_code == 409


def test_what_waits_is_carried_out_when_somebody_says_so(officer, app):
    form = {"subject": "person 9", "key": "another key", "when": "tonight"}
    address = officer.submit("/stores/people/requests", **form).headers["location"]
    assert "Carry out 1 request now?" in words(officer.get("/stores/people/run"))
    answer = officer.submit("/stores/people/run")
    assert "You asked to carry out now" in words(officer.get(answer.headers["location"]))
    assert "about to be carried out" in words(officer.get(address))
    officer.submit(f"{address}/cancel")


# The log


def test_the_log_says_whether_it_has_only_grown(auditor, made):
    with Desk.open(made[0].stores / "people") as desk:
        noted = str(desk.log().head)
        desk.note_once({"kind": "release", "grid": 0.5}, "grid")
    page = auditor.get(f"/stores/people?since={noted}")
    assert "Yes. The log has only grown since that head" in words(page)
    assert "1 entry came after it" in words(page)
    proof = auditor.get(f"/stores/people/proof?since={noted}")
    assert proof.json()["older"] == noted
    size, _, root = noted.partition(":")
    for forged in (f"{size}:{root[:-1]}{'0' if root[-1] != '0' else '1'}", f"999:{root}"):
        page = auditor.get(f"/stores/people?since={forged}")
        assert page.status_code == 200
        assert "No. This log does not continue" in words(page)
        assert "Yes." not in words(page)
    assert "This is not a head." in words(auditor.get("/stores/people?since=abc"))


# Errors and files


def test_errors_are_pages_in_plain_words(officer):
    for path, status in (
        ("/stores/nowhere", 404),
        ("/requests/nothing", 404),
        ("/requests/nothing/receipt", 404),
        ("/static/page_routes.py", 404),
        ("/stores/people?since=" + 300 * "x", 422),
        ("/stores/..%2f..", 404),
    ):
        answer = officer.get(path)
        assert answer.status_code == status, path
        if "%2f" not in path:
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert "Traceback" not in answer.text
    assert officer.submit("/stores/people/person").status_code == 422


def test_a_bug_is_a_page_without_its_trace(officer, monkeypatch):
    def broken(*_):
        raise RuntimeError("secret words")

    monkeypatch.setattr("pilu.service.page_views.views_of_stores", broken)
    answer = officer.get("/stores")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "error inside of the service" in words(answer)


def test_the_policy_lets_scripts_come_from_here_alone(officer):
    page = officer.get("/stores/people")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=", page.text.partition("<svg")[0])
    assert not re.findall(r'(?:href|src|action)="(?:https?:)?//', page.text)
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text):
        file = officer.get(path)
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-type"].partition(";")[0] in ("text/css", "text/javascript")
        assert file.headers["x-content-type-options"] == "nosniff"


def test_the_report_has_a_policy_of_its_own(auditor):
    page = auditor.get("/stores/people/report")
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    )
    assert "Deletion report" in page.text
