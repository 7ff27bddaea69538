"""Kill a worker at every place it writes, let others go on, and look at what came of it.

    python tests/service/killing.py FOLDER PLACES [DATABASE]

The worker runs in a fork, for each place on a fresh copy of the folder of stores that
`service.waiting` prepares; SIGKILL comes at the n-th thing it does: an audited call of Python's, an
instruction or a page of SQLite's, a statement to PostgreSQL. Then workers run until nothing is due.
Prints one line of JSON for each place: what was done last, and what is found from the outside.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from contextlib import closing
from ctypes import c_long, c_size_t, c_void_p
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from desk.faulting import NO_LEDGER, NoSpace
from desk.killing import WATCHED, Bomb
from pilu.service import database as database_module
from pilu.service import leases
from pilu.service import worker as worker_module
from service.looking import look
from service.passes import a_pass
from service.waiting import prepare, run_sql

_WATCHED = (*WATCHED, "socket.connect")


class Killer(NoSpace):
    """Goes off at the n-th thing done to files, databases and sockets."""

    def __init__(self, place):
        super().__init__(place, lasting=False)

    tick = Bomb.tick

    def is_full(self, what):  # what SQLite asks the system to do
        self.tick(what)
        return False

    def watch(self):
        self.arm(SimpleNamespace(store=SimpleNamespace(ledger=NO_LEDGER)), _WATCHED)
        self.replace_call(b"pwrite64", c_void_p, c_size_t, c_long)
        self.replace_call(b"ftruncate", c_long)
        connect = sqlite3.connect

        def connecting(path, *given, **options):
            made = connect(path, *given, **options)
            what = "store's sqlite" if "ledger" in str(path) else "service's sqlite"
            made.set_progress_handler(lambda: self.tick(what) or 0, 1)
            return made

        sqlite3.connect = connecting
        self.watch_leases()

    def watch_leases(self):
        for module, name in ((leases, "take_lease"), (leases, "give_back")):
            called = getattr(module, name)

            def calling(*given, called=called, name=name):
                self.tick(name)
                return called(*given)

            setattr(module, name, calling)

    def watch_postgres(self):
        import psycopg

        for module, name in (
            (database_module.Transaction, "run"),
            (database_module.Transaction, "all"),
            (psycopg.Connection, "commit"),
        ):
            called = getattr(module, name)

            def calling(*given, called=called, name=name):
                self.tick(f"before {name}")
                result = called(*given)
                self.tick(f"after {name}")
                return result

            setattr(module, name, calling)


class Everything(Killer):
    """Never goes off, and notes what was done."""

    def __init__(self):
        super().__init__(-1)
        self.done = []

    def tick(self, what):
        self.done.append(what)


def pass_in_a_fork(configuration, bomb):
    """One pass of a worker: how it ended, and what it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            bomb.watch()
            if configuration.database is not None:
                bomb.watch_postgres()
            a_pass(configuration)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(json.dumps(getattr(bomb, "done", [])))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        done = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(done or "[]")


def go_on(configuration):
    """Others work until nothing is left; what they said on the way."""
    held = run_sql(configuration, "SELECT name FROM leases WHERE until > ?", time.time())
    worked = a_pass(configuration)
    respected = worked.busy == (["people"] if ("store people",) in map(tuple, held) else [])
    run_sql(configuration, "UPDATE leases SET until = 0")
    passes, put_back = [], worked.put_back
    for _ in range(2):
        worked = a_pass(configuration)
        passes.append(worked.ended)
        put_back += worked.put_back
    found = run_sql(configuration, "SELECT COUNT(*) FROM requests WHERE status = 'running'")
    # What was not due waits for the night, even if others were taken along with it.
    run_sql(
        configuration,
        "UPDATE requests SET run_at = 0 WHERE status IN ('waiting', 'running')",
    )
    passes.append(a_pass(configuration).ended)
    return {
        "respected": respected,
        "put_back": put_back,
        "left_running": found[0][0],
        "passes": passes,
    }


def chosen(done, n_places):
    """Some of all places, with some of every kind among them."""
    total, kinds = len(done), sorted(set(done))
    places = {1 + k * (total - 1) // max(n_places - 1, 1) for k in range(n_places // 2)}
    by_kind = {kind: [k for k, what in enumerate(done, 1) if what == kind] for kind in kinds}
    turn = 0
    while len(places) < n_places:
        kind = kinds[turn % len(kinds)]
        # Spread over the pass: the golden ratio never comes back to the same place.
        share = (0.5 + turn * 0.6180339887) % 1.0
        places.add(by_kind[kind][int(share * len(by_kind[kind]))])
        turn += 1
    return sorted(places)


def alike(folder, n_places, url):
    """Prepare, and do a whole pass for what there is to do."""
    prepared = prepare(folder, url)
    code, done = pass_in_a_fork(prepared.fresh(), Everything())
    assert code == 0, code
    return prepared, done, chosen(done, n_places)


def without_pictures(n_places):
    """Pictures take half of a pass, and only a long run has the time."""
    if n_places < 50:
        worker_module.draw_store = lambda *_: None


def main():
    folder, n_places = Path(sys.argv[1]), int(sys.argv[2])
    url = sys.argv[3] if len(sys.argv) > 3 else None
    without_pictures(n_places)
    pa.set_cpu_count(1)  # threads do not come along into a fork
    prepared, done, places = alike(folder, n_places, url)
    print(json.dumps({"total": len(done), "kinds": Counter(done)}), flush=True)
    with closing(prepared):
        for place in places:
            configuration = prepared.fresh()
            code, _ = pass_in_a_fork(configuration, Killer(place))
            report = {"place": place, "last": done[place - 1], "killed": code == -signal.SIGKILL}
            report |= go_on(configuration)
            print(json.dumps(report | look(prepared, configuration)), flush=True)
    shutil.rmtree(folder / "stores", ignore_errors=True)


if __name__ == "__main__":
    main()
