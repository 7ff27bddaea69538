"""Backups are whole and of one moment, and a restore does not bring forgotten people back."""

import errno
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from cli.shell import Shell
from desk.refit.conftest import COLUMNS
from desk.refit.tables import desk_scores, make_rows, plain_scores, write
from pilu.cli.app import app
from pilu.desk import backups
from pilu.desk.backups import back_up
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.exceptions import StoreDamaged, WrongInput

FAR = 0.012  # of a score: farther than the noise, nearer than a person
WHO = ["person 3", "person 11", "person 20"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A store of sixty rows of thirty people, and its table."""
    folder = tmp_path_factory.mktemp("fitted")
    table = write(make_rows(60), folder / "people.csv")
    with Desk.fit(folder / "store", table, **COLUMNS):
        pass
    return folder


@pytest.fixture
def here(fitted, tmp_path, monkeypatch):
    """A copy of the store; it reads the table where it was made."""
    shutil.copytree(fitted / "store", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(here):
    return Shell()


def keyed(name, store):
    """The keyed hash of a name, computed here."""
    key = (store / "key").read_bytes()
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).digest()


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def array(store, name):
    (folder,) = store.glob("arrays-*")
    return np.load(folder / f"{name}.npy")


def people_in(store):
    return {row.tobytes() for row in array(store, "names_subject")}


def digests_of(who, store):
    """The digests by which a store knows the rows of people."""
    named = {keyed(name, store) for name in who}
    at = [row.tobytes() in named for row in array(store, "names_subject")]
    return [row.tobytes() for row in array(store, "digests")[at]]


def forget(store, *who):
    with Desk.open(store) as desk:
        desk.unlearn(list(who), deliver=lambda _: None)


def is_without(store, who, gone_digests):
    """Neither names, nor digests of rows, nor the model tell of people; they are on the list."""
    assert not people_in(store) & {keyed(name, store) for name in who}
    assert {keyed(name, store) for name in who} <= {r.tobytes() for r in array(store, "suppressed")}
    for path in store.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for name in who:
            assert name.encode() not in content, path
        for digest in gone_digests:
            assert digest not in content, path
            assert digest.hex().encode() not in content, path
    rows = [row for row in make_rows(60) if row["person"] not in who]
    has_model_of(store, rows)


def has_model_of(store, rows):
    """The model predicts as one that scikit-learn fits from scratch on some rows."""
    at = make_rows(20, 99)
    with Desk.open(store) as desk:
        check_store(desk)
        found = desk_scores(desk, at, store.parent)
    np.testing.assert_allclose(found, plain_scores(rows, at), atol=FAR, rtol=0)


# A backup


def test_a_backup_is_one_private_file_and_comes_back_as_it_was(run, here):
    forget(here / "store", *WHO)
    before = contents(here / "store")
    made = run.json("backup store --out store.tar")
    assert contents(here / "store") == before
    assert stat.S_IMODE((here / "store.tar").stat().st_mode) == 0o600
    assert sorted(p.name for p in here.iterdir()) == ["store", "store.tar"]
    with tarfile.open("store.tar") as archive:
        assert {m.type for m in archive} == {tarfile.REGTYPE}
        assert sorted(m.name for m in archive) == sorted(
            ["backup.json", *(name for name, content in before.items() if content is not None)]
        )
    restored = run.json("restore store.tar --out again --forgotten none")
    after = contents(here / "again")
    assert {k: v for k, v in after.items() if k != "ledger.sqlite"} == {
        k: v for k, v in before.items() if k != "ledger.sqlite"
    }
    assert restored["head"] == made["head"] == run.json("ledger store")["head"]
    assert run.json("ledger again")["entries"] == run.json("ledger store")["entries"]
    assert (restored["forgotten_again"], restored["listed_again"]) == (0, 0)
    assert stat.S_IMODE((here / "again").stat().st_mode) == 0o700
    assert stat.S_IMODE((here / "again" / "key").stat().st_mode) == 0o600
    assert sorted(p.name for p in here.iterdir()) == ["again", "store", "store.tar"]
    has_model_of(here / "again", [row for row in make_rows(60) if row["person"] not in WHO])


def test_a_change_in_the_middle_of_a_backup_is_not_in_it(here, monkeypatch):
    """The arrays that are copied are replaced, and unlinked, while they are copied."""
    put, head = backups._put, None
    with Desk.open(here / "store") as desk:
        head = str(desk.log().head)

    def disturbed(archive, name, size, content):
        if name == "ledger.sqlite":
            forget(here / "store", *WHO)
        put(archive, name, size, content)

    monkeypatch.setattr(backups, "_put", disturbed)
    made = back_up(here / "store", here / "store.tar")
    assert made["head"] == head
    assert not (here / "store" / "arrays-0").exists()
    Shell()("restore store.tar --out again --forgotten none")
    has_model_of(here / "again", make_rows(60))


def test_backups_while_another_process_forgets(here):
    """Each is of one moment: its model has nobody whom its log has forgotten, and all others."""
    program = (
        "import sys; from pilu.desk.desk import Desk\n"
        "with Desk.open(sys.argv[1]) as desk:\n"
        "    for k in range(8): desk.unlearn([f'person {k}'])\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, here / "store"])
    made = []
    while worker.poll() is None:
        made.append(here / f"{len(made)}.tar")
        back_up(here / "store", made[-1])
        time.sleep(0.02)
    assert worker.returncode == 0
    seen = set()
    for backup in made:
        Shell()(f"restore {backup} --out again --forgotten none")
        entries = Shell().json("ledger again")["entries"]
        n = sum(entry["kind"] == "unlearn" for entry in entries)
        assert people_in(here / "again") == {
            keyed(f"person {k}", here / "again") for k in range(n, 30)
        }
        seen.add(n)
        shutil.rmtree(here / "again")
    assert len(seen) > 2


def test_a_damaged_store_gives_no_backup(run, here):
    path = here / "store" / "arrays-0" / "digests.npy"
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-1] + b"\x00\x00"[:1], None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert "digests.npy" in run.error("backup store --out store.tar")
        assert not list(here.glob("*.tar*")) + list(here.glob(".*"))


def test_where_a_backup_may_go(run, here):
    assert "outside of the store" in run.error("backup store --out store/store.tar")
    run("backup store --out store.tar")
    for line in ("backup store --out store.tar", "forgotten store --out store.tar"):
        assert "must be a new file" in run.error(line)
    assert "existing folder" in run.error("backup store --out nowhere/store.tar")
    assert "must be a store" in run.error("backup nowhere --out other.tar")


def test_the_key_may_stay_elsewhere(run, here):
    key = (here / "store" / "key").read_bytes()
    (here / "kept").write_bytes(key)
    (here / "wrong").write_bytes(b"1" * 32)
    run("backup store --out store.tar --without-key")
    assert key not in (here / "store.tar").read_bytes()
    assert "key must be given" in run.error("restore store.tar --out again --forgotten none")
    line = "restore store.tar --out again --forgotten none --key"
    assert "is not the key" in run.error(f"{line} wrong")
    assert not (here / "again").exists()
    run(f"{line} kept")
    has_model_of(here / "again", make_rows(60))
    run("backup again --out whole.tar")
    assert "key must be left out" in run.error(
        "restore whole.tar --out more --forgotten none --key kept"
    )


# Forgotten people stay forgotten


@pytest.mark.parametrize("by", ["store", "damaged store", "list"])
def test_who_was_forgotten_since_is_forgotten_again(run, here, by):
    store = here / "store"
    run("backup store --out store.tar")
    rows_of_the_gone = digests_of(WHO, store)
    forget(store, *WHO[:2])
    forget(store, WHO[2])
    if by == "list":
        assert run.json("forgotten store --out list.json")["n_people"] == 3
        assert stat.S_IMODE((here / "list.json").stat().st_mode) == 0o600
        assert b"person" not in (here / "list.json").read_bytes()
    shutil.move(store, here / "old")
    if by == "damaged store":  # all but the ledger is lost
        (here / "old" / "key").unlink()
        shutil.rmtree(next((here / "old").glob("arrays-*")))
    where = "list.json" if by == "list" else "old"
    before = contents(here / "old")
    said = run.json(f"restore store.tar --out store --forgotten {where}")
    assert (said["forgotten_again"], said["listed_again"]) == (3, 0)
    assert contents(here / "old") == before
    is_without(store, WHO, rows_of_the_gone)
    # Everybody gets a receipt of the second time, signed as always.
    run("keygen --private desk.key --public desk.pub")
    run("receipts store --receipt receipts --sign desk.key")
    files = sorted((here / "receipts").glob("*.json"))
    assert {path.stem for path in files} == {keyed(name, store).hex() for name in WHO}
    for path in files:
        checks = run.json(f"verify {path} --store store --public-key desk.pub")
        assert checks["in_the_log_of_the_store"]
        assert checks["epsilon_recomputed"]
        assert checks["signed_by_the_key"]
    with Desk.open(store) as desk:
        (table,) = desk.tables()
    run(f"verify store --table {table}")


def test_a_list_of_nobody_else_changes_nothing(run, here):
    forget(here / "store", *WHO)
    run("backup store --out store.tar")
    run("forgotten store --out list.json")
    shutil.move(here / "store", here / "old")
    said = run.json("restore store.tar --out store --forgotten list.json")
    assert said["head"] == run.json("ledger old")["head"]
    assert said["undelivered"] == []
    made = json.loads((here / "list.json").read_text())["made"]
    assert said["known_until"] == made
    shown = run("restore store.tar --out again --forgotten list.json")
    assert f"until {made}, and no later" in shown


def test_rows_that_are_erased_from_the_table_are_not_needed(here, tmp_path):
    rows, run = make_rows(60), Shell()
    table = write(rows, tmp_path / "own.csv")
    with Desk.fit(tmp_path / "mine", table, **COLUMNS):
        pass
    run("backup mine --out mine.tar")
    forget(tmp_path / "mine", *WHO)
    write([row for row in rows if row["person"] not in WHO], table)
    gone = run.json("restore mine.tar --out again --forgotten mine")
    assert gone["forgotten_again"] == 3
    has_model_of(tmp_path / "again", [row for row in rows if row["person"] not in WHO])


def test_who_came_back_stays_and_who_was_never_there_stays_on_the_list(run, here):
    store = here / "store"
    run("backup store --out store.tar")
    forget(store, WHO[0])
    back = write(
        [row | {"row": f"back {k}"} for k, row in enumerate(make_rows(60)[6:8])], here / "back.csv"
    )
    new = write(make_rows(4, first=60, people=["new one"] * 4), here / "new.csv")
    with Desk.open(store) as desk:
        desk.add(back, returned=[WHO[0]])
        desk.add(new)
        desk.unlearn(["new one", WHO[1]])
    shutil.move(store, here / "old")
    said = run.json("restore store.tar --out store --forgotten old")
    assert (said["forgotten_again"], said["listed_again"]) == (1, 1)
    assert keyed(WHO[0], store) in people_in(store)
    assert not {keyed("new one", store), keyed(WHO[1], store)} & people_in(store)
    with Desk.open(store) as desk, pytest.raises(WrongInput, match="new one was forgotten"):
        desk.add("new.csv")
    has_model_of(store, [row for row in make_rows(60) if row["person"] != WHO[1]])


def test_tables_that_changed_since_are_followed(here, tmp_path):
    """Rows of people who stay were corrected, dropped and added since the backup."""
    rows, run = make_rows(60), Shell()
    table = write(rows, tmp_path / "own.csv")
    with Desk.fit(tmp_path / "mine", table, **COLUMNS):
        pass
    run("backup mine --out mine.tar")
    forget(tmp_path / "mine", *WHO)
    now = [row | {"age": 50} if row["row"] == "row 30" else row for row in rows[2:]]
    now += make_rows(6, first=60)
    write(now, table)
    error = run.error("restore mine.tar --out again --forgotten mine")
    assert "people who stay" in error
    assert "pass --sync" in error
    assert "Nothing was changed" in error
    assert ".part" not in error
    assert not (tmp_path / "again").exists()
    said = run.json("restore mine.tar --out again --forgotten mine --sync")
    assert said["forgotten_again"] == 3
    assert len(said["undelivered"]) == 2
    assert not people_in(tmp_path / "again") & {keyed(n, tmp_path / "again") for n in WHO}
    has_model_of(tmp_path / "again", [row for row in now if row["person"] not in WHO])
    # And if the table is not there at all, or elsewhere.
    shutil.move(table, tmp_path / "moved.csv")
    line = "restore mine.tar --out more --forgotten mine --sync"
    assert "own.csv" in run.error(line)
    run(f"{line} --table moved.csv")
    has_model_of(tmp_path / "more", [row for row in now if row["person"] not in WHO])


def test_what_does_not_know_who_was_forgotten_is_refused(run, here, tmp_path):
    store, rows = here / "store", make_rows(60)
    run("forgotten store --out early.json")
    forget(store, WHO[0])
    run("backup store --out store.tar")
    forget(store, WHO[1])
    run("forgotten store --out list.json")
    other = write(rows, tmp_path / "other.csv")
    with Desk.fit(tmp_path / "other", other, **COLUMNS):
        pass
    with Desk.fit(tmp_path / "child", other, successor_of=store, without_forgotten=True, **COLUMNS):
        pass
    for name in ("other", "child"):
        run(f"forgotten {name} --out {name}.json")
    good = json.loads((here / "list.json").read_text())
    (here / "cut.json").write_text((here / "list.json").read_text()[:-40])
    (here / "shorter.json").write_text(json.dumps(good | {"names": good["names"][1:]}))
    (here / "newer.json").write_text(json.dumps(good | {"schema": "pilu.forgotten/9"}))
    (here / "empty").mkdir()
    broken = shutil.copytree(store, here / "broken") / "ledger.sqlite"
    broken.write_bytes(broken.read_bytes()[:5000])
    refused = {
        "early.json": "older than the backup",
        "other": "another store",
        "other.json": "another store",
        "child": "another store",
        "child.json": "another store",
        "shorter.json": "was altered",
        "cut.json": "must be a store, a list",
        "newer.json": "must be of the format",
        "nowhere": "No such file",
        "empty": "must be a store",
        "broken": "does not tell any more who was forgotten",
        "other.csv": "must be a store, a list",
        "broken/ledger.sqlite": "must be the database of a service",
        "store/ledger.sqlite": "must be the database of a service",
    }
    before = contents(here)
    for where, words in refused.items():
        error = run.error(f"restore store.tar --out again --forgotten {where}")
        assert words in error, (where, error)
        assert ".part" not in error
        assert contents(here) == before, where
    assert "Missing option" in run("restore store.tar --out again", code=2)
    assert run.json("restore store.tar --out again --forgotten list.json")["forgotten_again"] == 1


def test_a_list_of_another_branch_counts(run, here):
    """A store that was restored and went on: its list is good for backups of before, too."""
    run("backup store --out one.tar")
    forget(here / "store", WHO[0])
    run("backup store --out two.tar")  # of the branch that is lost
    shutil.move(here / "store", here / "old")
    run("restore one.tar --out store --forgotten old")
    forget(here / "store", WHO[1])
    said = run.json("restore two.tar --out again --forgotten store")
    assert said["forgotten_again"] == 1
    assert not people_in(here / "again") & {keyed(n, here / "again") for n in WHO[:2]}


def test_a_langevin_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, rng = Shell(), np.random.default_rng(0)
    x = rng.normal(size=60)
    table = {"x": x, "y": x + rng.normal(size=60), "person": [f"p{i // 3}" for i in range(60)]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "people.parquet")
    run("fit people.parquet --target y --subject person --method langevin --out store")
    run("backup store --out store.tar")
    run("unlearn store --subject p3 --subject p5 --receipt receipts")
    run("forgotten store --out list.json")
    shutil.move(tmp_path / "store", tmp_path / "old")
    said = run.json("restore store.tar --out store --forgotten list.json")
    assert said["forgotten_again"] == 2
    with Desk.open(tmp_path / "store") as desk:
        check_store(desk, table="people.parquet")
        assert not {keyed(n, tmp_path / "store") for n in ("p3", "p5")} & set(desk.rows_of_people())
        found = []
        (place,) = desk.undelivered()
        desk.deliver_again(place, found.extend)
        assert {one.person.name for one in found} == {
            keyed(n, tmp_path / "store").hex() for n in ("p3", "p5")
        }
        assert all(check_receipt(one, desk)["in_the_log_of_the_store"] for one in found)
        assert all(isinstance(one, Receipt) for one in found)


# What is no backup


def members(path):
    with tarfile.open(path) as archive:
        return [(m, archive.extractfile(m).read()) for m in archive]


def pack(path, given):
    with tarfile.open(path, "w") as archive:
        for member, content in given:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def renamed(member, name, **more):
    other = tarfile.TarInfo(name)
    other.mode = member.mode
    for key, value in more.items():
        setattr(other, key, value)
    return other


def listed(given, change):
    """The same archive with other words in `backup.json`."""
    (first, body), *rest = given
    record = json.loads(body)
    change(record)
    return [(first, json.dumps(record).encode()), *rest]


def with_names(given, place, name):
    """A member under another name, in `backup.json`, too."""
    changed = [(renamed(m, name) if k == place + 1 else m, c) for k, (m, c) in enumerate(given)]
    return listed(changed, lambda record: record["files"][place].update(name=name))


def forgeries(given):
    def linked(kind, target):
        member = renamed(given[2][0], given[2][0].name, type=kind, linkname=target)
        return [*given[:2], (member, b""), *given[3:]]

    def of_schema(record):
        record["schema"] = "pilu.backup/9"

    def of_store(record):
        record["store"] = "0" * 32

    yield "parents", with_names(given, 1, "../key")
    yield "further parents", with_names(given, 2, "arrays-0/../../x.npy")
    yield "absolute", with_names(given, 1, "/tmp/pilu-was-here")
    yield "a dot file", with_names(given, 2, "arrays-0/.npy")
    yield "not named", [*given, (tarfile.TarInfo("../x"), b"x")]
    yield "not there", given[:-1]
    yield "in another order", [given[0], given[2], given[1], *given[3:]]
    yield "no contents", given[1:]
    yield "empty", []
    for name, kind in (
        ("symbolic link", tarfile.SYMTYPE),
        ("hard link", tarfile.LNKTYPE),
        ("fifo", tarfile.FIFOTYPE),
        ("character device", tarfile.CHRTYPE),
        ("block device", tarfile.BLKTYPE),
        ("folder", tarfile.DIRTYPE),
    ):
        yield name, linked(kind, "/etc/passwd")
    contiguous = renamed(given[2][0], given[2][0].name, type=tarfile.CONTTYPE)
    yield "another kind of file", [*given[:2], (contiguous, given[2][1]), *given[3:]]
    yield "another byte", [*given[:-1], (given[-1][0], given[-1][1][:-1] + b"\x07")]
    yield "twice", listed([*given, given[1]], lambda r: r["files"].append(r["files"][0]))
    yield "another format", listed(given, of_schema)
    yield "another store", listed(given, of_store)
    yield "no list", listed(given, lambda record: record.update(files=7))
    yield "no size", listed(given, lambda record: record["files"][0].update(size="x"))
    yield "below zero", listed(given, lambda record: record["files"][0].update(size=-1))
    yield "not JSON", [(given[0][0], b"{"), *given[1:]]
    yield "no ledger", listed([given[0], *given[2:]], lambda record: record["files"].pop(0))


def test_what_is_no_whole_backup_is_refused(run, here):
    run("backup store --out store.tar")
    given = members("store.tar")
    assert given[1][0].name == "ledger.sqlite"
    tried = dict(forgeries(given))
    for name, forged in tried.items():
        shutil.copy("store.tar", "forged.tar")
        pack(here / "forged.tar", forged)
        before = contents(here)
        error = run.error("restore forged.tar --out again --forgotten none")
        assert "forged.tar" in error, name
        assert "Nothing was changed" in error or "Restore it with the version" in error, name
        assert ("have its hash" in error) == (name == "another byte"), (name, error)
        assert contents(here) == before, name
        assert not Path("/tmp/pilu-was-here").exists()
    assert len(tried) == 25


def test_a_backup_that_was_cut_is_refused_wherever_it_was_cut(run, here):
    run("backup store --out store.tar")
    content = (here / "store.tar").read_bytes()
    end = len(content.rstrip(b"\x00"))
    for size in [0, 1, 511, 512, 600, *np.linspace(700, end - 1, 40).astype(int).tolist()]:
        (here / "cut.tar").write_bytes(content[:size])
        before = contents(here)
        assert "cut.tar must be a whole backup" in run.error(
            "restore cut.tar --out again --forgotten none"
        )
        assert contents(here) == before
    for name, other in (("zip", b"PK\x03\x04"), ("text", b"hello " * 500), ("zeros", bytes(9000))):
        (here / name).write_bytes(other)
        assert "must be a whole backup" in run.error(f"restore {name} --out again --forgotten none")
    assert "No such file" in run.error("restore nowhere --out again --forgotten none")
    assert "Is a directory" in run.error("restore store --out again --forgotten none")


def test_a_restore_replaces_nothing(run, here):
    run("backup store --out store.tar")
    before = contents(here)
    error = run.error("restore store.tar --out store --forgotten none")
    assert "must be a new or empty folder" in error
    assert "existing folder" in run.error("restore store.tar --out no/again --forgotten none")
    assert contents(here) == before


# Disks


class Full:
    """The nth call of a function finds the disk full, and those after it, too, if it `lasts`."""

    def __init__(self, real, place, lasts):
        self.real, self.left, self.lasts = real, place, lasts

    def __call__(self, *given, **more):
        self.left -= 1
        if self.left == -1 or (self.lasts and self.left < 0):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.real(*given, **more)


@pytest.mark.parametrize("line", [
    "backup store --out new",
    "forgotten store --out new",
    "restore store.tar --out new --forgotten later",
])  # fmt: skip
@pytest.mark.parametrize("what", ["fsync", "open", "replace"])
def test_a_full_disk_changes_nothing(run, here, monkeypatch, line, what):
    run("backup store --out store.tar")
    shutil.copytree(here / "store", here / "later")
    forget(here / "later", *WHO)
    before, real, codes = contents(here), getattr(os, what), []
    for place in range(60):
        monkeypatch.setattr(os, what, Full(real, place, lasts=what == "fsync"))
        done = CliRunner().invoke(app, line.split())
        monkeypatch.setattr(os, what, real)
        codes.append(done.exit_code)
        if done.exit_code == 0:
            break
        assert "No space left" in done.stderr, done.output
        assert len(done.stderr.strip().splitlines()) == 1
        if done.exit_code == 4:  # only its folder could not be synced: it is there, and whole
            assert "is whole, but" in done.stderr
            run("restore new --out all --forgotten none" if "backup" in line else "keygen --help")
            return
        assert done.exit_code == 2, done.output
        left = here / ".new.part"
        if left.is_dir() and not any(left.iterdir()):
            left.rmdir()
        assert contents(here) == before, (place, done.output)
    assert codes[-1] == 0
    assert len(codes) > 1


def test_an_interrupt_leaves_nothing(run, here, monkeypatch):
    run("backup store --out store.tar")
    before = contents(here)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(backups.tarfile.TarFile, "addfile", interrupted)
    run("backup store --out other.tar", code=130)
    monkeypatch.setattr("pilu.desk.restoring.check_store", interrupted)
    run("restore store.tar --out again --forgotten none", code=130)
    assert contents(here) == before


def test_errors_in_python(here):
    (here / "store-too").touch()
    with pytest.raises(WrongInput, match="outside of the store"):
        back_up(here / "store", here / "store" / ".." / "store")
    with pytest.raises(WrongInput, match="new file"):
        back_up(here / "store", here / "store-too")
    (here / "store" / "key").write_bytes(b"2" * 32)
    with pytest.raises(StoreDamaged, match="is not the key"):
        back_up(here / "store", here / "x.tar")
