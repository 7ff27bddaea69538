"""The log is read again whenever somebody else may have written it; people and outbox beside it."""

import json
import sqlite3

import pytest

from pilu.exceptions import LedgerMismatch, StoreDamaged
from pilu.store.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledger.sqlite")
    yield made
    made.close()


@pytest.fixture
def other(ledger):
    opened = Ledger(ledger.path)
    yield opened
    opened.close()


def kinds(ledger):
    with ledger.reading():
        return [entry.record["kind"] for entry in ledger.log.entries]


def append(ledger, kind):
    with ledger.writing():
        ledger.append({"kind": kind})


def test_what_another_process_appends_is_read(ledger, other):
    append(ledger, "first")
    assert kinds(other) == kinds(ledger) == ["first"]
    append(other, "second")
    append(ledger, "third")
    assert kinds(other) == kinds(ledger) == ["first", "second", "third"]


def test_what_is_rolled_back_is_not_in_the_log(ledger, other):
    append(ledger, "first")

    def interrupted():
        with ledger.writing():
            ledger.append({"kind": "second"})
            assert ledger.log.head.size == 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kinds(ledger) == kinds(other) == ["first"]
    append(ledger, "third")
    assert kinds(ledger) == kinds(other) == ["first", "third"]


def test_what_is_committed_by_another_just_after_is_not_missed(ledger, other):
    """Between the commit and the next transaction of this process."""
    append(ledger, "first")
    append(ledger, "second")
    append(other, "third")
    with ledger.writing():
        assert ledger.append({"kind": "fourth"}).place == 3
    assert kinds(other) == ["first", "second", "third", "fourth"]


def test_an_edit_by_another_connection_is_noticed(ledger, other):
    append(ledger, "first")
    assert kinds(other) == ["first"]
    other._database.execute("UPDATE entries SET body = CAST('{}' AS BLOB)")
    with pytest.raises(LedgerMismatch, match="does not have the head that is kept with it"):
        kinds(ledger)


# People, and what was not delivered yet

LEAVES = [{"subject": "aa", "nonce": "1"}, {"subject": "bb", "nonce": "2"}]


def altered(ledger, statement):
    database = sqlite3.connect(ledger.path)
    database.execute(statement)
    database.commit()
    database.close()


def test_people_are_kept_in_order_beside_their_entry(ledger, other):
    with ledger.writing():
        ledger.append({"kind": "first"}, people=LEAVES)
        ledger.append({"kind": "second"})
        ledger.append({"kind": "third"}, people=LEAVES[1:])
    with other.reading():
        assert other.people([0, 2]) == [LEAVES, LEAVES[1:]]
        assert other.people([2]) == [LEAVES[1:]]
        assert other.people([]) == []
        records = [entry.record for entry in other.log.entries]
        assert [record.get("people", "none").split(":")[0] for record in records] == [
            "2", "none", "1",
        ]  # fmt: skip
        assert "aa" not in json.dumps(records)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM people WHERE number = 1",
        "DELETE FROM people",
        "DROP TABLE people",
        "UPDATE people SET body = (SELECT body FROM people WHERE number = 0)",
        "INSERT INTO people SELECT place, 2, body FROM people WHERE number = 0",
        "INSERT INTO people SELECT 1, 0, body FROM people WHERE number = 0",
    ],
)
def test_other_people_than_the_entry_names_are_refused(ledger, statement):
    with ledger.writing():
        ledger.append({"kind": "first"}, people=LEAVES)
        ledger.append({"kind": "second"})
    altered(ledger, statement)
    with (
        pytest.raises(LedgerMismatch, match=r"the people of entry \d were altered"),
        ledger.reading(),
    ):
        ledger.people([0, 1])


def test_what_is_in_the_outbox_stays_until_it_is_delivered(ledger, other):
    secret = "the evidence of somebody " * 400  # on pages of its own
    with ledger.writing():
        ledger.append({"kind": "first"}, outbox={"text": secret})
        ledger.append({"kind": "second"}, outbox={})
    with other.reading():
        assert other.outbox() == {0: {"text": secret}, 1: {}}
    assert b"evidence of somebody" in ledger.path.read_bytes()
    with other.writing():
        other.delivered(0)
    with ledger.reading():
        assert ledger.outbox() == {1: {}}
    assert b"evidence of somebody" not in ledger.path.read_bytes()


def test_what_is_rolled_back_has_no_people_and_no_outbox(ledger):
    def interrupted():
        with ledger.writing():
            ledger.append({"kind": "first"}, people=LEAVES, outbox={"text": "a"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with ledger.reading():
        assert ledger.outbox() == {}
    with ledger.writing():
        assert ledger.append({"kind": "second"}, people=LEAVES, outbox={}).place == 0


def test_an_outbox_that_is_damaged_is_refused(ledger):
    with ledger.writing():
        ledger.append({"kind": "first"}, outbox={"text": "a"})
    altered(ledger, "UPDATE outbox SET body = CAST('{' AS BLOB)")
    with pytest.raises(StoreDamaged, match="the receipt of entry 0 is damaged"), ledger.reading():
        ledger.outbox()


def test_a_ledger_of_the_second_format_has_neither(ledger):
    """Until it is written the next time."""
    append(ledger, "first")
    altered(ledger, "DROP TABLE people")
    altered(ledger, "DROP TABLE outbox")
    with ledger.reading():
        assert ledger.people([0]) == [[]]
        assert ledger.outbox() == {}
    with ledger.writing():
        ledger.append({"kind": "second"}, people=LEAVES, outbox={})
    with ledger.reading():
        assert ledger.people([0, 1]) == [[], LEAVES]
        assert list(ledger.outbox()) == [1]
