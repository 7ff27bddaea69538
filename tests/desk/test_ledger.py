"""The log is read once a command, and again whenever somebody else may have written it."""

import pytest
from typer.testing import CliRunner

from pilu.cli.app import app
from pilu.store import merkle
from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.store.ledger import Ledger
from pilu.exceptions import LedgerMismatch


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


def hashed_leaves(monkeypatch):
    """A list that grows with every entry that is hashed."""
    leaf, hashed = merkle.leaf, []

    def counting(entry):
        hashed.append(entry)
        return leaf(entry)

    monkeypatch.setattr(merkle, "leaf", counting)
    return hashed


@pytest.mark.parametrize("command", ["unlearn --subject 'person number 9'", "run", "redraw"])
def test_a_command_hashes_every_entry_once(desk, tmp_path, monkeypatch, command):
    for k in range(8):
        desk.request(f"person number {k}")
    desk.close()
    name, *options = command.replace("'", "").split(maxsplit=2)
    options += ["--receipt", str(tmp_path / "receipt.json")]
    hashed = hashed_leaves(monkeypatch)
    result = CliRunner().invoke(app, [name, str(tmp_path / "store"), *options])
    assert result.exit_code == 0, result.output
    # nine entries are there, and one is appended
    assert len(hashed) == len(set(hashed)) == 10


def test_an_open_desk_does_not_read_what_it_wrote_itself(desk, monkeypatch):
    hashed = hashed_leaves(monkeypatch)
    desk.unlearn("person number 3", n_unlearn_steps=1)
    desk.request("person number 5")
    assert len(desk.pending()) == 1
    assert len(hashed) == 2


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


def test_bytes_that_change_below_an_open_store_are_noticed_by_a_check(desk, tmp_path):
    check_store(desk.store)
    path = tmp_path / "store" / "ledger.sqlite"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"kind":"fit"', b'"kind":"fat"'))
    with pytest.raises(LedgerMismatch, match="the log was altered"):
        check_store(desk.store)
    with pytest.raises(LedgerMismatch, match="the log was altered"):
        Desk.open(tmp_path / "store")
