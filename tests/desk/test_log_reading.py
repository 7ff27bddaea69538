"""The log is read and hashed once, however much a desk asks about it."""

import pytest

from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.exceptions import LedgerMismatch
from pilu.store import merkle


def hashed_leaves(monkeypatch):
    """A list that grows with every entry that is hashed."""
    leaf, hashed = merkle.leaf, []

    def counting(entry):
        if b'"kind"' in entry:  # else it is the leaf of a person
            hashed.append(entry)
        return leaf(entry)

    monkeypatch.setattr(merkle, "leaf", counting)
    return hashed


@pytest.mark.parametrize("what", ["unlearn", "run", "redraw"])
def test_a_command_hashes_every_entry_once(desk, tmp_path, monkeypatch, what):
    for k in range(8):
        desk.request(f"person number {k}")
    desk.close()
    hashed = hashed_leaves(monkeypatch)
    with Desk.open(tmp_path / "store") as again:
        given = ["person number 9"] if what == "unlearn" else []
        assert getattr(again, what)(*given).place == 9
        again.pending()
    # nine entries are there, and one is appended
    assert len(hashed) == len(set(hashed)) == 10


def test_an_open_desk_does_not_read_what_it_wrote_itself(desk, monkeypatch):
    hashed = hashed_leaves(monkeypatch)
    desk.unlearn("person number 3", n_unlearn_steps=1)
    desk.request("person number 5")
    assert len(desk.pending()) == 1
    assert len(hashed) == 2


def test_bytes_that_change_below_an_open_store_are_noticed_by_a_check(desk, tmp_path):
    check_store(desk)
    path = tmp_path / "store" / "ledger.sqlite"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"kind":"fit"', b'"kind":"fat"'))
    with pytest.raises(LedgerMismatch, match="the log was altered"):
        check_store(desk)
    with pytest.raises(LedgerMismatch, match="the log was altered"):
        Desk.open(tmp_path / "store")
