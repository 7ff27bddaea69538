"""Faults that need a process of their own: each in a fork, on a fresh copy of a store.

    PYTHONPATH=tests python tests/desk/faulting.py WHAT FOLDER NUMBER

WHAT is full, no_space, read_only, killed_while_made or together. FOLDER holds a table and a store
that was fitted on it. Prints one line of JSON for each fault: what was said, and what was found
afterwards.
"""

import _sqlite3
import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace

from desk.killing import Bomb
from pilu.data.table import Columns
from pilu.desk.checking import check_store
from pilu.desk.costs import quote_everyone
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.exceptions import DoneWithTrouble, PiluError
from pilu.store.disk import write_new
from pilu.store.ledger import Ledger

NOBODY = 65534
PERSON = "number3"
READING = {
    "quote": lambda desk, out: quote_everyone(desk.read(), n_unlearn_steps=1),
    "ledger": None,  # needs no desk: see `command`
    "verify": lambda desk, out: check_store(desk),
    "predict": lambda desk, out: desk.predict_table(desk.tables()[0], out / "predicted.csv"),
    "table": lambda desk, out: desk.forgotten().still_in(desk.tables()[0]),
}
WRITING = {
    "unlearn": lambda desk, out: desk.unlearn(PERSON, n_unlearn_steps=1, deliver=into(out)),
    "request": lambda desk, out: desk.request(PERSON),
    "redraw": lambda desk, out: desk.redraw(deliver=into(out)),
    "release": lambda desk, out: desk.release(out / "model.json"),
    "receipts": lambda desk, out: [
        desk.deliver_again(place, into(out)) for place in desk.undelivered()
    ],
}


def into(out, name="receipt.json"):
    """Deliver a receipt or a release as a file, in place of one that is there already."""

    def deliver(given):
        text = json.dumps(given) if isinstance(given, dict) else given[0].to_json()
        (out / name).unlink(missing_ok=True)
        write_new(out / name, text.encode())

    return deliver


def command(name, store, out):
    """What a command does, and what it says: 0, 2 for nothing done, 4 for trouble afterwards."""
    try:
        if name == "ledger":
            read_log(store)
        else:
            with Desk.open(store) as desk:
                (READING | WRITING)[name](desk, out)
    except DoneWithTrouble as error:
        return {"code": 4, "output": str(error)}
    except (PiluError, OSError) as error:
        return {"code": 2, "output": str(error)}
    return {"code": 0, "output": ""}


def read_log(store):
    ledger = Ledger(store / "ledger.sqlite")
    try:
        with ledger.reading():
            assert ledger.log.entries
    finally:
        ledger.close()


def in_a_fork(call):
    """What a call returns, as JSON; an exception that nobody caught is part of the answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = caught(call)
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(said) if said else {"killed": -status}


def caught(call, *given):
    """The same without a fork."""
    try:
        return call(*given)
    except Exception as error:
        return {"raised": type(error).__name__, "words": str(error)}


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes().hex() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def afterwards(store):
    """Open the store as anybody would: who is left, how long the log is, what is in the folder."""
    with Desk.open(store) as desk:
        checks, undelivered = check_store(desk), desk.undelivered()
        snapshot = desk.read()
        live = snapshot.model.fitted_.source.live
        names = sorted(path.name for path in store.iterdir())
        return {
            "whole": checks["files_whole"],
            "entries": len(snapshot.log.entries),
            "gone": [int(k) for k, here in enumerate(live) if not here],
            "names": names,
            "kinds": [entry.kind for entry in snapshot.log.entries],
            "undelivered": undelivered,
        }


def fresh(folder):
    store = folder / "copy"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(folder / "store", store)
    return store


def full(folder, n_limits):
    """No file may grow past a limit: as on a full disk, at some places of a deletion."""
    whole = (folder / "store" / "ledger.sqlite").stat().st_size
    limits = {0, 100, 600, whole, 100 * whole} | {whole * k // n_limits for k in range(n_limits)}
    for limit in sorted(limits):
        store, receipt = fresh(folder), folder / "receipt.json"
        receipt.unlink(missing_ok=True)
        before = contents(store)

        def forget(store=store, limit=limit):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            return command("unlearn", store, folder)

        report = {"limit": limit, **in_a_fork(forget)}
        report |= {"same": contents(store) == before, "receipt": receipt.exists()}
        found = afterwards(store)
        receipt.unlink(missing_ok=True)
        again = caught(command, "unlearn", store, folder)
        yield report | {"found": found, "again": again, "then": afterwards(store)}


class NoSpace(Bomb):
    """Writes fail with ENOSPC at the n-th place; if it is a lasting one, at all places after it."""

    def __init__(self, place, lasting):
        super().__init__(place)
        self.lasting = lasting

    def is_full(self, what):
        self.count += 1
        now = self.count == self.place or (self.lasting and self.count > self.place > 0)
        if now and not self.last:
            self.last = what
        return now

    def tick(self, what):
        if self.is_full(what):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)

    def watch(self):
        """As a bomb does; and below SQLite, where it asks the system to write."""
        self.arm(
            SimpleNamespace(store=SimpleNamespace(ledger=NO_LEDGER)), ("os.mkdir", "os.rename")
        )
        sys.addaudithook(self.opening)
        self.replace_call(b"pwrite64", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
        self.replace_call(b"ftruncate", ctypes.c_long)

    def opening(self, event, args):
        ours = event == "open" and any(part in str(args[0]) for part in ("/copy/", "/out/"))
        if ours and args[2] & os.O_CREAT:
            self.tick("open")

    def replace_call(self, name, *kinds):
        result = ctypes.c_int if name == b"ftruncate" else ctypes.c_ssize_t
        kind = ctypes.CFUNCTYPE(result, ctypes.c_int, *kinds, use_errno=True)
        vfs = SQLITE.sqlite3_vfs_find(None)
        where = ctypes.addressof(vfs.contents)
        original = kind(vfs.contents.get(where, name))

        def call(*given):
            if self.is_full(name.decode()):
                ctypes.set_errno(errno.ENOSPC)
                return -1
            return original(*given)

        kept = kind(call)
        KEPT.append((kept, original))
        assert vfs.contents.set(where, name, kept) == 0


class Vfs(ctypes.Structure):
    """SQLite's table of system calls (sqlite3.h, struct sqlite3_vfs, version 3)."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("size", ctypes.c_int),
        ("longest", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("methods", ctypes.c_void_p * 13),
        ("set", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    )


SQLITE = ctypes.CDLL(_sqlite3.__file__)
SQLITE.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
SQLITE.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
KEPT = []  # what SQLite calls must not be collected
NO_LEDGER = SimpleNamespace(_database=sqlite3.connect(":memory:"))


def no_space(folder, n_places):
    """The disk is full at the n-th write of each writing command, for once or from then on."""
    for name, call in (("unlearn", "unlearn"), ("release", "release"), ("request", "request")):
        total = in_a_fork(lambda call=call: without_space(folder, call, -1, False))["count"]
        yield {"command": name, "total": total}
        places = range(1, total + 1)
        if n_places < total:
            places = sorted({1 + k * (total - 1) // (n_places - 1) for k in range(n_places)})
        for place in places:
            for lasting in (False, True):
                yield one_without_space(folder, name, place, lasting)


def without_space(folder, name, place, lasting):
    """In a fork: run the command, count the places, and say at which it was full."""
    store, out = fresh(folder), folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    bomb = NoSpace(place, lasting)
    bomb.watch()
    said = command(name, store, out)
    return {**said, "count": bomb.count, "at": bomb.last}


def one_without_space(folder, name, place, lasting):
    said = in_a_fork(lambda: without_space(folder, name, place, lasting))
    report = {"command": name, "place": place, "lasting": lasting, **said}
    store, out = folder / "copy", folder / "out"
    report["names"] = sorted(path.name for path in store.iterdir())
    report["made"] = sorted(path.name for path in out.iterdir())
    report["found"] = caught(afterwards, store)
    report["again"] = "receipts" if report["found"].get("undelivered") else name
    report |= {"then": caught(command, report["again"], store, out)}
    return report | {"made_then": sorted(path.name for path in out.iterdir())}


def read_only(folder, _):
    """As somebody who may read the store but not write, in three ways."""
    out = folder / "out"
    for parent in (folder, *folder.parents):
        if os.geteuid() == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o055)
    names = [*READING, *(name for name in WRITING if name != "receipts")]
    for way in ("warm", "all", "folders", "files", "key"):
        for name in names:
            store = fresh(folder)
            if way == "folders":
                (store / "arrays-7").mkdir()  # of a process that was killed: it cannot be removed
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(mode=0o777)
            out.chmod(0o777)
            for path in (store, *store.rglob("*")):
                if os.geteuid() == 0:
                    os.chown(path, NOBODY, NOBODY)
                path.chmod(0o755 if path.is_dir() else 0o644)
            before = contents(store)
            for path in (store, *store.rglob("*")):
                if way in ("all", "folders") and path.is_dir():
                    path.chmod(0o555)
                if way in ("all", "files") and path.is_file():
                    path.chmod(0o444)
                if way == "key" and path.name == "key":
                    path.chmod(0)

            def call(name=name, store=store):
                if os.geteuid() == 0:
                    os.seteuid(NOBODY)
                return command(name, store, out)

            if way == "warm":  # all modules are loaded once: nobody may not read them
                command(name, store, out)
                continue
            report = {"way": way, "command": name, "reads": name in READING}
            report |= in_a_fork(call)
            for path in (store, *store.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            report["same"] = contents(store) == before
            report["made"] = sorted(path.name for path in out.iterdir())
            yield report


def made(folder, bomb=None):
    """Fit the table into a store called new."""
    if bomb is not None:
        arm(bomb)
    columns = Columns(("y",), None, "person")
    table = folder / "people.parquet"
    LangevinDesk.create(folder / "new", table, columns, n_steps=50, noise=0.05).close()
    return {"count": 0 if bomb is None else bomb.count}


def arm(bomb):
    """As for a deletion, from before the ledger is there."""
    opened = Ledger.__init__

    def opening(ledger, *given, **options):
        opened(ledger, *given, **options)
        ledger._database.set_progress_handler(lambda: bomb.tick("sqlite") or 0, 1)

    Ledger.__init__ = opening
    ledger = SimpleNamespace(_database=sqlite3.connect(":memory:"))
    bomb.arm(SimpleNamespace(store=SimpleNamespace(ledger=ledger)))


def killed_while_made(folder, n_places):
    """Killed at the n-th thing that making a store does to files, again and again."""
    total = in_a_fork(lambda: made(folder, Bomb(-1)))["count"]
    shutil.rmtree(folder / "new")
    yield {"total": total}
    others = {path.name for path in folder.iterdir()}
    for place in sorted({1 + k * (total - 1) // (n_places - 1) for k in range(n_places)}):
        report = {"place": place, **in_a_fork(lambda place=place: made(folder, Bomb(place)))}
        report["parts"] = sorted({path.name for path in folder.iterdir()} - others - {"new"})
        report["found"] = caught(afterwards, folder / "new")
        if place % 3:  # else the parts stay for the next one
            report["again"] = caught(made, folder)
            report["then"] = caught(afterwards, folder / "new")
            report["parts_then"] = sorted({path.name for path in folder.iterdir()} - others)
        shutil.rmtree(folder / "new", ignore_errors=True)
        yield report


def forgetting(store, person, deliver):
    try:
        with Desk.open(store) as desk:
            desk.unlearn(person, n_unlearn_steps=1, deliver=deliver)
    except PiluError as error:
        return {"code": 2, "output": str(error)}
    return {"code": 0, "output": ""}


def together(folder, n_people):
    """Several processes forget different people at the same time."""
    store, children = fresh(folder), []
    waiting, gate = os.pipe()
    for person in range(n_people):
        child = os.fork()
        if child == 0:
            os.close(gate)
            os.read(waiting, 1)  # until all have come, and the last hand is off the gate
            said = caught(forgetting, store, f"number{person}", into(folder, f"{person}.json"))
            (folder / f"said-{person}").write_text(json.dumps(said))
            os._exit(0)
        children.append(child)
    os.close(gate)
    for child in children:
        os.waitpid(child, 0)
    for person in range(n_people):
        said = json.loads((folder / f"said-{person}").read_text())
        yield {"person": person, **said, "receipt": (folder / f"{person}.json").exists()}
    yield afterwards(store)


def main():
    what, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    for report in globals()[what](folder, number):
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
