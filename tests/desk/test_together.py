"""Several processes at one store, in the worst order."""

import numpy as np
import pytest

from desk.conftest import COLUMNS, rows_of
from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.rewriting import rewrite_without
from pilu.exceptions import BudgetSpent, DoneWithTrouble


@pytest.fixture
def other(desk, tmp_path):
    with Desk.open(tmp_path / "store") as opened:
        yield opened


def before(desk, monkeypatch, name, first):
    """Let something happen just before a method of the desk's store."""
    original = getattr(desk.store, name)

    def delayed(*given, **options):
        monkeypatch.setattr(desk.store, name, original)
        first()
        return original(*given, **options)

    monkeypatch.setattr(desk.store, name, delayed)


def test_one_that_was_held_up_after_its_commit(desk, other, tmp_path, monkeypatch):
    """It clears up what is old by then, not what is new."""
    before(desk, monkeypatch, "_clear", lambda: other.unlearn("person number 7"))
    desk.unlearn("person number 3")
    assert [p.name for p in (tmp_path / "store").glob("arrays-*")] == ["arrays-2"]
    kinds = [entry.record["kind"] for entry in desk.log().entries]
    assert kinds == ["fit", "unlearn", "unlearn"]
    assert check_store(desk)


def test_one_that_was_refused_does_not_take_anothers_deletion_for_its_own(desk, other, monkeypatch):
    def lost(*_, **__):
        raise OSError(28, "No space left on device")

    before(desk, monkeypatch, "_settle", lambda: other.unlearn("person number 7"))
    with monkeypatch.context() as patched:
        patched.setattr(desk.store.ledger, "append", lost)
        with pytest.raises(OSError, match="No space left"):
            desk.unlearn("person number 3")
    assert rows_of(desk.unlearn("person number 3")) == (9, 10, 11)
    assert check_store(desk)


def test_a_queue_that_another_process_has_emptied(desk, other, monkeypatch):
    """Nobody is left to be forgotten: then nothing is drawn anew either."""
    desk.request("person number 3")
    before(desk, monkeypatch, "changing", other.run)
    assert desk.run(method="redraw") is None
    assert [entry.kind for entry in desk.log().entries] == ["fit", "request", "unlearn"]


def test_receipts_that_wait_are_told_of_while_another_process_is_at_work(desk, tmp_path):
    def lost(receipts):
        raise OSError("no room")

    with pytest.raises(DoneWithTrouble):
        desk.unlearn("person number 3", deliver=lost)
    (tmp_path / "store" / "arrays-9").mkdir()  # it cannot be cleared away now
    with desk.store.ledger.writing(), Desk.open(tmp_path / "store") as again:
        assert "entry 1 of the log were not delivered yet" in again.store.recovered
    assert (tmp_path / "store" / "arrays-9").exists()


def test_trouble_after_the_turn_is_told_from_trouble_before(desk, tmp_path, monkeypatch):
    def fails(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(desk.store, "_clear", fails)
    with pytest.raises(DoneWithTrouble, match="the change is done, but then came KeyboardInter"):
        desk.unlearn("person number 3")
    with Desk.open(tmp_path / "store") as again:
        assert "it is done" in again.store.recovered
        assert "entry 1 of the log were not delivered yet" in again.store.recovered
        assert [p.name for p in (tmp_path / "store").glob("arrays-*")] == ["arrays-1"]


def test_a_refusal_leaves_nothing_behind(parquet, tmp_path):
    settings = {"n_steps": 50, "noise": 0.01, "budget_epsilon": 1.5, "budget_delta": 0.5}
    with LangevinDesk.create(tmp_path / "small", parquet, COLUMNS, **settings) as desk:
        desk.unlearn("person number 3")
        with pytest.raises(BudgetSpent):
            desk.unlearn("person number 4")
        assert [p.name for p in (tmp_path / "small").glob("arrays-*")] == ["arrays-1"]


def test_a_redraw_needs_no_table(desk, parquet):
    desk.unlearn("person number 3")
    parquet.unlink()
    assert desk.redraw().certificate.epsilon == 0.0
    assert check_store(desk)


def test_statistics_summed_anew_are_those_of_a_table_that_never_had_the_rows(
    desk, parquet, tmp_path
):
    """Bit for bit; those that came from a subtraction are not."""
    left = tmp_path / "left.parquet"
    desk.unlearn("person number 3")
    rewrite_without(desk.forgotten(), parquet, left)
    with LangevinDesk.create(tmp_path / "never", left, COLUMNS, n_steps=50, noise=0.01):
        pass

    def bits(store, name):
        (folder,) = (tmp_path / store).glob("arrays-*")
        return np.load(folder / f"{name}.npy").tobytes()

    names = ("gram", "cross", "eigenvalues", "basis")
    assert any(bits("store", name) != bits("never", name) for name in names)
    desk.redraw(recollect=True)
    assert all(bits("store", name) == bits("never", name) for name in names)
