"""A folder of stores in which much waits: what `killing` kills workers over.

Every name and value is unique, so that its bytes can be looked for. Who is who is a constant here,
and what must come of each request is in `EXPECTED`.
"""

import contextlib
import http.server
import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.client.messages import Access, Addition, Erasure, Rectification
from pilu.desk.desk import Desk
from pilu.service import queue
from pilu.service.asking import ask
from pilu.service.configuration import Configuration
from pilu.service.running import Service
from pilu.service.store_routes import presence
from pilu.service.tokens import add_token, caller_of
from pilu.service.work import work

N = 24
PEOPLE = [f"zq{k:02d}vw" for k in range(40)]
BEFORE, TWICE, ONCE, NIGHT, CANCELLED, STAYS, CAME, NEW = (
    PEOPLE[k] for k in (0, 1, 3, 7, 5, 4, 30, 31)
)
UNKNOWN = "zqnobodyvw"
ERASED = (TWICE, ONCE, NIGHT, CAME)  # in the pass
GONE = (BEFORE, *ERASED)
# What each request ends as: status, outcome, whether it has a receipt.
EXPECTED = {
    "earlier rows": ["completed", "learned", True],
    "earlier erasure": ["completed", "forgotten", True],
    "twice, first": ["completed", "forgotten", True],
    "twice, second": ["completed", "forgotten", True],
    "once": ["completed", "forgotten", True],
    "in the night": ["completed", "forgotten", True],
    "came with earlier rows": ["completed", "forgotten", True],
    "unknown": ["completed", "not in the model", False],
    "forgotten before": ["completed", "forgotten before", True],
    "cancelled": ["cancelled", None, False],
    "access to who leaves": ["completed", "answered", False],
    "access to who stays": ["completed", "answered", False],
    "rows": ["completed", "learned", True],
    "refused rows": ["failed", "refused", False],
    "correction": ["completed", "corrected", True],
}
KINDS = {"fit": 1, "release": 1, "add": 2, "unlearn": 2, "correct": 1}  # of the log, at the end
ROWS_OF = {STAYS: 4, NEW: 1, PEOPLE[8]: 3, CANCELLED: 2}  # of the model, at the end; others: 2


def rows_of(people, first):
    """Rows with values that nothing else has."""
    rows = make_rows(len(people), people=people, first=first)
    for k, row in enumerate(rows, first):
        row["income"] = round(3 + ((k * 0.6180339887) % 1) * 2 - 1, 9)
        row["said"] = f"good bad qx{k:03d}ou"
    return rows


def as_json(rows):
    return [{**row, "since": row["since"].isoformat()} for row in rows]


USERS = rows_of([PEOPLE[k // 2] for k in range(2 * N)], 0)  # rows 0 to 47
EARLIER = rows_of([TWICE, CAME, CAME, PEOPLE[8]], 100)
LATER = rows_of([NEW, STAYS, STAYS], 200)
REFUSED = rows_of([BEFORE, STAYS], 300)
ALL_ROWS = USERS + EARLIER + LATER + REFUSED


@dataclass(frozen=True)
class Prepared:
    """The folder as it is before the pass; `fresh` gives a copy of it."""

    folder: Path
    configuration: Configuration
    labels: dict  # of requests, by their ids
    actions: dict  # how often who did what, of all that is to be in the log
    receiver: int  # a process

    def fresh(self):
        """Everything as it was; for a server, a new database."""
        stores, configuration = self.configuration.stores, self.configuration
        shutil.rmtree(stores, ignore_errors=True)
        shutil.copytree(self.folder / "master", stores)
        (self.folder / "received").write_text("")
        if configuration.database is not None:
            name = f"copy{time.time_ns()}"
            admin, there = _split(configuration.database)
            _run_server(admin, f'CREATE DATABASE "{name}" TEMPLATE "{there}"')
            configuration = replace(
                configuration, database=configuration.database.replace(f"/{there}", f"/{name}", 1)
            )
        return configuration

    def close(self):
        os.kill(self.receiver, signal.SIGKILL)
        os.waitpid(self.receiver, 0)


def prepare(folder, url=None):
    """Fit a store, let things happen to it, and leave much undone."""
    receiver, port = _receiver(folder / "received")
    stores = folder / "stores"
    table = write(USERS, folder / "people.csv")
    with Desk.fit(stores / "people", table, **COLUMNS) as desk:
        desk.release()
    configuration = Configuration(stores, url, answers_every=0, callback_hosts=("127.0.0.1",))
    service = Service(configuration)
    with service.database.writing() as tx:
        texts = {role: add_token(tx, role, role)[1] for role in ("officer", "requester")}
    who = {role: caller_of(service.database, text) for role, text in texts.items()}
    labels, actions = {}, Counter()

    def made(label, new, role="requester", **more):
        found, fresh = ask(service, "people", new, who[role], **more)
        assert fresh, label
        labels[found["id"]] = label
        actions[who[role].token, f"made a request: {new.type}"] += 1
        return found

    made("earlier rows", Addition(rows=as_json(EARLIER), now=True), "officer")
    work(configuration)
    made("earlier erasure", Erasure(subject=BEFORE, now=True), "officer")
    work(configuration)
    here, nowhere = f"http://127.0.0.1:{port}/hook", "http://127.0.0.1:1/hook"
    with_callback = {"callback": here, "now": True}
    made("twice, first", Erasure(subject=TWICE, **with_callback), "officer")
    made("twice, second", Erasure(subject=TWICE, callback=here), idempotency_key="a key")
    made("once", Erasure(subject=ONCE, callback=nowhere))
    made("in the night", Erasure(subject=NIGHT))
    made("came with earlier rows", Erasure(subject=CAME))
    made("unknown", Erasure(subject=UNKNOWN, callback=here))
    made("forgotten before", Erasure(subject=BEFORE))
    cancelled = made("cancelled", Erasure(subject=CANCELLED, callback=here))
    made("access to who leaves", Access(subject=ONCE), "officer")
    made("access to who stays", Access(subject=STAYS, callback=here))
    made("rows", Addition(rows=as_json(LATER), **with_callback), "officer")
    made("refused rows", Addition(rows=as_json(REFUSED), **with_callback), "officer")
    corrected = {**USERS[8], "income": 4.123456789}  # the first row of STAYS
    made("correction", Rectification(rows=as_json([corrected]), now=True), "officer")
    with service.database.writing() as tx:
        assert queue.cancel_request(tx, cancelled, who["requester"])
    actions[who["requester"].token, "cancelled a request"] += 1
    for name in (STAYS, ONCE, UNKNOWN):
        presence(service, "people", name, who["officer"])
        actions[who["officer"].token, "looked a person up"] += 1
    service.close()
    run_sql(configuration, "DELETE FROM leases")
    stores.rename(folder / "master")
    return Prepared(folder, configuration, labels, dict(actions), receiver)


def run_sql(configuration, statement, *values):
    """A statement to the database of a service, past the service."""
    if configuration.database is None:
        with contextlib.closing(sqlite3.connect(configuration.where)) as database, database:
            return database.execute(statement, values).fetchall()
    import psycopg

    with psycopg.connect(configuration.database) as database:
        found = database.execute(statement.replace("?", "%s"), values)
        return found.fetchall() if found.description else []


def _split(url):
    """The address of the server's own database, and the name of ours."""
    name = urlsplit(url).path.removeprefix("/")
    return url.replace(f"/{name}", "/postgres", 1), name


def _run_server(url, statement):
    import psycopg

    with contextlib.closing(psycopg.connect(url, autocommit=True)) as database:
        database.execute(statement)


def _receiver(file):
    """A process that takes callbacks and notes them; its number, and its port."""
    file.write_text("")

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            with file.open("a") as lines:
                lines.write(json.dumps([dict(self.headers), body.decode()]) + "\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    child = os.fork()
    if child == 0:
        watcher = threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True)
        watcher.start()
        server.serve_forever()
    server.server_close()
    return child, server.server_address[1]


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)
