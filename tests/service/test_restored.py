"""A store is put back from an old backup: the service forgets again whom it had forgotten since."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from desk.refit.conftest import COLUMNS
from desk.refit.tables import desk_scores, make_rows, plain_scores, write
from pilu.cli.app import app
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import check_signature, make_keys
from pilu.service.configuration import Configuration

FAR = 0.012  # of a score: farther than the noise, nearer than a person
WHO = ["person 3", "person 11", "person 20"]
REQUESTS = "/v1/stores/people/requests"
# Whether the second forgetting has the number in the log that the first one had.
BETWEEN, IDS = [(), ("person 7",)], ["at the same place", "at another place"]


def pilu(line, code=0):
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if "--json" in line else done.output


def keyed(name, store):
    key = (store / "key").read_bytes()
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).digest()


def array(store, name):
    (folder,) = store.glob("arrays-*")
    return np.load(folder / f"{name}.npy")


def people_in(store):
    return {row.tobytes() for row in array(store, "names_subject")}


def put_back(old, store):
    """As somebody does who knows of no command: the folder of before."""
    shutil.rmtree(store)
    shutil.copytree(old, store)


def is_without(store, who, digests, tmp_path):
    """The model, the list and every byte of the folder know nobody of them."""
    hashed = {keyed(name, store) for name in who}
    assert not people_in(store) & hashed
    assert hashed <= {row.tobytes() for row in array(store, "suppressed")}
    for path in store.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(name.encode() in content for name in who), path
        assert not any(d in content or d.hex().encode() in content for d in digests), path
    rows, at = [row for row in make_rows(60) if row["person"] not in who], make_rows(20, 99)
    with Desk.open(store) as desk:
        check_store(desk, table=desk.tables()[0])
        found = desk_scores(desk, at, tmp_path)
    np.testing.assert_allclose(found, plain_scores(rows, at), atol=FAR, rtol=0)


def digests_of(who, store):
    hashed = {keyed(name, store) for name in who}
    at = [row.tobytes() in hashed for row in array(store, "names_subject")]
    return [row.tobytes() for row in array(store, "digests")[at]]


@pytest.fixture
def signing(tmp_path):
    make_keys(tmp_path / "desk.key", tmp_path / "desk.pub")
    return tmp_path


@pytest.fixture
def configuration(folder, signing):
    return Configuration(folder, answers_every=0, sign=signing / "desk.key")


@pytest.fixture
def store(folder):
    return folder / "people"


def forget(call, serving, *who, path=REQUESTS):
    """By the API; the ids of the requests."""
    made = [
        call("officer", "POST", path, json={"type": "erasure", "subject": one, "now": True})
        for one in who
    ]
    assert {one.status_code for one in made} == {201}
    assert serving.run().ended == len(who)
    return [one.json()["id"] for one in made]


def test_nobody_comes_back_with_an_old_folder(serving, call, store, tmp_path):
    digests = digests_of(WHO, store)
    shutil.copytree(store, tmp_path / "old")
    forget(call, serving, *WHO)
    is_without(store, WHO, digests, tmp_path)
    put_back(tmp_path / "old", store)
    assert {keyed(name, store) for name in WHO} <= people_in(store)
    serving.run()
    is_without(store, WHO, digests, tmp_path)
    entries = pilu(f"ledger {store} --json")["entries"]
    serving.run()  # once is enough
    assert pilu(f"ledger {store} --json")["entries"] == entries
    asked = call("officer", "POST", "/v1/stores/people/access", json={"subject": WHO[0]}).json()
    assert (asked["in_the_model"], asked["forgotten"]) == (False, True)


@pytest.mark.parametrize("between", BETWEEN, ids=IDS)
def test_receipts_of_the_second_time_verify(serving, call, store, tmp_path, between):
    shutil.copytree(store, tmp_path / "old")
    if between:
        forget(call, serving, *between)
    forget(call, serving, *WHO)
    put_back(tmp_path / "old", store)
    serving.run()
    with serving.database.reading() as tx:
        kept = [Receipt.from_json(row["body"]) for row in tx.all("SELECT body FROM receipts")]
    with serving.desk() as desk:
        log = desk.log()
        true = [one for one in kept if one.is_in(log)]
        assert {one.person.name for one in true} == {
            keyed(name, store).hex() for name in (*WHO, *between)
        }
        for one in true:
            assert check_receipt(one, desk)["in_the_log_of_the_store"]
            check_signature(one, tmp_path / "desk.pub")
        assert desk.undelivered() == []


@pytest.mark.parametrize("between", BETWEEN, ids=IDS)
def test_an_officer_gets_receipts_and_letters_of_the_second_time(
    serving, call, store, tmp_path, between
):
    """What is handed out now is true of the log that there is now."""
    shutil.copytree(store, tmp_path / "old")
    if between:
        forget(call, serving, *between)
    requests = forget(call, serving, *WHO)
    put_back(tmp_path / "old", store)
    serving.run()
    for number in requests:
        text = call("officer", "GET", f"/v1/requests/{number}/receipt").text
        with serving.desk() as desk:
            assert check_receipt(Receipt.from_json(text), desk)["in_the_log_of_the_store"]
        assert call("officer", "GET", f"/v1/requests/{number}/letter").status_code == 200


@pytest.mark.parametrize("between", BETWEEN, ids=IDS)
def test_who_asks_once_more_gets_a_receipt_of_the_second_time(
    serving, call, store, tmp_path, between
):
    shutil.copytree(store, tmp_path / "old")
    if between:
        forget(call, serving, *between)
    forget(call, serving, *WHO)
    put_back(tmp_path / "old", store)
    serving.run()
    made = call("requester", "POST", REQUESTS, json={"type": "erasure", "subject": WHO[0]}).json()
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    told = call("officer", "GET", f"/v1/requests/{made['id']}").json()
    assert told["outcome"] == "forgotten before"
    text = call("officer", "GET", f"/v1/requests/{made['id']}/receipt").text
    with serving.desk() as desk:
        assert check_receipt(Receipt.from_json(text), desk)["in_the_log_of_the_store"]


def test_who_came_back_is_not_forgotten_again(serving, call, store, tmp_path):
    """The log of the restored store has it that they were forgotten, and that they returned."""
    forget(call, serving, *WHO[:2])
    rows = [row | {"row": f"again {k}"} for k, row in enumerate(make_rows(60)[6:8])]
    with serving.desk() as desk:
        desk.add(write(rows, tmp_path / "back.csv"), returned=[WHO[0]])
    shutil.copytree(store, tmp_path / "old")
    forget(call, serving, WHO[2])
    put_back(tmp_path / "old", store)
    serving.run()
    there = people_in(store)
    assert keyed(WHO[0], store) in there
    assert not {keyed(name, store) for name in WHO[1:]} & there
    assert len(there) == 28


def test_a_request_that_waits_is_carried_out_in_what_was_put_back(serving, call, store, tmp_path):
    digests = digests_of(WHO, store)
    shutil.copytree(store, tmp_path / "old")
    forget(call, serving, *WHO[:2])
    made = call("officer", "POST", REQUESTS, json={"type": "erasure", "subject": WHO[2]}).json()
    put_back(tmp_path / "old", store)
    call("officer", "POST", "/v1/stores/people/run")
    serving.run()
    assert call("officer", "GET", f"/v1/requests/{made['id']}").json()["outcome"] == "forgotten"
    is_without(store, WHO, digests, tmp_path)


def test_rows_that_were_erased_since_do_not_stop_it(serving, call, folder, tmp_path):
    """The usual order: the person is forgotten, then the table is rewritten without them."""
    table = write(make_rows(60), tmp_path / "own.csv")
    store = folder / "mine"
    with Desk.fit(store, table, **COLUMNS):
        pass
    digests = digests_of(WHO, store)
    shutil.copytree(store, tmp_path / "old")
    forget(call, serving, *WHO, path="/v1/stores/mine/requests")
    write([row for row in make_rows(60) if row["person"] not in WHO], table)
    put_back(tmp_path / "old", store)
    serving.run()
    is_without(store, WHO, digests, tmp_path)


def test_rows_that_came_over_http_since_are_not_lost(serving, call, store, tmp_path):
    """They are nowhere else: as long as the model lacks them, their file must stay."""
    shutil.copytree(store, tmp_path / "old")
    rows = json.loads(json.dumps(make_rows(2, first=60), default=str))
    made = call("officer", "POST", REQUESTS, json={"type": "addition", "rows": rows, "now": True})
    serving.run()
    assert (
        call("officer", "GET", f"/v1/requests/{made.json()['id']}").json()["outcome"] == "learned"
    )
    (file,) = (store.parent / ".service" / "rows" / "people").glob("*.parquet")
    put_back(tmp_path / "old", store)
    os.utime(file, (0, 0))
    serving.run()
    assert file.exists() or keyed("person 30", store) in people_in(store)


# By the commands


def test_restore_by_the_service_s_database(serving, call, store, tmp_path):
    digests = digests_of(WHO, store)
    pilu(f"backup {store} --out {tmp_path / 'people.tar'}")
    forget(call, serving, *WHO)
    shutil.rmtree(store)
    where = serving.configuration.where
    said = pilu(f"restore {tmp_path / 'people.tar'} --out {store} --forgotten {where} --json")
    assert said["forgotten_again"] == 3
    is_without(store, WHO, digests, tmp_path)
    # The service takes over the receipts that wait, and has nothing more to do.
    assert len(said["undelivered"]) == 1
    before = array(store, "released").tobytes()
    serving.run()
    assert array(store, "released").tobytes() == before
    with serving.desk() as desk:
        assert desk.undelivered() == []
        assert sum(entry.kind == "unlearn" for entry in desk.log().entries) == 1
    with serving.database.reading() as tx:
        kept = [Receipt.from_json(row["body"]) for row in tx.all("SELECT body FROM receipts")]
    with serving.desk() as desk:
        assert sum(one.is_in(desk.log()) for one in kept) == 3


def test_a_database_that_knows_nothing_of_the_store_is_refused(serving, store, tmp_path):
    pilu(f"backup {store} --out {tmp_path / 'people.tar'}")
    where = serving.configuration.where
    error = pilu(
        f"restore {tmp_path / 'people.tar'} --out {tmp_path / 'new'} --forgotten {where}", 2
    )
    assert "knows nobody who was forgotten" in error
    assert not (tmp_path / "new").exists()


def test_the_service_serves_what_was_restored_while_it_ran(serving, call, store, tmp_path):
    """Logs and people are read from the new folder, not from what is remembered of the old one."""
    pilu(f"backup {store} --out {tmp_path / 'people.tar'}")
    forget(call, serving, *WHO)
    seen = call("officer", "GET", "/v1/stores/people").json()
    assert seen["n_people_forgotten"] == 3
    os.rename(store, tmp_path / "away")
    line = f"restore {tmp_path / 'people.tar'} --out {store} --forgotten {tmp_path / 'away'}"
    head = pilu(f"{line} --json")["head"]
    seen = call("officer", "GET", "/v1/stores/people").json()
    assert (seen["head"], seen["n_people_forgotten"], seen["n_rows"]) == (head, 3, 54)
