"""What a service of an earlier commit wrote: its database, its answers, a callback.

../desk/formats/refit-4.tar.xz       805eb3a: all three, and the store
formats/service-1-first.tar.xz       c4c0dbd: a database from before version 1 was settled
"""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from pilu.client import SeenIds, check_callback, messages
from pilu.client.receiving import CallbackRefused
from pilu.desk.desk import Desk
from pilu.exceptions import DatabaseFailed
from pilu.service import database as database_module
from pilu.service import tokens
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from service.passes import a_pass

HERE = Path(__file__).parent
# Of the tables of version 1: whoever changes them raises VERSION, says how to convert, and adds an
# archive of the version before.
TABLES = {1: "e94e3d64154c5879"}


@pytest.fixture
def earlier(tmp_path):
    with tarfile.open(HERE.parent / "desk" / "formats" / "refit-4.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "refit"


def test_a_service_goes_on_with_a_database_of_version_1(earlier):
    """The erasure that waited is done, and its answer read by the token that asked."""
    configuration = Configuration(earlier / "stores", answers_every=0)
    with Desk.open(earlier / "stores" / "people") as desk:
        person = desk.keyed("person 5")
        assert person in desk.rows_of_people()
        desk.sync(table=earlier / "people.csv", without_forgotten=True)  # it has moved
    database = open_database(configuration.where)
    try:
        with database.writing() as tx:
            found = {row["name"] for row in tx.all("SELECT name FROM tokens")}
            assert found == {*tokens.ROLES, "another"}
            tx.run("UPDATE requests SET run_at = 0 WHERE status = 'waiting'")
        a_pass(configuration)
        with database.reading() as tx:
            states = tx.all("SELECT status, outcome FROM requests ORDER BY number")
    finally:
        database.close()
    assert [tuple(row) for row in states] == [("completed", "forgotten")] * 2
    with Desk.open(earlier / "stores" / "people") as desk:
        assert person not in desk.rows_of_people()


def test_its_answers_are_read_by_the_client(earlier):
    answers = json.loads((earlier / "answers.json").read_text())
    kinds = {
        kind.__name__
        for kind in vars(messages).values()
        if isinstance(kind, type)
        and issubclass(kind, messages.Message)
        and not issubclass(kind, messages.Sent)
    }
    assert kinds == {*answers, "Message", "Started", "TokenState"}
    for name, said in answers.items():
        read = getattr(messages, name).model_validate(said)
        assert json.loads(read.model_dump_json()) == said
        with_more = {**said, "of a later version": 1}  # which a client passes over
        assert getattr(messages, name).model_validate(with_more) == read


def test_its_callback_is_checked(earlier):
    sent = json.loads((earlier / "callback.json").read_text())
    headers, body, key = sent["headers"], sent["body"].encode(), sent["public_key"]
    now = float(headers["webhook-timestamp"])
    said = check_callback(headers, body, key, seen=SeenIds(), now=now)
    assert (said["type"], said["status"]) == ("request.ended", "completed")
    with pytest.raises(CallbackRefused, match="not signed"):
        check_callback(
            headers, body.replace(b"completed", b"cancelled"), key, seen=SeenIds(), now=now
        )


def test_a_database_from_before_version_1_was_settled_is_refused(tmp_path):
    with tarfile.open(HERE / "formats" / "service-1-first.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = (tmp_path / "service.sqlite").read_bytes()
    with pytest.raises(DatabaseFailed, match="start the service with a new one"):
        open_database(tmp_path / "service.sqlite")
    assert (tmp_path / "service.sqlite").read_bytes() == before


def test_a_database_of_a_later_version_is_refused(earlier):
    where = Configuration(earlier / "stores").where
    opened = open_database(where)
    with opened.writing() as tx:
        tx.run("UPDATE version SET number = ?", database_module.VERSION + 1)
    opened.close()
    with pytest.raises(DatabaseFailed, match="Use the version of pilu that wrote it, or a later"):
        open_database(where)


def test_the_number_rises_with_the_tables():
    digest = hashlib.sha256(" ".join(database_module._SCHEMA.split()).encode()).hexdigest()
    assert TABLES[database_module.VERSION] == digest[:16]
