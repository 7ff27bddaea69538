"""Faults that need a process of their own: each in a fork, on a fresh copy of a store.

    PYTHONPATH=tests python tests/desk/faulting.py WHAT FOLDER NUMBER

WHAT is full, read_only, killed_while_made or together. FOLDER holds a table and a store that was
fitted on it. Prints one line of JSON for each fault: what was said, and what was found afterwards.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace

from typer.testing import CliRunner

import pilu.cli.app
import pilu.desk.costs
import pilu.desk.rewriting
import pilu.store.log
from desk.killing import Bomb
from pilu.data.table import Columns
from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.store.ledger import Ledger

NOBODY = 65534
READING = (
    "quote {store} --subject {person}",
    "ledger {store}",
    "verify {store}",
    "predict {store} --rows {table} --out {out}/predicted.csv",
    "table {store}",
)
WRITING = (
    "unlearn {store} --subject {person} --receipt {out}/receipt.json",
    "request {store} --subject {person}",
    "redraw {store} --receipt {out}/receipt.json",
    "release {store} --out {out}/model.json",
)
PERSON = "number3"


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


def command(line):
    result = CliRunner().invoke(pilu.cli.app.app, line.split())
    strange = result.exception is not None and not isinstance(result.exception, SystemExit)
    if strange:
        return {"raised": repr(result.exception)}
    return {"code": result.exit_code, "output": result.output}


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes().hex() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def afterwards(store):
    """Open the store as anybody would: who is left, how long the log is, what is in the folder."""
    with Desk.open(store) as desk:
        checks = check_store(desk)
        snapshot = desk.read()
        live = snapshot.model.fitted_.source.live
        names = sorted(path.name for path in store.iterdir())
        return {
            "whole": checks["files_whole"],
            "entries": len(snapshot.log.entries),
            "gone": [int(k) for k, here in enumerate(live) if not here],
            "names": names,
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
    line = f"unlearn {folder}/copy --subject {PERSON} --receipt {folder}/receipt.json"
    for limit in sorted(limits):
        store, receipt = fresh(folder), folder / "receipt.json"
        receipt.unlink(missing_ok=True)
        before = contents(store)

        def forget(limit=limit):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            return command(line)

        report = {"limit": limit, **in_a_fork(forget)}
        report |= {"same": contents(store) == before, "receipt": receipt.exists()}
        found = afterwards(store)
        receipt.unlink(missing_ok=True)
        report |= {"found": found, "again": caught(command, line), "then": afterwards(store)}
        yield report


def read_only(folder, _):
    """As somebody who may read the store but not write, in three ways."""
    table, out = folder / "people.parquet", folder / "out"
    for parent in (folder, *folder.parents):
        if os.geteuid() == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o055)
    lines = [(line, kind) for kind in (READING, WRITING) for line in kind]
    given = {"store": folder / "copy", "table": table, "out": out, "person": PERSON}
    for way in ("warm", "all", "folders", "files", "key"):
        for line, kind in lines:
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

            def call(line=line):
                if os.geteuid() == 0:
                    os.seteuid(NOBODY)
                return command(line.format(**given))

            if way == "warm":  # all modules are loaded once: nobody may not read them
                command(line.format(**given))
                continue
            report = {"way": way, "command": line.split()[0], "reads": kind is READING}
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


def together(folder, n_people):
    """Several processes forget different people at the same time."""
    store, children = fresh(folder), []
    waiting, gate = os.pipe()
    for person in range(n_people):
        child = os.fork()
        if child == 0:
            os.close(gate)
            os.read(waiting, 1)  # until all have come, and the last hand is off the gate
            line = f"unlearn {store} --subject number{person} --receipt {folder}/{person}.json"
            said = caught(command, line)
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
