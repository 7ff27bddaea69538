"""Full disks, failing disks, several processes, and thousands of damaged bytes."""

import errno
import json
import os
import shutil
import signal
import sqlite3
import threading
import time

import numpy as np
import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.signing import check_signature, make_keys
from pilu.exceptions import DoneWithTrouble, PiluError, StoreDamaged

# Disks


@pytest.mark.parametrize("trouble", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("place", [1, 2, 4, 7])
def test_a_disk_that_fails(desk, monkeypatch, trouble, place):
    """At the n-th fsync: before the commit nothing is changed; SQLite has its own."""
    calls, sync = [], os.fsync

    def failing(handle):
        calls.append(handle)
        if len(calls) == place:
            raise OSError(trouble, os.strerror(trouble))
        return sync(handle)

    head, folders = desk.log().head, sorted(p.name for p in desk.folder.iterdir())
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StoreDamaged, match="cannot be written") as caught:
        desk.unlearn("person 1")
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert desk.log().head == head
    assert sorted(p.name for p in desk.folder.iterdir()) == folders
    desk.unlearn("person 1")
    assert check_store(desk)


def test_a_full_database(desk):
    """SQLite may not grow: the change is refused and everything is as before."""
    head = desk.log().head
    (pages,) = desk.store.ledger._database.execute("PRAGMA page_count").fetchone()
    desk.store.ledger._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreDamaged, match=r"the disk is full or failing. Nothing was changed"):
        list(map(desk.unlearn, [f"person {k}" for k in range(29)]))  # until free pages are used
    desk.store.ledger._database.execute("PRAGMA max_page_count = 100000")
    desk.log().growth_from(head)
    assert check_store(desk)
    assert len(list(desk.folder.glob("arrays-*"))) == 1


def test_receipts_that_cannot_be_handed_over(desk, tmp_path):
    def full(receipts):
        raise OSError(errno.ENOSPC, "No space left on device")

    make_keys(tmp_path / "private", tmp_path / "public")
    with pytest.raises(DoneWithTrouble, match=r"the change is done.*No space left"):
        desk.unlearn(["person 1", "person 2"], deliver=full, sign=tmp_path / "private")
    (place,) = desk.undelivered()
    assert check_store(desk)
    handed = []
    desk.deliver_again(place, handed.extend, sign=tmp_path / "private")
    for receipt in handed:
        assert check_receipt(receipt, desk)
        check_signature(receipt, tmp_path / "public")
    assert desk.undelivered() == []
    with pytest.raises(PiluError, match="were delivered already"):
        desk.deliver_again(place, handed.extend)


def test_a_key_that_vanishes_after_the_commit(desk, tmp_path, monkeypatch):
    """Then the change is done, and says so; only what is in the log was ever signed."""
    make_keys(tmp_path / "private", tmp_path / "public")
    clear = desk.store._clear

    def vanishing(**options):
        (tmp_path / "private").unlink(missing_ok=True)
        return clear(**options)

    monkeypatch.setattr(desk.store, "_clear", vanishing)
    with pytest.raises(DoneWithTrouble, match="the change is done, but its receipts"):
        desk.unlearn("person 1", sign=tmp_path / "private")
    assert desk.log().entries[-1].kind == "unlearn"
    with pytest.raises(PiluError, match="must be a private key"):
        desk.unlearn("person 2", sign=tmp_path / "private")
    assert [entry.kind for entry in desk.log().entries] == ["fit", "unlearn"]


def test_nothing_is_signed_that_is_not_in_the_log(desk, tmp_path, monkeypatch):
    import pilu.desk.handing_over as module

    make_keys(tmp_path / "private", tmp_path / "public")
    signed, sign = [], module.sign_statement

    def watched(receipt, key):
        signed.append(receipt.is_in(desk.log()))
        return sign(receipt, key)

    monkeypatch.setattr(module, "sign_statement", watched)
    desk.unlearn(["person 1", "person 2"], sign=tmp_path / "private")
    assert signed == [True]


# Processes


def in_forks(*calls):
    """Run calls at the same time in processes of their own; what each says."""
    pipes, gate = [], os.pipe()
    for call in calls:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(gate[1])
            os.read(gate[0], 1)
            try:
                said = call()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, json.dumps(said).encode())
            os._exit(0)
        os.close(writer)
        pipes.append((child, reader))
    os.close(gate[0])
    os.close(gate[1])
    answers = []
    for child, reader in pipes:
        with os.fdopen(reader, "rb") as pipe:
            answers.append(json.loads(pipe.read()))
        os.waitpid(child, 0)
    return answers


def used(store, what, *given, **options):
    def call():
        with Desk.open(store) as desk:
            outcome = getattr(desk, what)(*given, **options)
            return None if outcome is None else getattr(outcome, "place", "done")

    return call


def test_several_processes_at_once(desk, tmp_path):
    desk.close()
    store, more = tmp_path / "store", write(make_rows(4, first=100), tmp_path / "more.csv")
    calls = [used(store, "unlearn", f"person {k}") for k in range(4)]
    calls += [used(store, "request", "person 9"), used(store, "add", more)]
    answers = in_forks(*calls)
    assert answers[4] is None  # a request says nothing
    places = sorted(a for a in answers if a is not None)
    with Desk.open(store) as again:
        kinds = [entry.kind for entry in again.log().entries]
        assert [kinds[place] for place in places] == [k for k in kinds if k in ("unlearn", "add")]
        assert sorted(kinds) == ["add", "fit", "request", *["unlearn"] * 4]
        assert again.read().state["n_rows"] == 60 - 8 + 4
        assert len(again.pending()) == 1
        assert check_store(again)


def test_two_runs_at_once_answer_everybody_once(desk, tmp_path):
    desk.request(["person 1", "person 2"])
    desk.close()
    answers = in_forks(*[used(tmp_path / "store", "run")] * 2)
    assert sorted(answers, key=str) == [2, None]
    with Desk.open(tmp_path / "store") as again:
        assert [entry.kind for entry in again.log().entries] == ["fit", "request", "unlearn"]


def test_the_same_person_twice_at_once(desk, tmp_path):
    desk.close()
    answers = in_forks(*[used(tmp_path / "store", "unlearn", "person 1")] * 2)
    assert sorted(map(str, answers)) == [
        "1", "AlreadyForgotten: person 1 was forgotten already. Nothing was changed.",
    ]  # fmt: skip


def test_one_who_does_not_wait_is_told(desk, tmp_path):
    with (
        Desk.open(tmp_path / "store", patience=0.05) as other,
        desk.store.changing(),
        pytest.raises(StoreDamaged, match="is in use by another process"),
    ):
        other.unlearn("person 1")
    assert len(desk.log().entries) == 1


def test_a_request_while_a_run_is_going_on(desk, tmp_path, monkeypatch):
    """It waits, and is neither lost nor answered by the run that began before it."""
    import pilu.desk.refit_desk as module

    desk.request("person 1")
    plan, asked = module.plan_to_forget, []

    def ask():
        with Desk.open(tmp_path / "store") as other:
            other.request("person 2")
            asked.append(True)

    asking = threading.Thread(target=ask)

    def slow(*given):
        asking.start()
        time.sleep(0.3)
        assert not asked
        return plan(*given)

    monkeypatch.setattr(module, "plan_to_forget", slow)
    assert len(desk.run().receipts) == 1
    asking.join()
    assert [entry.kind for entry in desk.log().entries] == ["fit", "request", "unlearn", "request"]
    assert len(desk.pending()) == 1


def test_a_model_that_was_replaced_while_it_was_released(desk, tmp_path, monkeypatch):
    released = desk._released

    def late(*given):
        answer = released(*given)
        with Desk.open(tmp_path / "store") as other:
            other.unlearn("person 1")
        return answer

    monkeypatch.setattr(desk, "_released", late)
    with pytest.raises(StoreDamaged, match=r"was changed by another process. Try again"):
        desk.release(tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()
    assert not list(tmp_path.glob(".*part"))


# Damage


@pytest.fixture(scope="module")
def old_store(tmp_path_factory):
    """A store with entries of all kinds, and receipts that are not delivered."""
    folder = tmp_path_factory.mktemp("damaged")
    table = write(make_rows(30), folder / "people.csv")
    with Desk.fit(folder / "store", table, **COLUMNS) as desk:
        desk.unlearn("person 1")
        desk.request("person 3")
        desk.add(write(make_rows(4, first=100), folder / "more.csv"))
        desk.release()
        with pytest.raises(DoneWithTrouble):
            desk.unlearn("person 2", deliver=lambda _: 1 / 0)
    return folder


def said_by(folder):
    """Everything that a store answers."""
    with Desk.open(folder, patience=0.2) as desk:
        checks, held = check_store(desk), desk.read()
        arrays = [held.digests, *held.names.hashes.values()]
        return (
            checks,
            dict(held.state),
            [entry.body for entry in held.log.entries],
            [array.tobytes() for array in arrays],
            held.suppressed,
            held.model_bytes,
            desk.pending(),
            desk.store.ledger.outbox() if desk.undelivered() else None,
        )


def damaged(rng, content):
    """Change, cut, insert or wipe some bytes."""
    content, way = bytearray(content), int(rng.integers(5))
    place, length = int(rng.integers(len(content))), int(rng.choice([1, 8, 100, 4096]))
    if way == 0:
        content[place] ^= 1 << int(rng.integers(8))
    elif way == 1:
        content[place : place + length] = bytes(len(content[place : place + length]))
    elif way == 2:
        del content[place:]
    elif way == 3:
        content[place:place] = rng.bytes(length)
    else:
        content[place : place + 4] = rng.bytes(4)
    return bytes(content)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 60))]
)
def test_a_changed_store_is_never_said_to_be_whole(old_store, tmp_path, seed):
    """Fifty changes each: an error of pilu's in one line, or every answer as before."""
    rng, store = np.random.default_rng(seed), tmp_path / "store"
    truth, noticed = said_by(old_store / "store"), []
    files = sorted(p for p in (old_store / "store").rglob("*") if p.is_file())
    assert len(files) == 7
    for _ in range(50):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(old_store / "store", store)
        file = files[int(rng.integers(len(files)))].relative_to(old_store / "store")
        before = (store / file).read_bytes()
        (store / file).write_bytes(damaged(rng, before))
        try:
            found = said_by(store)
        except PiluError as error:
            noticed.append(str(error))
            continue
        # SQLite has bytes that mean nothing: free space in pages, counters
        assert found == truth, file
        assert file.name == "ledger.sqlite" or (store / file).read_bytes() == before, file
    assert len(noticed) > 30
    assert not any("\n" in said for said in noticed)


def test_records_changed_by_somebody_who_knows_sqlite(old_store, tmp_path):
    """Any field of any record, with the file itself in order."""
    for table, column in (
        ("entries", "body"), ("state", "body"), ("head", "body"), ("people", "body"),
    ):  # fmt: skip
        for way in ("deleted", "changed", "emptied"):
            store = tmp_path / f"{table} {way}"
            shutil.copytree(old_store / "store", store)
            with sqlite3.connect(store / "ledger.sqlite") as database:
                names = "place, number" if table == "people" else "rowid"
                last = f"({names}) = (SELECT {names} FROM {table} ORDER BY {names} DESC LIMIT 1)"
                (body,) = database.execute(f"SELECT {column} FROM {table} WHERE {last}").fetchone()
                text = body if isinstance(body, str) else body.decode()
                new = text[:-2].replace("1", "2", 1) + text[-2:] if way == "changed" else ""
                assert new != text
                new = new if table == "head" else new.encode()
                if way == "deleted":
                    database.execute(f"DELETE FROM {table} WHERE {last}")
                else:
                    database.execute(f"UPDATE {table} SET {column} = ? WHERE {last}", (new,))
            database.close()
            with pytest.raises(PiluError):
                said_by(store)


def test_arrays_of_another_generation(old_store, tmp_path):
    """A model of before the deletion, put back: the log notices."""
    store = tmp_path / "store"
    shutil.copytree(old_store / "store", store)
    (arrays,) = store.glob("arrays-*")
    with Desk.open(store) as desk:
        kept = {path.name: path.read_bytes() for path in arrays.iterdir()}
        desk.unlearn("person 4")
    (now,) = store.glob("arrays-*")
    for name in kept:
        mine = (now / name).read_bytes()
        (now / name).write_bytes(kept[name])
        with pytest.raises(StoreDamaged, match=f"{name} was altered or cut"):
            said_by(store)
        (now / name).write_bytes(mine)
    assert said_by(store)


def test_interrupted(desk, monkeypatch):
    """By Ctrl-C in the middle of a refit: as before, and usable."""
    import pilu.desk.refitting as module

    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(module, "dump_model", interrupted)
    with pytest.raises((KeyboardInterrupt, TypeError)):
        desk.unlearn("person 1")
    monkeypatch.undo()
    assert len(desk.log().entries) == 1
    desk.unlearn("person 1")
    assert check_store(desk)


@pytest.mark.parametrize("what", ["radius", "epsilon", "n_releases", "nonce", "place", "exposures"])
def test_receipts_that_were_altered_before_they_were_delivered(old_store, tmp_path, what):
    """Not said to be whole, and not handed over."""
    store = tmp_path / "store"
    shutil.copytree(old_store / "store", store)
    with sqlite3.connect(store / "ledger.sqlite") as database:
        ((place, body),) = database.execute("SELECT place, body FROM outbox").fetchall()
        record = json.loads(body)
        certificate, (exposure,) = json.loads(record["certificate"]), record["exposures"].values()
        if what == "radius":
            certificate["evidence"]["radius"] *= 2
        elif what == "epsilon":
            certificate["epsilon"] = 0.01
        elif what == "exposures":
            record["exposures"] = {"0" * 32: exposure}
        elif what != "place":
            exposure[what] = "other" if what == "nonce" else 17
        record["certificate"] = json.dumps(certificate)
        new = (place - 1 if what == "place" else place, json.dumps(record).encode())
        database.execute("UPDATE outbox SET place = ?, body = ?", new)
    database.close()
    handed = []
    with Desk.open(store) as desk:
        with pytest.raises(StoreDamaged):
            check_store(desk)
        with pytest.raises(StoreDamaged):
            desk.deliver_again(new[0], handed.extend)
        assert desk.undelivered() == [new[0]]
    assert handed == []
